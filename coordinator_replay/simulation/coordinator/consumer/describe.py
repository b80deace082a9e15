"""The request ConsumerGroupDescribe.

Mirrors ``GroupMetadataManager.consumerGroupDescribe`` and ``ConsumerGroup.asDescribedGroup``.
"""

from typing import Any

from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.model import Assignment, Member
from coordinator_replay.simulation.coordinator.consumer.members import current_of, existing_group
from coordinator_replay.simulation.coordinator.consumer.target_assignment_builder import most_wanted_assignor
from coordinator_replay.simulation.coordinator.errors import CODES, RequestError
from coordinator_replay.simulation.coordinator.messages import Body, Request
from coordinator_replay.simulation.coordinator.operations import Outcome, Reply
from coordinator_replay.simulation.coordinator.shard import Shard

CONSUMER_MEMBER, CLASSIC_MEMBER = 1, 0
"""Types of members in ConsumerGroupDescribe: by the protocol of the member."""


def describe(shard: Shard, request: Request, _: Reply) -> Outcome:
    """Handle ConsumerGroupDescribe: describe consumer groups.

    For a group that can't be described, the response has an error code.
    """
    empty, others = [], []
    for group_id in request.body["groupIds"]:
        if not group_id:
            empty.append({"groupId": "", "errorCode": CODES["INVALID_GROUP_ID"]})
        else:
            others.append(_described(shard, group_id))
    return Outcome(response={"groups": empty + others})


def _described(shard: Shard, group_id: str) -> Body:
    try:
        update = existing_group(shard, group_id, only_reads=True)
    except RequestError as error:
        return {"groupId": group_id, "errorCode": error.code, "errorMessage": error.message}
    group = update.group
    return {
        "groupId": group_id,
        "groupState": str(group.state),
        "groupEpoch": group.epoch,
        "assignmentEpoch": group.assignment_epoch,
        "assignorName": most_wanted_assignor(group, shard.config.assignors[0]),
        "members": [_member(shard, group, group.members[member_id]) for member_id in update.state.members],
    }


def _member(shard: Shard, group: ConsumerGroup, member: Member) -> dict[str, Any]:
    subscription, current = member.subscription_or_empty, current_of(member)
    return {
        "memberId": member.member_id,
        "instanceId": subscription.instance_id,
        "rackId": subscription.rack_id,
        "memberEpoch": current.epoch,
        "clientId": subscription.client_id or "",
        "clientHost": subscription.client_host or "",
        "subscribedTopicNames": sorted(subscription.topics or ()),
        "subscribedTopicRegex": subscription.regex or "",
        "assignment": _topics(shard, current.owned()),
        "targetAssignment": _topics(shard, group.reconciliation.target_partitions(member.member_id)),
        "memberType": CLASSIC_MEMBER if subscription.uses_classic_protocol else CONSUMER_MEMBER,
    }


def _topics(shard: Shard, assignment: Assignment) -> Body:
    """Return partitions by topic, without topics that were deleted."""
    by_id = shard.topics.by_id
    return {
        "topicPartitions": [
            {"topicId": topic_id, "topicName": by_id[topic_id].name, "partitions": list(partitions)}
            for topic_id, partitions in assignment.items()
            if topic_id in by_id
        ]
    }
