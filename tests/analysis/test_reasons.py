"""Reasons of rebalances: judged by what real brokers logged, and row by row of the decision table."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.analysis.group_life import GroupReplay
from coordinator_replay.analysis.reasons.table import TABLE
from coordinator_replay.analysis.reasons.topic_changes import DatedTopicChange
from coordinator_replay.analysis.reasons.vocabulary import JOIN_REASONS, MEANING, Cause, JoinReason
from coordinator_replay.engine.model import Record
from scripts.reasons import removed
from scripts.reasons.judge import COMPACTED, DOCUMENT, Verdict, document, judge_all, whole
from scripts.reasons.simulated_page import pages
from tests.analysis.classic_log import ClassicLog, member
from tests.engine.coordinator import TOPIC, Coordinator
from tests.engine.lives import GROUP, Writer

DATA = Path(__file__).resolve().parents[1] / "data"


# --- judged by brokers ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def verdicts() -> list[Verdict]:
    return judge_all(DATA)


@pytest.fixture(scope="module")
def with_log() -> list[Verdict]:
    return judge_all(DATA, with_log=True)


def test_with_the_brokers_logs_nearly_all_causes_are_named_and_none_is_wrong(with_log: list[Verdict]) -> None:
    both = [one for one in whole(with_log) if one.row is not None]
    assert [one for one in both if not one.is_right] == []
    assert sum(one.is_exact for one in both) >= 0.98 * len(both)
    certain = [one for one in with_log if one.row is not None and one.row["confidence"] == "certain"]
    assert [one for one in certain if not one.is_exact] == []
    assert [one.row for one in certain if one.row["alternatives"]] == []
    assert len(certain) > 330


def test_every_rebalance_that_a_broker_logged_is_found(verdicts: list[Verdict]) -> None:
    assert [one.truth for one in whole(verdicts) if one.row is None] == []
    assert sum(one.truth is not None for one in whole(verdicts)) > 220


def test_no_rebalance_is_invented(verdicts: list[Verdict]) -> None:
    assert [one.row for one in verdicts if one.truth is None] == []


def test_causes_are_right(verdicts: list[Verdict]) -> None:
    both = [one for one in whole(verdicts) if one.row is not None]
    assert [one for one in both if not one.is_right] == []
    assert sum(one.is_marked for one in both) < 0.2 * len(both)


def test_every_protocol_is_judged_on_every_recorded_version_of_the_broker(verdicts: list[Verdict]) -> None:
    """None is wrong or invented, and none missing where no record is: the table says so line by line."""
    table = document(verdicts, []).split("## By protocol and broker version")[1].split("\n## ")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:2] == "| "]
    counts = {(protocol, broker): list(map(int, numbers)) for protocol, broker, *numbers in lines[1:]}
    versions = {"2.8.2", "3.9.1", "3.9.1, Scala", "4.0.0", "4.1.0", "4.3.1", "4.3.1, compacted"}
    assert {broker for _, broker in counts} == versions
    assert {protocol for protocol, _ in counts} == {"classic", "consumer", "share", "streams"}
    assert sum(logged for logged, *_ in counts.values()) == sum(one.truth is not None for one in verdicts)
    for (_, broker), (logged, right, shared, unknown, wrong, missing, invented) in counts.items():
        assert logged == right + shared + unknown + wrong + missing
        assert (wrong, invented) == (0, 0)
        assert broker == "4.3.1, compacted" or (unknown, missing) == (0, 0)


def test_certain_is_never_wrong(verdicts: list[Verdict]) -> None:
    certain = [one for one in verdicts if one.row is not None and one.row["confidence"] == "certain"]
    assert len(certain) > 130
    assert [one for one in certain if not one.is_exact] == []


def test_a_compacted_log_is_never_told_of_as_exact(verdicts: list[Verdict]) -> None:
    told = [one for one in verdicts if one.sample in COMPACTED and one.row is not None]
    assert told
    for one in told:
        assert one.is_right or (one.row or {})["cause"] == "UNKNOWN"


def told_of(verdicts: list[Verdict], sample: str, group: str) -> dict[int, dict[str, Any]]:
    """The rows of a group, by epoch."""
    rows = [one.row for one in verdicts if one.sample == sample and one.row is not None]
    return {row["epoch"]: row for row in rows if row["group_id"] == group}


def test_a_classic_client_that_was_killed_and_is_back_may_have_timed_out(verdicts: list[Verdict]) -> None:
    """Its old member is removed by its session timeout in the generation in which the new one joins."""
    rows = told_of(verdicts, "restarts", "classic-killed-and-back")
    assert {row["cause"] for epoch, row in rows.items() if 2 <= epoch <= 6} == {"MEMBER_RESTART"}
    assert [epoch for epoch, row in rows.items() if "SESSION_TIMEOUT" in (row["cause"], *row["alternatives"])] == [
        2,
        4,
        6,
    ]
    evidence = " ".join(rows[2]["evidence"])
    assert "0 ms after" not in evidence
    assert "was removed in the same generation: same client.id and host" in evidence
    assert "LeaveGroup or session timeout: the log doesn't show which" in evidence
    assert (
        "its timeouts are longer: session.timeout.ms 5 s, largest rebalance timeout (max.poll.interval.ms) 300 s. "
        "A LeaveGroup of the member or of an admin removed it" in " ".join(rows[3]["evidence"])
    )


def test_a_client_that_was_killed_joins_before_its_old_member_times_out(verdicts: list[Verdict]) -> None:
    """Only the timeout shows that the one that had joined was no new one."""
    rows = told_of(verdicts, "restarts", "consumer-killed-and-back")
    assert {reason(rows[epoch]) for epoch in (5, 9, 13)} == {("MEMBER_RESTART", "likely", "restart")}
    assert {reason(rows[epoch]) for epoch in (6, 10, 14)} == {("SESSION_TIMEOUT", "likely", "unknown")}
    assert {reason(rows[epoch]) for epoch in (7, 11, 15)} == {("MEMBER_LEAVE", "likely", "unknown")}
    assert "was still in the group then, and was removed" in rows[5]["evidence"][-1]
    assert "offset 57)" in rows[5]["evidence"][-1] and "offset 57)" in rows[6]["evidence"][0], "one removal"
    assert "had come 5 s earlier as" in rows[6]["evidence"][1]


@pytest.mark.parametrize(("group", "removal"), [("classic-poll-timeout", 2), ("consumer-poll-timeout", 4)])
def test_the_removal_of_a_member_that_is_back_after_polling_too_late_has_that_cause_too(
    verdicts: list[Verdict], group: str, removal: int
) -> None:
    rows = told_of(verdicts, "restarts", group)
    assert reason(rows[removal]) == reason(rows[removal + 1]) == ("POLL_TIMEOUT_REJOIN", "possible", "unknown")
    assert rows[removal]["members_left"] and not rows[removal]["members_joined"]
    evidence = rows[removal]["evidence"]
    assert "it may have exceeded max.poll.interval.ms (6 s)" in evidence[-1]
    assert not any("the log doesn't show which" in fact for fact in evidence)


@pytest.mark.parametrize(("rebalance_ms", "limit"), [(3_000, "3 s"), (None, "not on record"), (-1, "not on record")])
def test_a_client_that_polled_too_late_has_its_own_interval_in_the_evidence_and_not_its_session_timeout(
    rebalance_ms: int | None, limit: str
) -> None:
    log = ClassicLog()
    b = {"client": "b", "session_ms": 4_000, "rebalance_ms": rebalance_ms}
    log.sync(1_000, member("a", [0]), member("b-1", [1], **b))
    log.sync(10_000, member("a", [0, 1]))
    log.sync(14_000, member("a", [0]), member("b-2", [1], **b))
    removal, back = rebalances(log.records)[1:]
    assert reason(removal) == reason(back) == ("POLL_TIMEOUT_REJOIN", "possible", "unknown")
    assert f"it may have exceeded max.poll.interval.ms ({limit})" in removal["evidence"][-1]
    assert f"was 9 s old when it was removed (max.poll.interval.ms {limit})" in back["evidence"][0]


def test_a_rollback_to_the_classic_protocol_is_a_downgrade(verdicts: list[Verdict]) -> None:
    row = told_of(verdicts, "restarts", "downgrade")[5]
    assert reason(row) == ("CLIENT_DOWNGRADE", "likely", "restart")
    assert row["evidence"][0].endswith("downgraded to the classic protocol")


def test_partitions_that_went_from_one_member_of_a_share_group_to_another_are_counted(verdicts: list[Verdict]) -> None:
    """In epoch 6 the new member had its two before the old one had given them up."""
    rows = told_of(verdicts, "group-lifecycles", "shop-share")
    assert {epoch: (row["partitions_reassigned"], row["partitions_added"]) for epoch, row in rows.items()} == {
        2: (0, 0),
        3: (0, 4),
        4: (2, 0),
        5: (2, 0),
        6: (2, 0),
        7: (0, 0),
        8: (0, 0),
    }


def test_what_explains_one_rebalance_explains_no_other(verdicts: list[Verdict]) -> None:
    """A record by which a member joined, was removed or changed its subscription is new in one rebalance only."""
    explained: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    by_member = re.compile(
        r" (joined|was removed from the group|subscribed|unsubscribed)[^(]*\((__consumer_off[^)]*)\)"
    )
    for one in verdicts:
        row = one.row or {"evidence": []}
        for fact in row["evidence"]:
            for found in by_member.finditer(re.sub(r"\(client [^)]*\) ", "", fact)):
                explained[one.sample, row["group_id"], " ".join(found.groups())].add(row["rebalance_id"])
    assert len(explained) > 200
    assert {place: rows for place, rows in explained.items() if len(rows) > 1} == {}


def test_every_row_names_a_position_in_the_log_and_says_how_sure_it_is(verdicts: list[Verdict]) -> None:
    for one in verdicts:
        if one.row is None:
            continue
        assert any("__consumer_offsets-" in fact for fact in one.row["evidence"]), one.row
        assert one.row["cause"] not in one.row["alternatives"]
        assert not (one.row["confidence"] == "certain" and one.row["alternatives"])


def test_the_document_says_what_the_judge_says(verdicts: list[Verdict], with_log: list[Verdict]) -> None:
    # tests/pipeline/offsets/test_removed_truth.py holds the rest.
    before, _, _ = DOCUMENT.read_text(encoding="utf-8").partition(removed.HEAD)
    assert before == f"{document(verdicts, with_log, pages())}\n", "run scripts/judge-reasons"


def test_every_cause_has_a_meaning_and_a_row() -> None:
    assert set(MEANING) == set(Cause)
    assert {rule.cause for rule in TABLE} == set(Cause)
    assert all(f"\n    {part}: " in str(rule.find.__doc__) for rule in TABLE for part in ("Footprint", "Confidence"))
    assert set(JOIN_REASONS.values()) == set(JoinReason) - {JoinReason.UNKNOWN}


# --- row by row -------------------------------------------------------------------------------------------------------


def rebalances(records: Iterable[Record], **context: Any) -> list[dict[str, Any]]:
    life = GroupReplay("test", GROUP, {TOPIC: "move"}, **context)
    return by_epoch([row for record in records for row in life.feed(record)] + [*life.finish()])


def by_epoch(rows: Iterable[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Rebalances in order; they come out when they are settled."""
    return sorted((row for table, row in rows if table == "rebalances"), key=lambda row: row["epoch"])


def reason(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["cause"], row["confidence"], row["join_reason"]


def test_a_member_gone_before_any_timeout_was_up_has_surely_left() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("b", [1]))
    log.sync(10_900, member("a", [0, 1]))
    row = rebalances(log.records)[1]
    assert reason(row) == ("MEMBER_LEAVE", "likely", "unknown")
    assert row["trigger_members"] == ["b"] and row["alternatives"] == ["LEADER_REJOIN", "MEMBER_JOIN"]


def test_a_member_gone_after_its_session_timeout_may_have_left_or_timed_out() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("b", [1]))
    log.sync(11_000, member("a", [0, 1]))
    row = rebalances(log.records)[1]
    assert reason(row) == ("LEAVE_OR_TIMEOUT", "possible", "unknown")
    assert row["alternatives"] == ["MEMBER_LEAVE", "SESSION_TIMEOUT", "LEADER_REJOIN", "MEMBER_JOIN"]
    assert row["evidence"][1] == (
        "last record showing it alive: 10 s earlier (__consumer_offsets-0, offset 1); session.timeout.ms 10 s, "
        "largest rebalance timeout (max.poll.interval.ms) 300 s. "
        "LeaveGroup or session timeout: the log doesn't show which"
    )


def test_a_static_member_that_did_not_time_out_was_removed_by_an_admin() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("b", [1], instance="one"))
    log.sync(5_000, member("a", [0, 1]))
    row = rebalances(log.records)[1]
    assert reason(row) == ("MEMBER_LEAVE", "likely", "unknown")
    assert "its timeouts are longer: session.timeout.ms 10 s, " in row["evidence"][1]
    assert "300 s. LeaveGroup removed it, most likely an admin's" in row["evidence"][1]


def test_a_session_timeout_that_is_not_on_record_is_not_said_to_be_longer() -> None:
    coordinator = Coordinator()
    coordinator.join(None, at_once=True)
    coordinator.join(None, at_once=True)
    coordinator.log.now += 2_000
    coordinator.leave("member-2")
    row = rebalances(coordinator.log.records)[-1]
    assert reason(row) == ("MEMBER_LEAVE", "likely", "unknown")
    assert re.fullmatch(
        r"last record showing it alive: \d s earlier \(.*\); most session timeouts are longer, but its session timeout "
        r"is not on record, by default 45 s\. It is likely that the member left",
        row["evidence"][1],
    )


def with_commits(log: ClassicLog, commits: list[tuple[str, int, int, int, int]]) -> dict[str, Any]:
    life = GroupReplay("test", GROUP)
    rows = [row for record in log.records[:-1] for row in life.feed(record)]
    life.heed_commits(log.records[-1].offset, commits)
    life = GroupReplay.restore(json.loads(json.dumps(life.snapshot())))
    rows += [*life.feed(log.records[-1]), *life.finish()]
    return [row for table, row in rows if table == "rebalances"][-1]


def test_a_commit_of_its_partitions_just_before_speaks_for_a_leave() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("b", [1]))
    log.sync(60_000, member("a", [0, 1]))
    row = with_commits(log, [("orders", 1, 59_000, 0, 2), ("orders", 0, 59_500, 0, 3)])
    assert reason(row) == ("MEMBER_LEAVE", "likely", "unknown")
    assert any("committed 995 ms earlier" in fact for fact in row["evidence"])


def test_silence_while_others_commit_speaks_for_a_session_timeout() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("b", [1]))
    log.sync(60_000, member("a", [0, 1]))
    row = with_commits(log, [("orders", 1, 40_000, 0, 2), ("orders", 0, 59_500, 0, 3)])
    assert reason(row) == ("SESSION_TIMEOUT", "possible", "unknown")
    idle = with_commits(log, [("orders", 1, 40_000, 0, 2), ("orders", 0, 40_500, 0, 3)])
    assert reason(idle) == ("LEAVE_OR_TIMEOUT", "possible", "unknown")


def test_commits_from_before_a_member_was_last_seen_are_not_its_silence() -> None:
    log = ClassicLog()
    log.sync(130_000, member("a", [0]), member("b", [1]))
    log.sync(190_000, member("a", [0, 1]))
    row = with_commits(log, [("orders", 1, 40_000, 0, 2), ("orders", 0, 129_500, 0, 3)])
    assert reason(row) == ("LEAVE_OR_TIMEOUT", "possible", "unknown")
    others_went_on = with_commits(log, [("orders", 1, 40_000, 0, 2), ("orders", 0, 189_000, 0, 3)])
    assert reason(others_went_on) == ("SESSION_TIMEOUT", "possible", "unknown")


@pytest.mark.parametrize("late_ms", [1_300_000, 1_890_000])
def test_a_commit_of_long_ago_is_not_called_the_last_one(late_ms: int) -> None:
    """Nobody looks for commits of more than ten minutes before a departure: partition 1 may have had a later one."""
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("b", [1]), member("c", [2]))
    log.sync(60_000, member("a", [0]), member("b", [1]))
    log.sync(1_900_000, member("a", [0, 1]))
    life, rows = GroupReplay("test", GROUP), []
    heeded = {60_000: [("orders", 1, 59_000, 0, 90)], 1_900_000: [("orders", 0, late_ms, 0, 95)]}
    for record in log.records:
        life.heed_commits(record.offset, heeded.get(record.timestamp_ms or 0, []))
        rows += life.feed(record)
    row = [row for table, row in [*rows, *life.finish()] if table == "rebalances"][-1]
    assert reason(row)[:2] == ("LEAVE_OR_TIMEOUT", "possible")
    assert not {"FELL_SILENT", "OTHERS_WAITED"} & {fact["kind"] for fact in row["facts"]}


def test_the_last_record_that_shows_a_member_alive_may_be_a_commit() -> None:
    """The evidence said "last record showing it alive" of an older record of the group, beside the commit."""
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("b", [1]))
    log.sync(1_900_000, member("a", [0, 1]))
    life, rows = GroupReplay("test", GROUP), []
    heeded = {1_900_000: [("orders", 1, 1_600_000, 0, 90)]}
    for record in log.records:
        life.heed_commits(record.offset, heeded.get(record.timestamp_ms or 0, []))
        rows += life.feed(record)
    row = [row for table, row in [*rows, *life.finish()] if table == "rebalances"][-1]
    (seen,) = [fact for fact in row["facts"] if fact["kind"] == "LAST_SEEN"]
    assert (seen["members"], seen["since_offset"], seen["elapsed_ms"]) == (["b"], 90, 299_995)


def test_commits_after_the_operation_at_hand_do_not_count_for_it() -> None:
    coordinator = Coordinator()
    first = coordinator.join(None, at_once=True)
    coordinator.log.now = 60_000
    coordinator.leave(first)
    gone = len(coordinator.log.records)
    coordinator.log.now = 120_000
    second = coordinator.join(None, at_once=True)
    coordinator.log.now = 180_000
    coordinator.leave(second)
    life, rows = GroupReplay("test", GROUP, {TOPIC: "move"}), []
    for record in coordinator.log.records:
        if record.offset == gone:
            life.heed_commits(record.offset, [("move", 0, 59_999, 0, 99)])
        rows += life.feed(record)
    found = by_epoch([*rows, *life.finish()])
    assert reason(found[1]) == ("LEAVE_OR_TIMEOUT", "possible", "unknown")


def test_a_client_that_comes_back_has_been_restarted() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("b-1", [1], client="b"))
    log.sync(5_000, member("a", [0, 1]))
    log.sync(9_000, member("a", [0]), member("b-2", [1], client="b"))
    row = rebalances(log.records)[2]
    assert reason(row) == ("MEMBER_RESTART", "likely", "restart")
    assert row["trigger_members"] == ["b-2"]


def test_a_restart_may_fall_into_one_generation() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("b-1", [1], client="b"))
    log.sync(5_000, member("a", [0]), member("b-2", [1], client="b"))
    assert reason(rebalances(log.records)[1]) == ("MEMBER_RESTART", "likely", "restart")


def test_a_client_that_shares_its_name_may_be_any_of_them() -> None:
    log = ClassicLog()
    log.sync(1_000, *(member(f"t-{number}", [number], client="thread") for number in range(3)))
    log.sync(5_000, *(member(f"t-{number}", [number], client="thread") for number in range(2)))
    log.sync(9_000, *(member(f"t-{number}", [number % 3], client="thread") for number in (0, 1, 4)))
    assert reason(rebalances(log.records)[2]) == ("MEMBER_RESTART", "possible", "restart")


def test_a_client_that_fell_silent_for_its_poll_interval_and_is_back_had_polled_too_late() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("b-1", [1], client="b"))
    log.sync(305_000, member("a", [0, 1]))
    log.sync(306_000, member("a", [0]), member("b-2", [1], client="b"))
    assert reason(rebalances(log.records)[2]) == ("POLL_TIMEOUT_REJOIN", "possible", "unknown")
    idle = ClassicLog()
    idle.sync(1_000, member("a", [0]), member("b-1", [1], client="b"))
    idle.sync(900_000, member("a", [0, 1]))
    idle.sync(901_000, member("a", [0]), member("b-2", [1], client="b"))
    row = rebalances(idle.records)[2]
    assert reason(row) == ("MEMBER_RESTART", "possible", "restart")
    assert "POLL_TIMEOUT_REJOIN" in row["alternatives"]


def test_a_member_that_is_back_under_its_old_id_was_not_restarted() -> None:
    coordinator = Coordinator()
    coordinator.join(None, at_once=True)
    coordinator.join(None, at_once=True)
    coordinator.log.now = 400_000
    coordinator.leave("member-2")
    coordinator.made -= 1
    coordinator.log.now = 401_000
    coordinator.join(None, at_once=True)
    row = rebalances(coordinator.log.records)[3]
    assert reason(row) == ("POLL_TIMEOUT_REJOIN", "possible", "unknown")
    assert row["trigger_members"] == ["member-2"]


def test_a_removal_that_was_certain_stays_what_it_was() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("b-1", [1], client="b"))
    log.sync(5_000, member("a", [0, 1]))
    log.sync(6_000, member("a", [0]), member("b-1", [1], client="b"))
    rows = rebalances(log.records)
    assert reason(rows[2]) == ("POLL_TIMEOUT_REJOIN", "possible", "unknown")
    assert reason(rows[1]) == ("MEMBER_LEAVE", "likely", "unknown")


def test_of_several_that_were_removed_one_that_had_polled_too_late_is_an_alternative() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("b-1", [1], client="b"), member("c", [2]))
    log.sync(305_000, member("a", [0, 1, 2]))
    log.sync(306_000, member("a", [0, 2]), member("b-2", [1], client="b"))
    row = rebalances(log.records)[1]
    assert reason(row) == ("LEAVE_OR_TIMEOUT", "possible", "unknown")
    assert "POLL_TIMEOUT_REJOIN" in row["alternatives"]
    assert "it may have exceeded max.poll.interval.ms" in row["evidence"][-1]


def test_a_reason_is_settled_an_hour_later() -> None:
    """Until then its row stays open: a later rebalance may tell more of it."""
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("b", [1]))
    log.sync(60_000, member("a", [0, 1]))
    log.sync(61_000, member("a", [0, 1]), member("c", []))
    log.sync(62_000, member("a", [0, 1]), member("c", []), member("d", []))
    log.sync(3_661_000, member("a", [0, 1]), member("c", []))
    life = GroupReplay("test", GROUP)
    settled = [row["epoch"] for record in log.records for table, row in life.feed(record) if table == "rebalances"]
    assert settled == [1, 3, 2, 4]


def test_long_after_it_went_a_like_named_client_is_a_new_member() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("b-1", [1], client="b"))
    log.sync(5_000, member("a", [0, 1]))
    log.sync(400_000, member("a", [0]), member("b-2", [1], client="b"))
    assert reason(rebalances(log.records)[2]) == ("MEMBER_JOIN", "possible", "unknown")


def test_a_static_member_is_known_by_its_instance_however_late() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("s-1", [1], instance="s"))
    log.sync(90_000, member("a", [0, 1]))
    log.sync(9_000_000, member("a", [0]), member("s-2", [1], instance="s"))
    rows = rebalances(log.records)
    assert reason(rows[1]) == ("SESSION_TIMEOUT", "likely", "unknown")
    assert reason(rows[2]) == ("MEMBER_RESTART", "likely", "restart")


def test_a_static_member_that_comes_back_to_a_stable_group_is_no_rebalance() -> None:
    log = ClassicLog()
    log.sync(1_000, member("s-1", [0], instance="s"))
    log.generation -= 1
    log.sync(5_000, member("s-2", [0], instance="s"))
    life = GroupReplay("test", GROUP)
    rows = [row for record in log.records for row in life.feed(record)] + list(life.finish())
    events = [row["event"] for table, row in rows if table == "group_timeline"]
    assert "MEMBER_REPLACED" in events
    assert len([row for table, row in rows if table == "rebalances"]) == 1


def test_a_newer_subscription_of_a_client_that_comes_back_is_an_upgrade() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("b-1", [1], client="b"))
    log.sync(5_000, member("a", [0, 1]))
    log.sync(9_000, member("a", [0]), member("b-2", [1], client="b", version=3))
    assert reason(rebalances(log.records)[2]) == ("CLIENT_UPGRADE", "likely", "upgrade")


def test_another_protocol_with_the_same_members_is_the_cause_and_with_others_a_consequence() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("b", [1]))
    log.sync(5_000, member("a", [0]), member("b", [1]), protocol="sticky")
    log.sync(9_000, member("a", [0, 1]), protocol="range")
    rows = rebalances(log.records)
    assert reason(rows[1]) == ("PROTOCOL_CHANGE", "likely", "upgrade")
    assert reason(rows[2]) == ("MEMBER_LEAVE", "likely", "unknown")
    assert any("the assignor changed, too: from sticky to range" in fact for fact in rows[2]["evidence"])


def test_partitions_that_were_not_there_before_are_topic_metadata() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0, 1]))
    log.sync(9_000, member("a", [0, 1, 2]))
    row = rebalances(log.records)[1]
    assert reason(row) == ("TOPIC_METADATA_CHANGE", "likely", "topic_metadata_change")
    assert row["metadata_delay_ms"] is None
    changes = {"orders": [DatedTopicChange(0, "created", 2), DatedTopicChange(6_995, "partitions_added", 3)]}
    known = rebalances(log.records, topic_changes=changes)[1]
    assert reason(known) == ("TOPIC_METADATA_CHANGE", "likely", "topic_metadata_change")
    assert known["metadata_delay_ms"] == 2_000


def test_the_second_step_of_a_cooperative_rebalance_has_the_reason_of_the_first() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0, 1]), protocol="cooperative-sticky")
    log.sync(5_000, member("a", [0, 1]), protocol="cooperative-sticky")
    log.sync(5_500, member("a", [0, 1]), member("b-1", client="b"), protocol="cooperative-sticky")
    log.sync(6_000, member("a", [0, 1]), protocol="cooperative-sticky")
    log.sync(8_000, member("a", [0], owned=[0, 1]), member("b-2", client="b"), protocol="cooperative-sticky")
    log.sync(8_100, member("a", [0], owned=[0]), member("b-2", [1], client="b"), protocol="cooperative-sticky")
    rows = rebalances(log.records)
    assert reason(rows[4]) == ("MEMBER_RESTART", "likely", "restart")
    assert reason(rows[5]) == ("COOPERATIVE_FOLLOW_UP", "likely", "restart")


def test_a_member_that_comes_while_a_follow_up_is_due_leaves_the_cause_open() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0, 1]), protocol="cooperative-sticky")
    log.sync(8_000, member("a", [0], owned=[0, 1]), member("b"), protocol="cooperative-sticky")
    log.sync(8_100, member("a", [0], owned=[0]), member("b", [1]), member("c"), protocol="cooperative-sticky")
    row = rebalances(log.records)[2]
    assert reason(row) == ("MEMBER_JOIN", "possible", "unknown")
    assert row["alternatives"] == ["COOPERATIVE_FOLLOW_UP", "LEADER_REJOIN", "MEMBER_LEAVE"]


def test_nothing_but_a_new_generation_is_a_leader_that_joined_again() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]))
    log.sync(5_000, member("a", [0]))
    row = rebalances(log.records)[1]
    assert reason(row) == ("LEADER_REJOIN", "possible", "unknown") and row["alternatives"]


def test_generations_that_left_no_record_may_hide_a_member_and_make_nothing_certain() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]))
    log.sync(5_000, member("a", [0]), attempts=2)
    log.sync(6_000, member("a", [0]), member("b", [1]), attempts=2)
    rows = rebalances(log.records)
    assert reason(rows[1]) == ("LEAVE_OR_TIMEOUT", "possible", "unknown")
    assert reason(rows[2]) == ("MEMBER_JOIN", "likely", "unknown")


def test_over_a_gap_nothing_is_certain() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]))
    log.sync(5_000, member("a", [0]), member("b", [1]), missing=3)
    row = rebalances(log.records)[1]
    assert reason(row) == ("UNKNOWN", "possible", "unknown") and not row["is_exact"]


def test_two_causes_in_one_generation_are_both_named() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]), member("b", [1]))
    log.sync(5_000, member("a", [0]), member("c", [1]))
    row = rebalances(log.records)[1]
    assert reason(row) == ("MEMBER_JOIN", "possible", "unknown")
    assert row["alternatives"] == ["MEMBER_LEAVE", "LEADER_REJOIN"]
    assert any("member b " in fact and "was removed from the group" in fact for fact in row["evidence"])


def test_a_member_that_held_on_for_its_rebalance_timeout_was_removed_for_it() -> None:
    coordinator = Coordinator()
    coordinator.join(None, at_once=True)
    coordinator.log.now = 100
    coordinator.join(None, at_once=True)
    coordinator.log.now = 200
    coordinator.heartbeat("member-1")
    coordinator.log.now = 200 + 300_000
    coordinator.leave("member-1")
    row = rebalances(coordinator.log.records)[2]
    assert reason(row) == ("REBALANCE_TIMEOUT", "likely", "unknown")
    assert row["trigger_members"] == ["member-1"]


def test_a_static_member_that_left_for_a_restart_and_did_not_come_back_timed_out() -> None:
    coordinator = Coordinator()
    coordinator.join("one", at_once=True)
    coordinator.log.now = 100
    coordinator.go_away("member-1")
    coordinator.log.now = 45_000
    coordinator.leave("member-1")
    assert reason(rebalances(coordinator.log.records)[1]) == ("SESSION_TIMEOUT", "likely", "unknown")


def test_another_hash_and_the_same_members_are_topic_metadata() -> None:
    coordinator = Coordinator()
    coordinator.join(None, at_once=True)
    coordinator.log.now = 9_000
    coordinator.change_topics()
    changes = {"move": [DatedTopicChange(-5, "created", 6), DatedTopicChange(4_000, "partitions_added", 9)]}
    row = rebalances(coordinator.log.records, topic_changes=changes)[1]
    assert reason(row) == ("TOPIC_METADATA_CHANGE", "certain", "topic_metadata_change")
    assert row["metadata_delay_ms"] == 5_000
    assert any("partitions of move increased from 6 to 9" in fact for fact in row["evidence"])


def test_behind_a_hole_a_change_of_topics_may_have_been_answered_by_a_rebalance_that_is_missing() -> None:
    coordinator = Coordinator()
    coordinator.join(None, at_once=True)
    first = len(coordinator.log.records)
    for now in (9_000, 24_000, 36_000):
        coordinator.log.now = now
        coordinator.change_topics()
    records = coordinator.log.records
    rest = [one for one in records[first:] if one.timestamp_ms and one.timestamp_ms >= 24_000]
    changes = {"move": [DatedTopicChange(at, "partitions_added", 9) for at in (8_000, 22_000, 33_000)]}
    delays = [row["metadata_delay_ms"] for row in rebalances(records, topic_changes=changes)]
    assert delays == [None, 1_000, 2_000, 3_000]

    # The cleaner took what the first change of topics wrote.
    life = GroupReplay("test", GROUP, {TOPIC: "move"}, topic_changes=changes)
    life.replay.proven_from, life.replay.is_cleaned = rest[0].offset, True
    missing = rest[0].offset - records[first].offset
    kept = [*records[:first], rest[0]._replace(missing_before=missing), *rest[1:]]
    rows = by_epoch([*(row for record in kept for row in life.feed(record)), *life.finish()])
    assert [(row["is_exact"], row["metadata_delay_ms"]) for row in rows[-2:]] == [(True, None), (True, 3_000)]


def test_the_first_proven_generation_of_a_classic_group_may_follow_a_downgrade() -> None:
    log = ClassicLog()
    for at_ms, partitions in ((1_000, [0]), (2_000, [0]), (3_000, [0, 1]), (4_000, [0, 1, 2])):
        log.sync(at_ms, member("a", partitions))
    whole = rebalances(log.records)
    # The cleaner took all up to generation 2, which is there.
    life = GroupReplay("test", GROUP)
    life.replay.proven_from, life.replay.is_cleaned = 3, True
    kept = [one._replace(missing_before=2) for one in log.records[2:]]
    rows = by_epoch([*(row for record in kept for row in life.feed(record)), *life.finish()])
    first, second = rows[1:]
    assert (first["cause"], first["confidence"], first["is_exact"]) == ("TOPIC_METADATA_CHANGE", "likely", False)
    assert sorted(first["alternatives"]) == sorted([*whole[2]["alternatives"], "GROUP_CONVERSION"])
    assert (second["cause"], second["is_exact"], second["alternatives"]) == (
        whole[3]["cause"],
        True,
        whole[3]["alternatives"],
    )


def test_a_regex_that_is_resolved_after_its_members_join_was_told_is_topic_metadata() -> None:
    """Brokers up to 4.0 begin a rebalance with the member, and another one when its regex is resolved."""
    log = Writer()
    told = {"instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h", "subscribedTopicNames": []}
    rest = {"rebalanceTimeoutMs": 300_000, "serverAssignor": None, "classicMemberMetadata": None}
    log.write("ConsumerGroupMemberMetadata", {**told, **rest, "subscribedTopicRegex": "mov.*"}, memberId="a")
    log.write("ConsumerGroupMetadata", {"epoch": 1, "metadataHash": 0})
    log.write("ConsumerGroupTargetAssignmentMetadata", {"assignmentEpoch": 1})
    stable = {"previousMemberEpoch": 0, "state": 0, "assignedPartitions": [], "partitionsPendingRevocation": []}
    log.write("ConsumerGroupCurrentMemberAssignment", {**stable, "memberEpoch": 1}, memberId="a")
    log.now = 500
    log.write("ConsumerGroupRegularExpression", {"topics": ["move"]}, regularExpression="mov.*")
    log.write("ConsumerGroupMetadata", {"epoch": 2, "metadataHash": 0})
    first, second = rebalances(log.records)
    assert reason(first) == ("GROUP_CREATED", "certain", "unknown")
    assert reason(second) == ("TOPIC_METADATA_CHANGE", "certain", "topic_metadata_change")
    assert second["evidence"] == ["regex 'mov.*' was resolved (__consumer_offsets-0, offset 4): it matches move"]


def test_a_log_that_begins_in_the_middle_gives_no_reason_for_its_first_rebalance() -> None:
    coordinator = Coordinator()
    coordinator.epoch = 40
    coordinator.exists = True
    coordinator.log.now = 5
    coordinator.join(None, at_once=True)
    records = [
        Record(one.kind, one.key, one.value, one.partition, one.offset + 7, one.timestamp_ms, 7)
        for one in coordinator.log.records
    ]
    assert reason(rebalances(records)[0]) == ("UNKNOWN", "possible", "unknown")


@pytest.mark.parametrize("last", [1, 2, 3, 2**31 - 1])
def test_new_partitions_are_named_as_a_range_however_many_a_record_has(last: int) -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]))
    log.sync(2_000, member("a", [0, last]))
    named = {1: "1", 2: "1,2"}.get(last, f"1-{last}")
    [fact] = rebalances(log.records)[1]["evidence"]
    assert re.search(rf":{named} assigned for the first time", fact), fact
