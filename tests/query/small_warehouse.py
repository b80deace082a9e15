"""A warehouse small enough to know by heart, written without a JVM from the contract's own schemas.

Cluster ``default``, 2026-11-20 from 02:00 to 02:20 UTC, audited at 03:00:

- ``payments``, a consumer group: m-1 joins at 02:00, the static m-2 at 02:10; partition 1 of orders goes from m-1 to
  m-2, while m-0 comes and goes. It commits plainly and in transactions, one of which is still open at the end.
- ``legacy``, a classic group: stable at 02:02, empty at 02:05, deleted at 02:06.
- ``simple`` only holds an offset; ``txn-only`` only holds a pending one.

Cluster ``other`` has a group ``payments`` too, of which nothing may ever show through.
"""

import atexit
import json
import shutil
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from coordinator_replay.store.layout import (
    DEFAULT_BUCKETS,
    LEDGER,
    UPKEEP_PROPERTY,
    bucket_of,
    has_buckets,
)
from coordinator_replay.store.opening import delta_uri
from coordinator_replay.store.warehouse import Store
from coordinator_replay.tables.definition import tables

ORDERS = "b3JkZXJzb3JkZXJzb3Jkxx"
RETENTION_MS = 117 * 60_000
UNNAMED = "dW5uYW1lZHVubmFtZWR1bx"

Row = dict[str, Any]


def at(clock: str) -> datetime:
    """A moment of the night: ``at("02:10:05")``."""
    hours, minutes, *seconds = map(int, clock.split(":"))
    return datetime(2026, 11, 20, tzinfo=UTC) + timedelta(hours=hours, minutes=minutes, seconds=sum(seconds))


def maybe(clock: str | None) -> datetime | None:
    return None if clock is None else at(clock)


def orders(*partitions: int) -> list[Row]:
    return [{"topic_id": ORDERS, "topic": "orders", "partitions": list(partitions)}] if partitions else []


def event(group: str, seq: int, clock: str, name: str, states: str, **columns: Any) -> Row:
    before, _, after = states.partition(">")
    return {
        "cluster": "default",
        "group_id": group,
        "seq": seq,
        "event": name,
        "from_state": before or None,
        "to_state": after,
        "log_timestamp": at(clock),
        "is_exact": True,
        "is_state_exact": True,
        "log_partition": 3,
        "log_offset": 100 + seq,
        "group_type": "consumer",
        **columns,
    }


def timeline() -> list[Row]:
    def consumer(seq: int, clock: str, name: str, states: str, **columns: Any) -> Row:
        return event("payments", seq, clock, name, states, **columns)

    return [
        consumer(0, "02:00", "MEMBER_JOINED", ">Assigning", epoch=2, assignment_epoch=1, member_count=1,
                 member_id="m-1"),
        consumer(1, "02:00:01", "TARGET_ASSIGNED", "Assigning>Reconciling", epoch=2, assignment_epoch=2,
                 member_count=1),
        consumer(2, "02:00:02", "REBALANCE_COMPLETED", "Reconciling>Stable", epoch=2, assignment_epoch=2,
                 member_count=1, rebalance_id="r1"),
        consumer(3, "02:10", "MEMBER_JOINED", "Stable>Assigning", epoch=3, assignment_epoch=2, member_count=2,
                 member_id="m-2", instance_id="two",
                 detail=json.dumps({"client_id": "two-1", "client_host": "/10.0.0.2", "topics": ["orders"]})),
        consumer(4, "02:10:05", "TARGET_ASSIGNED", "Assigning>Reconciling", epoch=3, assignment_epoch=3,
                 member_count=2),
        consumer(5, "02:10:20", "REBALANCE_COMPLETED", "Reconciling>Stable", epoch=3, assignment_epoch=3,
                 member_count=2, rebalance_id="r2", is_exact=False),
        event("legacy", 0, "02:02", "GROUP_CREATED", ">Stable", group_type="classic", epoch=1, member_count=1),
        event("legacy", 1, "02:05", "GROUP_EMPTIED", "Stable>Empty", group_type="classic", epoch=2, member_count=0),
        event("legacy", 2, "02:06", "GROUP_DELETED", "Empty>Dead", group_type="classic", epoch=2, member_count=0),
        event("payments", 0, "02:04", "GROUP_CREATED", ">Empty", cluster="other", group_type="share", epoch=9),
    ]  # fmt: skip


def member(group: str, member_id: str, start: str, end: str | None, offset: int, **columns: Any) -> Row:
    return {
        "cluster": "default",
        "group_id": group,
        "group_type": "consumer",
        "member_id": member_id,
        "client_id": f"client-{member_id}",
        "client_host": "/10.0.0.1",
        "valid_from": at(start),
        "valid_to": maybe(end),
        "from_offset": offset,
        "to_offset": None if end is None else offset + 1,
        "log_partition": 3,
        "assigned": [],
        "target": [],
        "pending_revocation": [],
        "subscribed_topics": ["orders"],
        "member_state": "STABLE",
        "is_exact": True,
        "is_begin_open": False,
        **columns,
    }


def members() -> list[Row]:
    unnamed = {"topic_id": UNNAMED, "topic": None, "partitions": [4, 2]}
    return [
        member("payments", "m-1", "02:00", "02:00:02", 100, member_epoch=0),
        member("payments", "m-1", "02:00:02", "02:10:05", 102, member_epoch=2, assigned=orders(0, 1),
               target=orders(0, 1)),
        member("payments", "m-1", "02:10:05", "02:10:20", 104, member_epoch=2, member_state="UNREVOKED_PARTITIONS",
               assigned=orders(0), pending_revocation=orders(1), target=orders(0)),
        member("payments", "m-1", "02:10:20", None, 105, member_epoch=3, assigned=orders(0), target=orders(0)),
        member("payments", "m-2", "02:10", "02:10:20", 103, member_epoch=2, instance_id="two", target=orders(1)),
        member("payments", "m-2", "02:10:20", None, 106, member_epoch=3, instance_id="two", assignor="range",
               assigned=[*orders(1), unnamed], target=[*orders(1), unnamed]),
        member("legacy", "l-1", "02:02", "02:05", 10, group_type="classic", member_state=None, target=None,
               member_epoch=1, assigned=[{"topic_id": None, "topic": "logs", "partitions": [0]}]),
        member("payments", "m-9", "02:04", None, 1, cluster="other"),
    ]  # fmt: skip


def owned(partition: int, member_id: str, start: str, end: str | None = None, **columns: Any) -> Row:
    """An ownership; members miss the partition from its end on, for ``unowned_ms`` if it is given."""
    since, unowned_ms = maybe(end), columns.get("unowned_ms")
    until = since + timedelta(milliseconds=unowned_ms) if since and unowned_ms else None
    is_missed = unowned_ms or (unowned_ms is None and since and columns.get("released_by"))
    return {
        "unowned": [{"since": since, "until": until}] if is_missed else [],
        "cluster": "default",
        "group_id": "payments",
        "topic_id": ORDERS,
        "topic": "orders",
        "partition": partition,
        "member_id": member_id,
        "owned_from": at(start),
        "owned_to": maybe(end),
        "from_offset": 100,
        "to_offset": None if end is None else 500,
        "log_partition": 3,
        "is_exact": True,
        "is_begin_open": False,
        **columns,
    }


def ownership() -> list[Row]:
    return [
        owned(0, "m-1", "02:00:02"),
        owned(1, "m-1", "02:00:02", "02:10:15", unowned_ms=5000, released_by="REVOKED"),
        owned(1, "m-2", "02:10:20", instance_id="two"),
    ]


def offset(topic: str, partition: int, value: int, start: str, end: str | None = None, **columns: Any) -> Row:
    # As in a simple group, where retention counts from the commit; commits that wait for a marker have no rule.
    since = columns.get("commit_timestamp", at(start))
    expires = end is None and "producer_id" not in columns
    expiry = (
        {"rule": "simple_group", "base_timestamp": since, "is_protected": False, "is_proven": True} if expires else {}
    )
    return {
        "cluster": "default",
        "group_id": "payments",
        "topic": topic,
        "partition": partition,
        "committed_offset": value,
        "metadata": "",
        "commit_timestamp": at(start),
        "valid_from": at(start),
        "valid_to": maybe(end),
        "to_offset": None if end is None else value + 50,
        "from_offset": value,
        "log_partition": 3,
        "is_transactional": False,
        "ended_by": None if end is None else "COMMIT",
        "is_exact": True,
        "is_begin_open": False,
        **expiry,
        **columns,
    }


SPARED: Row = {"rule": "never_while_active", "base_timestamp": None}
"""A member subscribes to the topic."""


def history() -> list[Row]:
    return [
        offset("orders", 0, 100, "02:01", "02:11", leader_epoch=5, owner_member_id="m-1", group_state="Stable"),
        offset("orders", 0, 150, "02:11", metadata="by hand\x00", owner_member_id="m-1", group_state="Stable",
               previous_offset=100, **SPARED),
        offset("orders", 1, 90, "02:01", "02:14"),
        offset("orders", 1, 200, "02:14", commit_timestamp=at("02:13"), is_transactional=True, previous_offset=90,
               **SPARED),
        offset("audit", 0, 7, "02:01", "02:08", ended_by="EXPIRED", to_offset=120),
        offset("logs", 0, 5, "02:03", group_id="simple"),
        offset("orders", 0, 999, "02:03", cluster="other"),
    ]  # fmt: skip


def pending() -> list[Row]:
    def one(partition: int, value: int, start: str, **columns: Any) -> Row:
        return offset("orders", partition, value, start, producer_id=7, producer_epoch=0, pending_since=at(start),
                      is_transactional=True, **columns)  # fmt: skip

    return [one(0, 160, "02:15"), one(2, 10, "02:15"), one(0, 1, "02:18", group_id="txn-only")]


def rebalances() -> list[Row]:
    def one(rebalance_id: str, start: str | None, end: str | None, **columns: Any) -> Row:
        return {
            "rebalance_id": rebalance_id,
            "cluster": "default",
            "group_id": "payments",
            "group_type": "consumer",
            "started_at": maybe(start),
            "completed_at": maybe(end),
            "completed_offset": None if end is None else 500,
            "join_reason": "unknown",
            "confidence": "certain",
            "evidence": [],
            "alternatives": [],
            "is_exact": True,
            **columns,
        }

    return [
        one("r1", "02:00", "02:00:02", epoch=2, cause="GROUP_CREATED", duration_ms=2000, duration_ms_min=2000,
            duration_ms_max=2000, members_before=0, members_after=1, partitions_reassigned=0, partitions_added=2,
            unowned_ms_max=0),
        one("r2", "02:10", "02:10:20", epoch=3, cause="MEMBER_JOIN", duration_ms=20000, duration_ms_min=20000,
            duration_ms_max=20000, commit_pause_ms=6000, members_before=1, members_after=2, partitions_reassigned=1,
            partitions_added=0, unowned_ms_max=5000, held_up_by="m-1", held_up_ms=15000, trigger_members=["m-2"],
            members_joined=["m-0", "m-2"], members_left=["m-0"],
            evidence=["member m-2 joined (3:103)", "epoch 2 to 3 (3:103)"]),
        one("r3", None, "02:02", group_id="legacy", group_type="classic", epoch=1, cause="GROUP_CREATED",
            began_by=at("02:02") - timedelta(milliseconds=40), duration_ms_min=40, duration_ms_max=60_000,
            members_before=0, members_after=1, partitions_reassigned=0, partitions_added=1, confidence="likely",
            alternatives=["UNKNOWN"]),
        one("x1", "02:04", "02:04", cluster="other", cause="MEMBER_LEAVE"),
    ]  # fmt: skip


def expired() -> list[Row]:
    def one(topic: str, value: int, status: str, expire: str, **columns: Any) -> Row:
        return {
            "cluster": "default",
            "group_id": "payments",
            "topic": topic,
            "partition": 0,
            "committed_offset": value,
            "status": status,
            "expire_at": at(expire),
            "rule": "unsubscribed_topic",
            "confidence": "likely",
            "is_exact": True,
            **columns,
        }

    return [
        one("audit", 7, "EXPIRED", "02:07", tombstone_at=at("02:08"), tombstone_offset=120, last_owner_member_id="m-1"),
        one("logs", 5, "EXPIRING", "04:00", group_id="simple", rule="simple_group"),
        one("logs", 5, "DUE", "02:19", group_id="zombie", rule="simple_group"),
        one("logs", 1, "DUE", "02:19", cluster="other"),
    ]


def findings() -> list[Row]:
    def one(finding_id: str, rule: str, severity: str, **columns: Any) -> Row:
        return {
            "cluster": "default",
            "finding_id": finding_id,
            "rule": rule,
            "severity": severity,
            "first_seen": at("02:00"),
            "last_seen": at("02:10"),
            "occurrences": 1,
            "message": f"Something about {rule}.",
            **columns,
        }

    return [
        one("f1", "storm", "info", group_id="payments", ended_at=at("02:10")),
        one("f2", "stuck_transaction", "error", group_id="txn-only", topic="orders", partition=0),
        one("f3", "rewind", "warning", group_id="payments", last_seen=at("02:12"), ended_at=at("02:12")),
        one("f4", "rewind", "error", cluster="other"),
    ]


def group_records() -> list[Row]:
    def metadata(clock: str, log_offset: int, value: Row | None) -> Row:
        return {
            "cluster": "default",
            "group_id": "legacy",
            "kind": "GroupMetadata",
            "value_json": None if value is None else json.dumps(value),
            "is_tombstone": value is None,
            "log_partition": 3,
            "log_offset": log_offset,
            "log_timestamp": at(clock),
        }

    return [
        metadata("02:02", 10, {"protocolType": "consumer", "protocol": "range"}),
        metadata("02:05", 11, {"protocolType": "consumer", "protocol": None}),
        metadata("02:06", 12, None),
        {"cluster": "default", "group_id": "payments", "kind": "ConsumerGroupMetadata", "log_partition": 3,
         "log_offset": 100, "log_timestamp": at("02:00")},
        {"cluster": "other", "group_id": "payments", "kind": "ShareGroupMetadata", "log_partition": 3,
         "log_offset": 1, "log_timestamp": at("01:00")},
    ]  # fmt: skip


def commits() -> list[Row]:
    def one(clock: str, log_offset: int, cluster: str = "default") -> Row:
        return {"cluster": cluster, "group_id": "payments", "topic": "orders", "partition": 0, "log_partition": 3,
                "log_offset": log_offset, "log_timestamp": at(clock), "is_transactional": False}  # fmt: skip

    return [one("02:01", 110), one("02:20", 150), one("05:00", 1, "other")]


def log_partition(number: int, start: str, end: str, **columns: Any) -> Row:
    """A log partition without a missing offset."""
    times = {"from_timestamp": at(start), "to_timestamp": at(end), "exact_from_timestamp": at(start)}
    return {
        "cluster": "default",
        "log_partition": number,
        "first_offset": 0,
        "end_offset": 1000,
        "end_timestamp": at(end),
        "complete_ranges": [{"from_offset": 0, "to_offset": 1000, "exact_from_offset": 0, **times}],
        "complete_from_offset": 0,
        "complete_since": at(start),
        "records": 1000,
        "missing_offsets": 0,
        "gaps": [],
        "anchors": [],
        **columns,
    }


def log_partitions() -> list[Row]:
    return [
        log_partition(1, "02:02", "02:06"),
        log_partition(3, "02:00", "02:20"),
        log_partition(3, "01:00", "05:00", cluster="other"),
    ]


def runs() -> list[Row]:
    return [
        {"run_id": "1", "cluster": "default", "status": "done", "started_at": at("02:55"), "finished_at": at("03:00"),
         "settings": json.dumps({"retention_ms": RETENTION_MS, "as_of": None})},
        {"run_id": "2", "cluster": "default", "status": "failed", "started_at": at("09:00")},
        {"run_id": "3", "cluster": "other", "status": "done", "started_at": at("06:00"), "finished_at": at("06:00")},
    ]  # fmt: skip


def expiry_rules() -> list[Row]:
    """A consumer group spares what its members subscribe to; a group that is not here is a simple one."""
    one = {"cluster": "default", "group_id": "payments", "group_type": "consumer", "rule": "unsubscribed_topic",
           "is_group_tombstone": False, "log_partition": 3}  # fmt: skip
    return [
        {**one, "log_offset": 100, "spared_topics": ["audit"]},
        {**one, "log_offset": 103, "spared_topics": ["orders"]},
    ]


def coordinator_changes() -> list[Row]:
    """Of a log partition without groups."""
    return [{"cluster": "default", "log_partition": 7, "leader_epoch": epoch, "is_exact": False} for epoch in (0, 1)]


ROWS = {
    "coordinator_changes": coordinator_changes,
    "group_timeline": timeline,
    "member_timeline": members,
    "partition_ownership": ownership,
    "offset_history": history,
    "pending_offsets": pending,
    "rebalances": rebalances,
    "expired_offsets": expired,
    "expiry_rules": expiry_rules,
    "findings": findings,
    "group_records": group_records,
    "offset_commits": commits,
    "audit_runs": runs,
    "log_partitions": log_partitions,
}


def write_rows(folder: Path, name: str, rows: list[Row]) -> None:
    """Append rows to a table; what they leave out is null. It counts as if a finished run had done it."""
    store, schema = Store(str(folder)), tables()[name].arrow_schema()
    unknown = {column for row in rows for column in row} - set(schema.names)
    assert not unknown, f"{name} has no columns {unknown}"
    store.create(LEDGER, DEFAULT_BUCKETS)
    store.create(name, DEFAULT_BUCKETS)
    if rows:
        laid = [{"is_open": False, **row} for row in rows] if "is_open" in tables()[name].partitioned_by else rows
        if has_buckets(tables()[name]):
            laid = [{"bucket": bucket_of(row.get("log_partition", 3), DEFAULT_BUCKETS), **row} for row in laid]
        write_deltalake(
            delta_uri(store.path(name)),
            pa.Table.from_pylist(laid, schema=schema),
            mode="append",
            schema_mode="merge",
            commit_properties=CommitProperties(custom_metadata={UPKEEP_PROPERTY: "rows of tests"}),
        )


@cache
def _written_once(*, is_empty: bool) -> Path:
    """A folder with all tables, which goes with the process: to copy one takes a tenth of the time to write it."""
    folder = Path(mkdtemp(prefix="small-warehouse-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in tables():
        write_rows(folder, name, ROWS[name]() if name in ROWS and not is_empty else [])
    return folder


def _write_tables(folder: Path, is_empty: bool, others: dict[str, list[Row]]) -> Path:
    for name in tables().keys() - others.keys():
        shutil.copytree(_written_once(is_empty=is_empty) / name, folder / name)
    for name, rows in others.items():
        write_rows(folder, name, rows)
    return folder


def write_small_warehouse(folder: Path, **others: list[Row]) -> Path:
    """Write all tables of the contract, those without rows too; ``others`` are rows of tables that differ."""
    return _write_tables(folder, False, others)


def write_tables(folder: Path, **rows: list[Row]) -> Path:
    """Write all tables of the contract with these rows: the other tables have none."""
    return _write_tables(folder, True, rows)
