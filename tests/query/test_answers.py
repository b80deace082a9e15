"""Answers as values; how they print is in tests/cli."""

import re
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coordinator_replay.api.warehouse import Warehouse
from coordinator_replay.cli.main import main
from coordinator_replay.errors import InputError, UsageError
from coordinator_replay.query import offset_changes
from coordinator_replay.query.answers.rebalances import why_at
from coordinator_replay.query.describe import coordinator_of, describe_at, inherited_note
from coordinator_replay.query.diff import Side, changes_between
from coordinator_replay.query.end_offsets import read_end_offsets
from coordinator_replay.query.expired import expired_offsets
from coordinator_replay.query.findings import findings_of
from coordinator_replay.query.groups import group_at, group_names, groups_at
from coordinator_replay.query.hold_ups import hold_ups
from coordinator_replay.query.impact import impact_of
from coordinator_replay.query.offsets import offsets_at, offsets_before_removal, with_lag, write_reset_file
from coordinator_replay.query.owner import owners_at
from coordinator_replay.query.partitions import topic_partitions
from coordinator_replay.query.rebalances import rebalances_at, rebalances_of
from coordinator_replay.query.removed import deleted_groups, removed_offsets
from coordinator_replay.query.sql import run_sql
from coordinator_replay.query.tables import Tables
from coordinator_replay.query.timeline import member_intervals_of, timeline_of
from coordinator_replay.query.who import EVERYONE
from tests.nightly import rest_at_night
from tests.query.small_warehouse import (
    RETENTION_MS,
    SPARED,
    at,
    event,
    history,
    member,
    offset,
    owned,
    ownership,
    write_rows,
    write_small_warehouse,
)


def test_a_group_is_what_its_last_event_up_to_the_moment_says(warehouse: Tables):
    states = [group_at(warehouse, "payments", at(clock)).state for clock in ("02:00", "02:00:01", "02:09:59", "02:10")]
    assert states == ["Assigning", "Reconciling", "Stable", "Assigning"]


def test_classic_groups_have_the_protocol_of_their_own_record(warehouse: Tables):
    stable, empty = (group_at(warehouse, "legacy", at(clock)) for clock in ("02:02", "02:05"))
    assert (stable.state, stable.protocol_type, stable.protocol) == ("Stable", "consumer", "range")
    assert (empty.state, empty.protocol_type, empty.protocol) == ("Empty", "consumer", None)


def test_deleted_group_is_gone_from_the_moment_of_its_deletion(warehouse: Tables):
    assert "legacy" in {group.group_id for group in groups_at(warehouse, at("02:05:59"))}
    assert "legacy" not in {group.group_id for group in groups_at(warehouse, at("02:06"))}
    with pytest.raises(UsageError, match=r"'legacy' does not exist at 2026-11-20T02:06:00.000Z.* was deleted at"):
        group_at(warehouse, "legacy", at("02:06"))


def test_a_group_of_which_only_missing_records_are_known_is_said_not_to_exist(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    complete = event("gone", 0, "02:05", "RECORDS_COMPLETE", "Unknown>Dead", is_exact=False)
    write_rows(folder, "group_timeline", [complete])
    with pytest.raises(UsageError, match=r"group 'gone' does not exist at 2026-11-20T02:06:00.000Z, and was deleted"):
        group_at(Tables(str(folder)), "gone", at("02:06"))


def test_groups_that_only_hold_offsets_stored_or_pending_are_empty_classic_groups(warehouse: Tables):
    for name, since in (("simple", "02:03"), ("txn-only", "02:18")):
        assert name not in {group.group_id for group in groups_at(warehouse, at(since) - timedelta(seconds=1))}
        group = group_at(warehouse, name, at(since))
        assert (group.group_type, group.protocol_type, group.state) == ("classic", "", "Empty")


def test_groups_are_chosen_by_type_and_state_in_any_case(warehouse: Tables):
    assert [group.group_id for group in groups_at(warehouse, types=["CONSUMER"])] == ["payments"]
    assert [group.group_id for group in groups_at(warehouse, states=["empty"])] == ["simple", "txn-only"]
    assert groups_at(warehouse, types=["consumer"], states=["Empty"]) == []


def test_clusters_do_not_mix(folder: Path):
    other = Tables(str(folder), "other")
    assert [(group.group_id, group.group_type) for group in groups_at(other)] == [("payments", "share")]
    assert [member.member_id for member in describe_at(other, "payments").members] == ["m-9"]
    assert [offset.committed_offset for offset in offsets_at(other, "payments")] == [999]
    assert [found.cause for found in rebalances_of(other)] == ["MEMBER_LEAVE"]
    assert [found.finding_id for found in findings_of(other)] == ["f4"]
    assert [found.committed_offset for found in expired_offsets(other)] == [1]
    assert group_names(other) == ["payments"]


def test_member_owns_what_it_has_not_given_up_yet(warehouse: Tables):
    first, second = describe_at(warehouse, "payments", at("02:10:10")).members
    assert [str(topic) for topic in first.current_assignment] == ["orders:0,1"]
    assert [str(topic) for topic in first.pending_revocation] == ["orders:1"]
    assert [str(topic) for topic in first.target_assignment or ()] == ["orders:0"]
    assert (first.partition_count, second.partition_count) == (2, 0)


def test_intervals_of_members_are_half_open(warehouse: Tables):
    epochs = [
        describe_at(warehouse, "payments", at(clock)).members[0].member_epoch for clock in ("02:00:01", "02:00:02")
    ]
    assert epochs == [0, 2]


def test_assignor_is_the_one_most_members_ask_for_else_the_brokers_default(warehouse: Tables):
    assert describe_at(warehouse, "payments").group.assignor == "range"
    assert describe_at(warehouse, "payments", at("02:05")).group.assignor == "uniform"
    assert describe_at(warehouse, "legacy", at("02:03")).group.assignor == "range"
    assert describe_at(warehouse, "simple").group.assignor is None


def test_unknown_group_names_the_nearest_and_what_is_covered(warehouse: Tables):
    elsewhere = "only log partitions 1, 3 were audited, and the partition count of __consumer_offsets is not known"
    with pytest.raises(UsageError, match=rf"group 'payment' is not .*: {elsewhere}; .*; did you mean 'payments'"):
        describe_at(warehouse, "payment")


def test_offsets_are_told_whether_or_not_anybody_consumes_the_topic(warehouse: Tables):
    told = {
        (found.topic, found.partition): found.committed_offset
        for found in offsets_at(warehouse, "payments", at("02:05"))
    }
    assert told == {("audit", 0): 7, ("orders", 0): 100, ("orders", 1): 90}


def test_offsets_at_any_moment_are_those_of_the_intervals_that_hold_it(warehouse: Tables):
    own = [row for row in history() if (row["cluster"], row["group_id"]) == ("default", "payments")]
    edges = {moment for row in own for moment in (row["valid_from"], row["valid_to"]) if moment is not None}
    for moment in sorted({edge + timedelta(milliseconds=step) for edge in edges for step in (-1, 0, 1)}):
        expected = Counter(
            (row["topic"], row["partition"], row["committed_offset"])
            for row in own
            if row["valid_from"] <= moment and (row["valid_to"] is None or moment < row["valid_to"])
        )
        told = offsets_at(warehouse, "payments", moment)
        assert Counter((found.topic, found.partition, found.committed_offset) for found in told) == expected


def test_partition_is_unstable_while_a_transactional_commit_of_it_is_pending(warehouse: Tables):
    def unstable(clock: str) -> set[int]:
        found = offsets_at(warehouse, "payments", at(clock), topics=["orders"], require_stable=True)
        return {one.partition for one in found if one.is_unstable and one.committed_offset is None}

    assert [unstable(clock) for clock in ("02:12:59", "02:13", "02:14", "02:15")] == [set(), {1}, set(), {0}]


def test_partition_with_only_a_pending_commit_is_not_told(warehouse: Tables):
    assert {found.partition for found in offsets_at(warehouse, "payments", require_stable=True)} == {0, 1}
    assert offsets_at(warehouse, "txn-only", require_stable=True) == []


def test_settled_pending_commits_count_only_while_they_were_pending(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    settled = offset("orders", 0, 130, "02:05", "02:06", producer_id=9, ended_by="ABORT")
    write_rows(folder, "pending_offsets", [settled])
    warehouse = Tables(str(folder))
    for clock, is_unstable in (("02:04:59", False), ("02:05", True), ("02:06", False)):
        told = offsets_at(warehouse, "payments", at(clock), require_stable=True)
        assert [one.is_unstable for one in told if (one.topic, one.partition) == ("orders", 0)] == [is_unstable]


def test_unknown_topic_names_the_nearest_that_the_group_had(warehouse: Tables):
    with pytest.raises(UsageError, match="never committed an offset of topic 'order': did you mean 'orders'"):
        offsets_at(warehouse, "payments", topics=["order"])


def test_reset_file_has_the_lines_that_kafkas_tool_takes(warehouse: Tables, tmp_path: Path):
    path = tmp_path / "reset.csv"
    assert write_reset_file(offsets_at(warehouse, "payments", at("02:05")), path).written == 3
    assert path.read_text() == "audit,0,7\norders,0,100\norders,1,90\n"
    assert write_reset_file(offsets_at(warehouse, "payments", require_stable=True), path).written == 1
    assert path.read_text() == "orders,1,200\n"


def test_reset_file_has_no_offset_with_a_pending_commit_unless_asked_for(warehouse: Tables, tmp_path: Path):
    path, offsets = tmp_path / "reset.csv", offsets_at(warehouse, "payments")
    result = write_reset_file(offsets, path)
    assert result.written == 1
    assert str(result) == "orders:0 (a transactional commit was pending, or may have been)"
    assert path.read_text() == "orders,1,200\n"
    assert write_reset_file(offsets, path, include_unproven=True).written == 2
    assert path.read_text() == "orders,0,150\norders,1,200\n"
    assert [(one.partition, one.is_stable) for one in offsets] == [(0, False), (1, True)]


GONE = {"group_id": "gone", "ended_by": "GROUP_DELETED"}


def before_removal(folder: Path, *topics: str, until: str | None = None, **asked: Any) -> dict[tuple[str, int], Any]:
    rows = offsets_before_removal(
        Tables(str(folder)), "gone", None if until is None else at(until), topics=topics, **asked
    )
    return {(row.topic, row.partition): row for row in rows}


def test_removed_offsets_are_each_of_their_own_last_removal(tmp_path: Path):
    """Offsets of one topic expired, one within the second of another, and later the group was deleted."""
    folder = write_small_warehouse(tmp_path)
    late = at("02:06") + timedelta(milliseconds=800)
    write_rows(folder, "offset_history", [
        offset("audit", 0, 1, "02:01", "02:04", **GONE | {"ended_by": "EXPIRED"}),
        offset("logs", 0, 2, "02:02", "02:06", **GONE), offset("orders", 3, 3, "02:03", None, **GONE, valid_to=late),
        offset("moved", 0, 4, "02:03", "02:09", **GONE | {"ended_by": "GROUP_MOVED"}),
        offset("hole", 0, 5, "02:03", "02:09", **GONE | {"ended_by": "RECORDS_MISSING"}),
    ])  # fmt: skip
    found = before_removal(folder)
    assert {key: (row.committed_offset, row.removed_at) for key, row in found.items()} == {
        ("audit", 0): (1, at("02:04")), ("logs", 0): (2, at("02:06")), ("orders", 3): (3, late),
    }  # fmt: skip
    assert {row.is_committed_again for row in found.values()} == {False}
    assert [*before_removal(folder, until="02:05")] == [*before_removal(folder, "audit")] == [("audit", 0)]
    assert [*before_removal(folder, "orders:3")] == [("orders", 3)]
    assert not before_removal(folder, until="02:03") and not before_removal(folder, "moved")
    path = tmp_path / "reset.csv"
    assert write_reset_file(found.values(), path).written == 3
    assert path.read_text() == "audit,0,1\nlogs,0,2\norders,3,3\n"


def test_the_offset_before_a_removal_is_the_last_even_in_the_same_millisecond(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "offset_history", [
        offset("orders", 0, 10, "02:03", "02:05", group_id="gone", to_offset=20),
        offset("orders", 0, 20, "02:05", "02:05", **GONE),
        # After an election, clocks may differ: the later removal has the earlier time.
        offset("logs", 0, 30, "02:08", "02:09", **GONE), offset("logs", 0, 90, "02:06", "02:07", **GONE),
    ])  # fmt: skip
    found = before_removal(folder)
    assert {key: row.committed_offset for key, row in found.items()} == {("logs", 0): 90, ("orders", 0): 20}
    assert all(row.is_exact and row.is_stable for row in found.values())
    lost = removed_offsets(Tables(str(folder)), "gone")
    assert [one.ended_at for one in lost if one.topic == "logs"] == [at("02:07")]


def test_an_offset_that_was_committed_again_is_told_in_its_removed_value(tmp_path: Path):
    folder, path = write_small_warehouse(tmp_path), tmp_path / "reset.csv"
    write_rows(folder, "offset_history", [
        offset("orders", 0, 1007, "02:01", "02:04", **GONE), offset("orders", 0, 1500, "02:05", group_id="gone"),
        offset("orders", 1, 9, "02:01", "02:04", **GONE),
    ])  # fmt: skip
    answer = Warehouse(folder).offsets("gone", before_removal=True)
    assert [(row.committed_offset, row.is_committed_again) for row in answer] == [(1007, True), (9, False)]
    assert "At the end of the log, orders:0 had a committed offset again." in answer.notes
    assert str(write_reset_file(answer, path)) == "orders:0 (has a committed offset again, or may have one)"
    assert path.read_text() == "orders,1,9\n"
    assert write_reset_file(answer, path, include_unproven=True).written == 2
    assert write_reset_file(answer, path, include_live=True).written == 2
    # Judged at the end of the log, because the file is for the group as it is now.
    assert before_removal(folder, until="02:04:30")["orders", 0].is_committed_again


def test_a_commit_that_was_pending_at_the_removal_makes_the_offset_unstable(tmp_path: Path):
    """Partition 1 had a commit that its marker put in force after the removal; 2 had one that was over before."""
    folder, mine = write_small_warehouse(tmp_path), {"group_id": "gone", "producer_id": 7, "is_transactional": True}
    write_rows(folder, "offset_history", [offset("orders", n, 10 + n, "02:01", "02:05", **GONE) for n in range(3)])
    write_rows(folder, "offset_history", [
        offset("orders", 1, 70, "02:06", group_id="gone", is_transactional=True, record_offset=50),
    ])  # fmt: skip
    write_rows(folder, "pending_offsets", [
        offset("orders", 0, 30, "02:03", "02:05", **mine, to_offset=60, pending_since=at("02:03")),
        offset("orders", 2, 31, "02:03", "02:04", **mine, to_offset=40, pending_since=at("02:03")),
    ])  # fmt: skip
    found = before_removal(folder)
    assert [row.is_stable for row in found.values()] == [False, False, True]
    asked = before_removal(folder, require_stable=True)
    assert [(row.committed_offset, row.producer_id) for row in asked.values()] == [(None, 7), (None, None), (12, None)]
    notes = Warehouse(folder).offsets("gone", before_removal=True).notes
    assert "A transactional commit of orders:0,1 was pending just before the removal, or may have been." in notes


def test_nothing_to_reset_to_writes_no_file(warehouse: Tables, tmp_path: Path):
    with pytest.raises(UsageError, match="no committed offset to write"):
        write_reset_file(offsets_at(warehouse, "txn-only"), tmp_path / "reset.csv")
    assert not (tmp_path / "reset.csv").exists()
    with pytest.raises(UsageError, match="can't be written"):
        write_reset_file(offsets_at(warehouse, "payments"), tmp_path / "no such folder" / "reset.csv")


FORMS = {
    "csv": "orders,0,300\norders,1,150\n",
    "headed": "partition,topic,offset\n0,orders,300\n\n1,orders,150\n",
    "jsonl": '{"topic":"orders","partition":0,"offset":300}\n\n{"topic":"orders","partition":1,"offset":150}\n',
}


@pytest.mark.parametrize("form", FORMS)
def test_lag_is_told_where_end_offsets_are_given_and_nowhere_else(warehouse: Tables, tmp_path: Path, form: str):
    path = tmp_path / "ends"
    path.write_text(FORMS[form])
    ends = read_end_offsets(path)
    assert ends == {("orders", 0): 300, ("orders", 1): 150}
    told = with_lag(offsets_at(warehouse, "payments", at("02:05")), ends)
    assert [(found.topic, found.partition, found.lag) for found in told] == [
        ("audit", 0, None),
        ("orders", 0, 200),
        ("orders", 1, 60),
    ]
    assert [found.lag for found in with_lag(offsets_at(warehouse, "payments"), ends)] == [150, -50]


def test_of_several_end_offsets_the_last_up_to_the_moment_counts(tmp_path: Path):
    path = tmp_path / "ends.csv"
    path.write_text("t,0,1\n" + "".join(f"t,0,{one},2026-11-20T02:{one}\n" for one in (30, 20, 40)) + "u,0,5\n")
    assert read_end_offsets(path, at("02:35")) == {("t", 0): 30, ("u", 0): 5}
    assert read_end_offsets(path, at("02:00")) == {("t", 0): 1, ("u", 0): 5}
    assert read_end_offsets(path) == {("t", 0): 40, ("u", 0): 5}


@pytest.mark.parametrize(
    "text",
    [
        "a,0,1\na,b,2\n",
        "a,0,1\na,0\n",
        '{"topic":"a","partition":0,"offset":1}\n{"topic":"a"}\n',
        '{"topic":"a","partition":0,"offset":1}\n{',
    ],
)
def test_a_bad_line_of_end_offsets_is_named(tmp_path: Path, text: str):
    path = tmp_path / "ends"
    path.write_text(text)
    with pytest.raises(InputError, match=r"ends, line [12]: topic, partition, offset"):
        read_end_offsets(path)


def test_owner_is_told_by_topic_name_or_id_with_its_host_then(warehouse: Tables):
    by_name = owners_at(warehouse, "payments", "orders", 1, at("02:05"))
    assert by_name == owners_at(warehouse, "payments", by_name.owners[0].topic_id or "", 1, at("02:05"))
    assert [(one.member_id, one.client_host) for one in by_name.owners] == [("m-1", "/10.0.0.1")]
    assert owners_at(warehouse, "payments", "orders", 1).owners[0].member_id == "m-2"


def test_where_nobody_owned_a_partition_the_owners_around_are_named(warehouse: Tables):
    hole = owners_at(warehouse, "payments", "orders", 1, at("02:10:15"))
    assert hole.owners == ()
    assert "last owner was m-1, until 2026-11-20T02:10:15.000Z (REVOKED)" in (hole.hint or "")
    assert "next one is m-2, from 2026-11-20T02:10:20.000Z" in (hole.hint or "")
    assert owners_at(warehouse, "payments", "orders", 1, at("02:10:20")).owners[0].member_id == "m-2"


def write_holes(folder: Path, missing: str, complete: str) -> Tables:
    """A group of which records are missing after m-1 revoked a partition and before m-2 takes it."""
    write_rows(folder, "group_timeline", [
        event("holes", 0, "02:00", "MEMBER_JOINED", ">Stable"),
        event("holes", 1, "02:01", "MEMBER_RECONCILED", "Stable>Stable"),
        event("holes", 2, missing, "RECORDS_MISSING", "Stable>Unknown", is_exact=False, is_state_exact=False),
        event("holes", 3, complete, "RECORDS_COMPLETE", "Unknown>Empty", is_exact=False),
        event("holes", 4, "02:04", "MEMBER_JOINED", "Empty>Stable"),
    ])  # fmt: skip
    write_rows(folder, "partition_ownership", [
        owned(0, "m-1", "02:00", "02:01", group_id="holes", from_offset=100, to_offset=101),
        owned(0, "m-2", "02:04", group_id="holes", from_offset=104),
    ])  # fmt: skip
    return Tables(str(folder))


def test_the_owners_around_are_those_on_record_where_the_group_was_open_in_between(tmp_path: Path):
    warehouse = write_holes(write_small_warehouse(tmp_path), "02:02", "02:03")
    before = owners_at(warehouse, "holes", "orders", 0, at("02:01:30")).hint or ""
    assert "No member owned it at that time. The last owner was m-1" in before
    assert "The next one on record is m-2" in before
    behind = owners_at(warehouse, "holes", "orders", 0, at("02:03:30")).hint or ""
    assert "No member owned it at that time. The last owner on record was m-1" in behind
    assert "The next one is m-2" in behind


def test_the_owners_around_are_those_on_record_where_the_clock_turned_back_in_between(tmp_path: Path):
    warehouse = write_holes(write_small_warehouse(tmp_path), "00:30", "00:45")
    behind = owners_at(warehouse, "holes", "orders", 0, at("02:01:30")).hint or ""
    assert "No member owned it at that time. The last owner on record was m-1" in behind
    assert "The next one is m-2" in behind


def test_shared_partitions_have_all_their_owners(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "partition_ownership", [owned(0, "m-3", "02:03")])
    assert len(ownership()) == 3
    told = owners_at(Tables(str(folder)), "payments", "orders", 0)
    assert [one.member_id for one in told.owners] == ["m-1", "m-3"]


def test_owners_of_a_range_say_how_long_nobody_owned_a_partition_and_whether_two_did(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)

    def told(*partitions: str, group: str = "payments") -> str:
        asked = ["owner", group, "orders", *partitions, "--from", "02:00", "--warehouse", str(folder)]
        result = CliRunner().invoke(main, asked)
        assert result.exit_code == 0, result.output
        return result.stderr

    alone = "No two members owned a partition at once, by the coordinator's records.\n"
    known = "Without an owner between two owners: 5,000 ms in all, 5,000 ms at the longest. "
    assert known + alone in told("1")
    assert "owned a partition at once" not in told("0")
    write_rows(folder, "partition_ownership", [
        owned(0, "m-1", "02:01", "02:02", released_by="MEMBER_LEFT", group_id="more"),
        owned(0, "m-2", "02:02", "02:04", unowned_ms=700, group_id="more"),
        owned(0, "m-3", "02:05", group_id="more"),
        owned(1, "m-1", "02:01", "02:05", unowned_ms=0, group_id="more"),
        owned(1, "m-2", "02:04", group_id="more"),
    ])  # fmt: skip
    write_rows(folder, "group_timeline", [event("more", 0, "02:01", "GROUP_CREATED", ">Stable", member_count=1)])
    together = told(group="more")
    assert (
        "between two owners: at least 700 ms in all, 700 ms at the longest. For 1 handover (no UNOWNED-MS)" in together
    )
    assert together.count("1 time two members owned a partition at once: sql --query two-owners shows them.") == 1
    assert alone not in together
    # One member keeps a partition while others have it, one after the other.
    write_rows(folder, "partition_ownership", [
        owned(0, "m-1", "02:01", "02:08", group_id="kept"),
        owned(0, "m-2", "02:02", "02:04", group_id="kept"),
        owned(0, "m-3", "02:05", "02:06", group_id="kept"),
        owned(0, "m-2", "02:08", group_id="kept"),
    ])  # fmt: skip
    write_rows(folder, "group_timeline", [event("kept", 0, "02:01", "GROUP_CREATED", ">Stable", member_count=1)])
    assert "2 times two members owned a partition at once" in told(group="kept")
    # A time without members counts as no time without an owner, and the sentence says so.
    write_rows(folder, "partition_ownership", [
        owned(0, "m-1", "02:01", "02:02", released_by="GROUP_EMPTIED", unowned_ms=0, group_id="idle"),
        owned(0, "m-2", "02:03", group_id="idle"),
    ])  # fmt: skip
    write_rows(folder, "group_timeline", [event("idle", 0, "02:01", "GROUP_CREATED", ">Stable", member_count=1)])
    idle = told(group="idle")
    assert "No time without an owner between two owners is on record while the group had members." in idle
    assert "Pauses within a rebalance are not in it: rebalances shows how long each took." in idle
    assert "After its last member had left, the group owned nothing for 60,000 ms, which UNOWNED-MS does not" in idle


def test_describe_says_where_the_positions_of_a_share_group_are(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "group_timeline", [
        event("sharers", 0, "02:01", "GROUP_CREATED", ">Empty", group_type="share", member_count=0)
    ])  # fmt: skip
    where = "'sharers' is a share group: its offsets are in __share_group_state, which is not in this log"
    answers = Warehouse(folder)
    assert f"{where}." in answers.describe("sharers").notes
    assert any(note.startswith(where) for note in answers.offsets("sharers").notes)
    assert not any("share group" in note for note in answers.describe("payments").notes)


def test_a_group_that_did_not_exist_yet_is_on_record_up_to_the_end_if_it_is_still_there(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "group_timeline", [event("late", 0, "02:05", "GROUP_CREATED", ">Empty", member_count=0)])
    until = r"on record from 2026-11-20T02:05:00.000Z up to the end of the log"
    with pytest.raises(UsageError, match=until):
        group_at(Tables(str(folder)), "late", at("02:04"))
    with pytest.raises(UsageError, match=r"on record from \S+ to \S+, and was deleted"):
        group_at(Tables(str(folder)), "legacy", at("02:07"))


def test_a_timeline_says_which_events_come_from_other_sources_than_the_log(tmp_path: Path):
    elected = {"cluster": "default", "log_partition": 3, "leader_epoch": 1, "is_exact": True, "broker": 2}
    before = elected | {"leader_epoch": 0, "elected_at": at("01:00"), "broker": 1}
    changes = [before, elected | {"elected_at": at("02:30")}]
    write_small_warehouse(tmp_path, coordinator_changes=changes)
    late = "1 event after the end of the log is from brokers' logs or cluster metadata."
    answers = Warehouse(tmp_path)
    assert late in answers.timeline("payments").notes
    assert late not in answers.timeline("payments", end="02:20").notes


def test_a_partition_nobody_ever_owned_is_refused_with_those_that_were(warehouse: Tables):
    with pytest.raises(UsageError, match="partition 9 of 'orders'; the tables have 0 to 1"):
        owners_at(warehouse, "payments", "orders", 9)
    with pytest.raises(UsageError, match="a partition of 'ordres': did you mean 'orders'"):
        owners_at(warehouse, "payments", "ordres", 0)
    with pytest.raises(UsageError, match="group 'nobody' is not in this warehouse"):
        owners_at(warehouse, "nobody", "orders", 0)


def test_groups_that_only_stored_offsets_are_gone_with_the_last_of_them(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "offset_history", [
        offset("orders", 0, 1, "02:01", "02:09", group_id="gone", ended_by="EXPIRED", to_offset=9,
               ended_confidence="certain"),
        offset("orders", 1, 2, "02:01", "02:05", group_id="gone", ended_by="DELETED", to_offset=5),
        offset("orders", 0, 3, "02:01", "02:05", group_id="back", ended_by="EXPIRED", to_offset=5),
        offset("orders", 0, 4, "02:10", group_id="back"),
    ])  # fmt: skip
    warehouse = Tables(str(folder))
    found = {one.group_id: one for one in deleted_groups(warehouse)}
    assert set(found) == {"gone", "legacy"}
    gone = found["gone"]
    assert (gone.reason, gone.confidence, gone.deleted_at) == ("EXPIRED", "certain", at("02:09"))
    assert (gone.offsets_removed, gone.last_member_at) == (2, None)
    assert {one.group_id for one in deleted_groups(warehouse, at("02:06"))} == {"back", "legacy"}


def test_when_a_group_was_deleted_is_open_where_only_its_absence_is_proven(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "group_timeline", [
        event("cut", 0, "02:02", "GROUP_CREATED", ">Stable", member_count=1),
        event("cut", 1, "02:05", "RECORDS_MISSING", "Stable>Unknown", is_exact=False, is_state_exact=False),
        event("cut", 2, "02:12", "RECORDS_COMPLETE", "Unknown>Dead", is_exact=False),
    ])  # fmt: skip
    write_rows(folder, "offset_history", [
        offset("logs", 0, 1, "02:01", "02:05", group_id="held", ended_by="RECORDS_MISSING", to_offset=9),
    ])  # fmt: skip
    warehouse = Tables(str(folder))
    found = {one.group_id: (one.deleted_at, one.absent_from, one.is_exact) for one in deleted_groups(warehouse)}
    assert found["cut"] == (None, at("02:12"), False)
    assert found["held"] == (None, None, False)
    assert found["legacy"] == (at("02:06"), None, True)
    seen = (
        r"on record from 2026-11-20T02:02:00.000Z to 2026-11-20T02:02:00.000Z, and was deleted before 2026-11-20T02:12"
    )
    with pytest.raises(UsageError, match=seen):
        group_at(warehouse, "cut")


def test_removed_offsets_are_told_once_by_reason_unless_committed_again(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    why = {"group_id": "simple", "ended_by": "DELETED", "ended_confidence": "likely", "ended_evidence": ["too young"],
           "ended_alternatives": ["EXPIRED"]}  # fmt: skip
    write_rows(folder, "offset_history", [offset("old", place, place, "02:01", "02:05", **why) for place in range(4)])
    write_rows(folder, "offset_history", [offset("old", 3, 50, "02:06", group_id="simple")])
    (found,) = removed_offsets(Tables(str(folder)), "simple")
    assert str(found) == (
        "old:0-2 deleted (DeleteOffsets, or the topic was deleted) at 2026-11-20T02:05:00.000Z, likely: too young. "
        "Could also be: EXPIRED"
    )
    assert [list(one.partitions) for one in removed_offsets(Tables(str(folder)), "simple", at("02:05:30"))] == [
        [0, 1, 2, 3]
    ]


def test_history_of_offsets_is_bounded_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(offset_changes, "MOST_CHANGES", 2)
    warehouse = Tables(str(write_small_warehouse(tmp_path)))
    told = offset_changes.offset_changes(warehouse, "payments", "orders")
    assert [(one.partition, one.committed_offset) for one in told] == [(0, 150), (1, 200)]
    assert warehouse.notes == ["Only the latest 2 commits are shown: narrow the time range"]


@pytest.mark.parametrize(("topic", "partitions"), [("orders:0,1", [0, 1]), ("orders:1", [1]), ("orders", [0, 1, 2])])
def test_history_has_the_partitions_that_the_topic_names(tmp_path: Path, topic: str, partitions: list[int]):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "offset_history", [offset("orders", 2, 7, "02:06")])
    told = Warehouse(folder).offset_history("payments", topic)
    assert sorted({row.partition for row in told}) == partitions


def test_history_refuses_a_partition_without_commits(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    with pytest.raises(UsageError, match="orders"):
        Warehouse(folder).offset_history("payments", "orders:8,9")


@pytest.mark.parametrize("asked", ["orders:0,77", "orders:99999999999", f"orders:0,{2**40}", f"orders:{10**40}"])
def test_history_refuses_each_partition_without_commits(warehouse: Tables, folder: Path, asked: str):
    with pytest.raises(UsageError, match=f"never committed an offset of orders-{re.split('[:,]', asked)[-1]}: it "):
        Warehouse(folder).offset_history("payments", asked)


def test_history_notes_a_partition_without_commits_in_the_time_range(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "offset_history", [offset("orders", 2, 7, "02:18"), offset("orders", 3, 8, "02:18")])
    answer = Warehouse(folder).offset_history("payments", "orders:0,2,3", end=at("02:17"))
    assert {row.partition for row in answer} == {0}
    assert list(answer.notes) == ["No commit of orders:2,3 is among these commits."]


def test_a_time_without_a_group_has_all_rebalances_in_progress_or_the_last_before(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    shared = {"cluster": "default", "group_type": "consumer", "epoch": 9, "is_exact": True}
    write_rows(folder, "rebalances", [
        {"rebalance_id": "long", "group_id": "slow", "started_at": at("02:11"), "completed_at": at("02:14"), **shared},
        {"rebalance_id": "open", "group_id": "stuck", "started_at": at("02:12"), **shared},
        {"rebalance_id": "early", "group_id": "lost", "started_at": at("02:12"), "completed_at": at("02:20"), **shared,
         "is_end_open": True},
        {"rebalance_id": "unseen", "group_id": "cut", "started_at": at("02:12"), **shared, "is_exact": False,
         "settled_at_offset": 7},
        {"rebalance_id": "short", "group_id": "quick", "started_at": at("02:12:30"), "completed_at": at("02:12:31"),
         **shared},
    ])  # fmt: skip
    warehouse = Tables(str(folder))
    asked = {time: [row.rebalance_id for row in rebalances_at(warehouse, None, at(time))] for time in
             ("02:11:30", "02:12:30", "02:13", "02:14", "02:02:30")}  # fmt: skip
    assert asked == {
        "02:11:30": ["long"],
        "02:12:30": ["long", "open", "short"],
        "02:13": ["long", "open"],
        "02:14": ["open"],
        "02:02:30": ["r3"],
    }


def test_a_group_has_several_rebalances_in_progress_if_an_epoch_replaced_another_one(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    shared = {
        "cluster": "default",
        "group_id": "slow",
        "group_type": "consumer",
        "is_exact": True,
        "is_end_open": False,
    }
    over = {"completed_at": at("02:14"), "completed_offset": 9, **shared}
    write_rows(folder, "rebalances", [
        {"rebalance_id": "third", "epoch": 3, "started_at": at("02:11"), "began_by": at("02:11"), **over},
        {"rebalance_id": "fourth", "epoch": 4, "started_at": at("02:12"), "began_by": at("02:12"), **over},
    ])  # fmt: skip
    warehouse = Tables(str(folder))
    asked = {time: [row.rebalance_id for row in rebalances_at(warehouse, "slow", at(time))] for time in
             ("02:11:30", "02:13", "02:15")}  # fmt: skip
    assert asked == {"02:11:30": ["third"], "02:13": ["third", "fourth"], "02:15": ["fourth"]}
    notes = why_at(warehouse, "slow", at("02:13"), causes=(), who=EVERYONE).notes
    assert not any(note and "may have begun" in note for note in notes)


def expiring(folder: Path) -> list[tuple[str, str, int, str | None, object]]:
    found = expired_offsets(Tables(str(folder)), within=timedelta(days=30))
    return [(one.group_id, one.topic, one.partition, one.rule, one.expire_at) for one in found]


def test_offsets_expire_by_their_rule_whatever_the_horizon_of_the_audit(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    retention = timedelta(milliseconds=RETENTION_MS)
    explicit = {"rule": "explicit_expire_timestamp", "expire_timestamp": at("09:00")}
    write_rows(folder, "offset_history", [
        offset("logs", 1, 6, "02:03", group_id="simple", **explicit),
        offset("left", 0, 1, "02:01", rule="unsubscribed_topic"),
        offset("orders", 0, 8, "02:01", group_id="emptied", rule="empty_since", base_timestamp=at("02:15")),
        offset("orders", 0, 8, "02:01", group_id="shared", **SPARED),
        offset("orders", 0, 8, "02:01", group_id="uncertain", is_protected=True),
    ])  # fmt: skip
    assert expiring(folder) == [
        ("payments", "left", 0, "unsubscribed_topic", at("02:01") + retention),
        ("simple", "logs", 0, "simple_group", at("02:03") + retention),
        ("emptied", "orders", 0, "empty_since", at("02:15") + retention),
        ("simple", "logs", 1, "explicit_expire_timestamp", at("09:00")),
    ]


def test_offsets_of_a_release_that_wrote_no_rule_are_said_to_be_left_out(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "offset_history", [offset("old", 0, 6, "02:03", group_id="old", rule=None, is_protected=None)])
    warehouse = Tables(str(folder))
    assert "old" not in {one.group_id for one in expired_offsets(warehouse, within=timedelta(days=30))}
    assert warehouse.notes == ["1 offset was written by an earlier release and is left out: audit --full adds its rule"]


def test_timeline_is_in_log_order_between_two_moments(warehouse: Tables):
    told = timeline_of(warehouse, "payments")
    assert [event.seq for event in told if event.seq is not None] == [0, 1, 2, 3, 4, 5]
    assert [event.log_offset for event in told] == sorted(event.log_offset for event in told)
    told = timeline_of(warehouse, "payments", at("02:00:02"), at("02:10:05"))
    assert [event.seq for event in told if event.seq is not None] == [2, 3]
    assert timeline_of(warehouse, "payments", at("02:10"), at("02:10:01"))[0].detail == {
        "client_id": "two-1", "client_host": "/10.0.0.2", "topics": ["orders"],
    }  # fmt: skip


def test_offset_events_stand_between_those_of_the_group(warehouse: Tables):
    events = [one for one in timeline_of(warehouse, "payments") if one.seq is None]
    assert [(one.event, one.log_timestamp, one.summary) for one in events] == [
        ("OFFSETS_FIRST_COMMIT", at("02:01"), "audit:0 offset 7"),
        ("OFFSETS_PENDING", at("02:15"),
         "orders:2 1 transactional commit, 1 still open at the end of the log, producer id 7"),
        ("OFFSETS_FIRST_COMMIT", at("02:01"), "orders:1 offset 90"),
        ("OFFSETS_FIRST_COMMIT", at("02:01"), "orders:0 offset 100"),
        ("OFFSETS_EXPIRED", at("02:08"), "audit:0 offset 7"),
        ("OFFSETS_PENDING", at("02:15"),
         "orders:0 1 transactional commit, 1 still open at the end of the log, producer id 7"),
    ]  # fmt: skip


def test_offset_events_of_one_kind_between_two_events_of_the_group_are_one(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "offset_history", [
        offset("orders", 1, 300 - step, f"02:15:{step:02}", from_offset=1000 + step, previous_offset=301 + step,
               owner_member_id="m-2", group_state="Stable")
        for step in range(60)
    ])  # fmt: skip
    write_rows(folder, "offset_history", [
        offset("orders", 0, 5, "02:16", from_offset=2000, previous_offset=150, group_state="Empty"),
    ])  # fmt: skip
    write_rows(folder, "pending_offsets", [
        offset("orders", 3, step, f"02:17:{step:02}", f"02:17:{step + 2:02}", from_offset=3000 + step, producer_id=9,
               ended_by="ABORT" if step % 3 else "COMMIT")
        for step in range(30)
    ])  # fmt: skip
    told = {one.event: one for one in timeline_of(Tables(str(folder)), "payments", at("02:15:00"), at("02:16:30"))}
    assert list(told)[-2:] == ["OFFSETS_REWOUND", "OFFSETS_SET_WHILE_EMPTY"]
    assert told["OFFSETS_REWOUND"].summary == "orders:1 to offsets 241 to 300, furthest back by 119, 60 commits"
    assert told["OFFSETS_REWOUND"].detail["until"] == at("02:15:59")
    assert told["OFFSETS_SET_WHILE_EMPTY"].summary == "orders:0 to offset 5, furthest back by 145"
    (pending,) = timeline_of(Tables(str(folder)), "payments", at("02:16:30"), None)
    assert pending.summary == "orders:3 30 transactional commits, 10 committed, 20 aborted, longest 2.0 s"


def test_commits_of_groups_without_members_are_no_resets(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "offset_history", [
        offset("logs", 0, 6, "02:04", group_id="simple", group_state="Empty", from_offset=6, previous_offset=5),
    ])  # fmt: skip
    assert [one.event for one in timeline_of(Tables(str(folder)), "simple")] == ["OFFSETS_FIRST_COMMIT"]


def test_member_intervals_that_touch_the_stretch_are_told(warehouse: Tables):
    told = member_intervals_of(warehouse, "payments", at("02:10:05"), at("02:10:20"))
    assert [(one.member_id, one.from_offset) for one in told] == [("m-2", 103), ("m-1", 104)]


def test_the_event_that_tells_of_a_rebalance_says_why(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    started = {"epoch": 3, "assignment_epoch": 2, "member_count": 2, "rebalance_id": "r2"}
    write_rows(folder, "group_timeline", [
        event("payments", 6, "02:10", "REBALANCE_STARTED", "Stable>Assigning", **started),
        event("payments", 7, "02:10", "MEMBER_RECONCILED", "Assigning>Assigning", **started),
        event("payments", 8, "02:10", "REBALANCE_STARTED", "Stable>Assigning", **{**started, "epoch": 2}),
    ])  # fmt: skip
    events = [one for one in timeline_of(Tables(str(folder)), "payments") if one.seq is not None]
    told = [(one.seq, one.cause, one.confidence) for one in events]
    assert told == [
        *((seq, None, None) for seq in range(6)),
        (6, "MEMBER_JOIN", "certain"),
        (7, None, None),
        (8, None, None),
    ]


def test_timeline_of_an_unknown_group_or_time_is_refused_and_a_quiet_one_is_empty(warehouse: Tables):
    assert timeline_of(warehouse, "legacy", at("02:10"), None) == []
    assert [one.event for one in timeline_of(warehouse, "simple")] == ["OFFSETS_FIRST_COMMIT"]
    with pytest.raises(UsageError, match="is not in this warehouse"):
        timeline_of(warehouse, "nobody")
    with pytest.raises(UsageError, match="not covered"):
        timeline_of(warehouse, "payments", at("06:00"), None)


def test_who_held_a_rebalance_up_with_which_partitions_and_who_waited(warehouse: Tables):
    (one,) = hold_ups(warehouse, "payments").values()
    assert (one.rebalance_id, one.member_id, one.client_id, one.waited_ms) == ("r2", "m-1", "client-m-1", 10_000)
    assert (one.partitions, one.waiting) == (["orders-1"], ["m-2"])
    assert hold_ups(warehouse, "legacy") == {}


def test_rebalances_of_a_stretch_are_those_under_way_in_it(warehouse: Tables):
    assert [one.rebalance_id for one in rebalances_of(warehouse)] == ["r1", "r3", "r2"]
    assert [one.rebalance_id for one in rebalances_of(warehouse, start=at("02:10:10"), end=at("02:10:11"))] == ["r2"]
    assert [one.rebalance_id for one in rebalances_of(warehouse, end=at("02:02"))] == ["r1"]
    assert [one.rebalance_id for one in rebalances_of(warehouse, "payments", causes=["group_created"])] == ["r1"]


def test_a_rebalance_whose_end_is_missing_touches_no_time_after_its_start(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    about = {"cluster": "default", "group_type": "consumer", "log_partition": 1}
    shared = {**about, "epoch": 3, "is_exact": False, "began_by": at("02:11")}
    write_rows(folder, "rebalances", [
        {"rebalance_id": "lost", "group_id": "cut", "started_at": at("02:11"), "settled_at_offset": 80, **shared},
        {"rebalance_id": "open", "group_id": "stuck", "started_at": at("02:11"), **shared},
    ])  # fmt: skip
    warehouse = Tables(str(folder))
    concerned = {
        start: [one.group_id for one in impact_of(warehouse, at(start), at("02:13")).groups if one.rebalances]
        for start in ("02:10:50", "02:11:30")
    }
    assert concerned == {"02:10:50": ["cut", "stuck"], "02:11:30": ["stuck"]}
    assert [one.rebalance_id for one in rebalances_of(warehouse, start=at("02:11:30"), end=at("02:13"))] == ["open"]
    changes = changes_between(Side(warehouse, at("02:11:30")), Side(warehouse, at("02:13")))
    assert [(one.group_id, one.number) for one in changes if one.what == "rebalance"] == [("stuck", 1)]


def test_a_cause_that_never_occurred_is_refused_and_one_that_did_elsewhere_is_not(warehouse: Tables):
    assert rebalances_of(warehouse, "legacy", causes=["MEMBER_JOIN"]) == []
    with pytest.raises(UsageError, match="did you mean 'MEMBER_JOIN'"):
        rebalances_of(warehouse, causes=["MEMBER_JOINED"])


def test_what_expires_next_is_computed_for_any_horizon(warehouse: Tables):
    assert [one.status for one in expired_offsets(warehouse)] == ["EXPIRED", "DUE", "EXPIRING"]
    assert expired_offsets(warehouse, within=timedelta(hours=1)) == []
    for within in (timedelta(minutes=100), timedelta(days=4000), timedelta.max):
        (found,) = expired_offsets(warehouse, within=within)
        assert (found.group_id, found.status, found.expire_at) == ("simple", "EXPIRING", at("04:00"))
        assert (found.rule, found.confidence, found.retention_ms) == ("simple_group", "certain", 117 * 60_000)
    assert [one.group_id for one in expired_offsets(warehouse, statuses=["EXPIRED"])] == ["payments"]
    with pytest.raises(UsageError, match="is not in this warehouse"):
        expired_offsets(warehouse, "nobody")


def test_findings_come_gravest_first_and_down_to_a_severity(warehouse: Tables):
    assert [one.finding_id for one in findings_of(warehouse)] == ["f2", "f3", "f1"]
    assert [one.finding_id for one in findings_of(warehouse, severity="warning")] == ["f2", "f3"]
    assert [one.finding_id for one in findings_of(warehouse, group="payments", rules=["storm"])] == ["f1"]
    with pytest.raises(UsageError, match="did you mean 'rewind'"):
        findings_of(warehouse, rules=["rewinds"])


def test_sql_reaches_every_table_and_view_of_all_clusters(warehouse: Tables):
    names, rows = run_sql(warehouse, "SELECT cluster, count(*) AS n FROM Rebalances GROUP BY 1 ORDER BY 1")
    assert (names, rows) == (["cluster", "n"], [("default", 3), ("other", 1)])
    _, rows = run_sql(warehouse, "SELECT activity, timestamp FROM event_log WHERE case_id = 'other/payments'")
    assert rows == [("GROUP_CREATED", at("02:04"))]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT * FROM rebalance", "no table is called rebalance: did you mean 'rebalances'?"),
        ("SELEC 1", "syntax error"),
        ("SELECT nope FROM rebalances", '"nope" not found'),
        ("DELETE FROM rebalances", "Can only delete from base table"),
    ],
)
def test_a_wrong_statement_is_told_in_the_engines_words(warehouse: Tables, statement: str, message: str):
    with pytest.raises(UsageError) as refused:
        run_sql(warehouse, statement)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "end", ["AND group_id = $$g$$", "GROUP BY ALL", "ORDER BY 1", "", ") SELECT 1", "OR true", "limit 5"]
)
def test_a_cluster_that_the_shell_took_away_is_said(warehouse: Tables, end: str):
    """In double quotes, a shell replaces ``$cluster`` by nothing."""
    start = "WITH a AS (" if end.startswith(")") else ""
    with pytest.raises(UsageError, match="put the statement in single quotes, and write texts in it as") as refused:
        run_sql(warehouse, f"{start}SELECT group_id FROM rebalances WHERE cluster = {end}")
    assert "syntax error" in str(refused.value)
    with pytest.raises(UsageError) as refused:
        run_sql(warehouse, "SELECT group_id FROM rebalances WHERE cluster = $cluster GROUP")
    assert "single quotes" not in str(refused.value)


def test_assignments_are_joined_sorted_and_named_by_id_where_there_is_no_name():
    lists = (
        [{"topic": None, "topic_id": "id", "partitions": [3, 1]}],
        [{"topic": None, "topic_id": "id", "partitions": [2]}],
    )
    assert [str(topic) for topic in topic_partitions(*lists)] == ["id:1-3"]
    assert topic_partitions(None, []) == ()


def test_owner_and_describe_say_where_client_and_host_are_those_of_a_replaced_member(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    replaced = member("payments", "m-3", "02:12", None, 300, instance_id="three", is_client_inherited=True)
    write_rows(folder, "member_timeline", [replaced])
    write_rows(folder, "partition_ownership", [owned(7, "m-3", "02:12", instance_id="three")])
    asked = Warehouse(str(folder))
    for found in (asked.describe("payments"), asked.owner("payments", "orders", 7), asked.members("payments")):
        assert any("m-3 may be those of an earlier process" in note for note in found.notes)
    assert not any("m-3" in note for note in asked.describe("payments").group_notes)
    for shown, is_said in ("--state", False), ("--members", True):
        told = CliRunner().invoke(main, ["describe", "payments", shown, "--warehouse", str(folder)])
        assert ("earlier process" in told.stderr) is is_said
    told = CliRunner().invoke(main, ["describe", "*", "--warehouse", str(folder)])
    assert "payments: Client id and host of m-3 may be those of an earlier process" in told.stderr


def test_a_note_on_many_replaced_members_names_few_of_them():
    note = inherited_note((f"m-{number}", number > 0) for number in range(9))
    assert note is not None
    assert note.startswith("Client id and host of m-1, m-2, m-3 and 5 more may be those of an earlier process")


LEADERS = [("02:00", None), ("02:01", None), ("02:04", None), ("02:05", 2), ("02:09", 2), ("02:10", None), (None, None)]
"""Of leader epoch 2 only its first records are known: it may have been elected before them. Epoch 3 has no leader."""


@pytest.mark.parametrize(("clock", "broker"), rest_at_night(LEADERS, LEADERS[2:4], several=True))
def test_the_coordinator_is_the_broker_that_led_the_log_partition(
    tmp_path: Path, clock: str | None, broker: int | None
):
    elections = ((1, "02:01", True, 1), (2, "02:05", False, 2), (3, "02:10", True, -1))
    changes = [
        {"cluster": "default", "log_partition": 3, "leader_epoch": epoch, "elected_at": at(when), "is_exact": is_exact,
         "broker": leader}
        for epoch, when, is_exact, leader in elections
    ]  # fmt: skip
    warehouse = Tables(str(write_small_warehouse(tmp_path, coordinator_changes=changes)))
    assert coordinator_of(warehouse, 3, None if clock is None else at(clock)) == broker
    assert coordinator_of(warehouse, 4) is None
