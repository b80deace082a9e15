"""Subscriptions as clients write them, and damaged ones: our coordinator answers as Kafka's own."""

import base64
import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.simulation.coordinator import oracle
from tests.simulation.coordinator.recorded_scripts import first_difference, run

pytestmark = pytest.mark.kafka

NAME, NULL = b"\0\6orders", b"\xff\xff\xff\xff"
PART = b"\0\0\0\1" + NAME + NULL

SUBSCRIPTIONS = {
    "whole": b"\0\0" + PART,
    "short": b"\0\1" + PART,
    "cut in its owned partitions": b"\0\3" + PART + b"\0\0\0\1" + NAME,
    "negative version": b"\xff\xff" + PART,
    "later version": b"\0\x09" + PART,
    "bytes behind the last field": b"\0\0" + PART + b"more",
    "empty": b"",
    "half a version": b"\0",
    "version alone": b"\0\0",
    "null topics": b"\0\0" + NULL + NULL,
    "null topic": b"\0\0\0\0\0\1\xff\xff" + NULL,
    "more topics than bytes": b"\0\0\0\0\0\x64" + NAME + NULL,
    "a topic less than counted": b"\0\0\0\0\0\2" + NAME,
    "cut in a name": b"\0\0\0\0\0\1" + NAME[:5],
    "no user data": b"\0\0\0\0\0\1" + NAME,
    "user data cut": b"\0\0\0\0\0\1" + NAME + b"\0\0\0\x09abc",
}

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.retention.minutes": 1,
    "offsets.retention.check.interval.ms": 60_000,
}

TOPICS = [
    {"name": "orders", "id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 1},
    {"name": "refunds", "id": "AAAAAAAAAAAAAAAAAAAAAg", "partitions": 1},
]

SESSION_MS = 300_000

EMPTY = "AAAAAAAA/////w=="
"""An assignment of nothing."""

Line = dict[str, Any]


def _request(api: str, group: str, body: Line, version: int | None = None) -> Line:
    return {"request": api, "group": group, "client": {"id": "c", "host": "10.0.0.2"}, "body": body, "version": version}


def _commit(group: str) -> Line:
    partition = {"partitionIndex": 0, "committedOffset": 7}
    return _request("OffsetCommit", group, {"topics": [{"name": "refunds", "partitions": [partition]}]}, 8)


def _join(group: str, data: bytes, session_ms: int = SESSION_MS) -> Line:
    body = {
        "sessionTimeoutMs": session_ms,
        "rebalanceTimeoutMs": 60_000,
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": base64.b64encode(data).decode()}],
    }
    return _request("JoinGroup", group, body, 3)


def _sync(group: str, member: str) -> Line:
    assignments = [{"memberId": member, "assignment": EMPTY}]
    return _request("SyncGroup", group, {"generationId": 1, "memberId": member, "assignments": assignments}, 4)


def _heartbeat(group: str, member: str) -> Line:
    body = {
        "memberId": member,
        "memberEpoch": 0,
        "rebalanceTimeoutMs": 5000,
        "subscribedTopicNames": ["orders"],
        "topicPartitions": [],
    }
    return _request("ConsumerGroupHeartbeat", group, body)


def _is_readable_alone(data: bytes) -> bool:
    """Whether a first join of a classic group ends, and so brings the next member id."""
    return not any(data == SUBSCRIPTIONS[name] for name in UNEXPECTED)


UNEXPECTED = ("null topics", "null topic", "more topics than bytes", "cut in a name", "user data cut")
"""Damage for which Kafka's coordinator has no answer: the rebalance does not end."""


def _classic_groups() -> Iterator[Line]:
    """Groups of one member each, then two minutes in which offsets of topics without a subscriber expire."""
    numbers = count(1)
    for name, data in SUBSCRIPTIONS.items():
        yield _commit(name)
        yield _join(name, data)
        if _is_readable_alone(data):
            yield _sync(name, f"$m{next(numbers)}")
    yield {"advance_ms": 130_000}
    yield {"dump": True}


def _upgrades() -> Iterator[Line]:
    """Classic groups to each of which a member of the new protocol comes."""
    yield from _classic_groups()
    for name in SUBSCRIPTIONS:
        yield _heartbeat(name, f"new of {name}")
    yield {"dump": True}


def _classic_members() -> Iterator[Line]:
    """Consumer groups to each of which a classic member comes."""
    for name, data in SUBSCRIPTIONS.items():
        yield _heartbeat(name, f"new of {name}")
        yield _join(name, data, 45_000)
    yield {"dump": True}


@pytest.mark.parametrize("lines", [_classic_groups, _upgrades, _classic_members], ids=lambda lines: lines.__name__)
def test_kafka_answers_alike(lines: Any) -> None:
    settings = {**SETTINGS, "group.consumer.migration.policy": "bidirectional"}
    script = [{"config": settings}, {"topics": TOPICS}, *lines()]
    texts = [json.dumps({name: value for name, value in line.items() if value is not None}) for line in script]
    found = first_difference(texts, oracle.run([json.loads(text) for text in texts]), run(texts))
    assert found is None, str(found)
