"""Assignment by clients, which is in KIP-848's draft, but in no release of Kafka.

Our own setting ``group.consumer.client.assignors`` allows members to offer assignors that run in the client. If all
members have an assignor in common, the coordinator asks a member to compute the assignment
(``ShouldComputeAssignment``). The member fetches the group's members and topics (PrepareAssignment), computes the
assignment, and sends it (InstallAssignment). The group may change in the meantime, so the assignment epoch may be more
than one behind the group epoch.

KIP-848's text leaves some things open. These rules were chosen:

- An assignor is used only if all members have a version of it that all members can read. If there are several such
  assignors, the assignor that most members name first is used.
- If an assignment is due, the coordinator asks the next member that sends a heartbeat. It asks another member only if
  the asked member reports an error or is removed.
- No record of Kafka 4.3 has the members' assignors. So a new leader of the log partition asks no member until members
  have sent their assignors again.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coordinator_replay.engine.model import NOTHING, Assignment, Member, partitions_by_topic, without
from coordinator_replay.simulation.coordinator import record_helpers
from coordinator_replay.simulation.coordinator.consumer.current_assignment_builder import as_topics
from coordinator_replay.simulation.coordinator.consumer.heartbeat import (
    Check,
    check_assignor,
    check_fields,
    find_member,
    is_leaving,
    leave,
    progress,
    response_of,
)
from coordinator_replay.simulation.coordinator.consumer.members import (
    GroupUpdate,
    current_of,
    existing_group,
    unknown_member,
)
from coordinator_replay.simulation.coordinator.consumer.target_assignment_builder import subscribed_names
from coordinator_replay.simulation.coordinator.consumer.timers import start_session
from coordinator_replay.simulation.coordinator.errors import RequestError
from coordinator_replay.simulation.coordinator.messages import Body, Request
from coordinator_replay.simulation.coordinator.operations import Outcome, Reply
from coordinator_replay.simulation.coordinator.record_helpers import NewRecord
from coordinator_replay.simulation.coordinator.shard import Shard

Assignors = tuple[Mapping[str, Any], ...]
"""A member's assignors in the order of its preference, each with name, versions, reason and metadata."""


@dataclass(slots=True)
class Prepared:
    """The input from which a member computes an assignment.

    Attributes:
        member_id: the member that computes.
        epoch: the group epoch when the member got the input. The assignment is computed for this epoch.
        members: ids of all members when the member got the input.
        partitions: partition count of each topic that members subscribe to, by topic id.
    """

    member_id: str
    epoch: int
    members: frozenset[str]
    partitions: Mapping[str, int]


@dataclass(slots=True)
class ClientAssignment:
    """A group's data about assignors that run in clients, as in the draft of KIP-848.

    Attributes:
        assignors: the assignors of each member.
        computing: the member that was asked to compute the assignment; None if no member is asked.
        prepared: the input that this member got for the computation; None before its request PrepareAssignment.
        installed: error code, metadata version and metadata of each member, from the last computed assignment.
    """

    assignors: dict[str, Assignors] = field(default_factory=dict)
    computing: str | None = None
    prepared: Prepared | None = None
    installed: dict[str, tuple[int, int, str]] = field(default_factory=dict)


class Offer(NamedTuple):
    """The assignors of all members after a heartbeat.

    Attributes:
        assignors: the assignors of each member.
        is_new: whether the assignors of the member that sent the heartbeat have changed.
        name: the assignor that a member must use; None if the coordinator computes the assignment.
    """

    assignors: Mapping[str, Assignors]
    is_new: bool
    name: str | None


CHECKS: tuple[Check, ...] = (
    (
        "RebalanceTimeoutMs must be above 0 in first request.",
        lambda body, _: body["memberEpoch"] == 0 and body["rebalanceTimeoutMs"] <= 0,
    ),
    (
        "SubscribedTopicNames and SubscribedTopicRegex can't be used together.",
        lambda body, _: body["subscribedTopicNames"] is not None and body["subscribedTopicRegex"] is not None,
    ),
    (
        "ServerAssignor and ClientAssignors can't be used together.",
        lambda body, _: body["serverAssignor"] is not None and bool(body["clientAssignors"]),
    ),
    (
        "An assignor's name can't be empty.",
        lambda body, _: any(not assignor["name"].strip() for assignor in body["clientAssignors"] or ()),
    ),
    (
        "An assignor's versions must be -1 <= minimum <= version <= maximum, and maximum >= 0.",
        lambda body, _: any(
            assignor["minimumVersion"] < -1
            or assignor["maximumVersion"] < 0
            or not assignor["minimumVersion"] <= assignor["version"] <= assignor["maximumVersion"]
            for assignor in body["clientAssignors"] or ()
        ),
    ),
)
"""Reasons to refuse a heartbeat with INVALID_REQUEST: pairs of a message and a condition. The first true condition
counts."""


def client_assignment(update: GroupUpdate) -> ClientAssignment:
    """Return the group's data about assignors that run in clients, as in the draft of KIP-848.

    If the group has no such data yet, store an empty object.
    """
    extension = update.state.extension
    if not isinstance(extension, ClientAssignment):
        extension = update.state.extension = ClientAssignment()
    return extension


def heartbeat(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Handle ConsumerGroupHeartbeat of a member that may offer assignors that run in the client.

    Raises:
        RequestError: the request is refused, nothing changes.
    """
    body = request.body
    check_fields(request)
    check_fields(request, CHECKS)
    check_assignor(shard, body)
    if is_leaving(body):
        return leave(shard, body)
    update, member, subscription = find_member(shard, request)
    offered = offer(update, member.member_id, body["clientAssignors"])
    updated = progress(
        update,
        member,
        subscription,
        body["topicPartitions"],
        is_bumped=offered.is_new,
        keeps_target=offered.name is not None,
    )
    start_session(shard, update.group_id, updated.member_id)
    response = response_of(shard, body, member, updated)
    return Outcome(update.records, response, follow_up(shard, update.group_id, updated, offered, response))


def offer(update: GroupUpdate, member_id: str, brought: Sequence[Mapping[str, Any]] | None) -> Offer:
    """Return the assignors that the members of a group offer after a heartbeat.

    Args:
        update: the group.
        member_id: the member that sent the heartbeat.
        brought: the assignors in the heartbeat; None to keep the member's earlier assignors.
    """
    members = {*update.group.members, member_id}
    others = {other: assignors for other, assignors in client_assignment(update).assignors.items() if other in members}
    before = others.get(member_id, ())
    others[member_id] = before if brought is None else tuple(dict(assignor) for assignor in brought)
    return Offer(others, others[member_id] != before, common_assignor(others, members))


def common_assignor(assignors: Mapping[str, Assignors], members: Collection[str]) -> str | None:
    """Return the assignor that most members name first.

    An assignor counts only if all members have it, and if each member can read the metadata that
    all members send for it.

    If there is a tie, return the first name in the alphabet. Return None if there is no such assignor.
    """
    shared: set[str] | None = None
    for member_id in members:
        names = {assignor["name"] for assignor in assignors.get(member_id, ())}
        shared = names if shared is None else shared & names
    candidates = {name for name in shared or () if _can_be_read(name, assignors, members)}
    votes: dict[str, int] = {}
    for member_id in sorted(members):
        first = next(
            (assignor["name"] for assignor in assignors.get(member_id, ()) if assignor["name"] in candidates), None
        )
        if first is not None:
            votes[first] = votes.get(first, 0) + 1
    return min(votes, key=lambda name: (-votes[name], name), default=None)


def _can_be_read(name: str, assignors: Mapping[str, Assignors], members: Collection[str]) -> bool:
    """Return whether every member can read the metadata that the members send for an assignor.

    Each member says in which version it sends metadata, and which versions it can read.

    Args:
        name: name of the assignor.
        assignors: the assignors of each member.
        members: ids of the members to check.
    """
    chosen = [
        assignor for member_id in members for assignor in assignors.get(member_id, ()) if assignor["name"] == name
    ]
    lowest, highest = (
        max(assignor["minimumVersion"] for assignor in chosen),
        min(assignor["maximumVersion"] for assignor in chosen),
    )
    return all(lowest <= assignor["version"] <= highest for assignor in chosen)


def follow_up(
    shard: Shard, group_id: str, member: Member, offered: Offer, response: dict[str, Any]
) -> Callable[[], None]:
    """Return a function that completes the response to a heartbeat.

    The coordinator calls this function after the records of the heartbeat are written. The function stores the members'
    assignors, and adds to the response the fields that only the draft of KIP-848 has. The field
    ``shouldComputeAssignment`` asks a member to compute a new assignment.

    Args:
        shard: the coordinator's state.
        group_id: the member's group.
        member: the member after the heartbeat.
        offered: the assignors of the members after the heartbeat.
        response: the response to complete.
    """

    def finish() -> None:
        update = existing_group(shard, group_id)
        client = client_assignment(update)
        client.assignors = dict(offered.assignors)
        is_due = offered.name is not None and update.group.epoch > update.group.assignment_epoch
        if client.computing not in update.group.members or not is_due:
            client.computing = member.member_id if is_due else None
        response["shouldComputeAssignment"] = client.computing == member.member_id
        if response.get("assignment") is not None:
            target = update.group.reconciliation.target_of(member.member_id)
            assigned = current_of(member).assigned or NOTHING
            error, version, metadata = client.installed.get(member.member_id, (0, 0, ""))
            response["assignment"] |= {
                "error": error,
                "pendingTopicPartitions": as_topics(without(target.assigned, assigned)) if target is not None else [],
                "metadataVersion": version,
                "metadataBytes": metadata,
            }

    return finish


def prepare(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Handle PrepareAssignment: return the group's members and topics to the member that must compute.

    Raises:
        RequestError: INVALID_REQUEST, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH.
    """
    update, member = _computing_member(shard, request.body)
    group, client = update.group, client_assignment(update)
    name = common_assignor(client.assignors, group.members)
    described = [_described(update, member, name) for member in group.members.values()]
    topic_ids = sorted({topic_id for member in described for topic_id in member["subscribedTopicIds"]})
    partitions = {topic_id: shard.topics.by_id[topic_id].partitions for topic_id in topic_ids}
    client.prepared = Prepared(member.member_id, group.epoch, frozenset(group.members), partitions)
    response: Body = {
        "groupEpoch": group.epoch,
        "assignorName": name,
        "members": described,
        "topics": [{"topicId": topic_id, "numPartitions": count} for topic_id, count in partitions.items()],
    }
    return Outcome(response=response)


def install(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Handle InstallAssignment: a member sends the assignment that it has computed.

    This becomes the group's target assignment. Its epoch is the group epoch for which the member computed it.

    Raises:
        RequestError: as for PrepareAssignment, or INVALID_ASSIGNMENT.
    """
    body = request.body
    update, member = _computing_member(shard, body)
    group, client = update.group, client_assignment(update)
    prepared = client.prepared
    if prepared is None or prepared.member_id != member.member_id or body["groupEpoch"] != prepared.epoch:
        raise RequestError("INVALID_ASSIGNMENT", f"Group epoch {body['groupEpoch']} was not prepared for this member.")
    if body["error"]:
        client.computing, client.prepared = None, None
        return Outcome(response={})
    targets = _checked(body["members"], prepared)
    records: list[NewRecord] = []
    for member_id in group.members:
        before = group.reconciliation.target_of(member_id)
        target = targets.get(member_id, NOTHING)
        if before is None or before.assigned != target:
            records.append(record_helpers.target(update.group_id, member_id, target))
    records.append(record_helpers.target_epoch(update.group_id, prepared.epoch, shard.now_ms))

    def remember() -> None:
        client.computing, client.prepared = None, None
        client.installed = {
            member["memberId"]: (member["error"], member["version"], member["metadata"]) for member in body["members"]
        }

    return Outcome(records, {}, remember)


def _computing_member(shard: Shard, body: Mapping[str, Any]) -> tuple[GroupUpdate, Member]:
    if not body["groupId"] or not body["memberId"] or body["memberEpoch"] < 0:
        raise RequestError("INVALID_REQUEST", "GroupId and MemberId can't be empty, MemberEpoch can't be below 0.")
    update = existing_group(shard, body["groupId"])
    member_id = body["memberId"]
    member = update.group.members.get(member_id)
    if member is None:
        raise unknown_member(update.group_id, member_id)
    if current_of(member).epoch != body["memberEpoch"]:
        raise RequestError("STALE_MEMBER_EPOCH", f"The member's epoch is {current_of(member).epoch}.")
    if client_assignment(update).computing != member_id:
        raise RequestError("UNKNOWN_MEMBER_ID", f"Member {member_id} is not asked to compute an assignment.")
    return update, member


def _described(update: GroupUpdate, member: Member, name: str | None) -> Body:
    subscription, current = member.subscription_or_empty, current_of(member)
    brought = client_assignment(update).assignors.get(member.member_id, ())
    assignor: Mapping[str, Any] = next((candidate for candidate in brought if candidate["name"] == name), {})
    by_name = update.shard.topics.by_name
    names = subscribed_names(update.group, subscription)
    return {
        "memberId": member.member_id,
        "memberEpoch": current.epoch,
        "instanceId": subscription.instance_id,
        "subscribedTopicIds": sorted(by_name[topic].topic_id for topic in names if topic in by_name),
        "assignorVersion": assignor.get("version", 0),
        "reason": assignor.get("reason", 0),
        "metadata": assignor.get("metadata", ""),
        "topicPartitions": as_topics(current.owned()),
    }


def _checked(members: Sequence[Mapping[str, Any]], prepared: Prepared) -> dict[str, Assignment]:
    """Check a computed assignment against its input, and return it by member id.

    Raises:
        RequestError: INVALID_ASSIGNMENT.
    """
    taken: set[tuple[str, int]] = set()
    targets: dict[str, Assignment] = {}
    for member in members:
        member_id = member["memberId"]
        if member_id not in prepared.members or member_id in targets:
            raise RequestError("INVALID_ASSIGNMENT", f"Member {member_id} is unknown, or there twice.")
        for topic in member["topicPartitions"]:
            for partition in topic["partitions"]:
                place = topic["topicId"], partition
                if not 0 <= partition < prepared.partitions.get(topic["topicId"], 0):
                    raise RequestError("INVALID_ASSIGNMENT", f"Partition {place[0]}-{partition} does not exist.")
                if place in taken:
                    raise RequestError("INVALID_ASSIGNMENT", f"Partition {place[0]}-{partition} is assigned twice.")
                taken.add(place)
        targets[member_id] = partitions_by_topic(member["topicPartitions"])
    return targets
