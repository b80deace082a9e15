"""What the broker answered at a quiet moment is what the log before those end offsets gives.

No difference is allowed: the one checkpoint that shows a state that is never written (``expiration``, a group in
PreparingRebalance) is not a quiet one.
"""

from typing import Any

import pytest

from coordinator_replay.engine import GroupDescription, GroupType, MemberDescription, Record, Replay
from coordinator_replay.engine.model import NOTHING, Assignment, merged
from tests.engine.recordings import Log, lines, logs, replayed

SAMPLES = ["group-lifecycles", "expiration", "java-clients", "kafka-3.9", "transactions", "compacted"]

DEFAULT_ASSIGNOR = "uniform"
"""First of the broker's assignors, for groups whose members prefer none."""

PENDING_LEFT_OUT = {"kafka-3.9"}
"""Samples whose broker leaves out of a member's assignment what the member is about to give up."""

Answer = dict[str, Any]


def _names(assignment: Assignment | None, topics: dict[str, str]) -> list[str]:
    return sorted(
        f"{topics.get(topic, topic)}-{partition}"
        for topic, partitions in (assignment or NOTHING).items()
        for partition in partitions
    )


def _tasks(active: Assignment | None, standby: Assignment, warmup: Assignment) -> str:
    def told(tasks: Assignment | None) -> str:
        return ",".join(f"{key}_{number}" for key, numbers in sorted((tasks or {}).items()) for number in numbers)

    return f"(activeTasks={told(active)}, standbyTasks={told(standby)}, warmupTasks={told(warmup)})"


def _member(sample: str, group_type: GroupType, member: MemberDescription, topics: dict[str, str]) -> Answer:
    target = member.target
    told: Answer = {
        "memberId": member.member_id,
        "clientId": member.client_id,
        "host": member.client_host,
        "memberEpoch": member.member_epoch,
    }
    if group_type is GroupType.STREAMS:
        told["processId"] = member.process_id
        told["assignment"] = _tasks(member.assigned, member.standby, member.warmup)
        told["target"] = _tasks(target.assigned, target.standby, target.warmup) if target else _tasks({}, {}, {})
        return told
    pending = NOTHING if sample in PENDING_LEFT_OUT else member.pending
    told["assignment"] = _names(merged(member.assigned or NOTHING, pending), topics)
    if group_type is not GroupType.SHARE:
        told["instanceId"] = member.instance_id
        told["upgraded"] = member.is_upgraded
    if group_type is GroupType.CONSUMER:
        told["rackId"] = member.rack_id
        told["target"] = _names(target.assigned if target else NOTHING, topics)
    return told


def _group(sample: str, replay: Replay, group: GroupDescription, topics: dict[str, str]) -> Answer:
    told: Answer = {
        "groupId": group.group_id,
        "type": group.group_type.capitalize(),
        "protocol": group.protocol_type or "",
        "state": str(group.state),
        "epoch": None if group.group_type is GroupType.CLASSIC else group.epoch,
        "assignmentEpoch": group.assignment_epoch,
        "members": [_member(sample, group.group_type, member, topics) for member in group.members],
    }
    if group.group_type in (GroupType.CLASSIC, GroupType.CONSUMER):
        told["simple"] = group.is_simple
        told["assignor"] = group.assignor or ("" if group.group_type is GroupType.CLASSIC else DEFAULT_ASSIGNOR)
    if group.group_type is GroupType.STREAMS:
        told["topologyEpoch"] = group.topology_epoch
    if group.group_type is not GroupType.SHARE:
        offsets = replay.offsets
        told["offsets"] = {
            f"{topic}-{number}": {
                "offset": offset.committed_offset,
                "metadata": offset.metadata,
                "leaderEpoch": offset.leader_epoch,
            }
            for (topic, number), offset in offsets.stored.items()
        }
        # A requireStable answer for all partitions leaves out those that have nothing stored yet.
        told["unstable"] = sorted(f"{topic}-{number}" for topic, number in offsets.unstable & set(offsets.stored))
    return told


def _answered(group: Answer) -> Answer:
    members = []
    for member in sorted(group["members"], key=lambda member: str(member["memberId"])):
        shown = dict(member)
        for name in ("assignment", "target"):
            if isinstance(shown.get(name), list):
                shown[name] = sorted(shown[name])
        if group["type"] == "Classic":
            # The admin client has no rack and no target to show for classic groups.
            shown.pop("rackId", None)
            shown.pop("target", None)
        members.append(shown)
    return {**group, "members": members}


def _only_what_was_asked(told: Answer, answer: Answer) -> Answer:
    """Leave out what this recording did not ask for: ``unstable``, and ``upgraded`` of brokers before 4.0."""
    asked = {name: value for name, value in told.items() if name in answer}
    if len(asked["members"]) == len(answer["members"]):
        for mine, theirs in zip(asked["members"], answer["members"], strict=True):
            if theirs.get("upgraded", mine) is None:
                mine["upgraded"] = None
    return asked


def _missing_below(log: Log, end: int) -> int:
    return end - sum(1 for entry in log if entry.offset < end)


def _last_gap(log: Log) -> int:
    """The offset at which the last gap of a log ends."""
    last, expected = 0, 0
    for entry in log:
        if entry.offset != expected:
            last = entry.offset
        expected = entry.offset + 1
    return last


@pytest.mark.parametrize("sample", SAMPLES)
def test_quiet_checkpoints_are_answered_as_the_broker_did(sample: str) -> None:
    parts = logs(sample)
    compared = inexact = 0
    for checkpoint in lines(sample, "checkpoints.jsonl"):
        if not checkpoint["quiet"]:
            continue
        topics = {topic["id"]: name for name, topic in checkpoint["topics"].items()}
        ends = {int(partition): end for partition, end in checkpoint["endOffsets"].items()}
        groups: dict[str, tuple[Replay, int]] = {}
        has_future_gaps = False
        for partition, log in parts.items():
            missing = _missing_below(log, ends[partition])
            has_future_gaps |= _last_gap(log) >= ends[partition]
            for group_id, replay in replayed(log, ends[partition]).items():
                groups[group_id] = replay, missing
        for answer in map(_answered, checkpoint["groups"]):
            replay, missing = groups.pop(answer["groupId"], (None, 0))
            group = replay.describe(missing) if replay is not None else None
            if replay is None or group is None:
                assert has_future_gaps, answer
                continue
            told = _only_what_was_asked(_group(sample, replay, group, topics), answer)
            if has_future_gaps and not group.is_exact:
                inexact += 1
                continue
            assert told == answer, checkpoint["at"]
            compared += 1
        rest = {group_id: replay.describe(missing) for group_id, (replay, missing) in groups.items()}
        assert not {group_id for group_id, group in rest.items() if group is not None and group.is_exact}
    assert compared >= 14
    assert inexact == 0 or sample == "compacted"


def test_the_last_checkpoints_of_a_compacted_log_are_answered_in_full() -> None:
    parts = logs("compacted")
    checkpoints = [checkpoint for checkpoint in lines("compacted", "checkpoints.jsonl") if checkpoint["quiet"]]
    complete = [
        checkpoint
        for checkpoint in checkpoints
        if all(checkpoint["endOffsets"][str(partition)] > _last_gap(log) for partition, log in parts.items())
    ]
    assert complete
    for checkpoint in complete:
        topics = {topic["id"]: name for name, topic in checkpoint["topics"].items()}
        told = {}
        for partition, log in parts.items():
            for group_id, replay in replayed(log, checkpoint["endOffsets"][str(partition)]).items():
                group = replay.describe()
                if group is not None:
                    told[group_id] = _group("compacted", replay, group, topics)
        answers = {answer["groupId"]: answer for answer in map(_answered, checkpoint["groups"])}
        assert {name: _only_what_was_asked(told[name], answers[name]) for name in told} == answers


def test_records_are_not_read_past_the_end_offset() -> None:
    log = logs("group-lifecycles")[0]
    first = next(entry for entry in log if isinstance(entry, Record))
    assert replayed(log, first.offset) == {}
