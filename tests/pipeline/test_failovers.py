"""Two brokers that took over from each other, and an unclean election: the tables against what the brokers answered."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from coordinator_replay.query.coordinators import nearby_note
from coordinator_replay.query.describe import describe_at
from coordinator_replay.query.groups import groups_at
from coordinator_replay.query.offsets import offsets_at
from coordinator_replay.query.rebalances import rebalances_of
from coordinator_replay.query.saved import run_saved_query
from coordinator_replay.query.tables import Tables
from coordinator_replay.query.timeline import timeline_of
from tests.nightly import rest_at_night
from tests.pipeline.audited_once import AuditedOnce
from tests.pipeline.in_process import audit, audit_here, content
from tests.samples import DATA, lines

__all__ = ["audit"]

RECORDED = DATA / "failovers"
METADATA = str(RECORDED / "cluster-metadata")
LOGS = [str(RECORDED / f"server-{broker}.log") for broker in (1, 2)]
COMMON = {0: 61, 1: 60}
"""The first offset of each log partition that the first dump and the second one have different records at."""
ELECTED = datetime(2026, 11, 25, 1, 58, 43, 235_000, UTC)


@pytest.fixture(scope="module")
def first(audited_once: AuditedOnce) -> Path:
    return audited_once(RECORDED / "first", cluster_metadata=METADATA, broker_logs=LOGS).warehouse


@pytest.fixture(scope="module")
def both(first: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    warehouse = tmp_path_factory.mktemp("both") / "wh"
    shutil.copytree(first, warehouse)
    return warehouse, audit_here(warehouse, RECORDED / "second", cluster_metadata=METADATA, broker_logs=LOGS)


_TIME = """
    SELECT max(log_timestamp) FROM (
        SELECT log_partition, log_offset, log_timestamp FROM group_records WHERE cluster = $cluster
        UNION ALL SELECT log_partition, log_offset, log_timestamp FROM offset_commits WHERE cluster = $cluster
    ) WHERE log_partition = 0 AND log_offset < $zero OR log_partition = 1 AND log_offset < $one
"""


def moment(warehouse: Tables, checkpoint: dict[str, Any]) -> datetime:
    """The time of an answer: ``at`` was noted before asking, and the last record answered for may be younger."""
    ends = checkpoint["endOffsets"]
    [(seen,)] = warehouse.rows(_TIME, zero=ends["0"], one=ends["1"])
    return max(seen, datetime.fromtimestamp(checkpoint["at"] / 1000, UTC))


def is_of_lone_leader(checkpoint: dict[str, Any]) -> bool:
    """Whether it is about records that the next leader didn't have."""
    at = datetime.fromtimestamp(checkpoint["at"] / 1000, UTC)
    return at < ELECTED and any(checkpoint["endOffsets"][str(partition)] > end for partition, end in COMMON.items())


CHECKPOINTS = pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.long)], ids=["an eighth", "all"])
"""How many of the quiet checkpoints a test asks about: every eighth, from the last one on, or at night all."""


def check_answers(warehouse: Tables, is_wanted: Callable[[dict[str, Any]], bool], share: int) -> int:
    compared = 0
    checkpoints = [one for one in lines(RECORDED / "checkpoints.jsonl") if one["quiet"] and is_wanted(one)]
    for checkpoint in checkpoints[::-share]:
        at = moment(warehouse, checkpoint)
        ours = {(one.group_id, one.state) for one in groups_at(warehouse, at)}
        assert (at, ours) == (at, {(one["groupId"], one["state"]) for one in checkpoint["groups"]})
        for answer in checkpoint["groups"]:
            members = describe_at(warehouse, answer["groupId"], at).members
            assert (at, sorted(one.member_id for one in members)) == (
                at,
                sorted(one["memberId"] for one in answer["members"]),
            )
            offsets = {
                f"{one.topic}-{one.partition}": one.committed_offset
                for one in offsets_at(warehouse, answer["groupId"], at)
            }
            assert (at, offsets) == (at, {name: one["offset"] for name, one in answer["offsets"].items()})
            compared += 1
    return compared


def changes(warehouse: Path) -> list[dict[str, Any]]:
    table = DeltaTable(str(warehouse / "coordinator_changes")).to_pyarrow_table()
    return table.sort_by([("log_partition", "ascending"), ("leader_epoch", "ascending")]).to_pylist()


@CHECKPOINTS
def test_before_the_election_the_tables_are_what_the_first_leaders_answered(first: Path, share: int) -> None:
    """The last of these answers are about records that were lost later: this dump has them."""
    compared = check_answers(
        Tables(str(first)), lambda checkpoint: checkpoint["at"] / 1000 < ELECTED.timestamp(), share
    )
    assert compared > 60 // share


@CHECKPOINTS
def test_after_an_unclean_election_the_tables_are_what_the_new_leader_answered(
    both: tuple[Path, Any], share: int
) -> None:
    warehouse, summary = both
    assert summary.run.lost_from == COMMON
    assert sum("was truncated by the election of a leader" in note for note in summary.run.notes) == 2
    # What a leader answered of records that were lost is in no dump any more.
    compared = check_answers(Tables(str(warehouse)), lambda checkpoint: not is_of_lone_leader(checkpoint), share)
    assert compared > 80 // share
    lost = [row for row in content(warehouse, "findings") if "log_truncated" in row]
    assert len(lost) == 2


@pytest.mark.parametrize("dumps", rest_at_night([("second",), ("second", "first")], [("second", "first")]))
def test_the_end_is_that_of_the_newest_dump_alone(audit, both: tuple[Path, Any], tmp_path: Path, dumps) -> None:
    for dump in dumps:
        audit(tmp_path / "wh", RECORDED / dump, cluster_metadata=METADATA, broker_logs=LOGS)
    # What is derived: lines are the same, and what earlier runs had read is named by their own notes and findings.
    for name in ("group_timeline", "member_timeline", "rebalances", "offset_history", "coordinator_changes"):
        assert content(tmp_path / "wh", name) == content(both[0], name), name


def test_who_led_the_log_partitions_since_when(both: tuple[Path, Any]) -> None:
    found = [
        (row["log_partition"], row["leader_epoch"], row["broker"], row["is_unclean"], row["first_log_offset"])
        for row in changes(both[0])
    ]
    assert found == [
        (0, 0, 1, False, 0),
        (0, 1, 2, False, 26),
        (0, 2, 1, False, 53),
        (0, 3, -1, False, None),
        (0, 4, 2, True, 61),
        (0, 5, -1, False, None),
        (1, 0, 2, False, 0),
        (1, 1, 1, False, 47),
        (1, 2, -1, False, None),
        (1, 3, 2, True, 60),
        (1, 4, -1, False, None),
    ]
    for row in changes(both[0]):
        if row["broker"] >= 0:
            # The second broker's log is in India's time: records say so.
            assert row["elected_at"] < row["loaded_at"]
            assert row["loading_ms"] <= (row["loaded_at"] - row["elected_at"]).total_seconds() * 1000 + 1_000


def test_logs_and_metadata_agree_with_what_batches_alone_show(audit, both: tuple[Path, Any], tmp_path: Path) -> None:
    audit(tmp_path / "alone", RECORDED / "second")
    alone = {(row["log_partition"], row["leader_epoch"]): row for row in changes(tmp_path / "alone")}
    with_all = {(row["log_partition"], row["leader_epoch"]): row for row in changes(both[0])}
    assert {key for key, row in with_all.items() if row["first_log_offset"] is not None} == alone.keys()
    for key, row in alone.items():
        assert (row["broker"], row["is_exact"], row["sources"]) == (None, False, ["records"])
        assert row["first_log_offset"] == with_all[key]["first_log_offset"]
        assert row["elected_at"] >= with_all[key]["elected_at"]
    audit(tmp_path / "logs", RECORDED / "second", broker_logs=LOGS)
    for row in changes(tmp_path / "logs"):
        key = row["log_partition"], row["leader_epoch"]
        if row["broker"] is not None:
            assert row["broker"] == with_all[key]["broker"], key
            assert row["elected_at"] >= with_all[key]["elected_at"], key
            assert (row["loaded_at"], row["loading_ms"]) == (with_all[key]["loaded_at"], with_all[key]["loading_ms"])
    assert {row["broker"] for row in changes(tmp_path / "logs")} == {1, 2, None}


def test_answers_name_changes_of_coordinators(both: tuple[Path, Any]) -> None:
    warehouse = Tables(str(both[0]))
    events = [one for one in timeline_of(warehouse, "ketch") if one.event == "COORDINATOR_CHANGED"]
    assert [one.summary for one in events] == [
        "leader epoch 1, broker 1 (before: 2), loaded in 830 ms",
        "leader epoch 2, no leader (before: 1)",
        "leader epoch 3, broker 2 (before: 1), unclean election, loaded in 360 ms",
        "leader epoch 4, no leader (before: 2)",
    ]
    names, rows = run_saved_query(warehouse, "coordinator-failovers", {"partition": "1"})
    # On a narrow terminal those written first stay.
    assert names[:5] == ["log_partition", "elected_at", "is_failover", "broker", "groups_rebalanced"]
    # Epochs 2 and 4, without a leader, are no elections.
    assert [row[3] for row in rows] == [1, 2]
    failovers = [row for row in (dict(zip(names, row, strict=True)) for row in rows) if row["is_failover"]]
    assert [(row["leader_epoch"], row["broker_before"], row["broker"]) for row in failovers] == [(1, 2, 1), (3, 1, 2)]
    # Members that the new leader didn't know joined again.
    assert failovers[1]["some_groups"] == ["ketch", "sloop"]
    last = [one for one in rebalances_of(warehouse, "ketch") if one.completed_at and one.completed_at > ELECTED]
    note = nearby_note(warehouse, last[:1])
    assert note is not None
    assert "log partition 1 went to broker 2 (before: 1) in leader epoch 3" in note
    assert "by an unclean election: records may be lost" in note
