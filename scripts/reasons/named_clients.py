"""Compares the clients that findings name as causes with the clients' requests in a random life."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from coordinator_replay.engine.model import Record
from coordinator_replay.simulation.coordinator.truth import EpochBumped, MemberRemoved, RebalanceStarted
from coordinator_replay.times import milliseconds
from scripts.world.consumers import Consumer
from scripts.world.life import Life

Finding = Mapping[str, Any]

ACTS = frozenset({"JoinGroup", "LeaveGroup", "ConsumerGroupHeartbeat"})
"""Requests by which a member joins, leaves or changes."""


NAMING = frozenset({"rebalance_storm", "static_member_flapping"})
"""Rules whose findings say which clients joined, left or changed."""


def falsely_named(life: Life, finding: Finding) -> list[str]:
    """Return the clients that a finding falsely names: they set off no rebalance in the time of the finding."""
    times = _span(life, finding)
    return [name for name in _named(finding) if not any(_acted(life, consumer, times) for consumer in _of(life, name))]


def _named(finding: Finding) -> list[str]:
    """Return names as findings show them: the instance id, or the client id and the host."""
    detail = json.loads(finding["detail"])
    return list(detail["members"]) if finding["rule"] == "rebalance_storm" else [detail["instance_id"]]


def _span(life: Life, finding: Finding) -> tuple[int, int]:
    """Return the time range in which the named clients must have acted.

    The record of a classic rebalance is written at its end. So the range begins at the record of the rebalance before.
    """
    first_ms, last_ms = (milliseconds(finding[name]) for name in ("first_seen", "last_seen"))
    before = [
        record.timestamp_ms or 0
        for record in life.written
        if isinstance(record, Record) and record.kind == "GroupMetadata" and (record.timestamp_ms or 0) < first_ms
    ]
    return max(before, default=first_ms), last_ms


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


def _acted(life: Life, consumer: Consumer, times: tuple[int, int]) -> bool:
    """Return whether a consumer joined, left, changed, began a rebalance or was removed in a time range."""
    first_ms, last_ms = times
    return any(first_ms <= at_ms <= last_ms for at_ms in (*_changes(life, consumer), *_effects(life, consumer)))


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
