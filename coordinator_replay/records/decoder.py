"""Log records, decoded: offset commits, other coordinator records and what could not be read, each as columns.

One pass over the keys finds kind and group, one pass over the values of each kind and version reads their fields;
both run the definitions' programs. No code here knows a record kind beyond the two questions a definition answers
itself: is it an offset commit, and does its key name a member.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from coordinator_replay.arrow_times import TIMESTAMP, timestamps_of
from coordinator_replay.records import arrays, json_form
from coordinator_replay.records.arrays import MachineColumns
from coordinator_replay.records.damage import LARGEST_RECORD_BYTES, MESSAGES, ErrorClass
from coordinator_replay.records.definition import RecordDefinition, Struct
from coordinator_replay.records.flat import FlatColumns, run_flat
from coordinator_replay.records.kinds import record_kinds
from coordinator_replay.records.machine import STATUS, Int32s, run
from coordinator_replay.records.program import Program, compile_struct

_KEPT_BYTES = 1 << 20

Rows = npt.NDArray[np.int64]
"""Positions of rows in the batch that is being decoded, rising."""

Places = Rows | None
"""Places among some rows, rising; None for all of them, as it mostly is."""

_COMMON = [
    ("group_id", pa.string()),
    ("key_version", pa.int16()),
    ("value_version", pa.int16()),
    ("is_tombstone", pa.bool_()),
    ("record_bytes", pa.int32()),
]

COMMIT_COLUMNS = pa.schema(
    [
        *_COMMON,
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("topic_id", pa.string()),
        ("committed_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_timestamp", TIMESTAMP),
        ("expire_timestamp", TIMESTAMP),
    ]
)
"""Columns of a decoded offset commit, beside those carried along."""

_VALUE_VERSION = COMMIT_COLUMNS.field("value_version")
_VALUE_COLUMNS = list(COMMIT_COLUMNS)[COMMIT_COLUMNS.get_field_index("topic_id") :]
"""What the value of an offset commit tells; null in a tombstone."""

GROUP_COLUMNS = pa.schema(
    [
        *_COMMON,
        ("kind", pa.string()),
        ("member_id", pa.string()),
        ("key_json", pa.string()),
        ("value_json", pa.string()),
    ]
)
"""Columns of any other coordinator record."""

JSON_COLUMNS = pa.schema([("kind", pa.string()), ("key_json", pa.string()), ("value_json", pa.string())])
"""Columns that a decoded offset commit has beside COMMIT_COLUMNS where its JSON form is asked for too."""

QUARANTINE_COLUMNS = pa.schema(
    [
        ("error_class", pa.string()),
        ("error_message", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
"""Columns of a record that could not be read."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What became of a batch; together the row arrays hold every row of it once, but for control records.

    Attributes:
        commits: offset commits, in COMMIT_COLUMNS, and where asked for also in JSON_COLUMNS.
        commit_rows: the rows they were.
        groups: other coordinator records, in GROUP_COLUMNS.
        quarantine: what could not be read, in QUARANTINE_COLUMNS.
    """

    commits: pa.RecordBatch
    commit_rows: Rows
    groups: pa.RecordBatch
    group_rows: Rows
    quarantine: pa.RecordBatch
    quarantine_rows: Rows


@dataclass(frozen=True, slots=True)
class _Read:
    """What a program made of some rows.

    Attributes:
        rows: those that could be read.
        places: where these stand among all that were to be read.
    """

    rows: Rows
    places: Places
    columns: FlatColumns | MachineColumns
    program: Program

    def strings(self, name: str) -> pa.Array:
        node = self.program.node(name)
        if node is None:
            return pa.nulls(len(self.rows), pa.string())
        return self.columns.strings(node.column)

    def integers(self, name: str, type_: pa.DataType, none: int | None = None) -> pa.Array:
        node = self.program.node(name)
        if node is None:
            return pa.nulls(len(self.rows), type_)
        return self.columns.integers(node.column, type_, none)

    def timestamps(self, name: str) -> pa.Array:
        if self.program.node(name) is None:
            return pa.nulls(len(self.rows), TIMESTAMP)
        return timestamps_of(self.integers(name, pa.int64()))

    def ids(self, name: str) -> pa.Array:
        node = self.program.node(name)
        if node is None:
            return pa.nulls(len(self.rows), pa.string())
        return self.columns.ids(node.column)


class _Batch:
    """The decoding of one batch: spans of keys and values, and what went wrong so far."""

    def __init__(self, keys: pa.BinaryArray, values: pa.BinaryArray, *, with_commit_json: bool) -> None:
        self.with_commit_json = with_commit_json
        self.commit_schema = COMMIT_COLUMNS
        if with_commit_json:
            self.commit_schema = pa.unify_schemas([COMMIT_COLUMNS, JSON_COLUMNS])
        self.keys = arrays.Spans(keys)
        self.values = arrays.Spans(values)
        key_sizes, value_sizes = self.keys.sizes, self.values.sizes
        self.sizes = key_sizes + value_sizes
        self.is_large = (key_sizes > LARGEST_RECORD_BYTES) | (value_sizes > LARGEST_RECORD_BYTES)
        self.failed: list[tuple[Rows, str, str]] = []
        self.commits: list[tuple[Rows, pa.RecordBatch]] = []
        self.groups: list[tuple[Rows, pa.RecordBatch]] = []

    def fail(self, rows: Rows, error: ErrorClass, detail: str = "") -> None:
        if len(rows):
            self.failed.append((rows, error, f"{MESSAGES[error]}{f': {detail}' if detail else ''}"))

    def read(self, struct: Struct, version: int, spans: arrays.Spans, rows: Rows) -> _Read:
        """Run a struct's program behind the two bytes that name kind or version; failed rows are noted."""
        program = compile_struct(struct, version)
        starts, ends = spans.of(rows)
        flat = run_flat(program, spans.data, starts, ends)
        if flat is not None:
            return _Read(rows, None, flat, program)
        columns = run(program, spans.data, starts, ends)
        intact = self.intact(struct, rows, columns.status)
        return _Read(_pick(rows, intact), intact, MachineColumns(columns, spans.data), program)

    def texts(self, struct: Struct, version: int, spans: arrays.Spans, rows: Rows) -> tuple[Places, pa.StringArray]:
        """Kafka's JSON form of a struct, and the places of the rows that have one; failed rows are noted."""
        program = compile_struct(struct, version)
        text, status = json_form.render(program, spans.data, *spans.of(rows))
        places = self.intact(struct, rows, status)
        return places, _pick(text, places)

    def intact(self, struct: Struct, rows: Rows, status: Int32s) -> Places:
        """The places of rows that were read; those that failed are noted."""
        if not status.any():
            return None
        for number, places in arrays.split(status.astype(np.int16)):
            error = STATUS[number]
            if error is not None:
                self.fail(rows[places], error, struct.name)
        return np.flatnonzero(status == 0)

    def decode(self, number: int, by_version: Mapping[int, Rows]) -> None:
        """Decode the rows whose keys open with a number, by what their values open with."""
        kind = record_kinds().get(number)
        if kind is not None and kind.is_offset_commit:
            self.decode_commits(kind, by_version)
            return
        for version, rows in by_version.items():
            if number in (arrays.NO_ROW, arrays.TOO_SHORT):
                self.fail(rows, ErrorClass.MISSING_KEY)
            elif kind is None:
                self.fail(rows, ErrorClass.UNKNOWN_RECORD_TYPE, f"kind {number}")
            else:
                keys = self.read(kind.key, 0, self.keys, rows)
                if self.has_known_version(kind, version, keys.rows):
                    self.finish_group(kind, keys, version)

    def has_known_version(self, kind: RecordDefinition, version: int, rows: Rows) -> bool:
        """Whether values that open like this can be read, or are tombstones; else the rows are noted."""
        if version == arrays.TOO_SHORT:
            self.fail(rows, ErrorClass.EMPTY_VALUE, kind.name)
        elif version != arrays.NO_ROW and version not in kind.value.versions:
            self.fail(rows, ErrorClass.UNSUPPORTED_VERSION, f"{kind.name} version {version}")
        else:
            return True
        return False

    def decode_commits(self, kind: RecordDefinition, by_version: Mapping[int, Rows]) -> None:
        """Decode offset commits: their keys together, whatever values they have, so that they stay in order."""
        keys = self.read(kind.key, 0, self.keys, _merged(list(by_version.values()))[0])
        parts = []
        for version, rows in by_version.items():
            with_key = rows if keys.places is None else rows[np.isin(rows, keys.rows)]
            if self.has_known_version(kind, version, with_key):
                parts.append(self.commit_values(kind, version, with_key))
        if not parts:
            return
        rows, order = _merged([part_rows for part_rows, _ in parts])
        n = len(rows)
        places = None if n == len(keys.rows) else np.searchsorted(keys.rows, rows)
        value_version, *values = _laid_out([columns for _, columns in parts], order)
        columns = [
            _pick(keys.strings(kind.group_field), places),
            pa.array(np.full(n, kind.type, np.int16)),
            value_version,
            value_version.is_null(),
            pa.array(_pick(self.sizes, rows)),
            _pick(keys.strings("topic"), places),
            _pick(keys.integers("partition", pa.int32()), places),
            *values[: len(_VALUE_COLUMNS)],
        ]
        if self.with_commit_json:
            columns += [pa.repeat(kind.name, n), self.key_texts(kind, rows), values[-1]]
        self.commits.append((rows, pa.RecordBatch.from_arrays(columns, schema=self.commit_schema)))

    def commit_values(self, kind: RecordDefinition, version: int, rows: Rows) -> tuple[Rows, list[pa.Array]]:
        """Rows whose values were read, with the version, the fields and where asked for the JSON form of each."""
        texts: list[pa.Array] = []
        if version == arrays.NO_ROW:
            columns = [pa.nulls(len(rows), field.type) for field in (_VALUE_VERSION, *_VALUE_COLUMNS)]
            return rows, [*columns, pa.nulls(len(rows), pa.string())] if self.with_commit_json else columns
        if self.with_commit_json:
            places, text = self.texts(kind.value, version, self.values, rows)
            rows, texts = _pick(rows, places), [text]
        value = self.read(kind.value, version, self.values, rows)
        columns = [
            pa.array(np.full(len(value.rows), version, np.int16)),
            value.ids("topicId"),
            value.integers("offset", pa.int64()),
            value.integers("leaderEpoch", pa.int32(), none=-1),
            value.strings("metadata"),
            value.timestamps("commitTimestamp"),
            value.timestamps("expireTimestamp"),
        ]
        return value.rows, [*columns, *(_pick(text, value.places) for text in texts)]

    def finish_group(self, kind: RecordDefinition, keys: _Read, version: int) -> None:
        """Put together group records whose keys were read: tombstones, or values of one version."""
        places: Places = None
        value_json = None
        if version != arrays.NO_ROW:
            places, value_json = self.texts(kind.value, version, self.values, keys.rows)
        rows = _pick(keys.rows, places)
        n = len(rows)
        columns = [
            _pick(keys.strings(kind.group_field), places),
            pa.array(np.full(n, kind.type, np.int16)),
            pa.nulls(n, pa.int16()) if value_json is None else pa.array(np.full(n, version, np.int16)),
            pa.repeat(value_json is None, n),
            pa.array(_pick(self.sizes, rows)),
            pa.repeat(kind.name, n),
            _pick(keys.strings("memberId"), places) if kind.has_member else pa.nulls(n, pa.string()),
            self.key_texts(kind, rows),
            pa.nulls(n, pa.string()) if value_json is None else value_json,
        ]
        self.groups.append((rows, pa.RecordBatch.from_arrays(columns, schema=GROUP_COLUMNS)))

    def key_texts(self, kind: RecordDefinition, rows: Rows) -> pa.StringArray:
        """The JSON form of keys that were read."""
        return self.texts(kind.key, 0, self.keys, rows)[1]


def _merged(parts: Sequence[Rows]) -> tuple[Rows, Places]:
    """Rows of several parts, rising, and where each of them stands in the parts laid end to end."""
    if len(parts) == 1:
        return parts[0], None
    rows = np.concatenate(parts)
    order = np.argsort(rows, kind="stable")
    return rows[order], order


def _laid_out(parts: Sequence[Sequence[pa.Array]], order: Places) -> list[pa.Array]:
    """The columns of several parts, each as one column in the order of the rows that they are of."""
    if order is None:
        return list(parts[0])
    taken, found = pa.array(order), []
    for columns in zip(*parts, strict=True):
        if all(column.null_count == len(column) for column in columns):
            found.append(pa.nulls(len(order), columns[0].type))
        else:
            found.append(pa.concat_arrays(columns).take(taken))
    return found


def _pick(array: Any, places: Places) -> Any:
    """An array of Arrow's or numpy's at some places."""
    if places is None or len(places) == len(array):
        return array
    return array[places] if isinstance(array, np.ndarray) else array.take(pa.array(places))


def _heads(column: pa.BinaryArray, rows: Rows) -> pa.BinaryArray:
    """The first bytes of some rows, without a copy of all of them."""
    heads = [column[row].as_buffer() for row in rows.tolist()]
    kept = [None if head is None else head.slice(0, min(_KEPT_BYTES, head.size)).to_pybytes() for head in heads]
    return pa.array(kept, pa.binary())


def _in_order(parts: Sequence[tuple[Rows, pa.RecordBatch]], schema: pa.Schema) -> tuple[Rows, pa.RecordBatch]:
    """Parts put together in the order of the batch they came from."""
    if not parts:
        return np.empty(0, np.int64), pa.RecordBatch.from_arrays(
            [pa.nulls(0, field.type) for field in schema], schema=schema
        )
    rows, order = _merged([part[0] for part in parts])
    columns = _laid_out([part[1].columns for part in parts], order)
    return rows, pa.RecordBatch.from_arrays(columns, schema=schema)


def _quarantine(batch: _Batch, records: pa.RecordBatch, unread: Rows) -> tuple[Rows, pa.RecordBatch]:
    """Rows that failed here, and rows the log reader had already found damaged."""
    parts = [(unread, records.select(QUARANTINE_COLUMNS.names).take(pa.array(unread)))] if len(unread) else []
    for rows, error, message in batch.failed:
        pick = _heads if error == ErrorClass.RECORD_TOO_LARGE else _pick
        kept = [pick(records.column(name), rows) for name in ("key", "value")]
        columns = [pa.array([error] * len(rows)), pa.array([message] * len(rows)), *kept]
        parts.append((rows, pa.RecordBatch.from_arrays(columns, schema=QUARANTINE_COLUMNS)))
    return _in_order(parts, QUARANTINE_COLUMNS)


def decode_records(records: pa.RecordBatch, *, with_commit_json: bool = False) -> Decoded:
    """Decode a batch of log records.

    Args:
        records: columns ``key`` and ``value`` (binary), and from segments ``control_type``, ``error_class`` and
            ``error_message``; control records are passed over, rows with an error class go to quarantine as they are,
            records larger than LARGEST_RECORD_BYTES without being decoded.
        with_commit_json: give offset commits in their JSON form too; other records always have it.
    """
    batch = _Batch(records.column("key"), records.column("value"), with_commit_json=with_commit_json)
    is_damaged = ~arrays.nulls_of(records.column("error_class"))
    is_control = ~arrays.nulls_of(records.column("control_type"))
    left_out = is_damaged | is_control | batch.is_large
    batch.fail(np.flatnonzero(batch.is_large & ~is_damaged & ~is_control), ErrorClass.RECORD_TOO_LARGE)
    by_number: dict[int, dict[int, Rows]] = {}
    for number, version, rows in arrays.split_pairs(batch.keys.openings, batch.values.openings, left_out):
        by_number.setdefault(number, {})[version] = rows
    for number, by_version in by_number.items():
        batch.decode(number, by_version)
    commit_rows, commits = _in_order(batch.commits, batch.commit_schema)
    group_rows, groups = _in_order(batch.groups, GROUP_COLUMNS)
    quarantine_rows, quarantine = _quarantine(batch, records, np.flatnonzero(is_damaged))
    return Decoded(commits, commit_rows, groups, group_rows, quarantine, quarantine_rows)
