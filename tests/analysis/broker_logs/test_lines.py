import pytest

from coordinator_replay.analysis.broker_logs.lines import (
    BEGIN,
    GroupLogLine,
    broker_name,
    cause_of,
    fencing_cause,
    rejoin_cause,
)
from coordinator_replay.analysis.reasons.vocabulary import Cause

LINE = GroupLogLine(1_000, BEGIN, 4, None, None, "Adding new member a-1", None, 2, "[GroupCoordinator 2]: Preparing")


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("Adding new member a-1 with group instance id None", Cause.MEMBER_JOIN),
        ("removing member a-1 on heartbeat expiration", Cause.SESSION_TIMEOUT),
        ("Removing 2 members on pending sync request expiration", Cause.REBALANCE_TIMEOUT),
        ("explicit `LeaveGroup` request for (a-1)", Cause.MEMBER_LEAVE),
        ("Leader a-1 re-joining group during Stable", Cause.LEADER_REJOIN),
        ("something new", None),
        (None, None),
    ],
)
def test_the_coordinators_reason_names_a_cause(reason, cause):
    assert cause_of(reason) is cause


@pytest.mark.parametrize(
    ("client_reason", "cause"),
    [
        ("cached metadata has changed from (version 1) to (version 2)", Cause.TOPIC_METADATA_CHANGE),
        ("need to revoke partitions [orders-1] as indicated", Cause.COOPERATIVE_FOLLOW_UP),
        ("the subscription has changed from [] to [orders]", Cause.SUBSCRIPTION_CHANGE),
        ("not provided", Cause.LEADER_REJOIN),
        (None, Cause.LEADER_REJOIN),
    ],
)
def test_a_members_own_reason_names_why_it_joined_again(client_reason, cause):
    assert rejoin_cause(client_reason) is cause


def test_a_fenced_member_missed_its_session_or_its_rebalance_timeout():
    assert fencing_cause("the member session expired") is Cause.SESSION_TIMEOUT
    assert fencing_cause("the member failed to transition from epoch 3 within 300000ms") is Cause.REBALANCE_TIMEOUT


def test_lines_of_a_millisecond_are_in_the_order_of_a_rebalance():
    stabilized = LINE._replace(event="STABILIZED")
    assigned, without_generation = LINE._replace(event="ASSIGNMENT_RECEIVED"), LINE._replace(event="X", epoch=None)
    lines = sorted([LINE, assigned, stabilized, without_generation], key=lambda line: line.order)
    assert lines == [without_generation, stabilized, assigned, LINE]


def test_the_words_of_a_line_leave_out_who_logged_it():
    assert LINE.words == "Adding new member a-1"
    assert LINE._replace(event="MEMBER_LEFT", text="[GroupCoordinator 2]: Member a-1 has left").words == (
        "Member a-1 has left"
    )
    assert [broker_name(2), broker_name(None)] == ["broker 2", "a broker"]
