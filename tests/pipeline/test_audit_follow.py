"""What an audit that goes on does in a round; tests/acceptance lets it read from a broker."""

import threading
from pathlib import Path

import pytest

from coordinator_replay.errors import LockedError
from coordinator_replay.pipeline.audit_follow import AuditFollower
from coordinator_replay.pipeline.export_folders import ExportedDump


class Rounds:
    """An audit follower whose audits and upkeep are written down."""

    def __init__(self, dump: Path, *, maintain_every: float = 3600) -> None:
        self.dump = dump
        self.done: list[str] = []
        self.is_locked = False
        self.follower = AuditFollower(
            dump=ExportedDump(str(dump)),
            audit=self.audit,
            maintain=lambda: self.done.append("maintain"),
            log=self.done.append,
            maintain_every=maintain_every,
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
    return Rounds(tmp_path / "dump")


def test_each_round_audits_what_has_become_complete(rounds):
    assert rounds.round() == []
    rounds.export("export-20261123T22-000000")
    rounds.export("export-20261123T22-000001", is_complete=False)
    assert rounds.round() == ["export-20261123T22-000000"]
    assert rounds.round() == []
    rounds.export("export-20261123T22-000001")
    rounds.export("export-20261123T22-000002")
    assert rounds.round() == ["export-20261123T22-000001", "export-20261123T22-000002"]


def test_a_merged_folder_has_nothing_new_unless_one_of_its_batches_was_not_audited(rounds):
    for number in range(3):
        rounds.export(f"export-20261123T22-{number:06d}")
    rounds.round()
    rounds.export("export-20261123T22-000000-000002")
    assert rounds.round() == []
    rounds.export("export-20261123T23-000003-000004")
    assert rounds.round() == ["export-20261123T23-000003-000004"]


def test_what_could_not_be_audited_is_audited_in_the_next_round(rounds):
    rounds.export("export-20261123T22-000000")
    rounds.is_locked = True
    stopped = threading.Event()

    def stop(line: str) -> None:
        rounds.done.append(line)
        stopped.set()

    rounds.follower.log = stop
    rounds.follower.run(stopped, 0.01)
    assert rounds.done == ["in use; trying again"]
    rounds.is_locked = False
    assert rounds.round() == ["export-20261123T22-000000"]


def test_tables_are_maintained_in_between(tmp_path):
    rounds = Rounds(tmp_path / "dump", maintain_every=0)
    assert rounds.round() == []
    rounds.export("export-20261123T22-000000")
    assert rounds.round() == ["export-20261123T22-000000", "maintain"]
    assert rounds.round() == ["maintain"]
