"""Rules over offsets: for each evidence that raises it, and a near miss that does not."""

from typing import Any

import pytest

from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.thresholds import DAY_MS, DEFAULTS, HOUR_MS, MINUTE_MS
from coordinator_replay.analysis.findings.totals import PARTITION
from tests.analysis.findings.evaluated import NO_COMMITS, evaluate, group_status, minute, offsets, rewinds, rules

BUSY = [minute(at, first_at=at, last_at=at + 59_999) for at in range(0, HOUR_MS, MINUTE_MS)]
"""A group that commits for an hour; its end is just before HOUR_MS."""
OTHER = offsets(partition=1, last_at=HOUR_MS - 1)


def only(rule: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in found if one["rule"] == rule]


def test_a_group_that_goes_on_as_it_should_has_no_finding():
    assert evaluate([group_status(), *BUSY, offsets(last_at=HOUR_MS - 1), OTHER], end_ms=HOUR_MS) == []


# --- commit_stall -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "is_told"),
    [
        ({"last_at": HOUR_MS - 1 - DEFAULTS.stall_ms}, True),
        ({"last_at": HOUR_MS - DEFAULTS.stall_ms}, False),
        ({"last_at": HOUR_MS - 1 - DEFAULTS.stall_ms, "commits": 2}, False),
        ({"last_at": HOUR_MS - 1 - DEFAULTS.stall_ms, "commits": 20}, False),
    ],
    ids=["stalled", "not yet", "hardly ever committed", "usually commits as seldom"],
)
def test_commits_of_one_partition_stop_while_the_others_go_on(changes: dict[str, Any], is_told: bool):
    found = evaluate([group_status(), *BUSY, offsets(**changes), OTHER], end_ms=HOUR_MS)
    assert rules(found) == (["commit_stall"] if is_told else [])
    for one in found:
        assert (one["topic"], one["partition"], one["member_id"]) == ("orders", 0, "m-0")
        assert (one["log_partition"], one["log_offset"]) == (3, 900)


def test_commits_that_stopped_under_an_owner_before_are_no_stall():
    owned = [["orders", 0, "m-0", HOUR_MS - 5], ["orders", 1, "m-1", 0]]
    found = evaluate([group_status(owned=owned), *BUSY, offsets(last_at=0, first_at=0), OTHER], end_ms=HOUR_MS)
    assert found == []


@pytest.mark.parametrize(("unproven", "is_proven"), [(0, True), (1, False)])
def test_a_rule_over_commits_is_not_proven_by_commits_that_may_have_been_aborted(unproven: int, is_proven: bool):
    silent_until = HOUR_MS - 1 + DEFAULTS.silent_ms
    evidence = [group_status(), *BUSY, offsets(last_at=HOUR_MS - 1 - DEFAULTS.stall_ms), OTHER]
    found = evaluate(evidence, end_ms=silent_until, unproven=unproven)
    assert {one["rule"]: one["is_proven"] for one in found} == {"commit_stall": is_proven, "silent_group": True}


@pytest.mark.parametrize("status", [{"is_exact": False}, {"has_gap": True}, {"proven_from": HOUR_MS}])
def test_a_rule_over_what_is_not_there_needs_a_log_that_would_have_it(status: dict[str, Any]):
    end_ms = HOUR_MS + DEFAULTS.never_committed_ms - 1
    evidence = [*BUSY, offsets(last_at=HOUR_MS - 1 - DEFAULTS.stall_ms)]
    assert "never_committed" in rules(evaluate([group_status(), *evidence], end_ms=end_ms))
    found = rules(evaluate([group_status(**status), *evidence], end_ms=end_ms))
    assert "never_committed" not in found
    if "is_exact" in status:
        assert found == []


def test_commits_stop_and_topics_are_abandoned_only_where_no_later_commit_can_be_missing():
    for is_known in (True, False):
        stalled = offsets(last_at=HOUR_MS - 1 - DEFAULTS.stall_ms, is_last_known=is_known)
        left = offsets(topic="left", is_last_known=is_known)
        found = rules(evaluate([group_status(), *BUSY, stalled, OTHER, left], end_ms=2 * DAY_MS))
        assert ("commit_stall" in found, "abandoned_topic" in found) == (is_known, is_known)


# --- silent_group -----------------------------------------------------------------------------------------------------


def test_a_group_that_used_to_commit_and_writes_nothing_is_silent():
    evidence = [group_status(), *BUSY, offsets(last_at=HOUR_MS - 1), OTHER]
    silent_until = HOUR_MS - 1 + DEFAULTS.silent_ms
    (found,) = evaluate(evidence, end_ms=silent_until)
    assert found["rule"] == "silent_group"
    assert found["first_seen"] == HOUR_MS - 1
    assert evaluate(evidence, end_ms=silent_until - 1) == []


@pytest.mark.parametrize(
    "changes", [{"state": "Empty", "members": 0}, {"at": 2 * HOUR_MS}], ids=["empty", "had a rebalance since"]
)
def test_a_group_without_members_or_with_news_is_not_silent(changes: dict[str, Any]):
    evidence = [group_status(**changes), *BUSY, offsets(last_at=HOUR_MS - 1), OTHER]
    assert "silent_group" not in rules(evaluate(evidence, end_ms=HOUR_MS - 1 + DEFAULTS.silent_ms))


@pytest.mark.parametrize("more", [0, 200], ids=["that night", "later"])
def test_what_is_usual_is_what_the_commits_before_a_silence_show(more: int):
    """Commits every two hours, of which ten times the mean is more than an hour, follow commits twice a minute."""
    later = [minute(2 * HOUR_MS * number) for number in range(1, more + 1)]
    end_ms = max(2 * HOUR_MS, 2 * HOUR_MS * more)
    (found,) = only("silent_group", evaluate([group_status(), *BUSY, *later], end_ms=end_ms))
    assert found["first_seen"] == HOUR_MS - 1


def test_a_group_that_commits_once_a_day_is_not_silent_after_an_hour():
    days = [minute(day * DAY_MS) for day in range(5)]
    assert "silent_group" not in rules(evaluate([group_status(), *days], end_ms=4 * DAY_MS + 2 * HOUR_MS))


# --- never_committed, abandoned_topic ---------------------------------------------------------------------------------


def test_a_partition_that_is_owned_for_long_and_never_committed_is_told():
    evidence = [group_status(), *BUSY, OTHER]
    (found,) = evaluate(evidence, end_ms=DEFAULTS.never_committed_ms)
    assert (found["rule"], found["topic"], found["partition"], found["severity"]) == (
        "never_committed",
        "orders",
        0,
        "info",
    )
    assert evaluate(evidence, end_ms=DEFAULTS.never_committed_ms - 1) == []


def test_offsets_of_a_topic_that_no_member_subscribes_to_are_abandoned_after_a_day():
    evidence = [group_status(at=DAY_MS), minute(DAY_MS), offsets(), OTHER, offsets("old", 4, last_at=1000)]
    (found,) = only("abandoned_topic", evaluate(evidence, end_ms=1000 + DEFAULTS.abandoned_ms))
    assert found["topic"] == "old"
    assert "abandoned_topic" not in rules(evaluate(evidence, end_ms=999 + DEFAULTS.abandoned_ms))


@pytest.mark.parametrize(
    "changes",
    [{"subscribed": ["old", "orders"]}, {"subscribed": []}, {"members": 0, "state": "Empty"}],
    ids=["subscribed", "subscription not known", "nobody there"],
)
def test_offsets_of_a_topic_that_may_be_read_are_not_abandoned(changes: dict[str, Any]):
    evidence = [group_status(**changes), offsets("old", 4, last_at=1000)]
    assert "abandoned_topic" not in rules(evaluate(evidence, end_ms=9 * DAY_MS))


# --- hot_committer, oversized_metadata --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("minutes", "commits", "is_told"),
    [(10, 120, True), (9, 120, False), (60, 118, False)],
    ids=["a commit a second", "not for long", "a little less"],
)
def test_a_group_that_commits_each_partition_every_second_is_hot(minutes: int, commits: int, is_told: bool):
    evidence = [minute(at * MINUTE_MS, commits=commits) for at in range(minutes)]
    found = only("hot_committer", evaluate([group_status(), *evidence, offsets(), OTHER], end_ms=minutes * MINUTE_MS))
    assert len(found) == is_told
    for one in found:
        assert one["occurrences"] == minutes
        assert f"{minutes * commits:,} commits of {100 * minutes * commits:,} bytes" in one["message"]


def test_a_group_of_many_partitions_is_not_hot_for_committing_all():
    evidence = [minute(at * MINUTE_MS, commits=12_000, partitions=1000) for at in range(60)]
    assert only("hot_committer", evaluate(evidence, end_ms=HOUR_MS)) == []


@pytest.mark.parametrize(("length", "is_told"), [(1024, True), (1023, False), (None, False)])
def test_long_texts_beside_commits_are_told_by_topic(length: int | None, is_told: bool):
    found = evaluate([offsets(metadata_bytes=length), offsets(partition=1, metadata_bytes=3)], end_ms=0)
    assert rules(found) == (["oversized_metadata"] if is_told else [])


# --- offset_rewind, offset_reset --------------------------------------------------------------------------------------

BACK = {
    "partition": 0,
    "from_offset": 77,
    "committed_offset": 10,
    "previous_offset": 40,
    "owner_member_id": "m-0",
    "group_state": "Stable",
    "valid_from": 5000,
}
REBALANCE = {
    "at": 4000,
    "rebalance_id": "r1",
    "epoch": 4,
    "started_at": 3000,
    "is_over": True,
    "metadata_delay_ms": None,
}


def test_an_offset_that_went_back_is_told_with_its_owner_and_rebalance():
    back = rewinds(count=2, first_at=1000, furthest=30, last=BACK)
    rebalances = [
        (Evidence.REBALANCE, REBALANCE),
        (Evidence.REBALANCE, {**REBALANCE, "rebalance_id": "r2", "started_at": 6000}),
    ]
    (found,) = evaluate([group_status(), *rebalances, offsets(), back, OTHER], end_ms=9000)
    assert (found["rule"], found["occurrences"], found["log_offset"]) == ("offset_rewind", 2, 77)
    assert "from 40 to 10" in found["message"]
    assert '"rebalance_id":"r1"' in found["detail"]


def test_an_offset_that_went_back_in_a_record_without_a_time_is_told_too():
    back = rewinds(count=1, first_at=None, furthest=30, last={**BACK, "valid_from": None})
    (found,) = evaluate([group_status(), (Evidence.REBALANCE, REBALANCE), offsets(), back, OTHER], end_ms=9000)
    assert (found["rule"], found["first_seen"]) == ("offset_rewind", None)
    assert "from 40 to 10 at an unknown time" in found["message"]
    assert '"rebalance_id":null' in found["detail"]
    assert found["member_id"] == "m-0"


@pytest.mark.parametrize(("members_from", "is_told"), [(1000, True), (6000, False)], ids=["had members", "later"])
def test_a_commit_into_an_empty_group_is_a_reset_if_it_has_had_members(members_from: int | None, is_told: bool):
    row = offsets(into_empty={**NO_COMMITS, **BACK, "count": 1, "first_at": 5000})
    group = group_status(state="Empty", members=0, members_from=members_from, owned=[])
    found = evaluate([group, row], end_ms=9000)
    assert rules(found) == (["offset_reset"] if is_told else [])


@pytest.mark.parametrize(
    ("group", "commit", "words"),
    [
        ({"members_from": 6000, "is_beginning_known": True}, {}, "before the group's first member joined"),
        ({"members_from": 6000, "is_beginning_known": False}, {}, None),
        ({"members_from": None}, {"previous_offset": 3}, None),
    ],
    ids=["before the first member", "beginning not in the log", "onward without members"],
)
def test_a_commit_without_members_is_told_where_no_ordinary_progress_explains_it(
    group: dict[str, Any], commit: dict[str, Any], words: str | None
):
    last = {"from_offset": 77, "valid_from": 5000, "committed_offset": 7}
    into_empty = {**NO_COMMITS, "count": 1, "first_at": 5000, **last, **commit}
    found = evaluate(
        [group_status(state="Empty", members=0, owned=[], **group), offsets(into_empty=into_empty)], end_ms=9000
    )
    assert [one["rule"] for one in found] == (["offset_reset"] if words else [])
    assert all(words in one["message"] for one in found)


NO_MEMBERS = {**BACK, "group_state": "Empty", "owner_member_id": None}


@pytest.mark.parametrize(
    ("commit", "with_leader_epoch", "words"),
    [
        ({}, 0, "the log doesn't show which"),
        ({"leader_epoch": 4}, 1, "on record: a consumer that uses assign(); the commit has a leader epoch"),
        ({"leader_epoch": None}, 3, "on record: kafka-consumer-groups, another tool"),
        ({"is_transactional": True}, 3, "on record: a transactional producer"),
    ],
    ids=["nothing tells", "a consumer", "most likely a tool", "a producer"],
)
@pytest.mark.parametrize("group", [[], [group_status(state="Empty", members=0, members_from=None, owned=[])]])
def test_a_rewind_in_a_group_without_members_says_what_its_committer_may_be(
    group: list[Any], commit: dict[str, Any], with_leader_epoch: int, words: str
):
    back = rewinds(2, 1000, 30, {**NO_MEMBERS, **commit}, with_leader_epoch)
    (found,) = evaluate([*group, offsets(committed_offset=90), back], end_ms=9000)
    assert (found["rule"], found["first_seen"], found["occurrences"]) == ("offset_rewind", 1000, 2)
    assert "from 40 to 10" in found["message"]
    assert words in found["message"]


def test_a_rewind_while_a_group_was_empty_that_has_members_is_its_reset_alone():
    row = offsets(into_empty={**NO_COMMITS, **NO_MEMBERS, "count": 1, "first_at": 5000})
    back = rewinds(1, 5000, 30, NO_MEMBERS)
    assert rules(evaluate([group_status(members_from=1000, owned=[]), row, back], end_ms=9000)) == ["offset_reset"]


def test_a_rewind_of_many_partitions_is_one_finding():
    back = rewinds(200, 1000, 30, {**BACK, "partition": 7}, partitions=range(200))
    (found,) = evaluate([group_status(), offsets(), OTHER, back], end_ms=9000)
    assert (found["occurrences"], found["topic"], found["partition"]) == (200, "orders", None)
    assert (found["first_seen"], found["last_seen"], found["ended_at"]) == (1000, 5000, 5000)
    assert found["message"].startswith(
        "committed offsets of 200 partitions of orders (0-199) rewound, by up to 30; the last, of "
        "partition 7, from 40 to 10 on "
    )


def test_a_reset_of_many_partitions_is_one_finding_and_one_on_another_day_another():
    def reset(partition: int, at: int) -> tuple[Evidence, dict[str, Any]]:
        commit = {**BACK, "from_offset": at + partition, "valid_from": at, "first_at": at, "count": 1}
        return offsets(partition=partition, into_empty={**NO_COMMITS, **commit})

    group = group_status(state="Empty", members=0, members_from=1000, owned=[])
    resets = [reset(partition, DAY_MS + partition) for partition in range(50)]
    found = evaluate([group, *resets, reset(99, 2 * DAY_MS)], end_ms=3 * DAY_MS)
    assert [(one["rule"], one["occurrences"], one["partition"]) for one in found] == [
        ("offset_reset", 50, None),
        ("offset_reset", 1, 99),
    ]
    assert found[0]["ended_at"] == found[0]["last_seen"] == DAY_MS + 49
    assert len({one["finding_id"] for one in found}) == 2


def test_stalled_partitions_of_one_owner_are_one_finding_that_goes_on():
    owned = [["orders", number, "m-1" if number == 9 else "m-0", 0] for number in range(10)]
    stalled = [offsets(partition=n, last_at=HOUR_MS - 1 - DEFAULTS.stall_ms - n) for n in (0, 1, 2, 9)]
    found = evaluate([group_status(owned=owned), *BUSY, *stalled], end_ms=HOUR_MS)
    stalls = [one for one in found if one["rule"] == "commit_stall"]
    assert [(one["member_id"], one["occurrences"], one["partition"]) for one in stalls] == [
        ("m-0", 3, None),
        ("m-1", 1, 9),
    ]
    assert {one["ended_at"] for one in stalls} == {None}


# --- transactions -----------------------------------------------------------------------------------------------------


def transaction(**changes: Any) -> tuple[Evidence, dict[str, Any]]:
    row = {
        "log_partition": 3,
        "producer_id": 9,
        "producer_epoch": 0,
        "from_offset": 50,
        "partitions": 1,
        "topic": "orders",
        "ended_by": None,
        "pending_since": 1000,
        "ended_at": None,
    }
    return Evidence.PENDING, {**row, **changes}


def test_a_transaction_that_is_open_for_longer_than_it_may_last_is_an_error():
    of_both = transaction(partitions=2, topic=None)
    (found,) = evaluate([of_both], end_ms=1000 + DEFAULTS.pending_ms)
    assert (found["rule"], found["severity"]) == ("open_transaction", "error")
    assert (found["occurrences"], found["topic"], found["log_offset"]) == (2, None, 50)
    assert evaluate([transaction()], end_ms=999 + DEFAULTS.pending_ms) == []


@pytest.mark.parametrize(
    ("ended_at", "is_told"), [(1000 + DEFAULTS.pending_ms, True), (999 + DEFAULTS.pending_ms, False)]
)
def test_a_transaction_that_was_open_for_long_is_told_after_its_end(ended_at: int, is_told: bool):
    ended = transaction(ended_at=ended_at, ended_by="ABORT")
    assert rules(evaluate([ended], end_ms=9 * DAY_MS)) == (["long_transaction"] if is_told else [])


@pytest.mark.parametrize(("ended_by", "is_open"), [("ABORT", False), ("RECORDS_MISSING", True)])
def test_a_transaction_that_ended_among_missing_records_was_open_at_least_until_then(ended_by: str, is_open: bool):
    ended = transaction(ended_at=1000 + DEFAULTS.pending_ms, ended_by=ended_by)
    (found,) = evaluate([ended], end_ms=9 * DAY_MS)
    assert (found["is_end_open"], "for at least" in found["message"]) == (is_open, is_open)


# --- expiry -----------------------------------------------------------------------------------------------------------


def expiry(status: str, at: int) -> list[tuple[Evidence, dict[str, Any]]]:
    row = {
        "topic": "orders",
        "status": status,
        "rule": "empty_since",
        "at": at,
        "log_offset": 70 if status == "EXPIRED" else None,
        "confidence": "certain",
    }
    return [(Evidence.EXPIRY, {**row, "partition": number}) for number in (1, 0, 5)]


@pytest.mark.parametrize(
    ("status", "rule"), [("DUE", "offset_due"), ("EXPIRING", "offset_expiring"), ("EXPIRED", "offset_lost")]
)
def test_offsets_in_danger_are_told_while_their_partition_had_an_owner_lately(status: str, rule: str):
    released = [["orders", 0, "m-0", 1000], ["orders", 1, "m-1", 2000]]
    group = group_status(state="Empty", members=0, owned=[], released=released)
    end_ms = 1000 + DEFAULTS.owned_lately_ms
    (found,) = evaluate([group, *expiry(status, end_ms)], end_ms=end_ms)
    assert (found["rule"], found["occurrences"], found["member_id"]) == (rule, 2, "m-1")
    assert evaluate([group, *expiry(status, end_ms + 1001)], end_ms=end_ms + 1001) == []
    assert evaluate(expiry(status, end_ms), end_ms=end_ms) == []


def test_offsets_past_retention_one_after_the_other_say_so():
    group = group_status(owned=[["orders", number, "m-0", 1000] for number in (0, 1)])
    kind, row = expiry("DUE", 2000)[0]
    due = [(kind, {**row, "partition": number, "at": at}) for number, at in ((1, 5000), (0, 2000))]
    (found,) = evaluate([group, *due], end_ms=9000)
    assert "since 1970-01-01T00:00:02.000Z (the last: 1970-01-01T00:00:05.000Z)" in found["message"]
    past = [
        (kind, {**row, "since": row["at"], "until": until})
        for (kind, row), until in zip(due, (6000, 8000), strict=True)
    ]
    (found,) = evaluate([group, *past], end_ms=9000)
    assert (found["first_seen"], found["ended_at"]) == (2000, 8000)
    assert "the last of them until 1970-01-01T00:00:08.000Z" in found["message"]


# --- rebalances, records, the log -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delay_ms", "is_told"),
    [(DEFAULTS.metadata_delay_ms, True), (DEFAULTS.metadata_delay_ms - 1, False), (None, False)],
)
def test_a_group_that_takes_long_to_see_new_partitions_is_told(delay_ms: int | None, is_told: bool):
    late = {**REBALANCE, "metadata_delay_ms": delay_ms}
    assert rules(evaluate([(Evidence.REBALANCE, late)], end_ms=0)) == (["late_topic_change"] if is_told else [])


@pytest.mark.parametrize(("length", "is_told"), [(943_730, True), (943_729, False)])
def test_a_record_near_what_the_topic_takes_is_told(length: int, is_told: bool):
    row = {"record_bytes": length, "kind": "GroupMetadata", "log_partition": 3, "log_offset": 5, "timestamp_ms": 1000}
    found = evaluate([(Evidence.LARGE_RECORD, row)], end_ms=0)
    assert rules(found) == (["group_near_record_limit"] if is_told else [])


def test_what_is_wrong_with_the_log_is_about_no_group():
    gap = {"log_partition": 2, "from_offset": 5, "to_offset": 9}
    damage = {
        "log_partition": 2,
        "error_class": "TornBatch",
        "error_message": "…",
        "records": 3,
        "first_at": None,
        "last_at": None,
        "log_offset": None,
    }
    found = evaluate([(Evidence.UNREADABLE, damage), (Evidence.GAP, gap)], end_ms=0)
    assert rules(found) == ["log_gap", "unreadable_records"]
    assert {one["group_id"] for one in found} == {None}
    assert [one["occurrences"] for one in found] == [3, 4]


def test_records_of_an_unknown_kind_are_a_warning_that_names_their_groups():
    unknown = {
        "log_partition": 2,
        "error_class": "UnknownRecordType",
        "error_message": "the key is of a kind this release does not know: kind 24",
        "groups": ["a", "b"],
        "records": 3,
        "first_at": 1000,
        "last_at": 2000,
        "log_offset": 5,
    }
    (found,) = evaluate([(Evidence.UNKNOWN_KIND, unknown)], end_ms=0)
    assert (found["rule"], found["severity"], found["occurrences"]) == ("unknown_records", "warning", 3)
    assert "kind 24 of 2 groups: a, b" in found["message"]
    (nobodys,) = evaluate([(Evidence.UNKNOWN_KIND, {**unknown, "groups": []})], end_ms=0)
    assert nobodys["message"].endswith("kind 24")


def test_what_an_election_has_truncated_is_found():
    found = evaluate([(Evidence.LOST, {"log_partition": 2, "from_offset": 5, "to_offset": 9})], end_ms=0)
    assert rules(found) == ["log_truncated"]
    assert found[0]["occurrences"] == 4


@pytest.mark.parametrize(("loading_ms", "expected"), [(10_000, ["slow_loading"]), (9_999, []), (None, [])])
def test_a_partition_that_took_long_to_load_is_found(loading_ms, expected):
    loading = {"log_partition": 2, "leader_epoch": 7, "broker": 1, "loading_ms": loading_ms, "loaded_at": 60_000}
    found = evaluate([(Evidence.LOADING, {**loading, "sources": ["broker_log"]})], end_ms=0)
    assert rules(found) == expected
    assert [(one["first_seen"], one["last_seen"], one["group_id"]) for one in found] == [(50_000, 60_000, None)] * len(
        expected
    )


def test_a_group_for_which_a_step_failed_is_named_with_the_place_in_the_log():
    failure = {"step": "a step", "error": "KeyError: 1", "where": "x: y", "log_partition": 2, "log_offset": 5}
    (found,) = evaluate([(Evidence.FAILURE, failure)], end_ms=1000)
    assert (found["rule"], found["severity"], found["last_seen"]) == ("group_not_evaluated", "warning", 1000)
    assert (found["log_partition"], found["log_offset"]) == (2, 5)
    assert "a step failed with KeyError: 1" in found["message"]


def test_a_partition_of_an_earlier_topic_has_not_stalled():
    def found(topic_id: str | None) -> list[str]:
        stalled = offsets(last_at=HOUR_MS - 1 - DEFAULTS.stall_ms, topic_id=topic_id)
        busy = offsets(partition=1, last_at=HOUR_MS - 1, topic_id="new", from_offset=2000)
        return rules(evaluate([group_status(), *BUSY, stalled, busy], end_ms=HOUR_MS))

    assert found("new") == ["commit_stall"]
    assert found("old") == found(None) == []


# --- position_lost ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lasting", [[], [0]])
def test_a_negative_offset_is_a_lost_position_until_another_is_committed(lasting: list[int]):
    last = {"partition": 0, "from_offset": 7, "committed_offset": -1, "replaced_offset": 50}
    burst = {
        "topic": "orders",
        "log_partition": 3,
        "count": 1,
        "first_at": 5,
        "last_at": 5,
        "first_offset": 7,
        "partitions": [0],
        "last": last | {"owner_member_id": "m-0", "valid_from": 5},
        "lasting": lasting,
    }
    [one] = evaluate([(Evidence.POSITION_LOSS, burst)], end_ms=HOUR_MS)
    assert (one["rule"], one["severity"], one["partition"]) == ("position_lost", "warning", 0)
    assert (one["first_seen"], one["ended_at"]) == (5, None if lasting else 5)
    assert "set to -1 on 1970-01-01T00:00:00.005Z, where 50 had been committed" in one["message"]


def test_groups_that_moved_to_another_log_partition_are_one_finding():
    moves = [{"group_id": f"g-{one}", "log_partition": one, "to_log_partition": one + 50} for one in range(30)]
    about = {"groups": 30, "first_at": 1000, "last_at": 9000, "overlaps_until": None}
    (found,) = evaluate([(Evidence.MOVED, {"moves": moves, **about})], end_ms=9000)
    assert (found["rule"], found["group_id"], found["occurrences"]) == ("group_moved", None, 30)
    assert "g-0 from 0 to 50" in found["message"]
    assert "and 10 more" in found["message"]


# --- offset_jump ------------------------------------------------------------------------------------------------------


def stepped(length: int, *, commits: int = 101, lowest: int = 0, newest: int = 60_000, at_ms: int | None = 7000):
    """A partition whose longest step leads to 55,000."""
    step = [length, -850, 55_000, at_ms]
    return offsets(commits=commits, lowest=lowest, committed_offset=newest, longest_step=step)


def jumps(row: Any) -> list[dict[str, Any]]:
    found = evaluate([group_status(), row], end_ms=9000)
    return [one for one in found if one["rule"] == "offset_jump"]


def test_a_step_much_longer_than_the_others_is_a_jump():
    # The other 100 steps come to 1,000 offsets.
    (found,) = jumps(stepped(50_000, newest=51_000))
    assert (found["topic"], found["partition"], found["severity"]) == ("orders", 0, "info")
    assert (found["first_seen"], found["last_seen"], found["log_offset"]) == (7000, 7000, 850)
    assert found["message"] == (
        "committed offset of orders-0 went ahead from 5000 to 55000 on 1970-01-01T00:00:07.000Z; its other commits go "
        "ahead by 10 on average"
    )
    (found,) = jumps(stepped(50_000, newest=50_050))
    assert found["message"].endswith("its other commits go ahead by less than 1 on average")
    assert jumps(stepped(50_000, newest=50_050, at_ms=None))


@pytest.mark.parametrize(
    "row",
    [
        # A partition that is read that fast.
        stepped(50_000, newest=56_000),
        # Few offsets, however still it was before.
        stepped(9999, newest=9999),
        # Too few commits to say what is usual.
        stepped(50_000, newest=50_000, commits=10),
        # Sums of an earlier release, and a partition whose commits never went ahead.
        offsets(),
        offsets(commits=101, lowest=50, longest_step=None),
    ],
)
def test_steps_as_long_as_others_short_ones_and_few_commits_are_no_jump(row: Any):
    assert jumps(row) == []


def test_sums_of_two_runs_have_the_longest_step_of_both_and_the_first_of_equal_ones():
    first = {"from_offset": 10, "committed_offset": 5, "lowest": 3, "longest_step": [20, -10, 30, 1000]}
    last = {"from_offset": 90, "committed_offset": 9, "lowest": 1, "longest_step": [20, -90, 99, None]}
    keys = {**dict.fromkeys(PARTITION.columns), "is_lost": False, "topic_id": None}
    keys |= dict.fromkeys(("empty_valid_from", "empty_committed_offset", "empty_previous_offset"))
    for one, other in ((first, last), (last, first)):
        merged = PARTITION.merge({**keys, **one}, {**keys, **other})
        assert (merged["lowest"], merged["longest_step"]) == (1, [20, -10, 30, 1000])
