"""A large warehouse made by rule, written as an audit leaves it, without running one.

Groups by Zipf's law, half of them classic. ``offset_history`` comes out of a shuffle by topic-partition of the group: a
group's rows are spread over all files, sorted by group within each; other tables are written group by group.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import write_deltalake

from coordinator_replay.tables.definition import tables

_FILES = 8
_PARTITIONS = 12
_REBALANCES = 20
_MEMBERS = 4
_BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
_DAY_US = 86_400_000_000
_TOPIC = {"topic_id": "b3JkZXJzb3JkZXJzb3Jkxx", "topic": "orders"}

Numbers = npt.NDArray[np.int64]


def group_name(number: int) -> str:
    """The name of a group; 0 commits most."""
    return f"team-{number:06d}"


def _write(folder: Path, name: str, rows: pa.Table) -> None:
    """Append rows; columns that they lack are null."""
    schema = tables()[name].arrow_schema()
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    write_deltalake(str(folder / name), pa.Table.from_arrays(columns, schema=schema), mode="append")


def _repeated(values: list[str], places: Numbers) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), pa.array(values)).dictionary_decode()


def _constant(value: Any, count: int, type_: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, type_), count)


def _moments(microseconds: Numbers, valid: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    mask = None if valid is None else ~valid
    return pa.array(microseconds, pa.timestamp("us", tz="UTC"), mask=mask)


def _history(file: int, commits: Numbers, names: list[str]) -> pa.Table:
    """The part of the history that one shuffle task writes: each group's partitions whose turn it is."""
    keys = [(g, p) for g in range(len(names)) for p in range(_PARTITIONS) if (g * 7 + p) % _FILES == file]
    groups = np.array([g for g, _ in keys])
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
        "log_partition": pa.array((group % 50).astype(np.int32)),
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
    """Rows of one group's own tables: the same members take turns in owning its partitions."""
    group = group_name(number)
    kind = "classic" if number % 2 == 0 else "consumer"
    base = {"cluster": "default", "group_id": group, "group_type": kind}
    for turn in range(_REBALANCES):
        since, until = _at(turn), None if turn == _REBALANCES - 1 else _at(turn + 1)
        for seq, (event, state) in enumerate((("MEMBER_JOINED", "Assigning"), ("REBALANCE_COMPLETED", "Stable"))):
            place = {"log_partition": number % 50, "log_offset": turn * 10 + seq, "log_timestamp": _at(turn, seq)}
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
            {**record, "kind": name, "log_partition": number % 50, "log_offset": turn, "log_timestamp": since},
        )
        for member in range(_MEMBERS):
            own = [{**_TOPIC, "partitions": [p for p in range(_PARTITIONS) if (p + turn) % _MEMBERS == member]}]
            who = {
                "member_id": f"consumer-{group}-{member}",
                "client_id": f"client-{member}",
                "client_host": "/10.0.0.1",
            }
            held = {"valid_from": since, "valid_to": until, "from_offset": turn, "log_partition": number % 50}
            lists = {"assigned": own, "target": own, "pending_revocation": [], "subscribed_topics": ["orders"]}
            yield "member_timeline", {**base, **who, **lists, **held, "member_epoch": turn, "member_state": "STABLE"}
            for partition in own[0]["partitions"]:
                owned = {"owned_from": since, "owned_to": until, "unowned_ms": 5, "release_event": "REVOKED"}
                ids = {"cluster": "default", "group_id": group, **_TOPIC, "partition": partition}
                yield "partition_ownership", {**ids, **owned, "member_id": who["member_id"]}
        took = {"started_at": since, "completed_at": _at(turn, 3), "duration_ms": 3000, "unowned_ms_max": 5}
        why = {
            "cause": "MEMBER_JOIN",
            "confidence": "certain",
            "evidence": ["a member joined"],
            "join_reason": "unknown",
        }
        sizes = {"members_before": 3, "members_after": _MEMBERS, "partitions_moved": 9, "partitions_total": _PARTITIONS}
        yield "rebalances", {**base, "rebalance_id": f"{group}-{turn}", "epoch": turn, **took, **why, **sizes}


def make_warehouse(folder: Path, *, commits: int, groups: int = 3000) -> Path:
    """Make the warehouse unless it is there.

    Returns:
        The folder, which holds all tables of the contract.
    """
    facts = {"commits": commits, "groups": groups, "form": 1}
    note = folder / "made-by.json"
    if note.exists() and json.loads(note.read_text()) == facts:
        return folder
    weights = 1 / np.arange(1, groups + 1) ** 1.05
    shares = np.maximum(commits * weights / weights.sum(), _PARTITIONS).astype(np.int64)
    names = [group_name(number) for number in range(groups)]
    for file in range(_FILES):
        history = _history(file, shares, names)
        _write(folder, "offset_history", history)
        _write(folder, "offset_commits", _commits(history).sort_by("log_offset"))
    rows: dict[str, list[dict[str, Any]]] = {}
    for number in range(groups):
        for name, row in _life(number):
            rows.setdefault(name, []).append(row)
    ended = {"started_at": _at(_REBALANCES), "finished_at": _at(_REBALANCES, 600)}
    rows["audit_runs"] = [{"run_id": "1", "cluster": "default", "status": "done", **ended}]
    for name, table in tables().items():
        if name not in ("offset_history", "offset_commits"):
            own = rows.get(name, [])
            fields = [field for field in table.arrow_schema() if not own or field.name in own[0]]
            _write(folder, name, pa.Table.from_pylist(own, schema=pa.schema(fields)))
    note.write_text(json.dumps(facts))
    return folder
