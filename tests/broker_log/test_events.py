import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.broker_log.events import EVENTS, MANAGED_EVENT, MARKS, read_event
from coordinator_replay.broker_log.layouts import LogLine, parse_line
from tests.samples import DATA

LOGS = (
    *(f"broker-logs/{version}/server.log" for version in ("2.8", "3.9", "3.9-scala", "4.0", "4.1")),
    *(f"failovers/server-{broker}.log" for broker in (1, 2)),
)
JAVA = "[GroupCoordinator id=1 topic=__consumer_offsets partition=3] "
SCALA = "[GroupCoordinator 7]: "


def fields(message):
    """What an event has besides its text."""
    event = read_event(LogLine(0, True, message))
    assert event is not None, message
    assert event.event in EVENTS
    return {name: value for name, value in event._asdict().items() if name != "text" and value is not None}


@pytest.mark.parametrize("log", LOGS)
def test_every_line_of_a_broker_about_a_group_or_partition_is_read(log):
    unread = set()
    found = 0
    for raw in (DATA / log).read_bytes().splitlines():
        if any(mark in raw for mark in MARKS):
            line = parse_line(raw.decode())
            assert line is not None
            event = read_event(line)
            found += event is not None
            if event is None:
                unread.add(re.sub(r"^\[.*?\]:? (\[GroupId .*?\] )?|\d+", "", line.message)[:29])
    assert found > 30
    assert {line for line in unread if " unloading metadata " not in line} <= {
        "Starting up.",
        "Startup complete.",
        "Shutting down.",
        "Shutdown complete.",
        "Shutting down event processor",
        "Closing coordinator runtime.",
        "Coordinator runtime closed.",
        "Event processor closed.",
        # The epoch that this led to has a line of its own.
        "Computed new subscription met",
        # Say nothing that records lack.
        "Static member which joins dur",
    }


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            SCALA + "Preparing to rebalance group a b in state PreparingRebalance with old generation 5 "
            "(__consumer_offsets-12) (reason: Updating metadata for member c-1 during Stable; client reason: cached "
            "metadata has changed (really))",
            {
                "event": "PREPARING_REBALANCE",
                "broker": 7,
                "log_partition": 12,
                "group_id": "a b",
                "epoch": 5,
                "reason": "Updating metadata for member c-1 during Stable",
                "client_reason": "cached metadata has changed (really)",
            },
        ),
        (
            SCALA + "Member MemberMetadata(memberId=c-1, groupInstanceId=Some(i-1), clientId=c, clientHost=/10.0.0.1, "
            "sessionTimeoutMs=45000, rebalanceTimeoutMs=300000, supportedProtocols=List(range)) has left group g "
            "through explicit `LeaveGroup` request; client reason: not provided",
            {
                "event": "MEMBER_LEFT",
                "broker": 7,
                "group_id": "g",
                "member_id": "c-1",
                "instance_id": "i-1",
                "client_reason": "not provided",
            },
        ),
        (
            SCALA + "Pending member c-2 in group g has been removed after session timeout expiration.",
            {"event": "PENDING_MEMBER_EXPIRED", "broker": 7, "group_id": "g", "member_id": "c-2"},
        ),
        (
            SCALA + "Group g removed dynamic members who haven't joined: Set(c-1)",
            {"event": "JOIN_EXPIRED", "broker": 7, "group_id": "g", "reason": "Set(c-1)"},
        ),
        (
            JAVA + "Group g removed members who haven't sent their sync requests: [c-1]",
            {"event": "SYNC_EXPIRED", "broker": 1, "log_partition": 3, "group_id": "g", "reason": "[c-1]"},
        ),
        (
            JAVA + "Static member with groupInstanceId=i-1 and unknown member id joins group g in Stable state. "
            "Replacing previously mapped member c-1 with this groupInstanceId.",
            {
                "event": "MEMBER_REPLACED",
                "broker": 1,
                "log_partition": 3,
                "group_id": "g",
                "instance_id": "i-1",
                "member_id": "c-1",
            },
        ),
        (
            JAVA + "[GroupId g] Static member c-2 with instance id i-1 cannot join the group because the instance "
            "id is owned by member c-1.",
            {
                "event": "INSTANCE_ID_UNRELEASED",
                "broker": 1,
                "log_partition": 3,
                "group_id": "g",
                "instance_id": "i-1",
                "member_id": "c-2",
            },
        ),
        (
            JAVA + "[GroupId g] Dynamic member c-1 has left group through explicit `LeaveGroup` request; "
            "client reason: bye",
            {
                "event": "MEMBER_LEFT",
                "broker": 1,
                "log_partition": 3,
                "group_id": "g",
                "member_id": "c-1",
                "client_reason": "bye",
            },
        ),
        (
            JAVA + "[GroupId g] Member c-1 fenced from the group because it failed to transition from epoch 3 "
            "within 45000ms.",
            {
                "event": "MEMBER_FENCED",
                "broker": 1,
                "log_partition": 3,
                "group_id": "g",
                "member_id": "c-1",
                "reason": "it failed to transition from epoch 3 within 45000ms",
            },
        ),
        (
            JAVA + "[GroupId g][MemberId c-1] Bumped streams group epoch to 4 with metadata hash 5 and "
            "validated topic epoch 0.",
            {"event": "EPOCH_BUMPED", "broker": 1, "log_partition": 3, "group_id": "g", "member_id": "c-1", "epoch": 4},
        ),
        (
            JAVA + "Generated 3 tombstone records in 2 milliseconds while deleting offsets for topics [a].",
            {
                "event": "TOMBSTONES_WRITTEN",
                "broker": 1,
                "log_partition": 3,
                "duration_ms": 2,
                "reason": "deleting offsets for topics [a]",
            },
        ),
        (
            # Kafka 3.9.
            JAVA + "[GroupId g] Static Member c-1 with instance id i-1 temporarily left the consumer group.",
            {
                "event": "MEMBER_LEFT_TEMPORARILY",
                "broker": 1,
                "log_partition": 3,
                "group_id": "g",
                "member_id": "c-1",
                "instance_id": "i-1",
            },
        ),
        (
            JAVA + "[GroupId g] Static member c-2 with instance id i-1 cannot join the group because the instance "
            "id is is owned by member c-1.",
            {
                "event": "INSTANCE_ID_UNRELEASED",
                "broker": 1,
                "log_partition": 3,
                "group_id": "g",
                "instance_id": "i-1",
                "member_id": "c-2",
            },
        ),
        (
            JAVA + "Cannot upgrade classic group g to consumer group because the group does not use the consumer "
            "embedded protocol.",
            {
                "event": "GROUP_CONVERSION_REFUSED",
                "broker": 1,
                "log_partition": 3,
                "group_id": "g",
                "reason": "the group does not use the consumer embedded protocol",
            },
        ),
        (
            JAVA
            + "Cannot join the consumer group g with the classic protocol because the group migration is disabled.",
            {
                "event": "GROUP_CONVERSION_REFUSED",
                "broker": 1,
                "log_partition": 3,
                "group_id": "g",
                "reason": "the group migration is disabled",
            },
        ),
        (
            JAVA + "Skipped the materialization of transactional offset commit OffsetAndMetadata(offset=100, "
            "metadata= in group x with topic y, recordOffset=0) for producer id 0 in group g with topic t, partition 0 "
            "since its record offset 0 is smaller than the record offset 2 of the last committed offset.",
            {
                "event": "TRANSACTIONAL_COMMIT_SKIPPED",
                "broker": 1,
                "log_partition": 3,
                "group_id": "g",
                "reason": "topic t, partition 0 since its record offset 0 is smaller than the record offset 2 of the "
                "last committed offset",
            },
        ),
        (
            SCALA + "The following offsets of the group g were deleted: a-0, a-1. A total of 2 offsets were removed.",
            {"event": "OFFSETS_DELETED", "broker": 7, "group_id": "g", "reason": "a-0, a-1"},
        ),
        (
            "[GroupCoordinator id=1] Failed to load metadata from __consumer_offsets-3 with epoch 4 due to x.",
            {"event": "LOADING_FAILED", "broker": 1, "log_partition": 3, "epoch": 4, "reason": "x"},
        ),
        (
            "[GroupCoordinator id=1] Failed to write a batch of 2 record(s) to __consumer_offsets-3 because it is "
            "larger than the maximum batch size of 9 bytes.",
            {
                "event": "WRITE_FAILED",
                "broker": 1,
                "log_partition": 3,
                "reason": "because it is larger than the maximum batch size of 9 bytes",
            },
        ),
        (
            "[GroupCoordinator id=1] Writing records to __consumer_offsets-3 failed due to: x.",
            {"event": "WRITE_FAILED", "broker": 1, "log_partition": 3, "reason": "failed due to: x"},
        ),
        (
            SCALA.replace("GroupCoordinator 7", "GroupMetadataManager brokerId=7")
            + "Loading group metadata for g with generation 5",
            {"event": "GROUP_LOADED", "broker": 7, "group_id": "g", "epoch": 5},
        ),
        (
            "[GroupMetadataManager brokerId=2] Finished unloading __consumer_offsets-9 for coordinator epoch "
            "OptionalInt[4]. Removed 3 cached offsets and 1 cached groups.",
            {"event": "UNLOADING_FINISHED", "broker": 2, "log_partition": 9, "epoch": 4},
        ),
        (
            SCALA + "Resigned as the group coordinator for partition 9 in epoch OptionalInt[4]",
            {"event": "COORDINATOR_RESIGNED", "broker": 7, "log_partition": 9, "epoch": 4},
        ),
    ],
)
def test_wordings_that_the_recorded_logs_do_not_have(message, expected):
    assert fields(message) == expected


def test_the_rebalancing_log_of_a_managed_service():
    line = parse_line(
        '{"level":"INFO","timestamp":"2023-03-23 17:23:22,906","message":{"leaderId":"c-1","generationId":"1","reason":'
        '"Assignment received from leader for group g for generation 1","groupId":"g","coordinatorId":"0",'
        '"type":"END_REBALANCE"}}'
    )
    assert line is not None
    assert not line.has_zone
    event = read_event(line)
    assert event is not None
    assert (event.event, event.group_id, event.epoch, event.broker) == ("ASSIGNMENT_RECEIVED", "g", 1, 0)


def test_a_reason_of_a_managed_service_in_other_words():
    line = parse_line('{"timestamp":1,"message":{"groupId":"g","coordinatorId":2,"reason":"as it likes","type":"X"}}')
    assert line is not None
    event = read_event(line)
    assert event is not None
    assert (event.event, event.group_id, event.broker, event.reason) == (MANAGED_EVENT, "g", 2, "as it likes")


def test_numbers_that_no_field_of_kafka_holds_are_left_out():
    assert fields(JAVA + "Stabilized group g generation 99999999999999999999 with 9999999999 members.") == {
        "event": "STABILIZED",
        "broker": 1,
        "log_partition": 3,
        "group_id": "g",
    }


@pytest.mark.parametrize(
    "message", ["Stabilized group g generation 1 with 1 members.", "[Controller id=1] x", JAVA + "x"]
)
def test_other_lines_say_nothing(message):
    assert read_event(LogLine(0, True, message)) is None


@given(
    st.text(max_size=100),
    st.sampled_from([JAVA, SCALA, JAVA + "[GroupId g] Member ", SCALA + "Preparing to rebalance "]),
)
def test_no_message_fails(text, start):
    event = read_event(LogLine(0, True, start + text))
    assert event is None or event.event in EVENTS


@pytest.mark.parametrize(
    "part", [" in state ", " in group ", "Member ", "[GroupId ", "a has left group ", " joins the "]
)
def test_a_long_line_made_to_be_slow_is_not(part):
    began = time.monotonic()
    for start in ("Preparing to rebalance group", "Member ", "[GroupId g] Member ", "[GroupId g", ""):
        read_event(LogLine(0, True, JAVA + start + part * 5_000))
    assert time.monotonic() - began < 5
