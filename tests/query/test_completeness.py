"""Answers over a log that compaction has thinned: exact where it proves them, and said to be open where it does not.

The small warehouse, of which log partition 3 begins with what the cleaner left: nothing is missing from 02:10 on, and
everything is proven from 02:10:20 on.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from coordinator_replay import Warehouse
from coordinator_replay.completeness.past import LogPartition
from coordinator_replay.completeness.ranges import CompleteRange
from coordinator_replay.errors import UsageError, WarehouseError
from coordinator_replay.query.basis import Basis
from coordinator_replay.query.group_partitions import fitting_count, log_partition_of
from coordinator_replay.tables.migrations import SCHEMA_VERSION
from coordinator_replay.times import LATEST
from tests.query.small_warehouse import at, event, log_partition, offset, owned, write_rows, write_small_warehouse

RANGE = {
    "from_offset": 103,
    "to_offset": 1000,
    "from_timestamp": at("02:10"),
    "to_timestamp": at("02:20"),
    "exact_from_offset": 105,
    "exact_from_timestamp": at("02:10:20"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    thinned = log_partition(3, "02:00", "02:20", complete_ranges=[RANGE], complete_from_offset=105,
                            complete_since=at("02:10:20"), missing_offsets=60)  # fmt: skip
    folder = write_small_warehouse(
        tmp_path_factory.mktemp("compacted warehouse"), log_partitions=[log_partition(1, "02:02", "02:06"), thinned]
    )
    write_rows(folder, "group_timeline", [
        event("late", 0, "02:15", "GROUP_CREATED", ">Stable", group_type="classic", member_count=2, log_offset=500),
        event("torn", 0, "02:15", "GROUP_DISCOVERED", ">Stable", group_type="classic", is_exact=False, log_offset=510),
        event("new", 0, "02:18", "GROUP_CREATED", ">Stable", group_type="classic", member_count=1, log_offset=700),
        event("cut", 0, "02:10:10", "GROUP_DISCOVERED", ">Stable", member_count=1, is_exact=False,
              is_state_exact=False, log_offset=104),
        event("cut", 1, "02:10:20", "RECORDS_COMPLETE", "Stable>Stable", member_count=1, log_offset=105),
    ])  # fmt: skip
    write_rows(folder, "offset_history", [
        offset("logs", 0, 500, "02:12", group_id="commits", from_offset=500, is_begin_open=True),
        offset("logs", 1, 600, "02:05", group_id="commits", from_offset=60, is_begin_open=True),
        offset("logs", 2, 700, "02:10:05", group_id="commits", from_offset=104, is_begin_open=True),
        offset("logs", 0, 900, "02:12", group_id="removed", from_offset=501, is_begin_open=True),
    ])  # fmt: skip
    write_rows(folder, "offset_commits", [
        {"cluster": "default", "group_id": "removed", "topic": "logs", "partition": 0, "log_partition": 3,
         "log_offset": 62, "log_timestamp": at("02:07"), "is_tombstone": True},
    ])  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def warehouse(folder: Path) -> Warehouse:
    return Warehouse(folder)


def states(warehouse: Warehouse, clock: str) -> dict[str, tuple[str, bool]]:
    return {one.group_id: (one.state, one.is_exact) for one in warehouse.groups(at=at(clock))}


def test_a_group_whose_records_may_have_been_removed_is_unknown(warehouse: Warehouse):
    found = states(warehouse, "02:09")
    assert found["late"] == ("Unknown", False)
    assert found["cut"] == ("Unknown", False)
    assert found["simple"] == ("Unknown", False), "its own records may have been removed since"


def test_a_group_is_proven_where_nothing_is_missing(warehouse: Warehouse):
    found = states(warehouse, "02:10:30")
    assert "late" not in found and "new" not in found
    assert found["simple"] == ("Empty", True)
    assert found["cut"] == ("Stable", True)
    assert found["torn"] == ("Unknown", False), "its first record is not that of a new group"


def test_between_the_first_offset_and_the_proven_one_the_next_record_decides(warehouse: Warehouse):
    found = states(warehouse, "02:10:05")
    assert found["cut"] == ("Unknown", False), "the cleaner may have taken the record before that of 02:10:10"
    assert "late" not in found, "no record of it was there to take one's place"


def test_a_state_that_surviving_records_tell_is_shown_and_not_exact(warehouse: Warehouse):
    found = warehouse.describe("cut", at=at("02:10:15"))
    assert (found.group.state, found.group.is_exact) == ("Stable", False)
    assert any("members may be missing" in note for note in found.notes)


def test_a_group_is_not_empty_where_its_members_may_be_missing(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "group_timeline", [
        event("bare", 0, "02:05", "GROUP_DISCOVERED", ">Empty", member_count=0, is_exact=False, is_state_exact=False),
    ])  # fmt: skip
    found = Warehouse(folder).describe("bare").group
    assert (found.state, found.member_count, found.is_exact) == ("Unknown", None, False)


def test_a_group_that_is_not_on_record_yet_can_be_described(warehouse: Warehouse):
    found = warehouse.describe("late", at=at("02:09"))
    assert (found.group.state, found.group.group_type, found.group.member_count, len(found)) == (
        "Unknown",
        "Unknown",
        None,
        0,
    )
    assert any("is not on record" in note for note in found.notes)


def test_filters_count_unknown_states(warehouse: Warehouse):
    assert {one.group_id for one in warehouse.groups(at=at("02:09"), states=["uNKNOWN"])} >= {"late", "cut", "simple"}
    stable = warehouse.groups(at=at("02:09"), states=["stable"])
    assert any("--state Unknown shows them" in note for note in stable.notes)
    assert {one.group_id for one in warehouse.groups(at=at("02:09"), types=["share"])} >= {"late"}


def test_an_offset_is_proven_absent_from_its_tombstone_on_whatever_was_before(warehouse: Warehouse):
    found = warehouse.offsets("removed", at=at("02:06"))
    assert [(one.committed_offset, one.is_exact) for one in found] == [(None, False)]
    assert not warehouse.offsets("removed", at=at("02:08"))


def test_offsets_that_are_not_on_record_are_no_missing_offsets(warehouse: Warehouse):
    found = {one.partition: one for one in warehouse.offsets("commits", at=at("02:06"))}
    assert (found[0].committed_offset, found[0].is_exact) == (None, False)
    assert (found[1].committed_offset, found[1].is_exact) == (600, True)
    note = "The committed offsets of logs:0,2 at that time are not on record; there may have been none."
    assert note in warehouse.offsets("commits", at=at("02:06")).notes
    assert {one.partition for one in warehouse.offsets("commits", at=at("02:11"))} == {1, 2}
    before = {one.partition: one.is_exact for one in warehouse.offsets("commits", at=at("02:10:01"))}
    assert before == {1: True, 2: False}, "what is committed before the proven offset may have replaced another"


def holed_warehouse(folder: Path, has_tombstone: bool) -> Warehouse:
    """Two nights with a hole between 02:06 and 02:10; the second dump has its records, or lacks the one at 12."""
    first = {**RANGE, "from_offset": 0, "to_offset": 20, "from_timestamp": at("02:00"), "to_timestamp": at("02:06"),
             "exact_from_offset": 0, "exact_from_timestamp": at("02:00")}  # fmt: skip
    second = {**RANGE, "from_offset": 30, "exact_from_offset": 32}
    part = log_partition(3, "02:00", "02:20", complete_ranges=[first, second], complete_from_offset=32,
                         complete_since=at("02:10:20"), missing_offsets=10)  # fmt: skip
    folder = write_small_warehouse(folder, log_partitions=[log_partition(1, "02:02", "02:06"), part])
    write_rows(folder, "offset_history", [
        offset("logs", 0, 5, "02:01", "02:04", group_id="removed", ended_by="DELETED", to_offset=12, from_offset=5),
        offset("logs", 1, 5, "02:01", "02:15", group_id="eos", from_offset=6),
    ])  # fmt: skip
    write_rows(folder, "offset_commits", [
        {"cluster": "default", "group_id": "removed", "topic": "logs", "partition": 0, "log_partition": 3,
         "log_offset": 12, "log_timestamp": at("02:04"), "is_tombstone": True},
    ])  # fmt: skip
    write_rows(folder, "control_records", [
        {"cluster": "default", "log_partition": 3, "log_offset": place, "log_timestamp": at(clock),
         "producer_id": producer, "control_type": "COMMIT"}
        for place, clock, producer in ((40, "02:11", 1), (60, "02:13", 2))
    ])  # fmt: skip
    copy = {"cluster": "default", "log_partition": 3, "run_id": "1", "copy": "", "is_export": False,
            "covered_from_offset": 0, "is_gap_before": False}  # fmt: skip
    write_rows(folder, "log_copies", [
        {**copy, "cleaned_to_offset": 0, "end_offset": 20, "from_offset": 0, "to_offset": 20},
        {**copy, "run_id": "2", "cleaned_to_offset": 32, "end_offset": 50, "from_offset": 12 if has_tombstone else 13,
         "to_offset": 14},
        {**copy, "run_id": "2", "cleaned_to_offset": 32, "end_offset": 50, "from_offset": 30, "to_offset": 50},
        {**copy, "run_id": "3", "cleaned_to_offset": 80, "end_offset": 1000, "from_offset": 12 if has_tombstone else 13,
         "to_offset": 14},
        {**copy, "run_id": "3", "cleaned_to_offset": 80, "end_offset": 1000, "from_offset": 90, "to_offset": 1000},
    ])  # fmt: skip
    return Warehouse(folder)


def test_an_owner_of_whom_records_are_missing_is_said_to_have_been_it_at_least_so_long(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "group_timeline", [
        event("holed", 0, "02:02", "GROUP_CREATED", ">Stable", member_count=1),
        event("holed", 1, "02:05", "RECORDS_MISSING", "Stable>Unknown", is_exact=False, is_state_exact=False),
    ])  # fmt: skip
    write_rows(folder, "partition_ownership", [
        owned(7, "h-1", "02:02", "02:05", group_id="holed", released_by="RECORDS_MISSING"),
        owned(7, "h-2", "02:12", group_id="holed", is_begin_open=True),
    ])  # fmt: skip
    notes = " ".join(Warehouse(folder).owner("holed", "orders", 7, at=at("02:08")).notes)
    assert "h-1, until 2026-11-20T02:05:00.000Z at least: from then on records of the group are missing." in notes
    assert "h-2, from 2026-11-20T02:12:00.000Z at the latest." in notes


def test_a_tombstone_that_a_later_copy_still_has_proves_absence_over_a_hole(tmp_path: Path):
    kept, lost = (holed_warehouse(tmp_path / str(has), has) for has in (True, False))
    assert not kept.offsets("removed", at=at("02:08"))
    assert [(one.committed_offset, one.is_exact) for one in lost.offsets("removed", at=at("02:08"))] == [(None, False)]


def write_waiting(folder: Path, group: str, end: str | None) -> None:
    """A commit at 31, which the cleaner has been at work at, that waits from 02:10:05 on; its marker is that at 60."""
    write_rows(folder, "pending_offsets", [
        {"cluster": "default", "group_id": group, "topic": "logs", "partition": 0, "log_partition": 3,
         "producer_id": 2, "producer_epoch": 0, "valid_from": at("02:10:05"), "valid_to": end and at(end),
         "is_exact": True, "pending_since": at("02:10:05"), "pending_since_offset": 31, "from_offset": 31,
         "to_offset": end and 60}
    ])  # fmt: skip


def test_a_tombstone_that_is_still_there_proves_absence_while_a_later_commit_waits(tmp_path: Path):
    found = {}
    for has_tombstone in (True, False):
        warehouse = holed_warehouse(folder := tmp_path / str(has_tombstone), has_tombstone)
        write_waiting(folder, "removed", "02:13")
        offsets = warehouse.offsets("removed", at=at("02:12"))
        found[has_tombstone] = [(one.committed_offset, one.is_exact) for one in offsets]
    assert found == {True: [], False: [(None, False)]}


def test_for_a_commit_that_still_waits_at_the_end_the_cleaner_has_removed_nothing(tmp_path: Path):
    warehouse = holed_warehouse(tmp_path / "wh", True)
    write_waiting(tmp_path / "wh", "waits", None)
    assert not warehouse.offsets("waits")
    assert not warehouse.offsets("waits", at=at("02:12"))
    assert [one.is_exact for one in warehouse.offsets("waits", at=at("02:08"))] == [False]


def test_a_diff_proves_no_offset_absent_that_a_commit_may_have_replaced_that_waited(tmp_path: Path):
    holed_warehouse(tmp_path / "wh", True)
    write_rows(tmp_path / "wh", "offset_history", [
        offset("logs", 2, 9, "02:13", group_id="waited", from_offset=60, record_offset=31, is_begin_open=True),
        offset("logs", 3, 9, "02:13", group_id="waited", from_offset=61),
    ])  # fmt: skip
    found = Warehouse(tmp_path / "wh").diff(at("02:12"), at("02:14"))
    assert {one.name: one.is_exact for one in found if one.group_id == "waited" and one.what == "offset"} == {
        "logs-2": False, "logs-3": True,
    }  # fmt: skip


def test_a_transaction_that_ended_behind_the_first_copy_hides_no_commit_that_waited(tmp_path: Path):
    """Producer 1 may have had a commit that the cleaner took before the copy up to 50 was made; producer 2 none."""
    warehouse = holed_warehouse(tmp_path / "wh", True)
    stable = {
        clock: [one.is_exact for one in warehouse.offsets("eos", at=at(clock), require_stable=True)]
        for clock in ("02:10:30", "02:12", "02:14")
    }
    assert stable == {"02:10:30": [False], "02:12": [True], "02:14": [True]}


def test_a_commit_that_waited_once_proves_nothing_of_the_time_of_one_that_waits(tmp_path: Path):
    """The cleaner may have taken the offset in force for the one at 30, whatever waited before the hole."""
    warehouse = holed_warehouse(tmp_path / "wh", True)
    write_rows(tmp_path / "wh", "pending_offsets", [
        {"cluster": "default", "group_id": "twice", "topic": "logs", "partition": 0, "log_partition": 3,
         "producer_id": 1, "producer_epoch": 0, "valid_from": at(start), "valid_to": at(end), "is_exact": True,
         "pending_since": at(start), "pending_since_offset": place, "from_offset": place, "to_offset": until}
        for start, end, place, until in (("02:01", "02:03", 5, 8), ("02:10:05", "02:13", 30, 60))
    ])  # fmt: skip
    [one] = warehouse.offsets("twice", at=at("02:12"))
    assert (one.committed_offset, one.is_exact) == (None, False)
    assert not list(warehouse.offsets("twice", at=at("02:14")))


def test_who_waited_for_longest_is_open_where_the_cleaner_may_have_taken_one(tmp_path: Path):
    warehouse = holed_warehouse(tmp_path / "wh", True)
    write_rows(tmp_path / "wh", "pending_offsets", [
        {"cluster": "default", "group_id": "eos", "topic": "logs", "partition": 1, "log_partition": 3,
         "producer_id": producer, "producer_epoch": 0, "valid_from": at(start), "valid_to": at(end),
         "pending_since": at(start), "from_offset": place, "to_offset": place + 5, "is_exact": True}
        for producer, start, end, place in ((1, "02:10:25", "02:11", 35), (2, "02:11:30", "02:13", 55))
    ])  # fmt: skip
    asked = (next(iter(warehouse.offsets("eos", at=at(clock), require_stable=True))) for clock in ("02:10:30", "02:12"))
    assert [(one.is_unstable, one.producer_id, one.is_exact) for one in asked] == [(True, 1, False), (True, 2, True)]


def test_no_offset_is_written_to_a_reset_file_that_is_not_on_record(warehouse: Warehouse, tmp_path: Path):
    from coordinator_replay.query.offsets import write_reset_file

    offsets, path = warehouse.offsets("commits", at=at("02:06")), tmp_path / "reset.csv"
    # The log does not show whether a transactional commit waited then.
    with pytest.raises(
        UsageError, match=r"logs:0,2 \(not on record\); logs:1 \(a transactional commit was pending, or"
    ):
        write_reset_file(offsets, path)
    assert write_reset_file(offsets, path, include_unproven=True).written == 1


def test_nobody_is_no_answer_where_owners_may_be_missing(warehouse: Warehouse):
    found = warehouse.owner("payments", "orders", 0, at=at("02:00"))
    assert found.is_exact and found.notes[0].startswith("No member owned it at that time.")
    with pytest.raises(UsageError, match="no owner of orders-9 in group 'payments' is on record"):
        warehouse.owner("payments", "orders", 9)
    with pytest.raises(UsageError, match="no committed offset of group 'payments' for topic 'nothing' is on record"):
        warehouse.offsets("payments", topics=["nothing"])


def test_the_cost_of_a_time_of_which_records_are_missing_is_at_least_so_much(warehouse: Warehouse):
    [head, *_] = warehouse.impact().total.sentences
    assert "at least 2 groups concerned, at least 3 rebalances" in head


def test_what_an_answer_stands_on(warehouse: Warehouse):
    basis = warehouse.groups(at=at("02:05")).basis
    assert basis is not None
    assert str(basis) == (
        "cluster default, log up to 2026-11-20T02:20:00Z; the past before 2026-11-20T02:10:20Z is incomplete"
    )
    assert str(warehouse.groups().basis) == "cluster default, log up to 2026-11-20T02:20:00Z"
    assert str(warehouse.timeline("payments").basis).endswith("; its past before 2026-11-20T02:10:20Z is incomplete")
    assert str(warehouse.timeline("payments", start=at("02:11")).basis).endswith("02:20:00Z")


def test_a_range_that_begins_before_the_log_is_told_where_the_log_begins(warehouse: Warehouse):
    begin = warehouse.coverage.first
    for answer in (warehouse.rebalances, warehouse.timeline):
        basis = str(answer("payments", start=begin - timedelta(days=30)).basis)
        assert basis.startswith(
            f"cluster default, log from {begin:%Y-%m-%dT%H:%M:%SZ} up to 2026-11-20T02:20:00Z; its past"
        )
        assert " from " not in str(answer("payments", start=begin).basis)


def test_the_age_of_a_log_needs_a_clock():
    basis = Basis(cluster="prod", log_end=at("02:20"), complete_since=None, is_complete=True)
    ages = {"2 d": timedelta(days=2, hours=5), "3 h": timedelta(hours=3), "1 min": timedelta(seconds=61)}
    for text, age in ages.items():
        assert basis.line(at("02:20") + age) == f"cluster prod, log up to 2026-11-20T02:20:00Z ({text} ago)"
    assert basis.line(at("02:19")) == str(basis), "a clock that is behind tells nothing"


def test_history_in_a_sentence(warehouse: Warehouse):
    known = warehouse._tables.completeness
    assert known.history_line() == (
        "History is complete since 2026-11-20T02:10:20Z in all 2 log partitions; "
        "60 of 105 earlier offsets were compacted away."
    )
    names, rows = (found := warehouse.sql(query="history-completeness")).columns, list(found)
    assert dict(zip(names, rows[0], strict=True))["what"] == "compacted before complete_since"
    assert dict(zip(names, rows[1], strict=True))["what"] == "nothing is missing"
    assert found.notes[0] == known.history_line()
    assert found.notes[1].startswith("Only log partitions 1, 3 were audited")


def test_a_whole_history_is_said_with_its_first_record(tmp_path: Path):
    notes = Warehouse(write_small_warehouse(tmp_path), "default").sql(query="history-completeness").notes
    assert notes[0] == (
        "History is complete in all 2 log partitions; no offset is missing. The first record is of "
        "2026-11-20T02:00:00.000Z."
    )


def test_saved_queries_say_what_is_at_least(warehouse: Warehouse):
    of_rebalances = ("flapping-groups", "downtime-by-cause", "rebalance-triggers", "alternating-subscriptions")
    for name in ("hot-committers", "what-fills-the-topic", "per-minute-metrics", *of_rebalances):
        assert "is_at_least" in warehouse.sql(query=name).columns
    assert busy_groups(warehouse, "") == {"payments": True, "removed": True}, "earlier commits may have been removed"
    assert busy_groups(warehouse, "2026-11-20T02:10:21") == {"payments": False}, "nothing is missing there"


def busy_groups(warehouse: Warehouse, start: str) -> dict[str, bool]:
    """The groups that committed from a time on, and whether more often than the answer counts."""
    busy = warehouse.sql(query="hot-committers", **({"from": start} if start else {}))
    group, is_at_least = busy.columns.index("group_id"), busy.columns.index("is_at_least")
    return {row[group]: row[is_at_least] for row in busy}


def test_no_reset_is_claimed_where_members_may_be_missing(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "group_timeline", [
        event("living", 0, "02:05", "GROUP_DISCOVERED", ">Empty", member_count=0, is_state_exact=False, log_offset=10),
    ])  # fmt: skip
    write_rows(folder, "offset_history", [
        offset("logs", 0, 9, "02:06", "02:07", group_id="living", group_state="Unknown", from_offset=20),
        offset("logs", 0, 3, "02:07", group_id="living", group_state="Unknown", from_offset=30, previous_offset=9),
        offset("logs", 0, 3, "02:07", group_id="copied", group_state="Empty", from_offset=40, is_begin_open=True),
    ])  # fmt: skip
    assert [row[0] for row in Warehouse(folder).sql(query="manual-offset-changes")] == []


def test_a_warehouse_of_before_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = write_small_warehouse(tmp_path)
    # The release that raised the version was the first to keep what is proven.
    monkeypatch.setattr("coordinator_replay.store.opening.SCHEMA_VERSION", SCHEMA_VERSION + 1)
    with pytest.raises(WarehouseError, match=r"older release.*audit the dump again into a new warehouse"):
        Warehouse(folder).groups()


def partition(*ranges: CompleteRange, gaps: tuple[tuple[int, int], ...] = ()) -> LogPartition:
    return LogPartition(
        log_partition=0,
        first_offset=0,
        end_offset=100,
        end_timestamp=at("03:00"),
        complete_from_offset=None,
        complete_since=None,
        records=50,
        missing_offsets=50,
        ranges=ranges,
        gaps=gaps,
    )


def part(first: int, end: int, since: str, until: str, exact: int, exact_since: str) -> CompleteRange:
    return CompleteRange(
        from_offset=first,
        to_offset=end,
        from_timestamp=at(since),
        to_timestamp=at(until),
        exact_from_offset=exact,
        exact_from_timestamp=at(exact_since),
    )


def test_absence_is_proven_within_complete_ranges():
    two = partition(part(10, 20, "01:00", "01:30", 15, "01:10"), part(50, 100, "02:00", "03:00", 60, "02:30"))
    assert two.proven_from(at("00:30")) is None
    assert two.proven_from(at("01:05")) == 15
    assert not two.proves_absence(at("01:05"), 14), "a record below 15 may have replaced an earlier one of its key"
    assert two.proves_absence(at("01:05"), 15)
    assert two.proves_absence(at("01:05"), None)
    assert two.proven_from(at("01:30")) is None, "the hole between two nights"
    assert two.proven_from(at("02:15")) == two.proven_from(LATEST) == 60
    assert not two.is_complete_at(at("01:05"))
    assert two.is_complete_at(at("01:20"))
    assert not two.is_complete_at(at("02:15"))
    assert two.is_complete_at(LATEST)
    assert two.has_hole_between(at("01:20"), at("02:15")) and not two.has_hole_between(at("02:10"), at("02:15"))


def test_a_gap_proves_nothing_behind_it():
    torn = partition(
        part(0, 20, "01:00", "01:30", 0, "01:00"), part(30, 100, "02:00", "03:00", 30, "02:00"), gaps=((20, 30),)
    )
    assert torn.proven_from(at("01:20")) == 0
    assert torn.proven_from(LATEST) is None


def test_a_log_whose_records_carry_no_times_is_proven_at_its_end():
    timeless = CompleteRange(
        from_offset=5,
        to_offset=9,
        from_timestamp=None,
        to_timestamp=None,
        exact_from_offset=9,
        exact_from_timestamp=None,
    )
    assert partition(timeless).proven_from(LATEST) == 9
    assert partition(timeless).proven_from(datetime(2026, 1, 1, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("group", "hashed"),
    [("range", 108280125), ("polygenelubricants", 0), ("z\U0001f600", 122 * 31 * 31 + 0xD83D * 31 + 0xDE00)],
)
def test_the_partition_of_a_group_is_java_s_hash(group: str, hashed: int):
    """The second one's hash is the smallest integer, of which ``Utils.abs`` makes 0; the third has two UTF-16 units."""
    assert log_partition_of(group, 1_000_003) == hashed % 1_000_003


def test_the_number_of_partitions_that_fits_every_group():
    groups = [(name := f"group-{number}", log_partition_of(name, 50)) for number in range(12)]
    assert fitting_count(groups, 49) == 50
    assert fitting_count(groups[:1], 49) is None
    assert fitting_count([*groups, ("strange", (log_partition_of("strange", 50) + 1) % 50)], 49) is None


def test_a_group_whose_log_partition_was_not_audited_is_not_said_to_be_missing(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "topics", [
        {"cluster": "default", "topic_id": "x", "topic": "__consumer_offsets", "partition_count": 50},
    ])  # fmt: skip
    asked = Warehouse(folder)
    number = log_partition_of("elsewhere", 50)
    message = f"'elsewhere' is not in this warehouse: audits have read no record of its log partition {number}"
    with pytest.raises(UsageError, match=message):
        asked.describe("elsewhere")
    assert any("no record of 48 of the 50 partitions of __consumer_offsets" in note for note in asked.groups().notes)
