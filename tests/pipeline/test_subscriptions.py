"""Subscriptions that end early or can't be read: tables, answers and pages say what the coordinator made of them."""

import base64
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.api import Warehouse
from coordinator_replay.pipeline.audit import Summary
from coordinator_replay.pipeline.options import ExpiryOptions
from coordinator_replay.query.offset_changes import OffsetChange
from coordinator_replay.simulation.coordinator.script import ScriptRun
from coordinator_replay.simulation.simulated_log import write_log
from tests.pipeline.in_process import audit
from tests.samples import DATA

__all__ = ["audit"]

SHORT = DATA / "reports" / "scripts" / "short-subscription.jsonl"
MINUTE_MS = 60_000
RETENTION = ExpiryOptions(retention_ms=5 * MINUTE_MS)
SESSION_MS = 25 * MINUTE_MS

ORDERS = b"\0\0\0\1\0\6orders\xff\xff\xff\xff"
BOTH = b"\0\0\0\2\0\6orders\0\7refunds\xff\xff\xff\xff"
UNREADABLE = b"\0\0"
"""A version without topics, of which Kafka's coordinator says that it does not know them."""

Line = dict[str, Any]


def simulated(folder: Path, lines: Iterable[str]) -> Path:
    """Run a script; returns the folder of its log."""
    run = ScriptRun()
    for line in lines:
        run.run(line)
    write_log(folder, run.written, run.topics.values())
    return folder


def audited(folder: Path, audit: Callable[..., Summary], lines: Iterable[str]) -> Warehouse:
    """Run a script and audit its log."""
    log = simulated(folder / "log", lines)
    audit(folder / "tables", log / "segments", topics=str(log / "topics.csv"), expiry=RETENTION)
    return Warehouse(folder / "tables")


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    from tests.pipeline.in_process import audit_here

    return audited(tmp_path_factory.mktemp("short"), audit_here, SHORT.read_text().splitlines())


def test_a_short_subscription_lets_the_offsets_of_left_topics_expire(short: Warehouse) -> None:
    (lost,) = short.expired("payments")
    assert (lost.topic, lost.partition, lost.committed_offset, lost.status) == ("refunds", 0, 77, "EXPIRED")
    assert lost.rule == "unsubscribed_topic"
    assert lost.expire_at is not None
    assert lost.commit_timestamp is not None
    assert (lost.expire_at - lost.commit_timestamp).total_seconds() == 300


def test_offsets_and_history_say_that_it_expired(short: Warehouse) -> None:
    offsets = short.offsets("payments")
    assert [(offset.topic, offset.partition) for offset in offsets] == [("orders", 0)]
    assert any("refunds:0 expired" in note for note in offsets.notes)
    changes: list[OffsetChange] = list(short.offset_history("payments", "refunds"))
    assert [change.ended_by for change in changes][-1] == "EXPIRED"


def test_a_short_subscription_that_changed_is_the_cause(short: Warehouse) -> None:
    why = short.why("payments")
    assert [rebalance.cause for rebalance in why] == ["GROUP_CREATED", "SUBSCRIPTION_CHANGE"]
    (fact,) = why[-1].evidence
    assert "unsubscribed from refunds" in fact


def test_a_short_subscription_names_its_topics_to_those_who_ask_for_readers(short: Warehouse) -> None:
    for topic, partitions in (("orders", [0, 1, 2, 3]), ("refunds", [0])):
        (consumer,) = short.consumers(topic)
        assert (consumer.how, consumer.client_id, consumer.partitions) == ("subscribed", "app-1", partitions)
    assert [member.subscribed_topics for member in short.describe("payments")] == [("orders",)]


def test_findings_and_pages_say_that_the_offset_expired(short: Warehouse) -> None:
    rules = {finding.rule for finding in short.findings(group="payments")}
    assert rules == {"offset_lost"}
    page = short.report("payments").html
    assert "SUBSCRIPTION_CHANGE" in page
    assert "refunds" in page


# -- one subscription that can't be read -----------------------------------------------------------------------------


def request(api: str, body: Line, version: int, client: str = "c") -> Line:
    return {
        "request": api,
        "group": "g",
        "client": {"id": client, "host": "10.0.0.2"},
        "body": body,
        "version": version,
    }


def join(client: str, data: bytes, protocol_type: str = "consumer", member: str = "") -> Line:
    body = {
        "memberId": member,
        "sessionTimeoutMs": SESSION_MS,
        "rebalanceTimeoutMs": MINUTE_MS,
        "protocolType": protocol_type,
        "protocols": [{"name": "range", "metadata": base64.b64encode(data).decode()}],
    }
    return request("JoinGroup", body, 3, client)


def sync(generation: int, *members: str) -> list[Line]:
    """The first member leads, and gives itself all partitions."""
    owned = base64.b64encode(b"\0\0\0\0\0\1\0\6orders\0\0\0\1\0\0\0\0\xff\xff\xff\xff").decode()
    assignments = [{"memberId": members[0], "assignment": owned}]
    followers = [request("SyncGroup", {"generationId": generation, "memberId": one}, 4) for one in members[1:]]
    body = {"generationId": generation, "memberId": members[0], "assignments": assignments}
    return [*followers, request("SyncGroup", body, 4)]


def commit(member: str, generation: int, topic: str, offset: int) -> Line:
    partitions = [{"partitionIndex": 0, "committedOffset": offset}]
    body = {
        "memberId": member,
        "generationIdOrMemberEpoch": generation,
        "topics": [{"name": topic, "partitions": partitions}],
    }
    return request("OffsetCommit", body, 8)


def script(*steps: Line | list[Line]) -> list[str]:
    settings = {
        "group.initial.rebalance.delay.ms": 1000,
        "group.max.session.timeout.ms": SESSION_MS,
        "offsets.retention.minutes": 5,
        "offsets.retention.check.interval.ms": MINUTE_MS,
    }
    topics = [
        {"name": "orders", "id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 1},
        {"name": "refunds", "id": "AAAAAAAAAAAAAAAAAAAAAg", "partitions": 1},
    ]
    lines: list[Line] = [{"config": settings}, {"topics": topics}]
    for step in steps:
        lines += step if isinstance(step, list) else [step]
    return [json.dumps(line) for line in lines]


def group_of(*blobs: bytes, protocol_type: str = "consumer") -> list[Line]:
    """A group of members with these subscriptions, and an offset of a topic that nobody may subscribe to."""
    members = [f"$m{number}" for number in range(1, len(blobs) + 1)]
    return [
        commit("", -1, "refunds", 7),
        *(join(f"app-{number}", data, protocol_type) for number, data in enumerate(blobs, 1)),
        {"advance_ms": 2000},
        *sync(1, *members),
        commit("$m1", 1, "orders", 1),
        {"advance_ms": 10 * MINUTE_MS},
        commit("$m1", 1, "orders", 2),
    ]


def test_one_subscription_that_cannot_be_read_keeps_all_offsets_of_the_group(tmp_path: Path, audit: Any) -> None:
    here = audited(tmp_path, audit, script(group_of(b"\0\1" + ORDERS, UNREADABLE)))
    assert {offset.topic for offset in here.offsets("g")} == {"orders", "refunds"}
    unread = [member for member in here.describe("g") if member.subscribed_topics is None]
    assert [member.client_id for member in unread] == ["app-2"]
    (member_id,) = (member.member_id for member in unread)
    for answer in (here.expired("g"), here.expired(), here.describe("g")):
        assert any("subscription can't be read" in note and member_id in note for note in answer.notes)
    assert not here.expired("g")
    # A forecast, too: nothing expires, however far ahead.
    assert not here.expired("g", within="30d")


def test_who_may_have_read_a_topic_is_said_where_a_subscription_cannot_be_read(tmp_path: Path, audit: Any) -> None:
    here = audited(tmp_path, audit, script(group_of(b"\0\1" + ORDERS, UNREADABLE)))
    readers = here.consumers("orders")
    assert [(reader.client_id, reader.how) for reader in readers] == [("app-1", "subscribed")]
    assert any("may have subscribed to the topic, too" in note for note in readers.notes)


def test_a_topic_is_not_called_abandoned_where_a_subscription_cannot_be_read(tmp_path: Path, audit: Any) -> None:
    here = audited(tmp_path, audit, script(group_of(b"\0\1" + ORDERS, UNREADABLE)))
    assert not list(here.sql(query="abandoned-topics"))


def test_members_of_other_frameworks_are_not_called_unreadable(tmp_path: Path, audit: Any) -> None:
    here = audited(tmp_path, audit, script(group_of(UNREADABLE, UNREADABLE, protocol_type="connect")))
    for answer in (here.expired(), here.describe("g"), here.consumers("orders")):
        assert not any("can't be read" in note for note in answer.notes)


def test_a_negative_version_is_no_reason_not_to_read_the_topics(tmp_path: Path, audit: Any) -> None:
    here = audited(tmp_path, audit, script(group_of(b"\xff\xff" + ORDERS)))
    assert [offset.topic for offset in here.offsets("g")] == ["orders"]
    assert [offset.status for offset in here.expired("g")] == ["EXPIRED"]
    assert not any("can't be read" in note for note in here.expired("g").notes)


def test_nothing_is_said_to_be_unsubscribed_from_by_a_subscription_that_cannot_be_read(
    tmp_path: Path, audit: Any
) -> None:
    steps = [
        join("app-1", b"\0\0" + BOTH),
        {"advance_ms": 2000},
        *sync(1, "$m1"),
        {"advance_ms": 2000},
        join("app-1", UNREADABLE, member="$m1"),
        *sync(2, "$m1"),
        {"advance_ms": 2000},
        join("app-1", b"\0\0" + ORDERS, member="$m1"),
        *sync(3, "$m1"),
    ]
    here = audited(tmp_path, audit, script(steps))
    _, unread, read = here.why("g")
    assert (unread.cause, read.cause) == ("SUBSCRIPTION_CHANGE", "SUBSCRIPTION_CHANGE")
    assert [fact for fact in unread.evidence if "sent a subscription that can't be read" in fact]
    assert [fact for fact in read.evidence if "subscribed to orders, after a subscription that can't be read" in fact]
    assert not [fact for one in (unread, read) for fact in one.evidence if "unsubscribed" in fact or "as well" in fact]
    details = [event.summary for event in here.timeline("g") if event.event == "SUBSCRIPTION_CHANGED"]
    assert details == ["subscription can't be read", "subscribed to orders"]
