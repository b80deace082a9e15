"""Compares the clients and members that findings name with the clients' requests in a random life."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from coordinator_replay.engine.model import Record
from coordinator_replay.records.blobs import BlobError, read_subscription
from coordinator_replay.simulation.coordinator.truth import EpochBumped, MemberRemoved, RebalanceStarted
from coordinator_replay.times import milliseconds
from scripts.world.consumers import ClassicConsumer, Consumer
from scripts.world.life import Life, Sent

Finding = Mapping[str, Any]
Detail = Mapping[str, Any]
Times = tuple[int, int]

END_MS = 1 << 60
"""A time after all lives."""

OF_LAST_OWNERS = frozenset({"offset_lost", "offset_due", "offset_expiring"})
"""Rules whose findings name the last owner of a partition. This owner may have left before the finding's time."""

JOINS = frozenset({"JoinGroup", "ConsumerGroupHeartbeat"})
"""Requests by which a client becomes a member, or stays one."""

ACTS = JOINS | {"LeaveGroup"}
"""Requests by which a member joins, leaves or changes."""


def names_anybody(finding: Finding) -> bool:
    """Return whether a finding names clients or members."""
    return finding["rule"] in CLIENTS or bool(_member_ids(finding))


def falsely_named(life: Life, finding: Finding) -> list[str]:
    """Return the clients and members about which a finding is wrong.

    If a finding says that a client set off rebalances, the client must have acted in the finding's time (``_acted``). A
    member must have been in the group then, and must have done, or left undone, what the finding says.
    """
    times, detail = _span(finding), _detail(finding)
    check = CLIENTS.get(finding["rule"])
    clients = [name for name in check[0](detail) if not check[1](life, finding, name, times)] if check else []
    says = MEMBERS.get(finding["rule"], _is_member)
    return clients + [
        member_id
        for member_id in _member_ids(finding)
        if not (_was_member(life, member_id, times) and says(life, finding, member_id, times))
    ]


def _detail(finding: Finding) -> Detail:
    detail: Detail = json.loads(finding["detail"] or "{}")
    return detail


def _member_ids(finding: Finding) -> list[str]:
    """Return the member ids that a finding names."""
    detail = _detail(finding)
    found = [finding.get("member_id"), detail.get("owner_member_id")]
    for name in ("waiting_for", "classic_members", "without_assignment"):
        found += detail.get(name) or ()
    if finding["rule"] == "empty_assignment":
        found += detail["members"]
    found += [detail[name]["member_id"] for name in ("most", "least") if name in detail]
    return list(dict.fromkeys(filter(None, found)))


def _span(finding: Finding) -> Times:
    """Return a finding's time range for its clients and members. An unknown beginning or end allows any time."""
    first, last = finding["first_seen"], finding["last_seen"]
    if finding["rule"] in OF_LAST_OWNERS:
        first = None
    return 0 if first is None else milliseconds(first), END_MS if last is None else milliseconds(last)


def _since_record_before(life: Life, times: Times) -> Times:
    """Return a time range that begins with the previous classic generation.

    The record of a classic rebalance is written at its end. So the range begins at the record of the rebalance before.
    """
    before = [
        record.timestamp_ms or 0
        for record in life.written
        if isinstance(record, Record) and record.kind == "GroupMetadata" and (record.timestamp_ms or 0) < times[0]
    ]
    return max(before, default=times[0]), times[1]


def _of(life: Life, name: str) -> Iterator[Consumer]:
    """Yield the consumers that records show with a given name."""
    for record in life.written:
        if isinstance(record, Record):
            for member_id, names in _members(record):
                if name in names and member_id in life.owner_of:
                    yield life.owner_of[member_id]


def _members(record: Record) -> Iterator[tuple[str, set[str]]]:
    """Yield the members that a record shows, each with the names that a finding may give it."""
    value = record.value or {}
    if record.kind == "GroupMetadata":
        found = [(member["memberId"], member, member["groupInstanceId"]) for member in value.get("members") or ()]
    elif record.kind == "ConsumerGroupMemberMetadata" and value:
        found = [(record.key["memberId"], value, value["instanceId"])]
    else:
        found = []
    for member_id, fields, instance_id in found:
        client = f"{fields['clientId']} on {(fields['clientHost'] or '?').lstrip('/')}"
        yield member_id, {client if instance_id is None else instance_id}


# -- clients ---------------------------------------------------------------------------------------------------------


def _acted(life: Life, _: Finding, name: str, times: Times) -> bool:
    """Return whether a client joined, left, changed, began a rebalance or was removed in a time range."""
    first_ms, last_ms = _since_record_before(life, times)
    return any(
        first_ms <= at_ms <= last_ms
        for consumer in _of(life, name)
        for at_ms in (*_changes(life, consumer), *_effects(life, consumer))
    )


def _subscribed(life: Life, finding: Finding, name: str, times: Times) -> bool:
    """Return whether a client had subscribed by then to the finding's topic, or to a topic of the client's part."""
    topics = {finding["topic"]} - {None}
    for part in _detail(finding).get("parts", ()):
        topics |= set(part["topics"]) if name in part["clients"] else set()
    return any(
        sent.at_ms <= times[1] and (sent.consumer.client_id == name or sent.consumer.instance_id == name)
        for sent in life.sent
        if sent.api in JOINS and (sent.body.get("subscribedTopicRegex") or not topics.isdisjoint(sent.topics))
    )


CLIENTS: Mapping[str, tuple[Callable[[Detail], list[str]], Callable[[Life, Finding, str, Times], bool]]] = {
    "rebalance_storm": (lambda detail: list(detail["members"]), _acted),
    "static_member_flapping": (lambda detail: [detail["instance_id"]], _acted),
    "topic_unowned": (lambda detail: detail["subscribers"], _subscribed),
    "disjoint_subscriptions": (
        lambda detail: [name for part in detail["parts"] for name in part["clients"]],
        _subscribed,
    ),
}
"""Rules whose findings name clients: a function that returns the names, and a check of each client."""


def _changes(life: Life, consumer: Consumer) -> Iterator[int]:
    """Yield the times of a consumer's requests that can set off a rebalance.

    Every member joins again in every classic rebalance. So a JoinGroup counts only if the member is new or has other
    topics.
    """
    topics: tuple[str, ...] | None = None
    for sent in life.sent:
        if sent.consumer is not consumer or sent.api not in ACTS:
            continue
        if sent.api == "ConsumerGroupHeartbeat":
            is_change = sent.body["memberEpoch"] <= 0 or "subscribedTopicNames" in sent.body
        else:
            is_change = sent.api == "LeaveGroup" or not sent.member_id or sent.topics != topics
            topics = sent.topics
        if is_change:
            yield sent.at_ms


def _effects(life: Life, consumer: Consumer) -> Iterator[int]:
    """Yield the times at which a consumer was removed, or its request began a rebalance."""
    for number, event in enumerate(life.truth):
        if isinstance(event, MemberRemoved) and life.owner_of.get(event.member_id) is consumer:
            yield event.at_ms
        elif isinstance(event, RebalanceStarted | EpochBumped):
            sender = life.senders.get(number)
            if sender is not None and sender.consumer is consumer:
                yield event.at_ms


# -- members ---------------------------------------------------------------------------------------------------------


def _was_member(life: Life, member_id: str, times: Times) -> bool:
    """Return whether a member was in the group during at least a part of a time range."""
    first_ms, last_ms = times
    consumer = life.owner_of.get(member_id)
    joins = [sent for sent in life.sent if sent.consumer is consumer and sent.api in JOINS and sent.at_ms <= last_ms]
    gone_ms = max(
        (
            event.at_ms
            for event in life.truth
            if isinstance(event, MemberRemoved) and event.member_id == member_id and event.at_ms < first_ms
        ),
        default=None,
    )
    if gone_ms is None:
        return bool(joins)
    return any(sent.member_id == member_id and sent.at_ms > gone_ms for sent in joins)


def _is_member(*_: object) -> bool:
    """Return True: the finding says only that the member was in the group, which ``_was_member`` checks."""
    return True


def _is_classic(life: Life, _: Finding, member_id: str, __: Times) -> bool:
    return isinstance(life.owner_of[member_id], ClassicConsumer)


def _was_left_out(life: Life, _: Finding, member_id: str, times: Times) -> bool:
    """Return whether the leader's last SyncGroup gave a member no assignment."""
    named = [
        {entry["memberId"] for entry in sent.body["assignments"]}
        for sent in life.sent
        if sent.api == "SyncGroup" and sent.body["assignments"] and sent.at_ms <= times[1]
    ]
    return not named or member_id not in named[-1]


def _kept_them(life: Life, finding: Finding, member_id: str, times: Times) -> bool:
    """Return whether each request of a member in a time range still named partitions that the member had to give up."""
    kept = set(_detail(finding)["partitions"])
    return all(
        kept & owned
        for sent in life.sent
        if sent.member_id == member_id and times[0] < sent.at_ms < times[1]
        if (owned := _owned(life, sent)) is not None
    )


def _owned(life: Life, sent: Sent) -> set[str] | None:
    """Return the partitions that a member says it owns; None if it says nothing about that."""
    if sent.api == "JoinGroup":
        try:
            owned = read_subscription(sent.body["protocols"][0]["metadata"]).owned
        except BlobError:
            return None
        return {f"{topic}-{number}" for topic, numbers in owned for number in numbers}
    if sent.api != "ConsumerGroupHeartbeat" or sent.body.get("topicPartitions") is None:
        return None
    return {
        f"{life.names.get(topic['topicId'], topic['topicId'])}-{number}"
        for topic in sent.body["topicPartitions"]
        for number in topic["partitions"]
    }


MEMBERS: Mapping[str, Callable[[Life, Finding, str, Times], bool]] = {
    "mixed_protocols": _is_classic,
    "empty_assignment": _was_left_out,
    "unrevoked_partitions": _kept_them,
}
"""Rules whose findings say more of members than that they were in the group, each with a check of a member."""
