"""The requests OffsetFetch and OffsetDelete.

Mirrors ``OffsetMetadataManager.fetchOffsets``, ``fetchAllOffsets`` and ``deleteOffsets``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from coordinator_replay.engine.classic_group import CONSUMER_PROTOCOL_TYPE
from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.model import GroupState
from coordinator_replay.engine.notes import Group
from coordinator_replay.engine.offsets import Offsets, StoredOffset
from coordinator_replay.simulation.coordinator import record_helpers
from coordinator_replay.simulation.coordinator.assignor.client.subscription import by_topic
from coordinator_replay.simulation.coordinator.consumer.members import current_of, unknown_member
from coordinator_replay.simulation.coordinator.errors import CODES, RequestError
from coordinator_replay.simulation.coordinator.live_groups.classic_group import LiveClassicGroup
from coordinator_replay.simulation.coordinator.messages import ZERO_UUID, Body, Request
from coordinator_replay.simulation.coordinator.operations import Outcome, Reply
from coordinator_replay.simulation.coordinator.record_helpers import NewRecord
from coordinator_replay.simulation.coordinator.shard import Shard

GROUPS_SINCE = 8
"""Version of OffsetFetch from which on a request may name several groups."""

INVALID_OFFSET = -1


def fetch(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Handle OffsetFetch: return the offsets of the partitions that the request names.

    If the request has no list of topics for a group, return all offsets of this group.
    """
    body = request.body
    stable = body["requireStable"]
    if (request.version or 0) >= GROUPS_SINCE:
        return Outcome(response={"groups": [_fetch_group(shard, group, stable=stable) for group in body["groups"]]})
    group = {"groupId": body["groupId"], "memberId": None, "memberEpoch": -1, "topics": body["topics"]}
    fetched = _fetch_group(shard, group, stable=stable)
    return Outcome(response={"topics": fetched["topics"], "errorCode": fetched.get("errorCode", 0)})


def delete(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Handle OffsetDelete: delete offsets of topics that no member subscribes to.

    For the partitions of other topics, the response has an error code.

    Raises:
        RequestError: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP.
    """
    group_id = request.body["groupId"]
    if not group_id:
        raise RequestError("INVALID_GROUP_ID")
    group = shard.group(group_id)
    if group is None:
        raise RequestError("GROUP_ID_NOT_FOUND")
    if (
        isinstance(group, LiveClassicGroup)
        and group.state is not GroupState.EMPTY
        and group.protocol_type != CONSUMER_PROTOCOL_TYPE
    ):
        raise RequestError("NON_EMPTY_GROUP")
    offsets = shard.offsets(group_id)
    records: list[NewRecord] = []
    topics = []
    for topic in request.body["topics"]:
        name = topic["name"]
        error = CODES["GROUP_SUBSCRIBED_TO_TOPIC"] if is_subscribed(shard, group, name) else 0
        partitions = [partition["partitionIndex"] for partition in topic["partitions"]]
        topics.append(
            {
                "name": name,
                "partitions": [{"partitionIndex": partition, "errorCode": error} for partition in partitions],
            }
        )
        if not error:
            records += (
                record_helpers.tombstone("OffsetCommit", group=group_id, topic=name, partition=partition)
                for partition in partitions
                if (name, partition) in offsets.stored or (name, partition) in offsets.unstable
            )
    return Outcome(records, {"topics": topics})


def is_subscribed(shard: Shard, group: Group, topic: str) -> bool:
    """Return whether a member subscribes to a topic, as far as the group knows."""
    if isinstance(group, ConsumerGroup):
        return topic in shard.consumer_states[group.group_id].subscriptions.topics(group.regexes)
    return isinstance(group, LiveClassicGroup) and group.is_subscribed_to(topic)


def _fetch_group(shard: Shard, asked: Mapping[str, Any], *, stable: bool) -> Body:
    group_id, topics = asked["groupId"], asked["topics"]
    group = shard.committed_group(group_id)
    if isinstance(group, ConsumerGroup):
        try:
            _check_member(group, asked["memberId"], asked["memberEpoch"])
        except RequestError as error:
            return {"groupId": group_id, "errorCode": error.code, "topics": []}
    offsets = shard.offsets(group_id) if group is not None else Offsets()
    unstable = offsets.unstable if stable else frozenset()
    if topics is None:
        topics = _all_topics(offsets)
    return {"groupId": group_id, "topics": [_fetch_topic(shard, offsets, unstable, topic) for topic in topics]}


def _check_member(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    if member_id is None and epoch < 0:
        return
    member = group.members.get(member_id or "")
    if member is None:
        raise unknown_member(group.group_id, member_id or "")
    if epoch != current_of(member).epoch:
        is_classic = member.subscription_or_empty.uses_classic_protocol
        raise RequestError("ILLEGAL_GENERATION" if is_classic else "STALE_MEMBER_EPOCH")


def _all_topics(offsets: Offsets) -> list[Body]:
    partitions_of = by_topic(sorted(offsets.stored))
    return [{"name": topic, "partitionIndexes": partitions} for topic, partitions in partitions_of.items()]


def _fetch_topic(shard: Shard, offsets: Offsets, unstable: Iterable[tuple[str, int]], topic: Mapping[str, Any]) -> Body:
    topic_id = topic.get("topicId", ZERO_UUID)
    name = topic.get("name", "")
    if not name and topic_id in shard.topics.by_id:
        name = shard.topics.by_id[topic_id].name
    partitions = []
    for partition in topic["partitionIndexes"]:
        key = (name, partition)
        if key in unstable:
            partitions.append(_nothing(partition, "UNSTABLE_OFFSET_COMMIT"))
            continue
        stored = offsets.stored.get(key)
        if stored is None or _is_of_another_topic(stored, topic_id):
            partitions.append(_nothing(partition, "NONE"))
        else:
            partitions.append(
                {
                    "partitionIndex": partition,
                    "committedOffset": stored.committed_offset,
                    "committedLeaderEpoch": stored.leader_epoch if stored.leader_epoch is not None else -1,
                    "metadata": stored.metadata,
                }
            )
    return {"name": name, "topicId": topic_id, "partitions": partitions}


def _is_of_another_topic(stored: StoredOffset, topic_id: str) -> bool:
    return ZERO_UUID not in (topic_id, stored.topic_id or ZERO_UUID) and topic_id != stored.topic_id


def _nothing(partition: int, error: str) -> Body:
    return {
        "partitionIndex": partition,
        "committedOffset": INVALID_OFFSET,
        "committedLeaderEpoch": -1,
        "metadata": "",
        "errorCode": CODES[error],
    }
