"""Triggers of simulated batches, rebalances and epochs, in the words of Kafka's own log."""

import json
from collections.abc import Iterable

import pytest

from coordinator_replay.simulation.coordinator import (
    Batch,
    BatchWritten,
    EpochBumped,
    Event,
    MarkerWritten,
    MemberRemoved,
    RebalanceStarted,
)
from coordinator_replay.simulation.coordinator.script import ScriptRun, truth_line
from coordinator_replay.simulation.coordinator.truth import TriggerKind
from tests.simulation.coordinator.random_scripts import random_script
from tests.simulation.coordinator.reasons_logged import logged, reported
from tests.simulation.coordinator.recorded_scripts import SCRIPTS, answers, commands

LOGGED = [name for name in SCRIPTS if logged(answers(name))]


def observed(lines: Iterable[str]) -> tuple[ScriptRun, list[str], list[Event]]:
    events: list[Event] = []
    run = ScriptRun(events.append)
    return run, [run.run(line) for line in lines if line.strip()], events


def request(api: str, **body: object) -> str:
    return json.dumps({"request": api, "group": "g", "client": {"id": "c", "host": "10.0.0.1"}, "body": body})


def join(member_id: str = "", **fields: object) -> str:
    protocols = [{"name": "range", "metadata": ""}]
    body = {"sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 60_000, "protocolType": "x", "protocols": protocols}
    return request("JoinGroup", memberId=member_id, **body, **fields)


def sync(member_id: str, generation: int) -> str:
    return request("SyncGroup", memberId=member_id, generationId=generation, protocolType="x", protocolName="range")


STABLE = [join(), join("$m1", reason="started"), '{"advance_ms": 3000}', sync("$m1", 1)]


def reasons(lines: Iterable[str]) -> list[tuple[str, str]]:
    _, _, events = observed(lines)
    return [
        (event.reason, f"{event.trigger.kind} {event.trigger.name}")
        for event in events
        if isinstance(event, RebalanceStarted | EpochBumped)
    ]


M1 = "c-00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("then", "reason", "trigger"),
    [
        (['{"advance_ms": 10000}'], f"removing member {M1} on heartbeat expiration.", "timer heartbeat"),
        (
            [request("LeaveGroup", members=[{"memberId": "$m1", "reason": "bye"}])],
            f"explicit `LeaveGroup` request for ({M1}) members.",
            "request LeaveGroup",
        ),
        (
            [join("$m1", reason="enforced")],
            f"Leader {M1} re-joining group during Stable; client reason: enforced",
            "request JoinGroup",
        ),
        (
            [join(), join("$m2")],
            "Adding new member c-00000000-0000-4000-8000-000000000002 with group instance id null; "
            "client reason: not provided",
            "request JoinGroup",
        ),
    ],
)
def test_a_rebalance_has_kafkas_reason_and_its_trigger(then: list[str], reason: str, trigger: str) -> None:
    first = f"Adding new member {M1} with group instance id null; client reason: started"
    assert reasons([*STABLE, *then]) == [(first, "request JoinGroup"), (reason, trigger)]


def beat(epoch: int, **fields: object) -> str:
    return request("ConsumerGroupHeartbeat", memberId="a", memberEpoch=epoch, **fields)


TOPICS = '{"topics": [{"name": "foo", "id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": %d}]}'
JOINS = beat(0, rebalanceTimeoutMs=5000, topicPartitions=[], subscribedTopicNames=["foo"])


@pytest.mark.parametrize(
    ("then", "reason", "trigger"),
    [
        (
            ['{"advance_ms": 45000}'],
            "Member a fenced from the group because the member session expired.",
            "timer session-timeout",
        ),
        ([beat(-1)], "Member a left the consumer group.", "request ConsumerGroupHeartbeat"),
        ([TOPICS % 3, beat(2)], "Computed new metadata hash: ", "request ConsumerGroupHeartbeat"),
        (
            [beat(2, subscribedTopicNames=["foo", "bar"])],
            "Member a updated its subscribed topics to: [bar, foo].",
            "request ConsumerGroupHeartbeat",
        ),
    ],
)
def test_an_epoch_has_its_trigger(then: list[str], reason: str, trigger: str) -> None:
    told = reasons([TOPICS % 2, JOINS, *then])
    assert told[0][0].startswith("Member a joins the consumer group.")
    assert [(text[: len(reason)], by) for text, by in told[1:]] == [(reason, trigger)]


def test_a_member_that_does_not_join_again_is_removed_by_the_rebalance() -> None:
    other = "c-00000000-0000-4000-8000-000000000002"
    beats = [request("Heartbeat", memberId="$m1", generationId=1), '{"advance_ms": 9000}'] * 7
    _, _, events = observed([*STABLE, join(), join("$m2"), *beats])
    removed = [event for event in events if isinstance(event, MemberRemoved)]
    assert [(event.member_id, event.trigger.name, event.reason) for event in removed] == [
        (M1, "join", "removed dynamic members who haven't joined")
    ]
    assert other not in str(removed)


def test_expired_offsets_and_offsets_of_deleted_topics_have_their_trigger() -> None:
    topic = {"name": "foo", "partitions": [{"partitionIndex": 0, "committedOffset": 1}]}
    commit = request("OffsetCommit", memberId="", generationIdOrMemberEpoch=-1, topics=[topic])
    _, _, events = observed([TOPICS % 1, commit, '{"topics": []}', commit, '{"advance_ms": 605400000}'])
    triggers = [event.trigger for event in events if isinstance(event, BatchWritten)]
    assert [(trigger.kind, trigger.name) for trigger in triggers] == [
        ("request", "OffsetCommit"),
        ("topics", "deleted"),
        ("request", "OffsetCommit"),
        ("timer", "expire-group-metadata"),
    ]


@pytest.mark.parametrize("seed", range(4))
def test_every_batch_has_a_trigger_and_no_answer_depends_on_it(seed: int) -> None:
    script = random_script(seed, 400)
    run, answered, events = observed(script)
    plain = ScriptRun()
    assert answered == [plain.run(line) for line in script]
    batches = [(event.first_offset, event.last_offset) for event in events if isinstance(event, BatchWritten)]
    written = [result.records if isinstance(result, Batch) else [result.marker] for result in run.written]
    assert batches == [(records[0].offset, records[-1].offset) for records in written]
    raised = [
        (record.offset, record.value["epoch"])
        for result in run.written
        if not isinstance(result, MarkerWritten)
        for record in result.records
        if record.kind == "ConsumerGroupMetadata" and record.value is not None
    ]
    assert [(event.offset, event.epoch) for event in events if isinstance(event, EpochBumped)] == raised
    assert {line["trigger"]["kind"] for line in map(truth_line, events)} <= set(TriggerKind)


@pytest.mark.parametrize("name", LOGGED)
def test_rebalances_are_those_that_kafka_logged_with_its_own_reasons(name: str) -> None:
    """Scripts whose answers Kafka's coordinator gave, with its log."""
    _, reasons_of_ours = reported(commands(name))
    assert reasons_of_ours == logged(answers(name))


@pytest.mark.parametrize("timeout_ms", [0, -1, 2])
def test_a_join_phase_without_time_goes_on_until_static_members_time_out(timeout_ms: int) -> None:
    """The timer of the join phase sets itself again, without a delay, while nobody has joined."""

    def static(instance_id: str) -> str:
        line = json.loads(join(groupInstanceId=instance_id))
        line["body"]["rebalanceTimeoutMs"] = timeout_ms
        return json.dumps(line)

    _, answered, events = observed(
        [
            '{"config": {"group.initial.rebalance.delay.ms": 0}}',
            static("i"),
            '{"advance_ms": 1}',
            sync("$m1", 1),
            static("j"),
            '{"advance_ms": 20000}',
            '{"dump": true}',
        ]
    )
    removed = [event for event in events if isinstance(event, MemberRemoved)]
    assert [event.trigger.kind for event in removed] == [TriggerKind.TIMER] * len(removed)
    assert removed, answered
