"""What lines of a broker's log make of rebalances: used where a record agrees, named where they contradict it."""

from typing import Any

import pytest

from coordinator_replay.analysis.broker_logs.lines import GroupLogLine
from coordinator_replay.analysis.broker_logs.words import by_records, with_broker_log
from coordinator_replay.analysis.reasons.facts import Fact, FactKind, fact_rows

DONE = 1_795_442_300_000


def row(**fields: Any) -> dict[str, Any]:
    """A classic rebalance from generation 4 to 5, in which member b was removed."""
    return {
        "group_type": "classic",
        "epoch": 5,
        "attempts": 1,
        "started_at": None,
        "began_by": DONE - 10,
        "completed_at": DONE,
        "is_end_open": False,
        "duration_ms": None,
        "duration_ms_min": 10,
        "duration_ms_max": 60_000,
        "cause": "LEAVE_OR_TIMEOUT",
        "join_reason": "unknown",
        "confidence": "possible",
        "evidence": ["b was removed. LeaveGroup or session timeout: the log doesn't show which"],
        "facts": fact_rows([(Fact(FactKind.REMOVED, ("member-b",)),)]),
        "alternatives": ["MEMBER_LEAVE", "SESSION_TIMEOUT"],
        "trigger_members": ["member-b"],
        "members_after": 2,
        "members_joined": [],
        "members_left": ["member-b"],
        "is_exact": True,
        "reasons": None,
        "client_reasons": None,
        "by_records": None,
    } | fields


def line(before_ms: int, event: str, epoch: int | None = None, **fields: Any) -> GroupLogLine:
    fields = {"member_id": None, "member_count": None, "reason": None, "client_reason": None, "broker": 1} | fields
    text = f"[GroupCoordinator id=1 topic=__consumer_offsets partition=3] {fields['reason'] or event}"
    return GroupLogLine(at_ms=DONE - before_ms, event=event, epoch=epoch, **{"text": text} | fields)


def preparing(
    before_ms: int, epoch: int, reason: str = "removing member member-b on heartbeat expiration"
) -> GroupLogLine:
    return line(before_ms, "PREPARING_REBALANCE", epoch, reason=reason)


ENDED = line(10, "STABILIZED", 5, member_count=2)


def told(*lines: GroupLogLine, **fields: Any) -> dict[str, Any]:
    return with_broker_log(row(**fields), sorted(lines, key=lambda one: one.order))


def test_a_line_that_a_record_agrees_with_names_the_cause() -> None:
    found = told(preparing(900, 4), ENDED)
    assert (found["cause"], found["confidence"], found["alternatives"]) == ("SESSION_TIMEOUT", "certain", [])
    assert (found["started_at"], found["duration_ms"]) == (DONE - 900, 900)
    assert found["evidence"] == [
        "log of broker 1 at 2026-11-23T13:58:19.100Z: removing member member-b on heartbeat expiration",
        "b was removed",
    ]
    assert [(fact["sentence"], fact["kind"]) for fact in found["facts"]] == [(0, "LOGGED"), (1, "REMOVED")]
    assert by_records(found) == row()
    assert with_broker_log(found, []) == row()


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [preparing(900, 4)],
        [preparing(900, 3), ENDED],
        [preparing(80_000, 4), ENDED],
        [preparing(900, 4), line(5_000, "STABILIZED", 5, member_count=2)],
        [preparing(900, 4), line(500, "STABILIZED", 4, member_count=2), ENDED],
        [preparing(900, 4), line(10, "GROUP_EMPTY", 5)],
    ],
    ids=["none", "no end", "older generation", "too long ago", "other time", "other generation", "other end"],
)
def test_lines_that_no_record_agrees_with_change_nothing(lines: list[GroupLogLine]) -> None:
    assert told(*lines) == row()


def test_a_line_that_contradicts_the_record_is_shown_and_not_used() -> None:
    found = told(preparing(900, 4), line(10, "STABILIZED", 5, member_count=3))
    assert found["evidence"][1:] == [
        "log of broker 1 at 2026-11-23T13:58:19.990Z contradicts the record, and is not used: "
        "generation 5 with 3 members"
    ]
    assert by_records(found) == row()
    assert {name: found[name] for name in ("cause", "confidence", "duration_ms", "reasons")} == {
        "cause": "LEAVE_OR_TIMEOUT",
        "confidence": "possible",
        "duration_ms": None,
        "reasons": None,
    }


def test_of_two_reasons_for_one_generation_none_is_certain() -> None:
    """The coordinator failed over while members were joining, or one of the lines is forged."""
    found = told(preparing(900, 4), preparing(500, 4, "removing member member-b on LeaveGroup"), ENDED)
    assert (found["cause"], found["confidence"], found["duration_ms"]) == ("LEAVE_OR_TIMEOUT", "possible", 900)
    assert len(found["reasons"]) == 2


def test_a_member_that_no_record_removes_makes_nothing_certain() -> None:
    found = told(preparing(900, 4, "removing member member-x on heartbeat expiration"), ENDED)
    assert (found["cause"], found["confidence"]) == ("LEAVE_OR_TIMEOUT", "possible")


def test_every_attempt_is_in_the_reasons_and_the_first_is_the_beginning() -> None:
    lines = [preparing(9_000, 3), line(6_000, "STABILIZED", 4, member_count=3), preparing(3_000, 4, "second"), ENDED]
    found = told(*lines, attempts=2)
    assert found["duration_ms"] == 9_000
    assert [one.split()[0] for one in found["reasons"]] == ["removing", "second"]
    assert (found["cause"], found["confidence"]) == ("SESSION_TIMEOUT", "certain")


def test_without_the_first_attempt_the_beginning_is_open() -> None:
    found = told(preparing(3_000, 4), ENDED, attempts=2)
    assert (found["started_at"], found["duration_ms"], found["cause"]) == (None, None, "LEAVE_OR_TIMEOUT")
    assert found["reasons"]


def test_a_clients_word_is_likely_until_a_record_shows_the_same() -> None:
    rejoin = preparing(900, 4, "Leader member-a re-joining group during Stable")
    rejoin = rejoin._replace(client_reason="cached metadata has changed from (version7)")
    open_row = {"cause": "LEADER_REJOIN", "alternatives": ["TOPIC_METADATA_CHANGE", "SESSION_TIMEOUT"]}
    found = told(rejoin, ENDED, members_left=[], **open_row)
    assert (found["cause"], found["confidence"]) == ("TOPIC_METADATA_CHANGE", "likely")
    assert (found["alternatives"], found["join_reason"]) == (["LEADER_REJOIN"], "topic_metadata_change")
    found = told(rejoin, ENDED, members_left=[], cause="TOPIC_METADATA_CHANGE", confidence="likely", alternatives=[])
    assert (found["cause"], found["confidence"]) == ("TOPIC_METADATA_CHANGE", "certain")


def test_lines_name_how_members_of_newer_groups_went() -> None:
    newer = {"group_type": "consumer", "started_at": DONE - 5_000, "duration_ms": 5_000}
    fenced = line(5_001, "MEMBER_FENCED", member_id="member-b", reason="the member session expired")
    found = told(fenced, **newer)
    assert (found["cause"], found["confidence"]) == ("SESSION_TIMEOUT", "certain")
    assert found["duration_ms"] == 5_000
    left = line(4_999, "MEMBER_LEFT", member_id="member-b")
    assert told(fenced, left, **newer)["cause"] == "LEAVE_OR_TIMEOUT"
    assert told(fenced._replace(member_id="member-x"), **newer) == row(**newer)


LEFT_LATE = {"cause": "POLL_TIMEOUT_REJOIN", "confidence": "likely", "alternatives": ["MEMBER_LEAVE"]}


def left(member_id: str, client_reason: str | None) -> GroupLogLine:
    return line(905, "MEMBER_LEFT", member_id=member_id, client_reason=client_reason)


@pytest.mark.parametrize(
    ("client_reason", "cause"),
    [
        ("consumer poll timeout has expired.", ("POLL_TIMEOUT_REJOIN", "certain", [])),
        ("worker poll timeout has expired.", ("POLL_TIMEOUT_REJOIN", "certain", [])),
        ("the consumer is being closed", ("POLL_TIMEOUT_REJOIN", "likely", ["MEMBER_LEAVE"])),
        (None, ("POLL_TIMEOUT_REJOIN", "likely", ["MEMBER_LEAVE"])),
    ],
)
def test_a_poll_timeout_that_the_client_gave_as_its_reason_is_certain(
    client_reason: str | None, cause: tuple[str, str, list[str]]
) -> None:
    leaving = preparing(900, 4, "explicit `LeaveGroup` request for (member-b) members.")
    found = told(left("member-b", client_reason), leaving, ENDED, **LEFT_LATE)
    assert (found["cause"], found["confidence"], found["alternatives"]) == cause


def test_a_poll_timeout_that_a_log_shows_leaves_no_cause_that_the_records_do_not_show() -> None:
    leaving = preparing(900, 4, "explicit `LeaveGroup` request for (member-b) members.")
    unseen = {**LEFT_LATE, "alternatives": ["MEMBER_LEAVE", "LEADER_REJOIN", "MEMBER_JOIN"]}
    found = told(left("member-b", "consumer poll timeout has expired."), leaving, ENDED, **unseen)
    assert (found["confidence"], found["alternatives"]) == ("certain", [])


def test_the_reason_of_one_of_two_members_makes_no_cause_certain() -> None:
    both = {"trigger_members": ["member-b", "member-c"], "members_left": ["member-b", "member-c"]}
    leaving = preparing(900, 4, "explicit `LeaveGroup` request for (member-b) members.")
    found = told(left("member-b", "consumer poll timeout has expired."), leaving, ENDED, **LEFT_LATE, **both)
    assert (found["cause"], found["confidence"]) == ("POLL_TIMEOUT_REJOIN", "likely")
