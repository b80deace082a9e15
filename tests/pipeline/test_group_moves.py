"""Groups that moved to another log partition: only the records that count are in any answer, in any order of nights."""

from collections.abc import Callable, Iterable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay import Warehouse
from coordinator_replay.errors import UsageError
from coordinator_replay.pipeline.audit import Options, plan_audit
from coordinator_replay.pipeline.group_moves import GroupMoves, hash_divisor, may_have_moved
from tests.pipeline.in_process import InProcess, audit_here, contents, cut
from tests.pipeline.staged_rows import (
    Row,
    audit_rows,
    auditor_of_rows,
    commit,
    emptied,
    group_record,
    marker,
    moment,
    ms,
)
from tests.samples import DATA

__all__ = ["audit_rows"]

RAISED = DATA / "reports" / "partition-count-raised" / "segments"
MOVED = "2026-10-02T10:18:20"
GROUP = "orders-app"


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    folder = tmp_path_factory.mktemp("raised")
    audit_here(folder, RAISED)
    return Warehouse(folder)


def _offsets(warehouse: Warehouse, group: str, at: Any = None) -> dict[tuple[str, int], int]:
    return {(one.topic, one.partition): one.committed_offset for one in warehouse.offsets(group, at=at)}


def test_from_the_move_on_only_the_new_log_partition_counts(raised: Warehouse):
    group = raised.describe(GROUP).group
    assert (group.epoch, group.member_count, group.log_partition, group.is_exact) == (1, 1, 25, True)
    assert [one.member_id for one in raised.describe(GROUP)] == ["m9"]
    assert _offsets(raised, GROUP) == {("orders", 0): 160, ("orders", 1): 6}
    [listed] = raised.groups()
    assert (listed.epoch, listed.member_count, listed.log_partition, listed.protocol) == (1, 1, 25, "range")
    assert [one.member_id for one in raised.owner(GROUP, "orders", 2)] == ["m9"]


def test_before_the_move_the_old_log_partition_counts(raised: Warehouse):
    before = f"{MOVED[:-2]}19"
    group = raised.describe(GROUP, at=before).group
    assert (group.epoch, group.member_count, group.log_partition) == (7, 1, 5)
    assert [one.member_id for one in raised.describe(GROUP, at=before)] == ["m1"]
    assert _offsets(raised, GROUP, before) == {("orders", 0): 1019, ("orders", 1): 2019, ("orders", 2): 3019}
    with pytest.raises(UsageError, match=f"the group moved from log partition 5 to 25 at {MOVED}Z, and --at shows"):
        raised.offsets(GROUP, before_removal=True)
    assert _offsets(raised, GROUP, MOVED) == {}
    [owner] = raised.owner(GROUP, "orders", 2, at=before)
    assert (owner.member_id, owner.released_by) == ("m1", "GROUP_MOVED")


def test_the_timeline_is_in_order_and_says_that_the_group_moved(raised: Warehouse):
    events = list(raised.timeline(GROUP))
    times = [one.log_timestamp for one in events if one.event != "OFFSETS_REWOUND"]
    assert times == sorted(times)
    partitions = [one.log_partition for one in events]
    assert partitions == sorted(partitions)
    moved = next(one for one in events if one.event == "GROUP_MOVED")
    assert (moved.log_partition, moved.detail) == (5, {"to_log_partition": 25})
    assert [one.member_id for one in raised.members(GROUP)] == ["m1", "m9"]


def test_rebalances_and_changes_do_not_mix_log_partitions(raised: Warehouse):
    assert [one.commit_pause_ms for one in raised.rebalances(GROUP)] == [None, None]
    history = list(raised.offset_history(GROUP, "orders"))
    ends = {one.ended_by for one in history if one.ended_by not in ("COMMIT", None)}
    assert ends == {"GROUP_MOVED"}
    assert not raised.sql(query="rewinds").to_pandas()["previous_offset"].isin([1019, 2019]).any()
    assert list(raised.expired()) == []
    [consumer] = raised.consumers("orders")
    assert (consumer.group_id, consumer.last_at) == (GROUP, None)


def test_what_if_says_that_it_covers_a_group_only_since_its_move(raised: Warehouse):
    since = f"its move to another log partition at {MOVED}.000Z"
    recorded = raised.what_if(GROUP, members=2)[0]
    assert (recorded.rebalances, recorded.is_at_least) == (1, True)
    assert f"What-if covers the group only since {since}." in raised.what_if(GROUP, members=2).notes
    with pytest.raises(UsageError, match=f"no records in that time range since {since}; what-if covers no earlier"):
        raised.what_if(GROUP, members=2, end="2026-10-02T00:00:00Z")
    ranked = raised.what_if_all({"session.timeout.ms": 9000})
    assert [(gain.recorded_rebalances, gain.is_at_least) for gain in ranked] == [(1, True)]
    assert any("1 group covered only since the move" in note for note in ranked.notes)
    later = raised.what_if(GROUP, members=2, start=f"{MOVED}Z")
    assert not later[0].is_at_least
    assert not any("What-if covers" in note for note in later.notes)


def test_it_is_said_that_the_group_moved_or_that_there_are_two_clusters(raised: Warehouse):
    [finding] = raised.findings(rules=["group_moved"])
    assert "orders-app from 5 to 25" in finding.message
    why = "the partition count of __consumer_offsets was raised, or the files are of two clusters"
    line = f"moved from log partition 5 to 25 at {MOVED}Z: {why}"
    for answer in (raised.describe(GROUP), raised.offsets(GROUP), raised.timeline(GROUP), raised.why(GROUP)):
        assert line in str(answer.basis)
    assert f"1 group moved to another log partition: {why}" in str(raised.groups().basis)
    assert any("orders:2 left behind" in note for note in raised.offsets(GROUP).notes)
    assert line in raised.report(GROUP).html
    assert raised.metrics().text.count(f'group="{GROUP}"') > 0


@pytest.mark.long
def test_nights_in_any_order_end_as_one_run_of_all(tmp_path: Path):
    audit_here(tmp_path / "whole", RAISED)
    whole = contents(tmp_path / "whole")
    folders = [tmp_path / "first", tmp_path / "second"]
    cut(str(RAISED), folders)
    for number, nights in enumerate(permutations(folders)):
        warehouse = tmp_path / f"nights-{number}"
        for night in nights:
            audit_here(warehouse, night)
        assert contents(warehouse) == whole
    by_partition = [RAISED / "__consumer_offsets-5", RAISED / "__consumer_offsets-25"]
    for number, nights in enumerate(permutations(by_partition)):
        warehouse = tmp_path / f"partitions-{number}"
        for night in nights:
            audit_here(warehouse, night)
        assert contents(warehouse) == whole


def test_the_plan_says_why_a_bucket_is_rebuilt(tmp_path: Path):
    audit_here(tmp_path / "warehouse", RAISED / "__consumer_offsets-5")
    options = Options(inputs=[str(RAISED / "__consumer_offsets-25")], warehouse=str(tmp_path / "warehouse"))
    reasons = [reason for share in plan_audit(InProcess(), options).plan.shares for reason in share.reasons]
    assert "group 'orders-app' moved from log partition 5 to 25" in reasons


def _classic(position: tuple[int, int], seconds: float, generation: int, *members: str, group: str = "g") -> Row:
    value = {
        "protocolType": "consumer", "generation": generation, "protocol": "range", "leader": members[0],
        "currentStateTimestamp": ms(seconds),
        "members": [
            {"memberId": one, "groupInstanceId": None, "clientId": "c", "clientHost": "/10.0.0.1",
             "rebalanceTimeout": 60000, "sessionTimeout": 10000, "subscription": "", "assignment": ""}
            for one in members
        ],
    }  # fmt: skip
    return group_record(position, seconds, "GroupMetadata", {"group": group}, value)


KEY = ("g", "t", 0)
OTHER_KEY = ("g", "t", 1)

ELSEWHERE = [_classic((5, 0), 0, 4, "a"), commit((5, 1), 1, KEY, 10), commit((5, 2), 2, OTHER_KEY, 20)]
"""A group in log partition 5; 26 is of another bucket than that."""

AFTERWARDS = [_classic((26, 0), 10, 1, "b"), commit((26, 1), 11, KEY, 12)]

GHOSTS = [commit((5, 3), 500, KEY), commit((5, 4), 500, OTHER_KEY), emptied((5, 5), 501, "g")]
"""What the coordinator of the old log partition writes, which no client asks any more."""

OVERLAPPING = [
    *ELSEWHERE,
    _classic((26, 0), 10, 1, "b"),
    commit((26, 1), 11, KEY, 12),
    commit((5, 3), 12, KEY, 13),
    commit((26, 2), 20, KEY, 14),
    _classic((26, 3), 21, 2, "b", "c"),
]
"""Brokers with the old and with the new partition count write: the last of the old ones at 12 s."""

MARKER_BEHIND = [
    *ELSEWHERE,
    commit((5, 3), 3, KEY, 30, producer=1),
    *AFTERWARDS,
    marker((5, 4), 12, 1, "COMMIT"),
]
ONLY_OFFSETS = [commit((5, 0), 0, KEY, 10), commit((25, 0), 10, OTHER_KEY, 20)]
THREE = [commit((5, 0), 0, KEY, 10), commit((26, 0), 10, KEY, 20), commit((7, 0), 20, OTHER_KEY, 30)]
LOGS: dict[str, Sequence[Row]] = {
    "other bucket": [*ELSEWHERE, *AFTERWARDS],
    "tombstones behind the move": [*ELSEWHERE, *AFTERWARDS, *GHOSTS],
    "overlapping": OVERLAPPING,
    "marker behind the move": MARKER_BEHIND,
    "only offsets, in one bucket": ONLY_OFFSETS,
    "three partition counts": THREE,
}
ENDS = {
    "other bucket": {("t", 0): 12},
    "tombstones behind the move": {("t", 0): 12},
    "overlapping": {("t", 0): 14},
    "marker behind the move": {("t", 0): 12},
    "only offsets, in one bucket": {("t", 1): 20},
    "three partition counts": {("t", 1): 30},
}


def _nights(rows: Sequence[Row]) -> Iterable[Sequence[Sequence[Row]]]:
    """Return the log in two nights, cut anywhere by time, in both orders, and by log partition."""
    in_time = sorted(rows, key=lambda row: row[1]["log_timestamp"])
    half = len(in_time) // 2
    yield in_time[:half], in_time[half:]
    yield in_time[half:], in_time[:half]
    partitions = sorted({row[1]["log_partition"] for row in rows})
    yield [[row for row in rows if row[1]["log_partition"] == one] for one in partitions]
    yield [[row for row in rows if row[1]["log_partition"] == one] for one in reversed(partitions)]


@pytest.mark.parametrize(
    ("name", "slicings"),
    [
        ("marker behind the move", slice(2, 3)),
        *(pytest.param(name, slice(None), marks=pytest.mark.long) for name in LOGS),
    ],
)
def test_brothers_in_one_run_and_in_nights(audit_rows: Callable[..., Any], tmp_path: Path, name: str, slicings: slice):
    audit_rows(tmp_path / "whole", LOGS[name])
    asked = Warehouse(tmp_path / "whole")
    assert _offsets(asked, "g") == ENDS[name]
    assert [one.rule for one in asked.findings(rules=["group_moved"])] == ["group_moved"]
    whole = contents(tmp_path / "whole")
    for number, nights in enumerate(list(_nights(LOGS[name]))[slicings]):
        warehouse = tmp_path / f"nights-{number}"
        for night in nights:
            audit_rows(warehouse, night)
        for table, rows in contents(warehouse).items():
            assert rows == whole[table], (number, table)


def test_while_brokers_of_both_counts_write_the_state_is_open(audit_rows: Callable[..., Any], tmp_path: Path):
    audit_rows(tmp_path, OVERLAPPING)
    asked = Warehouse(tmp_path)
    [move] = asked.sql("FROM group_moves").to_pandas().to_dict("records")
    assert (move["overlaps_until"].to_pydatetime(), move["exact_from_offset"]) == (moment(12), 2)
    for seconds, is_exact in ((5, True), (10.5, False), (12, False), (20, True), (30, True)):
        at = moment(min(seconds, 21))
        assert asked.describe("g", at=at).basis.is_complete is is_exact, seconds
        [offset] = [one for one in asked.offsets("g", at=at) if one.partition == 0 or seconds < 10][:1] or [None]
        if offset is not None:
            assert offset.is_exact is is_exact, seconds
    assert [one.is_exact for one in asked.groups(at=moment(10.5))] == [False]
    assert [one.is_exact for one in asked.groups()] == [True]
    assert "its state is unproven until 2026-11-21T00:00:12Z" in str(asked.describe("g").basis)


def test_groups_that_one_number_of_partitions_explains_did_not_move():
    groups = [f"group-{number}" for number in range(40)]
    by_50 = {partition: hash_divisor([group for group in groups if _in(group, 50) == partition], partition)
             for partition in {_in(group, 50) for group in groups}}  # fmt: skip
    assert not may_have_moved(by_50)
    assert may_have_moved({**by_50, _in("group-1", 60): hash_divisor(["group-1"], _in("group-1", 60))})


def _in(group: str, count: int) -> int:
    from coordinator_replay.query.group_partitions import log_partition_of

    return log_partition_of(group, count)


def test_no_moves_let_every_record_count():
    assert not GroupMoves().ends


def _of_topic(row: Row, topic_id: str) -> Row:
    row[1]["topic_id"] = topic_id
    return row


@pytest.fixture(scope="module")
def created_again(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A group of which the log offsets in the old partition are higher, and a topic created again before the move."""
    key = ("h", "t", 0)
    rows = [
        _classic((5, 60), 0, 4, "a", group="h"),
        _of_topic(commit((5, 61), 1, key, 900), "old"),
        _of_topic(commit((5, 62), 2, key, 10), "new"),
        _of_topic(commit((5, 63), 3, key, 11), "new"),
        _classic((26, 0), 10, 1, "b", group="h"),
        _of_topic(commit((26, 1), 11, key, 12), "new"),
        _of_topic(commit((26, 2), 12, key, 13), "newest"),
        commit((26, 3), 13, key),
        _classic((26, 4), 14, 2, "c", group="h"),
        emptied((26, 5), 15, "h"),
        group_record((26, 6), 16, "GroupMetadata", {"group": "h"}, None),
    ]
    folder = tmp_path_factory.mktemp("created-again")
    auditor_of_rows(folder)(folder / "warehouse", rows)
    return Warehouse(folder / "warehouse")


def test_answers_sort_log_partitions_by_move_before_offsets(created_again: Warehouse):
    assert [one.committed_offset for one in created_again.offset_history("h", "t")] == [900, 10, 11, 12, 13]
    again = [one.detail for one in created_again.timeline("h") if one.event == "OFFSETS_OF_OTHER_TOPIC"]
    assert [one["lowest"] for one in again] == [10, 13]
    [deleted] = created_again.deleted_groups()
    assert deleted.reason == "DELETED"


def test_the_latest_commits_topic_id_is_that_of_the_last_log_partition(created_again: Warehouse):
    [offset] = created_again.offsets("h", at=moment(12.5))
    assert (offset.committed_offset, offset.topic_id, offset.is_topic_current) == (13, "newest", True)
