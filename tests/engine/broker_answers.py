"""A replayed group in the words of the broker's answers, as checkpoints hold them."""

from typing import Any

from coordinator_replay.engine.model import NOTHING, Assignment, GroupType, merged
from coordinator_replay.engine.replay import StateReplay
from tests.engine.described import GroupDescription, MemberDescription

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


def told_of(sample: str, replay: StateReplay, group: GroupDescription, topics: dict[str, str]) -> Answer:
    """What the engine says of a group; ``topics`` has the names by id."""
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


def answered(group: Answer) -> Answer:
    """What the broker said of a group, lists in order and without what the admin client makes up."""
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


def only_what_was_asked(told: Answer, answer: Answer) -> Answer:
    """Leave out what this recording did not ask for: ``unstable``, and ``upgraded`` of brokers before 4.0."""
    asked = {name: value for name, value in told.items() if name in answer}
    if len(asked["members"]) == len(answer["members"]):
        for mine, theirs in zip(asked["members"], answer["members"], strict=True):
            if theirs.get("upgraded", mine) is None:
                mine["upgraded"] = None
    return asked
