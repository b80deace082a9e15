"""Members that a rebalance timeout can have removed, and how long a join phase can have lasted."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from coordinator_replay.analysis.broker_logs.words import UNSEEN
from coordinator_replay.analysis.group_life import GroupReplay
from coordinator_replay.analysis.reasons.vocabulary import Cause
from coordinator_replay.engine.model import Subscription
from tests.analysis.classic_log import ClassicLog, member
from tests.engine.lives import GROUP

A, B = ("orders", 0), ("orders", 1)

Entry = Mapping[str, Any]


def last_rebalance(
    before: Sequence[Entry],
    after: Sequence[Entry],
    seconds: float,
    commits: Mapping[tuple[str, int], float] | None = None,
    attempts: int = 1,
) -> dict[str, Any]:
    """Return the rebalance between two generations.

    Args:
        before: members of the first one, whose join phase ended at 100 s.
        after: members of the second one.
        seconds: time between the ends of the two join phases.
        commits: the last commits of partitions, in seconds before the end of the second join phase.
        attempts: generations from the first one to the second one.
    """
    log = ClassicLog()
    log.sync(100_005, *before)
    end_ms = 100_000 + round(seconds * 1000)
    log.sync(end_ms + 5, *after, attempts=attempts)
    life = GroupReplay("test", GROUP)
    rows = [row for record in log.records[:-1] for row in life.feed(record)]
    signs = [(*key, end_ms - round(ago * 1000), 0, 2) for key, ago in (commits or {}).items()]
    life.heed_commits(log.records[-1].offset, signs)
    life = GroupReplay.restore(json.loads(json.dumps(life.snapshot())))
    rows += [*life.feed(log.records[-1]), *life.finish()]
    return [row for table, row in rows if table == "rebalances"][-1]


def timed(member_id: str, session_s: float, rebalance_s: float | None, **more: Any) -> dict[str, Any]:
    rebalance_ms = None if rebalance_s is None else round(rebalance_s * 1000)
    return member(member_id, **more, session_ms=round(session_s * 1000), rebalance_ms=rebalance_ms)


def reason(row: Mapping[str, Any]) -> tuple[str, str, list[str]]:
    """Cause, confidence and alternatives, without those that may have come first without a record."""
    assert {"LEADER_REJOIN", "MEMBER_JOIN"} <= {row["cause"], *row["alternatives"]}
    others = [cause for cause in row["alternatives"] if Cause(cause) not in UNSEEN]
    return row["cause"], row["confidence"], others


def test_a_member_removed_before_either_timeout_has_surely_left() -> None:
    row = last_rebalance([timed("a", 60, 5), timed("b", 60, 5)], [timed("a", 60, 5)], 4.9)
    assert reason(row) == ("MEMBER_LEAVE", "likely", [])
    assert "session.timeout.ms 60 s, largest rebalance timeout (max.poll.interval.ms) 5 s" in row["evidence"][1]


def test_a_rebalance_timeout_can_remove_a_member_long_before_its_session_times_out() -> None:
    row = last_rebalance([timed("a", 60, 5), timed("b", 60, 5)], [timed("a", 60, 5)], 5)
    assert reason(row) == ("LEAVE_OR_TIMEOUT", "possible", ["MEMBER_LEAVE", "REBALANCE_TIMEOUT"])
    assert row["evidence"][1].endswith(". LeaveGroup or rebalance timeout: the log doesn't show which")


def test_the_largest_rebalance_timeout_of_all_members_counts() -> None:
    """The removed member gave 5 s; one that stayed gave 30 s, so no join phase ended by its timer before."""
    row = last_rebalance([timed("a", 60, 30), timed("b", 60, 5)], [timed("a", 60, 30)], 29)
    assert reason(row) == ("MEMBER_LEAVE", "likely", [])
    row = last_rebalance([timed("a", 60, 30), timed("b", 60, 5)], [timed("a", 60, 30)], 30)
    assert reason(row)[0] == "LEAVE_OR_TIMEOUT"


def test_a_timeout_that_a_member_gave_only_when_it_joined_again_is_no_bound() -> None:
    """A member that stayed may give another timeout with each JoinGroup: the timer may have had the smaller one."""
    for old, new in ((30, 5), (5, 30)):
        row = last_rebalance([timed("a", 60, old), timed("b", 60, 5)], [timed("a", 60, new)], 10)
        assert reason(row) == ("LEAVE_OR_TIMEOUT", "possible", ["MEMBER_LEAVE", "REBALANCE_TIMEOUT"])


def test_a_member_that_commits_while_the_others_wait_did_not_join() -> None:
    before, after = [timed("a", 60, 5, assigned=[0]), timed("b", 60, 5, assigned=[1])], [timed("a", 60, 5)]
    row = last_rebalance(before, after, 40, {A: 5.2, B: 0.3})
    assert reason(row) == ("REBALANCE_TIMEOUT", "possible", ["MEMBER_LEAVE"])
    assert "no other partition of the group was committed in the last 5.2 s" in row["evidence"][1]


def test_others_that_commit_until_the_end_did_not_wait() -> None:
    before, after = [timed("a", 60, 300, assigned=[0]), timed("b", 60, 300, assigned=[1])], [timed("a", 60, 300)]
    row = last_rebalance(before, after, 3_600, {A: 1, B: 0.3})
    assert reason(row) == ("MEMBER_LEAVE", "likely", ["SESSION_TIMEOUT", "REBALANCE_TIMEOUT"])


def test_commits_of_the_member_alone_decide_nothing() -> None:
    before, after = [timed("a", 60, 300, assigned=[0]), timed("b", 60, 300, assigned=[1])], [timed("a", 60, 300)]
    for commits in ({B: 0.3}, {A: 500, B: 0.3}):
        row = last_rebalance(before, after, 3_600, commits)
        possible = ["MEMBER_LEAVE", "SESSION_TIMEOUT", "REBALANCE_TIMEOUT"]
        assert reason(row) == ("LEAVE_OR_TIMEOUT", "possible", possible)


def test_a_silent_member_of_a_group_that_waited_may_have_timed_out_either_way() -> None:
    before, after = [timed("a", 10, 60, assigned=[0]), timed("b", 10, 60, assigned=[1])], [timed("a", 10, 60)]
    row = last_rebalance(before, after, 3_600, {A: 60, B: 62})
    assert reason(row)[:2] == ("LEAVE_OR_TIMEOUT", "possible")
    assert "REBALANCE_TIMEOUT" in row["alternatives"]


@pytest.mark.parametrize("recorded", [-0.001, 0])
def test_without_time_to_join_every_earlier_member_is_removed(recorded: float) -> None:
    before = [timed("a", 60, recorded), timed("b", 60, recorded)]
    row = last_rebalance(before, [timed("c", 60, recorded)], 20)
    assert reason(row) == ("MEMBER_JOIN", "likely", ["REBALANCE_TIMEOUT", "MEMBER_LEAVE"])
    words = " ".join(row["evidence"])
    assert ("KAFKA-8653" in words) is (recorded < 0)
    assert ("rebalance timeout -1: the coordinator that wrote it counted 0" in words) is (recorded < 0)


def test_minus_one_is_the_session_timeout_of_a_coordinator_that_loads_it() -> None:
    subscription = Subscription(session_timeout_ms=9_000, rebalance_timeout_ms=-1)
    assert (subscription.loaded_rebalance_ms, subscription.least_rebalance_ms) == (9_000, 0)
    absent = Subscription(session_timeout_ms=9_000, rebalance_timeout_ms=None)
    assert (absent.loaded_rebalance_ms, absent.least_rebalance_ms) == (9_000, 0)


def test_a_value_without_rebalance_timeouts_excludes_none() -> None:
    row = last_rebalance([timed("a", 60, None), timed("b", 60, None)], [timed("a", 60, None)], 10)
    assert reason(row) == ("LEAVE_OR_TIMEOUT", "possible", ["MEMBER_LEAVE", "REBALANCE_TIMEOUT"])
    assert "rebalance timeouts are not on record in this version of the group's value" in row["evidence"][1]


def test_only_a_rebalance_timeout_on_record_is_longer() -> None:
    before = [timed("a", 60, 300), timed("b", 60, 300)]
    row = last_rebalance(before, [timed("a", 60, None)], 10)
    assert reason(row)[0] == "MEMBER_LEAVE"
    assert "10 s earlier (__consumer_offsets-0, offset 1), less than its session timeout; " in row["evidence"][1]
    row = last_rebalance(before, [timed("a", 60, 300)], 10)
    assert "10 s earlier (__consumer_offsets-0, offset 1); its timeouts are longer: " in row["evidence"][1]


def test_a_static_member_stays_when_the_join_phase_ends() -> None:
    """Only a sync phase can have removed it before its session timed out, and the join phase that follows ends soon."""
    before = [timed("a", 60, 5, assigned=[0]), timed("b", 60, 5, assigned=[1], instance="one")]
    soon = last_rebalance(before, [timed("a", 60, 5)], 9, {A: 5, B: 0.3})
    assert reason(soon) == ("LEAVE_OR_TIMEOUT", "possible", ["MEMBER_LEAVE", "REBALANCE_TIMEOUT"])
    later = last_rebalance(before, [timed("a", 60, 5)], 40, {A: 5, B: 0.3})
    assert reason(later) == ("MEMBER_LEAVE", "likely", [])
    unseen = last_rebalance(before, [timed("a", 60, 5)], 40)
    assert (
        "last record showing it alive: 40 s earlier (__consumer_offsets-0, offset 1), less than its session timeout; "
        "session.timeout.ms 60 s, largest rebalance timeout (max.poll.interval.ms) 5 s. LeaveGroup removed it"
    ) in unseen["evidence"][1]
    late = last_rebalance(before, [timed("a", 60, 5)], 600)
    assert reason(late) == ("SESSION_TIMEOUT", "likely", ["MEMBER_LEAVE"])


def test_among_static_members_a_sync_phase_may_have_ended_long_ago() -> None:
    before = [timed("a", 60, 5, instance="one"), timed("b", 60, 5, instance="two")]
    row = last_rebalance(before, [timed("a", 60, 5, instance="one")], 40)
    assert reason(row) == ("LEAVE_OR_TIMEOUT", "possible", ["MEMBER_LEAVE", "REBALANCE_TIMEOUT"])


def longest(before: Sequence[Entry], after: Sequence[Entry]) -> int:
    """Return how long a rebalance took at most, without its sync."""
    row = last_rebalance(before, after, 200)
    return int(row["duration_ms_max"] - row["duration_ms_min"])


def test_a_join_phase_lasts_for_the_largest_rebalance_timeout_at_most() -> None:
    assert longest([timed("a", 60, 30), timed("b", 60, 5)], [timed("a", 60, 30)]) == 30_000
    assert longest([timed("a", 60, -0.001)], [timed("a", 60, -0.001)]) == 60_000


def test_a_join_phase_from_empty_has_no_bound_on_record() -> None:
    assert longest([], [timed("a", 60, 1)]) == 199_995


def test_a_join_phase_that_only_static_members_were_in_may_have_gone_on() -> None:
    """Where nobody has joined when the timer ends, it starts again (``completeClassicGroupJoin``)."""
    static = timed("b", 60, 5, instance="one")
    assert longest([static], [static]) == 199_995
    assert longest([static, timed("a", 60, 5)], [static]) == 199_995
    assert longest([static, timed("a", 60, 5)], [static, timed("a", 60, 5)]) == 5_000


def test_without_rebalance_timeouts_on_record_only_the_record_before_is_a_bound() -> None:
    assert longest([timed("a", 60, None)], [timed("a", 60, None)]) == 199_995
