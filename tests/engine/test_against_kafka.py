"""Kafka's own coordinator read the same segments; the engine must stand where it stands after every batch."""

import pytest

from coordinator_replay.engine.classic_group import ClassicGroup
from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.model import Assignment, Current, Marker, Member, Record
from coordinator_replay.engine.replay import StateReplay
from tests.engine.recordings import group_of, lines, logs

SAMPLES = ["java-clients", "kafka-3.9"]


def _epochs(assignment: Assignment | None, epochs: Assignment, otherwise: int) -> dict[str, dict[str, int]]:
    told = {}
    for topic, partitions in (assignment or {}).items():
        given = epochs.get(topic, (max(otherwise, 0),) * len(partitions))
        told[topic] = {str(partition): epoch for partition, epoch in zip(partitions, given, strict=True)}
    return told


def _consumer_member(member: Member) -> dict[str, object]:
    told, current = member.subscription, member.current or Current()
    assert told is not None
    return {
        "memberId": member.member_id,
        "instanceId": told.instance_id,
        "clientId": told.client_id,
        "clientHost": told.client_host,
        "rackId": told.rack_id,
        "memberEpoch": current.epoch,
        "previousMemberEpoch": current.previous_epoch,
        "memberState": current.state,
        "topics": sorted(told.topics or ()),
        "regex": told.regex or "",
        "usesClassicProtocol": told.uses_classic_protocol,
        "assigned": _epochs(current.assigned, current.assigned_epochs, current.epoch),
        "pendingRevocation": _epochs(current.pending, current.pending_epochs, current.epoch),
        "target": {t: list(p) for t, p in member.target.assigned.items()} if member.target else {},
    }


def _classic_member(member: Member) -> dict[str, object]:
    told, current = member.subscription, member.current
    assert told is not None and current is not None
    return {
        "memberId": member.member_id,
        "instanceId": told.instance_id,
        "clientId": told.client_id,
        "clientHost": told.client_host,
        "sessionTimeoutMs": told.session_timeout_ms,
        "rebalanceTimeoutMs": told.loaded_rebalance_ms,
        "assignment": current.assignment_bytes,
    }


def as_kafka_tells(replay: StateReplay | None) -> dict[str, object] | None:
    """The group in the form of ``kafka-replay.jsonl``."""
    group = replay.group if replay is not None else None
    if isinstance(group, ClassicGroup):
        return {
            "type": "classic",
            "state": group.state,
            "generation": group.generation,
            "protocolType": group.protocol_type,
            "protocol": group.protocol,
            "leader": group.leader,
            "members": [_classic_member(group.members[member]) for member in sorted(group.members)],
        }
    if isinstance(group, ConsumerGroup):
        members = [group.members[member] for member in sorted(group.members)]
        return {
            "type": "consumer",
            "state": group.state,
            "epoch": group.epoch,
            "assignmentEpoch": group.assignment_epoch,
            "assignor": group.assignor,
            "metadataHash": str(group.reconciliation.metadata_hash),
            "classicMembers": sum(m.subscription.uses_classic_protocol for m in members if m.subscription),
            "regexes": sorted(group.regexes),
            "members": [_consumer_member(member) for member in members],
        }
    assert group is None
    return None


def _kafka(after: dict[str, object] | None) -> dict[str, object] | None:
    if after is None:
        return None
    members = after["members"]
    assert isinstance(members, list)
    told = {**after, "members": sorted(members, key=lambda member: member["memberId"])}
    for member in told["members"]:
        if "topics" in member:
            member["topics"] = sorted(member["topics"])
            # Kafka holds an absent and an empty expression apart; on disk both mean none.
            member["regex"] = member["regex"] or ""
    if "regexes" in told:
        told["regexes"] = sorted(told["regexes"])
    return told


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_group_after_every_batch_is_the_one_kafka_has(sample: str) -> None:
    expected = {
        (line["partition"], line["offset"]): line
        for line in lines(sample, "kafka-replay.jsonl")
        if line["at"] == "record"
    }
    compared = 0
    for log in logs(sample).values():
        replays: dict[str, StateReplay] = {}
        for record in log:
            if isinstance(record, Marker):
                for replay in replays.values():
                    replay.apply_marker(record)
                continue
            replay = replays.setdefault(group_of(record), StateReplay(group_of(record)))
            replay.apply(record)
            line = expected.get((record.partition, record.offset))
            if line is not None and line["lastInBatch"]:
                assert as_kafka_tells(replay) == _kafka(line["after"]), (record.partition, record.offset)
                compared += 1
    assert compared == sum(line["lastInBatch"] for line in expected.values())
    assert compared > 40


@pytest.mark.parametrize("sample", SAMPLES)
def test_even_between_records_of_a_batch_the_group_is_the_one_kafka_has(sample: str) -> None:
    expected = {
        (line["partition"], line["offset"]): line["after"]
        for line in lines(sample, "kafka-replay.jsonl")
        if line["at"] == "record"
    }
    for log in logs(sample).values():
        replays: dict[str, StateReplay] = {}
        for record in log:
            if isinstance(record, Record) and (record.partition, record.offset) in expected:
                replay = replays.setdefault(group_of(record), StateReplay(group_of(record)))
                replay.apply(record)
                assert as_kafka_tells(replay) == _kafka(expected[record.partition, record.offset]), record


@pytest.mark.parametrize("sample", SAMPLES)
def test_groups_and_offsets_at_the_end_are_those_kafka_has(sample: str) -> None:
    from tests.engine.recordings import replayed

    ends = [line for line in lines(sample, "kafka-replay.jsonl") if line["at"] == "end"]
    for partition, log in logs(sample).items():
        groups = replayed(log, log[-1].offset + 1)
        told = {line["group"]: line for line in ends if line["partition"] == partition}
        assert {group for group, replay in groups.items() if replay.group is not None} == set(told)
        for group_id, line in told.items():
            replay = groups[group_id]
            assert as_kafka_tells(replay) == _kafka(line["after"])
            offsets = {
                f"{topic}-{number}": {
                    "offset": offset.committed_offset,
                    "metadata": offset.metadata,
                    "leaderEpoch": offset.leader_epoch if offset.leader_epoch is not None else -1,
                }
                for (topic, number), offset in replay.offsets.stored.items()
            }
            assert offsets == line["offsets"]
            assert {f"{topic}-{number}" for topic, number in replay.offsets.unstable} == set(line["unstable"])
