"""Log records, decoded into columns: offset commits, other coordinator records, and records that could not be read.

Well-formed keys, and well-formed values without lists, are read many at a time (``columnar.py``). All others are read
record by record (``plain.py``). The code here knows no record kind by name. It asks only two questions about a kind: is
it an offset commit (``RecordDefinition.is_offset_commit``), and does its key have the field ``memberId``?
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.arrow_times import timestamps_of
from coordinator_replay.records.columnar import Columns, Flags, Rows, has_columns, lengths_of, openings_of
from coordinator_replay.records.damage import LARGEST_RECORD_BYTES, ErrorClass, RecordError
from coordinator_replay.records.definition import RecordDefinition
from coordinator_replay.records.kinds import kinds_by_name, record_kinds
from coordinator_replay.records.plain import DecodedRecord, decode_record, decode_value, group_of_key
from coordinator_replay.tables.definition import table
from coordinator_replay.times import shown_ms

_KEPT_BYTES = 1 << 20

_COMMON = ("group_id", "key_version", "value_version", "is_tombstone", "record_bytes")


def _columns(name: str, *names: str) -> pa.Schema:
    """Return a schema of some columns, with the types that they have in a table.

    Args:
        name: name of the table.
        names: names of the columns.
    """
    return pa.schema([field.remove_metadata() for field in table(name).arrow_schema(names)])


COMMIT_COLUMNS = _columns(
    "offset_commits",
    *(*_COMMON, "topic", "partition", "topic_id", "committed_offset", "leader_epoch", "metadata"),
    *("commit_timestamp", "expire_timestamp"),
)
"""Columns of a decoded offset commit. The table ``offset_commits`` has other columns too, such as the log offset."""

GROUP_COLUMNS = _columns("group_records", *_COMMON, "kind", "member_id", "key_json", "value_json")
"""Columns of any other coordinator record."""

JSON_COLUMNS = pa.schema([GROUP_COLUMNS.field(name) for name in ("kind", "key_json", "value_json")])
"""Columns that a decoded offset commit has in addition to COMMIT_COLUMNS if its JSON form is requested."""

QUARANTINE_COLUMNS = _columns(
    "quarantine", "error_class", "error_message", "key", "value", "kind", "group_id", "key_json"
)
"""Columns of a record that could not be read; the last three are filled if its key can be read."""

_RECORD, _ERROR = ("key", "value"), ("error_class", "error_message")


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded batch.

    Each ``…_rows`` array has positions of rows in the batch. Each row of the batch is in exactly one of these arrays.

    Attributes:
        commits: offset commits, with COMMIT_COLUMNS, and on request also with JSON_COLUMNS.
        commit_rows: the positions of ``commits``.
        groups: other coordinator records, with GROUP_COLUMNS.
        group_rows: the positions of ``groups``.
        quarantine: records that could not be decoded, with QUARANTINE_COLUMNS.
        quarantine_rows: the positions of ``quarantine``.
        control_rows: the positions of control records, which have nothing to decode.
    """

    commits: pa.RecordBatch
    commit_rows: Rows
    groups: pa.RecordBatch
    group_rows: Rows
    quarantine: pa.RecordBatch
    quarantine_rows: Rows
    control_rows: Rows


_Part = tuple[Rows, pa.RecordBatch]
"""Positions of some rows in a batch, and these rows decoded."""


class _Batch:
    """Log records with the fields that records of all kinds have.

    Attributes:
        numbers: the number of each record's kind, from the first two bytes of its key.
        versions: the version of each value, from its first two bytes.
        record_bytes: number of bytes of key and value together.
        is_large: whether key or value is too large to be read.
    """

    def __init__(self, records: pa.RecordBatch) -> None:
        self.keys, self.values = (records.column(name) for name in _RECORD)
        self.numbers, self.versions = openings_of(self.keys), openings_of(self.values)
        sizes = lengths_of(self.keys), lengths_of(self.values)
        self.record_bytes, self.is_large = np.add(*sizes), np.maximum(*sizes) > LARGEST_RECORD_BYTES

    def in_order(self, kind: RecordDefinition, rows: Rows, schema: pa.Schema) -> _Part:
        """Decode the rows of one record kind. Leave out rows that are not well-formed.

        Args:
            kind: the record kind.
            rows: positions of the rows in the batch.
            schema: schema of the columns to return.

        Returns:
            The positions of the well-formed rows, and the decoded rows.
        """
        taken, versions = pa.array(rows), self.versions[rows]
        is_tombstone = self.values.is_null().take(taken)
        key = Columns(kind.key, np.zeros_like(versions), self.keys, rows)
        columns = {
            "group_id": key.texts(kind.group_field),
            "key_version": pa.repeat(pa.scalar(kind.type, pa.int16()), len(rows)),
            "value_version": pa.array(versions.astype(np.int16), mask=_flags(is_tombstone)),
            "is_tombstone": is_tombstone,
            "record_bytes": pa.array(self.record_bytes[rows], pa.int32()),
            "kind": pa.repeat(kind.name, len(rows)),
            "member_id": key.texts("memberId"),
        }
        with_json = "value_json" in schema.names
        if has_columns(kind.value):
            value = Columns(kind.value, versions, self.values, rows)
            is_read = value.in_order | _flags(is_tombstone)
            columns |= _commit_columns(key, value) if kind.is_offset_commit else {}
            columns |= {"value_json": value.json()} if with_json else {}
        else:
            columns["value_json"], is_read = _values_one_by_one(kind, self.values.take(taken))
        if with_json:
            columns["key_json"] = key.json()
        in_order = key.in_order & is_read
        batch = pa.RecordBatch.from_pydict(columns, schema=schema)
        return (rows, batch) if in_order.all() else (rows[in_order], batch.filter(pa.array(in_order)))


def _commit_columns(key: Columns, value: Columns) -> dict[str, pa.Array]:
    """Return the fields of offset commits by their names in COMMIT_COLUMNS."""
    epochs = value.numbers("leaderEpoch", pa.int32())
    return {
        "topic": key.texts("topic"),
        "partition": key.numbers("partition", pa.int32()),
        "topic_id": value.ids("topicId"),
        "committed_offset": value.numbers("offset", pa.int64()),
        "leader_epoch": pc.if_else(pc.equal(epochs, -1), None, epochs),
        "metadata": value.texts("metadata"),
        "commit_timestamp": timestamps_of(value.numbers("commitTimestamp", pa.int64())),
        "expire_timestamp": timestamps_of(value.numbers("expireTimestamp", pa.int64())),
    }


def _values_one_by_one(kind: RecordDefinition, values: pa.BinaryArray) -> tuple[pa.StringArray, Flags]:
    """Return each value in Kafka's JSON form, and whether it could be read.

    This function decodes values that ``columnar.py`` can't read, such as values with lists. A null counts as read.
    Equal values are decoded once.
    """
    distinct = values.dictionary_encode()
    texts = list[bytes | None]()
    for value in distinct.dictionary.to_pylist():
        try:
            texts.append(orjson.dumps(decode_value(kind, value)[1]))
        except RecordError:
            texts.append(None)
    of_values = pa.array(texts, pa.string()).take(distinct.indices)
    return of_values, _flags(of_values.is_valid()) | _flags(values.is_null())


def _row(record: DecodedRecord, kind: RecordDefinition) -> dict[str, Any]:
    """Return a record as a row of COMMIT_COLUMNS with JSON_COLUMNS, or of GROUP_COLUMNS."""
    key, value = record.key, record.value or {}
    row: dict[str, Any] = {
        "group_id": key[kind.group_field],
        "key_version": record.key_version,
        "value_version": record.value_version,
        "is_tombstone": record.is_tombstone,
        "kind": record.kind,
        "key_json": orjson.dumps(key),
        "value_json": None if record.is_tombstone else orjson.dumps(value),
    }
    if not kind.is_offset_commit:
        row["member_id"] = key.get("memberId")
        return row
    return row | {
        "topic": key["topic"],
        "partition": key["partition"],
        "topic_id": value.get("topicId"),
        "committed_offset": value.get("offset"),
        "leader_epoch": None if value.get("leaderEpoch") == -1 else value.get("leaderEpoch"),
        "metadata": value.get("metadata"),
        "commit_timestamp": _microseconds(value.get("commitTimestamp")),
        "expire_timestamp": _microseconds(value.get("expireTimestamp")),
    }


def _microseconds(milliseconds: int | None) -> int | None:
    at_ms = None if milliseconds is None else shown_ms(milliseconds)
    return None if at_ms is None else at_ms * 1000


class _OneByOne:
    """Rows of a batch decoded record by record.

    Attributes:
        commits: offset commits, by their position in the batch.
        groups: other decoded records, by their position.
        failed: errors of the records that can't be decoded, by their position.
    """

    def __init__(self, records: pa.RecordBatch, rows: Rows) -> None:
        self.commits: dict[int, dict[str, Any]] = {}
        self.groups: dict[int, dict[str, Any]] = {}
        self.failed: dict[int, RecordError] = {}
        keys, values = (records.column(name).take(pa.array(rows)).to_pylist() for name in ("key", "value"))
        for place, key, value in zip(rows.tolist(), keys, values, strict=True):
            try:
                kind, row = _decode(key, value)
            except RecordError as problem:
                self.failed[place] = problem
            else:
                (self.commits if kind.is_offset_commit else self.groups)[place] = row


def _decode(key: bytes | None, value: bytes | None) -> tuple[RecordDefinition, dict[str, Any]]:
    """Decode a record. Return the definition of the record's kind, and the record's columns as a row.

    Only one ``DecodedRecord`` is in memory at a time: the object takes many times the memory of the record's bytes.
    """
    record = decode_record(key, value)
    kind = kinds_by_name()[record.kind]
    return kind, _row(record, kind) | {"record_bytes": len(key or b"") + len(value or b"")}


def _part(rows: Mapping[int, dict[str, Any]], schema: pa.Schema) -> _Part:
    return np.array(list(rows), np.int64), pa.RecordBatch.from_pylist(list(rows.values()), schema=schema)


def _flags(array: pa.BooleanArray) -> Flags:
    flags: Flags = array.to_numpy(zero_copy_only=False)
    return flags


def in_log_order(parts: Sequence[tuple[Rows, pa.Table]]) -> tuple[Rows, pa.Table]:
    """Join parts of a batch. Return the positions of all rows in the batch, in rising order, and the rows.

    Columns that a part lacks are null.
    """
    rows = np.concatenate([part_rows for part_rows, _ in parts])
    whole = pa.concat_tables([part for _, part in parts], promote_options="default")
    if (np.diff(rows) > 0).all():
        return rows, whole
    order = np.argsort(rows, kind="stable")
    return rows[order], whole.take(pa.array(order))


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    """Return a table as one batch."""
    return pa.RecordBatch.from_arrays([column.combine_chunks() for column in rows.columns], schema=rows.schema)


def _in_one(parts: Sequence[_Part]) -> _Part:
    """Join the parts of a batch.

    If only one part has rows, copy nothing.
    """
    some = [part for part in parts if len(part[0])] or parts[:1]
    if len(some) == 1:
        return some[0]
    rows, whole = in_log_order([(rows, pa.table(batch)) for rows, batch in some])
    return rows, one_batch(whole)


def _bytes(column: pa.BinaryArray, row: int, most: int | None = None) -> bytes | None:
    """Return the bytes of a row, or only the first ``most`` bytes, without a copy of the whole column."""
    whole = column[row].as_buffer()
    return None if whole is None else whole.slice(0, whole.size if most is None else min(most, whole.size)).to_pybytes()


def _readable_key(key: bytes | None) -> dict[str, Any]:
    """Return the columns that can be read from the key of an unreadable record.

    Return only the group id for a key of an unknown kind, and no column for a damaged key.
    """
    try:
        _, row = _decode(key, None)
    except RecordError as problem:
        is_of_no_kind = problem.error_class is ErrorClass.UNKNOWN_RECORD_TYPE
        return {"group_id": group_of_key(key)} if is_of_no_kind and key is not None else {}
    return row


def _quarantine(records: pa.RecordBatch, damaged: Rows, large: Rows, failed: Mapping[int, RecordError]) -> _Part:
    """Return rows that could not be read, in the order of the batch.

    Args:
        records: the batch.
        damaged: rows that the log reader could not split into records; their bytes are kept.
        large: rows that are too large to be read.
        failed: the errors of other rows that could not be decoded, by position.
    """
    problems = {**failed, **dict.fromkeys(large.tolist(), RecordError(ErrorClass.RECORD_TOO_LARGE))}
    about = {place: {name: records.column(name)[place].as_py() for name in _ERROR} for place in damaged.tolist()}
    rows = {}
    for place in sorted([*about, *problems]):
        problem = problems.get(place)
        is_large = problem is not None and problem.error_class is ErrorClass.RECORD_TOO_LARGE
        key, value = (_bytes(records.column(name), place, _KEPT_BYTES if is_large else None) for name in _RECORD)
        if problem is not None:
            error = {"error_class": problem.error_class.value, "error_message": str(problem)}
            about[place] = _readable_key(key) | error
        rows[place] = {**about[place], "key": key, "value": value}
    return _part(rows, QUARANTINE_COLUMNS)


def decode_records(records: pa.RecordBatch, *, with_commit_json: bool = False) -> Decoded:
    """Decode a batch of log records.

    Args:
        records: columns ``key`` and ``value`` (binary), ``control_type``, ``error_class`` and ``error_message``. Rows
            with a control type are not decoded. Rows with an error class go to quarantine. Records whose key or value
            is larger than LARGEST_RECORD_BYTES go there too, with only the first MiB of each.
        with_commit_json: whether offset commits have their JSON form too. Other records always have it.
    """
    commit_schema = pa.unify_schemas([COMMIT_COLUMNS, JSON_COLUMNS]) if with_commit_json else COMMIT_COLUMNS
    is_damaged = _flags(records.column("error_class").is_valid())
    is_control = _flags(records.column("control_type").is_valid())
    batch = _Batch(records)
    damaged = np.flatnonzero(is_damaged)
    large = np.flatnonzero(batch.is_large & ~is_damaged & ~is_control)
    is_left = ~(is_damaged | is_control | batch.is_large)
    commits, groups = list[_Part](), list[_Part]()
    for kind in record_kinds().values():
        rows = np.flatnonzero(is_left & (batch.numbers == kind.type))
        if len(rows):
            parts, schema = (commits, commit_schema) if kind.is_offset_commit else (groups, GROUP_COLUMNS)
            parts.append(batch.in_order(kind, rows, schema))
            is_left[parts[-1][0]] = False
    rest = _OneByOne(records, np.flatnonzero(is_left))
    commit_rows, all_commits = _in_one([*commits, _part(rest.commits, commit_schema)])
    group_rows, all_groups = _in_one([*groups, _part(rest.groups, GROUP_COLUMNS)])
    quarantine_rows, quarantine = _quarantine(records, damaged, large, rest.failed)
    control_rows = np.flatnonzero(is_control)
    return Decoded(all_commits, commit_rows, all_groups, group_rows, quarantine, quarantine_rows, control_rows)
