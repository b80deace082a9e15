"""A large warehouse made by rule, in the form that an audit leaves, but written without an audit.

Groups follow Zipf's law, and half of them are classic. Rows are divided by bucket. Rows of the history are sorted by
group in each bucket.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.store.layout import LEDGER, RUN_PROPERTY, bucket_of
from coordinator_replay.store.snapshot import Snapshot
from coordinator_replay.store.warehouse import Store
from coordinator_replay.store.writer import DataFile, FileWriter, batch_of, conform, table_part
from coordinator_replay.tables.definition import table as declared
from coordinator_replay.tables.definition import tables

_BUCKETS = 10
_LOG_PARTITIONS = 50
_ENDS = {"offset_history": "valid_to", "member_timeline": "valid_to", "partition_ownership": "owned_to"}
"""The column that is null in open rows, by table. Other tables have no open rows here."""
_PARTITIONS = 12
_REBALANCES = 20
_MEMBERS = 4
_BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
_DAY_US = 86_400_000_000
_TOPIC = {"topic_id": "b3JkZXJzb3JkZXJzb3Jkxx", "topic": "orders"}

Numbers = npt.NDArray[np.int64]


def group_name(number: int) -> str:
    """Return the name of a group. Group 0 commits most."""
    return f"team-{number:06d}"


def _files(store: Store, name: str, rows: pa.Table, bucket: int | None = None) -> list[DataFile]:
    """Write rows as files of a table, and return the files. Columns that the rows lack are null."""
    definition, found = declared(name), []
    is_open = pc.is_null(rows[_ENDS[name]]) if name in _ENDS else pa.repeat(False, len(rows))
    has_open_rows = "is_open" in definition.partitioned_by
    for value in (False, True) if has_open_rows else (False,):
        chosen = rows.filter(is_open if value else pc.invert(is_open)) if has_open_rows else rows
        values = {"cluster": "default", "bucket": bucket, "is_open": value}
        writer, part = FileWriter(), table_part(definition, store.path(name), values)
        schema = definition.file_schema().remove_metadata()
        for batch in chosen.combine_chunks().to_batches(50_000):
            writer.add(part, conform(batch, schema))
        found += writer.close()
    return found


def _files_by_bucket(store: Store, name: str, rows: list[dict[str, Any]]) -> list[DataFile]:
    """Write rows of plain values as files of a table, by bucket, and return the files."""
    by_bucket: dict[int | None, list[dict[str, Any]]] = {}
    for row in rows:
        # Rows of ownership have no log partition, so it is computed from the group's number.
        log_partition = row.get("log_partition", int(row["group_id"].rpartition("-")[2]) % _LOG_PARTITIONS)
        by_bucket.setdefault(bucket_of(log_partition, _BUCKETS), []).append(row)
    fields = [field for field in declared(name).file_schema() if field.name in rows[0]]
    return [
        file
        for bucket, own in by_bucket.items()
        for file in _files(store, name, pa.Table.from_pylist(own, schema=pa.schema(fields)), bucket)
    ]


def _repeated(values: list[str], places: Numbers) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), pa.array(values)).dictionary_decode()


def _constant(value: Any, count: int, type_: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, type_), count)


def _moments(microseconds: Numbers, valid: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    mask = None if valid is None else ~valid
    return pa.array(microseconds, pa.timestamp("us", tz="UTC"), mask=mask)


def _history(bucket: int, commits: Numbers, names: list[str]) -> pa.Table:
    """Return the rows of ``offset_history`` for the groups of a bucket."""
    own = [g for g in range(len(names)) if bucket_of(g % _LOG_PARTITIONS, _BUCKETS) == bucket]
    keys = [(g, p) for g in own for p in range(_PARTITIONS)]
    groups = np.array([g for g, _ in keys], np.int64)
    counts = np.maximum(commits[groups] // _PARTITIONS, 1)
    total = int(counts.sum())
    key = np.repeat(np.arange(len(keys)), counts)
    turn = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    step = (30 * _DAY_US) // counts
    since = int(_BEGIN.timestamp() * 1_000_000) + turn * step[key]
    is_last = turn == counts[key] - 1
    group = groups[key]
    columns = {
        "cluster": _constant("default", total, pa.string()),
        "group_id": _repeated(names, group),
        "topic": _repeated([f"orders.region-{number:03d}" for number in range(200)], group % 200),
        "partition": pa.array(np.array([p for _, p in keys], np.int32)[key]),
        "committed_offset": pa.array(turn * 100),
        "leader_epoch": pa.array(np.full(total, 5, np.int32)),
        "metadata": _constant("", total, pa.string()),
        "commit_timestamp": _moments(since),
        "valid_from": _moments(since),
        "valid_to": _moments(since + step[key], ~is_last),
        "from_offset": pa.array(turn * len(keys) + key),
        "record_offset": pa.array(turn * len(keys) + key),
        "log_partition": pa.array((group % _LOG_PARTITIONS).astype(np.int32)),
        "ended_by": pa.array(np.where(is_last, "", "COMMIT"), mask=is_last),
        "is_transactional": _constant(False, total, pa.bool_()),
        "is_proven": _constant(True, total, pa.bool_()),
        "owner_member_id": _repeated([f"consumer-{name}-0" for name in names], group),
        "group_state": _constant("Stable", total, pa.string()),
    }
    return pa.table(columns)


def _commits(history: pa.Table) -> pa.Table:
    kept = [
        "cluster",
        "group_id",
        "topic",
        "partition",
        "committed_offset",
        "metadata",
        "commit_timestamp",
        "log_partition",
    ]
    rows = history.select([*kept, "from_offset", "valid_from", "is_transactional"])
    rows = rows.rename_columns([*kept, "log_offset", "log_timestamp", "is_transactional"])
    return rows.append_column("record_bytes", pa.array(np.full(len(rows), 120, np.int32)))


def _at(turn: int, seconds: int = 0) -> datetime:
    return _BEGIN + timedelta(days=30 * turn / _REBALANCES, seconds=seconds)


def _life(number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of one group, each with its table. The same members take turns in owning the partitions."""
    group = group_name(number)
    kind = "classic" if number % 2 == 0 else "consumer"
    base = {"cluster": "default", "group_id": group, "group_type": kind}
    for turn in range(_REBALANCES):
        since, until = _at(turn), None if turn == _REBALANCES - 1 else _at(turn + 1)
        for seq, (event, state) in enumerate((("MEMBER_JOINED", "Assigning"), ("REBALANCE_COMPLETED", "Stable"))):
            place = {
                "log_partition": number % _LOG_PARTITIONS,
                "log_offset": turn * 10 + seq,
                "log_timestamp": _at(turn, seq),
            }
            about = {"seq": turn * 2 + seq, "event": event, "to_state": state, "epoch": turn, "member_count": _MEMBERS}
            yield "group_timeline", {**base, **about, "is_exact": True, "detail": "{}", **place}
        value = {
            "protocolType": "consumer",
            "generation": turn,
            "protocol": "range",
            "members": [{"memberId": "x" * 40}] * 4,
        }
        record = {"cluster": "default", "group_id": group, "value_json": json.dumps(value), "is_tombstone": False}
        name = "GroupMetadata" if kind == "classic" else "ConsumerGroupMetadata"
        yield (
            "group_records",
            {
                **record,
                "kind": name,
                "log_partition": number % _LOG_PARTITIONS,
                "log_offset": turn,
                "log_timestamp": since,
            },
        )
        for member in range(_MEMBERS):
            own = [{**_TOPIC, "partitions": [p for p in range(_PARTITIONS) if (p + turn) % _MEMBERS == member]}]
            who = {
                "member_id": f"consumer-{group}-{member}",
                "client_id": f"client-{member}",
                "client_host": "/10.0.0.1",
            }
            held = {
                "valid_from": since,
                "valid_to": until,
                "from_offset": turn,
                "log_partition": number % _LOG_PARTITIONS,
            }
            lists = {"assigned": own, "target": own, "pending_revocation": [], "subscribed_topics": ["orders"]}
            yield "member_timeline", {**base, **who, **lists, **held, "member_epoch": turn, "member_state": "STABLE"}
            for partition in own[0]["partitions"]:
                gaps = [] if until is None else [{"since": until, "until": until + timedelta(milliseconds=5)}]
                owned = {"owned_from": since, "owned_to": until, "unowned_ms": 5, "released_by": "REVOKED"}
                owned |= {"unowned": gaps}
                ids = {"cluster": "default", "group_id": group, **_TOPIC, "partition": partition}
                yield "partition_ownership", {**ids, **owned, "member_id": who["member_id"]}
        took = {"started_at": since, "completed_at": _at(turn, 3), "duration_ms": 3000, "unowned_ms_max": 5}
        why = {
            "cause": "MEMBER_JOIN",
            "confidence": "certain",
            "evidence": ["a member joined"],
            "join_reason": "unknown",
        }
        sizes = {
            "members_before": 3,
            "members_after": _MEMBERS,
            "partitions_reassigned": 9,
            "partitions_total": _PARTITIONS,
        }
        yield "rebalances", {**base, "rebalance_id": f"{group}-{turn}", "epoch": turn, **took, **why, **sizes}


def make_warehouse(folder: Path, *, commits: int, groups: int = 3000) -> Path:
    """Make a warehouse, unless the folder has this warehouse already.

    Returns:
        The folder, which has all tables.
    """
    facts = {"commits": commits, "groups": groups, "form": 3}
    note = folder / "made-by.json"
    if note.exists() and json.loads(note.read_text()) == facts:
        return folder
    weights = 1 / np.arange(1, groups + 1) ** 1.05
    shares = np.maximum(commits * weights / weights.sum(), _PARTITIONS).astype(np.int64)
    names = [group_name(number) for number in range(groups)]
    store, files = Store(str(folder)), dict[str, list[DataFile]]()
    snapshots = {name: store.create(name, _BUCKETS) for name in tables()}
    for bucket in range(_BUCKETS):
        history = _history(bucket, shares, names)
        files.setdefault("offset_history", []).extend(_files(store, "offset_history", history, bucket))
        written = _commits(history).sort_by("log_offset")
        files.setdefault("offset_commits", []).extend(_files(store, "offset_commits", written, bucket))
    rows: dict[str, list[dict[str, Any]]] = {}
    for number in range(groups):
        for name, row in _life(number):
            rows.setdefault(name, []).append(row)
    files |= {name: _files_by_bucket(store, name, own) for name, own in rows.items()}
    _commit(store, snapshots, files)
    note.write_text(json.dumps(facts))
    return folder


def warehouse_of(folder: Path, rows: Iterable[tuple[str, Mapping[str, Any]]]) -> Path:
    """Write a replay's rows of groups in log partition 0 into a new warehouse, and return its folder."""
    store, by_table = Store(str(folder)), dict[str, list[Mapping[str, Any]]]()
    for name, row in rows:
        if name in tables():
            by_table.setdefault(name, []).append(row)
    snapshots = {name: store.create(name, _BUCKETS) for name in tables()}
    files = {}
    for name, own in by_table.items():
        batch = batch_of(own, declared(name).file_schema())
        files[name] = _files(store, name, pa.Table.from_batches([batch]), 0)
    _commit(store, snapshots, files)
    return folder


def _commit(store: Store, snapshots: Mapping[str, Snapshot], files: Mapping[str, list[DataFile]]) -> None:
    """Commit files as a finished run."""
    versions = {name: store.commit(snapshots[name], files.get(name, []), [], {RUN_PROPERTY: "1"}) for name in tables()}
    versions[LEDGER] = snapshots[LEDGER].version + 1
    ended = {"started_at": _at(_REBALANCES), "finished_at": _at(_REBALANCES, 600)}
    run = {"run_id": "1", "cluster": "default", "status": "done", "table_versions": [*versions.items()], **ended}
    ledger = pa.Table.from_pylist([run], schema=declared(LEDGER).file_schema())
    store.commit(snapshots[LEDGER], _files(store, LEDGER, ledger), [], {RUN_PROPERTY: "1"})
