"""A warehouse takes dumps of one log only: another one is refused, and a log that was truncated is followed."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coordinator_replay.errors import InputError
from coordinator_replay.log.dump import Dump
from coordinator_replay.log.dump_format import Format
from coordinator_replay.log.schema import LOG_RECORD
from coordinator_replay.pipeline.audit import Options
from coordinator_replay.pipeline.audit import audit as run_stages
from coordinator_replay.store.writer import conform
from tests.log.writer import LogEntry, write_batch
from tests.nightly import rest_at_night
from tests.pipeline.in_process import InProcess, audit, content
from tests.samples import Sample

__all__ = ["audit"]

ONE, OTHER = "expiration", "transactions"
BOTH_ORDERS = [(ONE, OTHER), (OTHER, ONE)]


def files_of(warehouse):
    return {path: path.stat().st_mtime_ns for path in Path(warehouse).rglob("*") if path.is_file()}


@pytest.fixture
def audit_export():
    """Audits exports through a consumer into a warehouse; of a sample, with the values of its records changed."""

    def run(warehouse, sample, change=lambda value: value, parts=3):
        rows = pq.read_table(Sample(sample).folder / "parquet")
        named = rows.rename_columns(
            {"partition": "log_partition", "offset": "log_offset", "timestamp": "log_timestamp"}
        )
        values = pa.array([change(value) for value in rows["value"].to_pylist()], pa.binary())
        named = named.set_column(named.schema.get_field_index("value"), "value", values)
        batches = [conform(batch, LOG_RECORD) for batch in named.combine_chunks().to_batches(len(rows) // parts + 1)]

        class InParts(InProcess):
            def run_on_rows(self, _name, _dump, stage):
                return [stage(iter([batch])) for batch in batches]

        return run_stages(InParts(), Options(inputs=[sample], warehouse=str(warehouse)), dump=Dump(Format.PARQUET))

    return run


def group_metadata(group, generation, at, partition="a"):
    """Key and value of a classic group's commit: version 1 of both."""
    text = group.encode()
    key = b"\0\1" + len(text).to_bytes(2, "big") + text + b"\0\5topic" + len(partition).to_bytes(4, "big")
    value = b"\0\3" + generation.to_bytes(8, "big") + b"\xff\xff\xff\xff" + b"\0\0" + at.to_bytes(8, "big")
    return LogEntry(key=key, value=value, timestamp_ms=at)


def write_log(folder, batches, *, partition=0, epochs=None, topic_id=None, base=0):
    """A copy of a log partition: batches of records as (first offset, leader epoch, group, first value, count)."""
    place = folder / f"__consumer_offsets-{partition}"
    place.mkdir(parents=True)
    raw = b"".join(
        write_batch(
            [group_metadata(group, value + number, 1_700_000_000_000 + 1000 * (first + number)) for number in range(n)],
            base_offset=first,
            leader_epoch=epoch,
        )
        for first, epoch, group, value, n in batches
    )
    (place / f"{base:020d}.log").write_bytes(raw)
    if epochs is not None:
        lines = "".join(f"{epoch} {start}\n" for epoch, start in epochs)
        (place / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{lines}")
    if topic_id is not None:
        (place / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    return folder


def commits(warehouse):
    rows = [json.loads(row) for row in content(warehouse, "offset_commits")]
    return [(row["log_offset"], row["committed_offset"]) for row in sorted(rows, key=lambda row: row["log_offset"])]


@pytest.mark.parametrize(("first", "second"), rest_at_night(BOTH_ORDERS, BOTH_ORDERS[:1], several=True))
def test_a_dump_of_another_cluster_is_refused_and_nothing_is_written(first, second, audit, tmp_path):
    warehouse = tmp_path / "w"
    audit(warehouse, Sample(first).segments)
    before = files_of(warehouse)
    with pytest.raises(InputError, match="another cluster, or the topic was created again; nothing was written"):
        audit(warehouse, Sample(second).segments)
    assert files_of(warehouse) == before
    audit(warehouse, Sample(second).segments, cluster="other")


@pytest.mark.parametrize(("first", "second"), rest_at_night(BOTH_ORDERS, BOTH_ORDERS[1:], several=True))
def test_exports_of_two_clusters_are_told_apart_whatever_came_first(first, second, audit, audit_export, tmp_path):
    audit_export(tmp_path / "w", first)
    before = files_of(tmp_path / "w")
    with pytest.raises(InputError, match=r"the export: at offset .*--cluster NAME"):
        audit_export(tmp_path / "w", second)
    with pytest.raises(InputError, match=r"__consumer_offsets-.*--cluster NAME"):
        audit(tmp_path / "w", Sample(second).segments)
    assert files_of(tmp_path / "w") == before
    assert not any("same log" in note for note in audit(tmp_path / "w", Sample(first).segments).run.notes)
    assert not any("same log" in note for note in audit_export(tmp_path / "w", first).run.notes)


@pytest.mark.long
def test_an_export_with_other_values_is_of_another_log(audit_export, tmp_path):
    audit_export(tmp_path / "w", ONE)
    with pytest.raises(InputError, match="--cluster NAME"):
        audit_export(tmp_path / "w", ONE, lambda value: value and value + b"!")


SHARED = [(0, 3, "g", 0, 40), (40, 5, "g", 40, 20)]
LOST = [(60, 5, "lost", 100, 60)]
KEPT = [(60, 6, "kept", 200, 30)]
LONGER = [(90, 6, "kept", 230, 60)]


SHORTER, FURTHER = [(60, 6, "kept", 200, 30)], [(60, 6, "kept", 200, 90)]
EPOCHS = [(3, 0), (5, 40), (6, 60)]


@pytest.mark.parametrize(
    ("epochs", "kept"),
    [
        (EPOCHS, SHORTER),
        (None, FURTHER),
        pytest.param(EPOCHS, FURTHER, marks=pytest.mark.long),
        pytest.param(None, SHORTER, marks=pytest.mark.long),
    ],
)
def test_a_log_that_an_election_truncated_ends_as_the_newest_dump_alone(epochs, kept, audit, tmp_path):
    earlier = write_log(tmp_path / "earlier", SHARED + LOST)
    later = write_log(tmp_path / "later", SHARED + kept, epochs=epochs)
    audit(tmp_path / "w", earlier)
    summary = audit(tmp_path / "w", later)
    audit(tmp_path / "alone", later)
    assert commits(tmp_path / "w") == commits(tmp_path / "alone")
    for name in ("offset_commits", "group_state", "offset_history"):
        assert content(tmp_path / "w", name) == content(tmp_path / "alone", name), name
    [note] = [note for note in summary.run.notes if "truncated by the election" in note]
    assert "from offset 60 on" in note
    [finding] = [row for row in content(tmp_path / "w", "findings") if "log_truncated" in row]
    assert "up to 120" in finding
    audit(tmp_path / "w", later)
    assert content(tmp_path / "w", "offset_commits") == content(tmp_path / "alone", "offset_commits")
    assert [row for row in content(tmp_path / "w", "findings") if "log_truncated" in row] == [finding]


def test_records_behind_the_end_of_the_truncating_dump_are_read_when_they_come(audit, tmp_path):
    audit(tmp_path / "w", write_log(tmp_path / "1", SHARED + LOST))
    audit(tmp_path / "w", write_log(tmp_path / "2", SHARED + KEPT))
    assert [offset for offset, _ in commits(tmp_path / "w")] == list(range(90))
    audit(tmp_path / "w", write_log(tmp_path / "3", SHARED + KEPT + LONGER))
    assert [value for _, value in commits(tmp_path / "w")] == [*range(60), *range(200, 290)]


def test_a_dump_of_before_the_election_adds_nothing_afterwards(audit, tmp_path):
    stale = write_log(tmp_path / "stale", [*SHARED, (60, 5, "lost", 100, 200)])
    newer = write_log(tmp_path / "newer", SHARED + KEPT)
    audit(tmp_path / "w", newer)
    before = commits(tmp_path / "w")
    summary = audit(tmp_path / "w", stale)
    assert commits(tmp_path / "w") == before
    assert any("are left out: an election truncated the log there" in note for note in summary.run.notes)
    audit(tmp_path / "w", write_log(tmp_path / "longer", SHARED + KEPT + LONGER))
    assert [value for _, value in commits(tmp_path / "w")] == [*range(60), *range(200, 290)]


def test_a_stale_replica_beside_the_leaders_copy_is_left_out(audit, tmp_path):
    audit(tmp_path / "w", write_log(tmp_path / "1", SHARED + LOST))
    leader = write_log(tmp_path / "leader", SHARED + KEPT)
    replica = write_log(tmp_path / "replica", SHARED + LOST)
    audit(tmp_path / "w", leader, replica)
    assert [value for _, value in commits(tmp_path / "w")] == [*range(60), *range(200, 230)]


def test_another_topic_id_is_refused_and_the_same_one_is_trusted(audit, tmp_path):
    audit(tmp_path / "w", write_log(tmp_path / "1", SHARED, topic_id="A"))
    with pytest.raises(InputError, match="a topic with the id B"):
        audit(tmp_path / "w", write_log(tmp_path / "2", SHARED + KEPT, topic_id="B"))
    audit(tmp_path / "w", write_log(tmp_path / "3", SHARED + KEPT, topic_id="A"))
    assert len(commits(tmp_path / "w")) == 90


@pytest.mark.long
def test_one_log_partition_alone_is_compared(audit, tmp_path):
    warehouse = tmp_path / "w"
    audit(warehouse, Sample(ONE).segments)
    [folder, *_] = sorted(path for path in Path(Sample(OTHER).segments).iterdir() if path.is_dir())
    shutil.copytree(folder, tmp_path / "d" / folder.name)
    with pytest.raises(InputError, match="--cluster NAME"):
        audit(warehouse, tmp_path / "d")


def test_a_changed_record_is_another_log(audit, tmp_path):
    audit(tmp_path / "w", write_log(tmp_path / "1", SHARED))
    changed = [(first, epoch, group, value + 1, n) for first, epoch, group, value, n in SHARED]
    with pytest.raises(InputError, match=r"at offset 0 of log partition 0 stands a record of 2023-11-14T22:13:20.000Z"):
        audit(tmp_path / "w", write_log(tmp_path / "2", changed))


def test_a_dump_that_begins_where_the_earlier_one_ended_says_that_nothing_compares(audit, tmp_path):
    audit(tmp_path / "w", write_log(tmp_path / "1", SHARED))
    summary = audit(tmp_path / "w", write_log(tmp_path / "2", KEPT, base=60))
    assert len(commits(tmp_path / "w")) == 90
    assert any("none of the records that earlier audits kept" in note for note in summary.run.notes)


def copied(sample, into, suffix):
    """The current segments of a sample, or with a suffix those that the cleaner has replaced."""
    for path in Path(Sample(sample).segments).rglob(f"*.log{suffix}"):
        place = into / path.parent.name
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place / path.name.removesuffix(suffix))
    return into


@pytest.mark.long
def test_the_same_log_compacted_since_is_the_same(audit, tmp_path):
    earlier, later = copied("compacted", tmp_path / "1", ".deleted"), copied("compacted", tmp_path / "2", "")
    audit(tmp_path / "w", earlier)
    notes = audit(tmp_path / "w", later).run.notes
    assert not any("election" in note for note in notes)
    notes = audit(tmp_path / "w", earlier).run.notes
    assert not any("election" in note for note in notes)


def test_of_a_copy_without_news_one_file_is_opened_for_its_anchors(audit, tmp_path):
    """The newest file is read for its news anyway; here it is empty, and the one before it has all anchors."""
    folder = write_log(tmp_path / "1", [*SHARED, *LOST])
    audit(tmp_path / "w", folder)
    opened = []

    class Watched(InProcess):
        def run(self, name, shares, *stage):
            opened.extend(share.file.uri for share in shares if name == "look up records of earlier audits")
            return super().run(name, shares, *stage)

        run_on_files = run

    (folder / "__consumer_offsets-0" / f"{120:020d}.log").touch()
    notes = run_stages(Watched(), Options(inputs=[str(folder)], warehouse=str(tmp_path / "w"))).run.notes
    assert [uri.rpartition("/")[2] for uri in opened] == [f"{0:020d}.log"]
    assert not any("same log" in note for note in notes)
