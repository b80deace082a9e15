"""OffsetCommit and TxnOffsetCommit: their checks and their records.

Mirrors ``OffsetMetadataManager.commitOffset``, ``commitTransactionalOffset`` and the groups' ``validateOffsetCommit``.
An error of the group, or an epoch that is too old for one partition, refuses the whole request. Metadata that is too
long refuses only its own partition.
"""

from collections.abc import Callable, Mapping
from typing import Any

from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.model import GroupState, Member
from coordinator_replay.simulation.coordinator import record_helpers
from coordinator_replay.simulation.coordinator.classic import rebalance
from coordinator_replay.simulation.coordinator.consumer.current_assignment_builder import assigned, pending
from coordinator_replay.simulation.coordinator.consumer.members import current_of, unknown_member
from coordinator_replay.simulation.coordinator.errors import CODES, RequestError
from coordinator_replay.simulation.coordinator.live_groups.classic_group import LiveClassicGroup
from coordinator_replay.simulation.coordinator.messages import ZERO_UUID, Request
from coordinator_replay.simulation.coordinator.operations import Outcome, Reply
from coordinator_replay.simulation.coordinator.record_helpers import NewRecord
from coordinator_replay.simulation.coordinator.shard import Shard

EPOCH_SINCE = 9
"""Version of OffsetCommit from which on members of the consumer protocol may commit."""

TOPIC_ID_SINCE = 10
"""Version of OffsetCommit from which on topics are named by id."""

VALUE_VERSION, VALUE_VERSION_WITH_EXPIRY = 4, 1

Check = Callable[[str, int], None]
"""A function that gets the topic id and number of a partition, and raises an error if the commit is refused."""


def commit(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Handle OffsetCommit.

    Raises:
        RequestError: the request is refused as a whole.
    """
    body = request.body
    check = _check_commit(shard, request, body["generationIdOrMemberEpoch"], is_transactional=False)
    retention_ms = body["retentionTimeMs"]
    expires_ms = shard.now_ms + retention_ms if retention_ms != -1 else None
    records: list[NewRecord] = []
    topics = []
    for topic in body["topics"]:
        name, topic_id, error = _named(shard, topic, request.version or 0)
        names = {"name": name, "topicId": topic_id}
        partitions = [
            _commit_one(shard, body["groupId"], (name, topic_id), partition, check, expires_ms, records)
            if error is None
            else _answer(partition, error)
            for partition in topic["partitions"]
        ]
        topics.append({**names, "partitions": partitions})
    return Outcome(records, {"topics": topics})


def commit_in_transaction(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Handle TxnOffsetCommit.

    The offsets stay pending until a marker ends the producer's transaction.

    Raises:
        RequestError: the request is refused as a whole.
    """
    body = request.body
    if not body["groupId"]:
        raise RequestError("INVALID_GROUP_ID")
    try:
        check = _check_commit(shard, request, body["generationId"], is_transactional=True)
        records: list[NewRecord] = []
        topics = []
        for topic in body["topics"]:
            topic_image = shard.topics.by_name.get(topic["name"])
            if topic_image is None and check is not None:
                raise RequestError("ILLEGAL_GENERATION")
            place = topic["name"], topic_image.topic_id if topic_image is not None else ZERO_UUID
            # The record of a transactional commit does not carry the topic id.
            partitions = [
                _commit_one(shard, body["groupId"], place, partition, check, None, records, writes_id=False)
                for partition in topic["partitions"]
            ]
            topics.append({"name": topic["name"], "partitions": partitions})
    except RequestError as error:
        raise RequestError("ILLEGAL_GENERATION") if error.error == "STALE_MEMBER_EPOCH" else error from None
    return Outcome(records, {"topics": topics}, producer=(body["producerId"], body["producerEpoch"]))


def _commit_one(
    shard: Shard,
    group_id: str,
    topic: tuple[str, str],
    partition: Mapping[str, Any],
    check: Check | None,
    expires_ms: int | None,
    records: list[NewRecord],
    *,
    writes_id: bool = True,
) -> dict[str, Any]:
    name, topic_id = topic
    number, metadata = partition["partitionIndex"], partition["committedMetadata"] or ""
    if len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > shard.config.number("offset.metadata.max.bytes"):
        return _answer(partition, "OFFSET_METADATA_TOO_LARGE")
    if check is not None:
        check(topic_id, number)
    value: dict[str, Any] = {
        "offset": partition["committedOffset"],
        "leaderEpoch": partition["committedLeaderEpoch"],
        "metadata": metadata,
        "commitTimestamp": shard.now_ms,
    }
    if expires_ms is not None:
        del value["leaderEpoch"]
        value["expireTimestamp"] = expires_ms
    elif writes_id and topic_id != ZERO_UUID:
        value["topicId"] = topic_id
    version = VALUE_VERSION if expires_ms is None else VALUE_VERSION_WITH_EXPIRY
    records.append(record_helpers.offset_commit(group_id, name, number, value, version))
    return _answer(partition, "NONE")


def _answer(partition: Mapping[str, Any], error: str) -> dict[str, Any]:
    return {"partitionIndex": partition["partitionIndex"], "errorCode": CODES[error]}


def _named(shard: Shard, topic: Mapping[str, Any], version: int) -> tuple[str, str, str | None]:
    """Return name and id of a topic in a request, and the error if the id is unknown.

    If the request's version names topics by id, look up the name.
    """
    name, topic_id = topic["name"], topic["topicId"]
    if name or version < TOPIC_ID_SINCE:
        return name, topic_id, None
    topic_image = shard.topics.by_id.get(topic_id)
    return (topic_image.name, topic_id, None) if topic_image is not None else ("", topic_id, "UNKNOWN_TOPIC_ID")


def _check_commit(shard: Shard, request: Request, epoch: int, *, is_transactional: bool) -> Check | None:
    """Check a commit against its group. Return the ``Check`` to call for each partition of the commit.

    Return None if partitions need no check.

    If the group does not exist, a commit without a generation or an epoch creates a classic group in memory. In a
    classic group, a commit outside a transaction may restart the member's heartbeat timer.

    Raises:
        RequestError: the commit is refused as a whole.
    """
    body, speaks_epochs = request.body, is_transactional or (request.version or 0) >= EPOCH_SINCE
    group_id, member_id, instance_id = body["groupId"], body["memberId"], body["groupInstanceId"]
    group = shard.group(group_id)
    if group is None:
        if epoch >= 0:
            is_renamed = speaks_epochs and not is_transactional
            raise RequestError("GROUP_ID_NOT_FOUND" if is_renamed else "ILLEGAL_GENERATION")
        # The commit creates a group with offsets and without members. No record is written for the group itself.
        group = shard.classic_groups[group_id] = LiveClassicGroup(group_id)
    if isinstance(group, ConsumerGroup):
        if is_transactional and epoch == -1 and not member_id and instance_id is None:
            return None
        return _check_consumer(group, member_id, epoch, speaks_epochs=speaks_epochs)
    if isinstance(group, LiveClassicGroup):
        _check_classic(group, member_id, instance_id, epoch, is_transactional=is_transactional)
        if not is_transactional and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            rebalance.schedule_heartbeat(shard, group, member_id)
    elif not is_transactional:
        raise RequestError("GROUP_ID_NOT_FOUND")
    return None


def _check_classic(
    live: LiveClassicGroup, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool
) -> None:
    state = live.state
    if generation < 0 and state is GroupState.EMPTY:
        return
    if generation >= 0 or member_id or instance_id is not None:
        live.validate(member_id, instance_id)
        if generation != live.generation:
            raise RequestError("ILLEGAL_GENERATION")
    elif not is_transactional and state is not GroupState.EMPTY:
        raise RequestError("UNKNOWN_MEMBER_ID")
    if not is_transactional and state is GroupState.COMPLETING_REBALANCE:
        raise RequestError("REBALANCE_IN_PROGRESS")


def _check_consumer(group: ConsumerGroup, member_id: str, epoch: int, *, speaks_epochs: bool) -> Check | None:
    """Check a commit against its consumer group. Return the ``Check`` to call for each partition of the commit.

    If the commit has an older epoch than the member, the ``Check`` accepts only partitions that the member already
    owned at the older epoch. Return None if partitions need no check: the commit has the member's current epoch, or it
    has no epoch and the group has no members.

    Args:
        group: the consumer group.
        member_id: the member that commits.
        epoch: the epoch of the commit; below 0 if it has none.
        speaks_epochs: whether requests of this API and version may have member epochs.

    Raises:
        RequestError: the commit is refused as a whole.
    """
    if epoch < 0 and not group.members:
        return None
    member = group.members.get(member_id)
    if member is None:
        raise unknown_member(group.group_id, member_id)
    is_classic = member.subscription_or_empty.uses_classic_protocol
    if not speaks_epochs and not is_classic:
        raise RequestError("UNSUPPORTED_VERSION")
    stale = RequestError("ILLEGAL_GENERATION" if is_classic else "STALE_MEMBER_EPOCH")
    current_epoch = current_of(member).epoch
    if epoch == current_epoch:
        return None
    if epoch > current_epoch:
        raise stale
    return _older_epoch_check(member, epoch, stale)


def _older_epoch_check(member: Member, epoch: int, stale: RequestError) -> Check:
    """Return a check that accepts an older epoch for partitions that the member already owned at that epoch.

    Args:
        member: the member that commits.
        epoch: the epoch of the commit.
        stale: the error that the check raises for other partitions.
    """
    current = current_of(member)
    has, gives_up = assigned(current), pending(current)

    def check(topic_id: str, partition: int) -> None:
        since = has.get(topic_id, {}).get(partition, gives_up.get(topic_id, {}).get(partition))
        if since is None or epoch < since:
            raise stale

    return check
