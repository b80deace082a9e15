"""What commits come to, task by task: sums of many rows at once, which Spark then adds up.

What a group's commits of a minute, or a partition's of all time, come to is little beside the commits. So nothing of a
commit leaves the task that reads it but what it adds to a sum.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.pipeline.data_files import DataFiles, Part, written_rows

MINUTE_MS = 60_000

_AT_ONCE = 1_000_000
_WORDS = tuple(f"mark_{word}" for word in range(4))
_NONE = np.iinfo(np.int64).min
_NO_END = np.iinfo(np.int64).max

Numbers = npt.NDArray[np.int64]
Unsigned = npt.NDArray[np.uint64]

COMMIT = (
    "group_id",
    "topic",
    "partition",
    "log_partition",
    "log_offset",
    "log_timestamp",
    "record_bytes",
    "is_tombstone",
)
"""What is read of a commit for its minute."""

MINUTES = pa.schema(
    [
        ("group_id", pa.string()),
        ("minute", pa.int64()),
        ("log_partition", pa.int32()),
        ("commits", pa.int64()),
        ("bytes", pa.int64()),
        *((word, pa.int64()) for word in _WORDS),
        ("first_at", pa.int64()),
        ("last_at", pa.int64()),
        ("last_offset", pa.int64()),
    ]
)
"""A group's commits of a minute, as far as one task has seen them at once; MARKED says how many partitions."""

_MARKED = " + ".join(f"BIT_COUNT(BIT_OR({word}))" for word in _WORDS)
MARKED = f"IF({_MARKED} = 256, SUM(commits), CAST(ROUND(-256 * LN(1 - ({_MARKED}) / 256)) AS BIGINT))"
"""In SQL, about how many distinct partitions the marks of some rows are of: linear counting on 256 bits; as many as
commits, where the bits run out. Spark's own sketch keeps ten times as much for each group and minute."""

HISTORY = (
    *("group_id", "topic", "partition", "log_partition", "commits_merged", "valid_from", "metadata", "from_offset"),
    *("committed_offset", "previous_offset", "group_state", "owner_member_id"),
)
"""What is read of a row of ``offset_history`` for its partition, and for rewinds."""

_KEY = [("is_over", pa.bool_()), ("group_id", pa.string()), ("topic", pa.string()), ("partition", pa.int32())]
PARTITIONS = pa.schema(
    [
        *_KEY,
        ("log_partition", pa.int32()),
        ("commits", pa.int64()),
        ("first_at", pa.int64()),
        ("last_at", pa.int64()),
        ("metadata_bytes", pa.int64()),
        ("from_offset", pa.int64()),
        ("committed_offset", pa.int64()),
        ("empty_count", pa.int64()),
        ("empty_first_at", pa.int64()),
        ("empty_from_offset", pa.int64()),
        ("empty_valid_from", pa.int64()),
        ("empty_committed_offset", pa.int64()),
        ("empty_previous_offset", pa.int64()),
    ]
)
"""Commits of a partition, as far as one task has seen them at once: sums, first and last times in milliseconds, and
offsets of the newest one; the same of those into an Empty group."""

REWINDS = pa.schema(
    [
        *_KEY,
        ("log_partition", pa.int32()),
        ("valid_from", pa.int64()),
        ("from_offset", pa.int64()),
        ("committed_offset", pa.int64()),
        ("previous_offset", pa.int64()),
        ("owner_member_id", pa.string()),
        ("group_state", pa.string()),
    ]
)
"""Commits below the one before, while the group was not Empty."""

PARTITION_PART, REWIND_PART = "partitions", "rewinds"


def _numbers(column: pa.Array, nothing: int = 0) -> Numbers:
    plain = column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column.cast(pa.int64())
    numbers: Numbers = plain.fill_null(nothing).to_numpy(zero_copy_only=False)
    return numbers


def _ms(column: pa.Array) -> Numbers:
    """Moments in milliseconds since 1970; ``_NONE`` for none."""
    micros = _numbers(column.cast(pa.timestamp("us", tz="UTC")), _NONE)
    millis: Numbers = np.where(micros == _NONE, _NONE, np.floor_divide(micros, 1000))
    return millis


def _array(numbers: Numbers, type_: pa.DataType, nothing: int = _NONE) -> pa.Array:
    is_nothing = numbers == nothing
    return pa.array(numbers, pa.int64(), mask=is_nothing if is_nothing.any() else None).cast(type_)


def _coded(column: pa.Array) -> pa.DictionaryArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _many(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, pa.Array]]:
    """Columns of many rows at once."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _AT_ONCE:
            yield _joined(held)
            held, rows = [], 0
    if rows:
        yield _joined(held)


def _joined(batches: Sequence[pa.RecordBatch]) -> dict[str, pa.Array]:
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    return {name: table.column(name).combine_chunks() for name in table.column_names}


class _Sums:
    """Rows brought together by key, and sums of their values for each key.

    Args:
        keys: numbers that name the key of a row.
        within: what rows of a key are sorted by; None to leave them as they come.
    """

    def __init__(self, keys: Sequence[Numbers], within: Numbers | None = None) -> None:
        order = np.arange(len(keys[0])) if within is None else np.argsort(within, kind="stable")
        for key in reversed(keys):
            order = order[np.argsort(key[order], kind="stable")]
        changes = np.ones(len(order), np.bool_)
        changes[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
        self.order = order
        self.starts = np.flatnonzero(changes)
        self.lasts = np.append(self.starts[1:], len(order)) - 1

    def first(self, column: pa.Array) -> pa.Array:
        """What each key begins with."""
        return column.take(pa.array(self.order[self.starts]))

    def last(self, numbers: Numbers) -> Numbers:
        """What each key ends with."""
        last: Numbers = numbers[self.order[self.lasts]]
        return last

    def counts(self) -> Numbers:
        """How many rows each key has."""
        return self.lasts - self.starts + 1

    def sums(self, numbers: Numbers) -> Numbers:
        """Sums by key."""
        return np.add.reduceat(numbers[self.order], self.starts)

    def most(self, numbers: Numbers) -> Numbers:
        """Largest values by key; ``_NONE`` is below all."""
        return np.maximum.reduceat(numbers[self.order], self.starts)

    def least(self, numbers: Numbers) -> Numbers:
        """Least values by key, ``_NONE`` where there is no other."""
        known = np.where(numbers == _NONE, _NO_END, numbers)[self.order]
        least = np.minimum.reduceat(known, self.starts)
        told: Numbers = np.where(least == _NO_END, _NONE, least)
        return told

    def marks(self, numbers: Unsigned) -> Numbers:
        """All bits by key."""
        marks: Unsigned = np.bitwise_or.reduceat(numbers[self.order], self.starts)
        return marks.view(np.int64)


def _slots(topics: pa.DictionaryArray, partitions: pa.Array) -> Unsigned:
    """Which of 256 bits a partition has."""
    told = np.array([crc32(topic.encode()) for topic in topics.dictionary.to_pylist()] or [0], np.uint64)
    mixed: Unsigned = told[_numbers(topics.indices)] << np.uint64(32)
    mixed ^= _numbers(partitions).astype(np.uint64) & np.uint64(0xFFFFFFFF)
    # As the finalizer of splitmix64: each bit of a number reaches each other.
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        mixed ^= mixed >> np.uint64(33)
        mixed *= np.uint64(factor)
    return mixed >> np.uint64(56)


def minute_sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Commits by group and minute.

    Args:
        batches: in the columns of COMMIT; tombstones, and commits without a time, do not count.

    Yields:
        batches in MINUTES.
    """
    for rows in _many(map(_counted, batches)):
        at, groups = _ms(rows["log_timestamp"]), _coded(rows["group_id"])
        minutes = np.floor_divide(at, MINUTE_MS)
        sums = _Sums([_numbers(groups.indices), minutes])
        slots = _slots(_coded(rows["topic"]), rows["partition"])
        marks = [
            sums.marks(np.where(slots >> np.uint64(6) == word, np.uint64(1) << (slots & np.uint64(63)), np.uint64(0)))
            for word in range(len(_WORDS))
        ]
        told = [
            sums.first(groups).cast(pa.string()),
            sums.last(minutes),
            sums.most(_numbers(rows["log_partition"], _NONE)),
            sums.counts(),
            sums.sums(_numbers(rows["record_bytes"])),
            *marks,
            sums.least(at),
            sums.most(at),
            sums.most(_numbers(rows["log_offset"])),
        ]
        yield _batch(told, MINUTES)


def _counted(commits: pa.RecordBatch) -> pa.RecordBatch:
    is_counted = pc.and_(pc.invert(commits.column("is_tombstone")), pc.is_valid(commits.column("log_timestamp")))
    return commits.filter(is_counted.fill_null(False))


def _batch(columns: Sequence[pa.Array | Numbers], schema: pa.Schema) -> pa.RecordBatch:
    # A sum of bits may be any number, so only times and offsets have one that stands for none.
    arrays = [
        pa.array(column)
        if field.name in _WORDS
        else _array(column, field.type)
        if isinstance(column, np.ndarray)
        else column.cast(field.type)
        for field, column in zip(schema, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _partition_sums(rows: dict[str, pa.Array], is_over: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    groups, topics = _coded(rows["group_id"]), _coded(rows["topic"])
    at, offsets = _ms(rows["valid_from"]), _numbers(rows["from_offset"])
    keys = [_numbers(groups.indices), _numbers(topics.indices), _numbers(rows["partition"]), is_over.astype(np.int64)]
    sums = _Sums(keys, offsets)
    is_empty = _is_empty(rows["group_state"])
    into_empty = np.where(is_empty, offsets, _NONE)
    # The newest of a key is its last row; the newest into an Empty group stands where the last such row is.
    places = np.empty(len(offsets), np.int64)
    places[sums.order] = np.arange(len(offsets))
    newest = sums.most(np.where(is_empty, places, _NONE))
    has_any = newest != _NONE
    at_newest = sums.order[np.where(has_any, newest, 0)]

    def of_newest(numbers: Numbers) -> Numbers:
        return np.where(has_any, numbers[at_newest], _NONE)

    committed = _numbers(rows["committed_offset"], _NONE)
    told = [
        sums.first(pa.array(is_over)),
        sums.first(groups),
        sums.first(topics),
        sums.first(rows["partition"]),
        sums.most(_numbers(rows["log_partition"], _NONE)),
        sums.sums(_numbers(rows["commits_merged"]) + 1),
        sums.least(at),
        sums.most(at),
        sums.most(_numbers(pc.binary_length(rows["metadata"]), _NONE)),
        sums.last(offsets),
        sums.last(committed),
        sums.sums(is_empty.astype(np.int64)),
        sums.least(np.where(is_empty, at, _NONE)),
        sums.most(into_empty),
        of_newest(at),
        of_newest(committed),
        of_newest(_numbers(rows["previous_offset"], _NONE)),
    ]
    return _batch(told, PARTITIONS)


def _is_empty(states: pa.Array) -> npt.NDArray[np.bool_]:
    is_empty: npt.NDArray[np.bool_] = pc.equal(states, "Empty").fill_null(False).to_numpy(zero_copy_only=False)
    return is_empty


def _rewinds(rows: dict[str, pa.Array], is_over: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    goes_back = pc.less(rows["committed_offset"], rows["previous_offset"]).fill_null(False)
    back = goes_back.to_numpy(zero_copy_only=False) & ~_is_empty(rows["group_state"])
    at = pa.array(np.flatnonzero(back))
    given = {"is_over": pa.array(is_over), "valid_from": _array(_ms(rows["valid_from"]), pa.int64())}
    told = rows | given
    columns = [told[field.name].take(at).cast(field.type) for field in REWINDS]
    return pa.RecordBatch.from_arrays(columns, schema=REWINDS)


def history_sums(
    parts: dict[str, Part], until: datetime
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for tasks that writes what rows of ``offset_history`` come to, and returns what it wrote.

    Args:
        parts: where rows in PARTITIONS and REWINDS go, PARTITION_PART and REWIND_PART.
        until: which commits are over: those from before this moment.
    """
    until_ms = round(until.timestamp() * 1000)

    def add_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = DataFiles(parts)
        for rows in _many(batches):
            at = _ms(rows["valid_from"])
            is_over = (at < until_ms) & (at != _NONE)
            for name, found in ((PARTITION_PART, _partition_sums), (REWIND_PART, _rewinds)):
                told = found(rows, is_over)
                if told.num_rows:
                    files.add(name, told)
        yield from written_rows(files.close())

    return add_up
