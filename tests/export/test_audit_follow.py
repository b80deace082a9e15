"""What an audit that goes on does in a round; tests/acceptance lets it read from a broker."""

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from coordinator_replay.errors import LockedError
from coordinator_replay.export.audit_follow import AuditFollower, audited_batches
from coordinator_replay.export.folders import CHECKPOINT, ExportedDump
from coordinator_replay.pipeline.ledger import Run


class Rounds:
    """An audit follower whose audits and upkeep are written down."""

    def __init__(self, dump: Path, *, maintain_every: float = 3600, audited: Iterable[int] = ()) -> None:
        self.dump = dump
        self.done: list[str] = []
        self.is_locked = False
        self.follower = AuditFollower(
            dump=ExportedDump(str(dump)),
            audit=self.audit,
            maintain=lambda: self.done.append("maintain"),
            log=self.done.append,
            maintain_every=maintain_every,
            audited=set(audited),
        )

    def audit(self, folders: list[str]) -> None:
        if self.is_locked:
            raise LockedError("in use")
        self.done += [folder.rpartition("/")[2] for folder in folders]

    def export(self, name: str, *, is_complete: bool = True) -> None:
        (self.dump / name).mkdir(parents=True, exist_ok=True)
        if is_complete:
            (self.dump / name / "_SUCCESS").touch()

    def round(self) -> list[str]:
        self.done.clear()
        self.follower.step()
        return list(self.done)


@pytest.fixture
def rounds(tmp_path: Path) -> Rounds:
    """Of a follower that has audited and maintained the tables once."""
    rounds = Rounds(tmp_path / "dump")
    rounds.export("export-20261123T21-000000")
    assert rounds.round() + rounds.round() == ["export-20261123T21-000000", "maintain"]
    rounds.done.clear()
    return rounds


def test_each_round_audits_what_has_become_complete(rounds):
    assert rounds.round() == []
    rounds.export("export-20261123T22-000001")
    rounds.export("export-20261123T22-000002", is_complete=False)
    assert rounds.round() == ["export-20261123T22-000001"]
    assert rounds.round() == []
    rounds.export("export-20261123T22-000002")
    rounds.export("export-20261123T22-000003")
    assert rounds.round() == ["export-20261123T22-000002", "export-20261123T22-000003"]


def test_a_merged_folder_has_nothing_new_unless_one_of_its_batches_was_not_audited(rounds):
    for number in range(1, 4):
        rounds.export(f"export-20261123T22-{number:06d}")
    rounds.round()
    rounds.export("export-20261123T22-000001-000003")
    assert rounds.round() == []
    rounds.export("export-20261123T23-000004-000005")
    assert rounds.round() == ["export-20261123T23-000004-000005"]


def test_what_could_not_be_audited_is_audited_in_the_next_round(rounds):
    rounds.export("export-20261123T22-000001")
    rounds.is_locked = True
    stopped = threading.Event()

    def stop(line: str) -> None:
        rounds.done.append(line)
        stopped.set()

    rounds.follower.log = stop
    rounds.follower.run(stopped, 0.01)
    assert rounds.done == ["in use; trying again"]
    rounds.is_locked = False
    assert rounds.round() == ["export-20261123T22-000001"]


def test_tables_are_maintained_when_nothing_is_new(tmp_path):
    rounds = Rounds(tmp_path / "dump", maintain_every=60)
    assert rounds.round() == []
    rounds.export("export-20261123T22-000000")
    assert rounds.round() == ["export-20261123T22-000000"]
    assert rounds.round() == ["maintain"]
    assert rounds.round() == []


def test_tables_are_maintained_where_something_is_new_all_the_time(tmp_path):
    rounds = Rounds(tmp_path / "dump", maintain_every=60)
    for number in range(3):
        rounds.export(f"export-20261123T22-{number:06d}")
        assert rounds.round() == [f"export-20261123T22-{number:06d}"]
    rounds.follower.maintain_at -= 60
    rounds.export("export-20261123T22-000003")
    assert rounds.round() == ["export-20261123T22-000003", "maintain"]
    assert rounds.round() == []


def run_of(stream: str | None, *inputs: str) -> Run:
    return Run.begin("default", inputs, {"follow": stream})


def test_one_that_is_started_again_goes_on_after_what_the_ledger_has(tmp_path):
    runs = [
        run_of("a", "s3://dumps/export-20261123T22-000000", "s3://dumps/export-20261123T22-000001"),
        run_of("a", "s3://dumps/export-20261123T22-000002-000004"),
        run_of("b", "s3://dumps/export-20261123T22-000009"),
        run_of(None, "s3://dumps", "s3://dumps/export-20261123T22-000007"),
    ]
    assert audited_batches(runs, "a") == {0, 1, 2, 3, 4}
    assert audited_batches(runs, None) == audited_batches(runs, "c") == set()
    again = Rounds(tmp_path / "dump", audited=audited_batches(runs, "a"))
    again.export("export-20261123T22-000000-000004")
    again.export("export-20261123T23-000005")
    assert again.round() == ["export-20261123T23-000005"]


def test_a_stream_is_known_by_the_id_that_spark_gives_it(tmp_path):
    dump = ExportedDump(str(tmp_path))
    assert dump.stream is None
    (tmp_path / CHECKPOINT).mkdir()
    (tmp_path / CHECKPOINT / "metadata").write_text('{"id":"c0ffee"}')
    assert dump.stream == "c0ffee"
