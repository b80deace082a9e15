"""What a run read, counted where it is decoded: as much as there are log partitions and kinds, whatever the records."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

Ranges = Mapping[int, Sequence[tuple[int, int]]]
"""Half-open ranges of offsets, by log partition."""

CONTROL = "control"
"""What a record is that no table of decoded records holds."""

_COUNTED = ("log_partition", "file_id", "what", "kind", "is_known")
_COLUMNS = ("log_partition", "file_id", "log_offset", "missing_before", "log_timestamp")
_SUMS: tuple[tuple[Any, str], ...] = (
    ([], "count_all"),
    ("log_offset", "min"),
    ("log_offset", "max"),
    ("missing_before", "min"),
    ("log_timestamp", "max"),
)
_KINDS = {"commit": ("key_version", "topic_id", "topic"), "record": ("kind",), "quarantine": ("error_class",)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOLD = "told STRING"


@dataclass(slots=True)
class Count:
    """Records of one log partition, file and kind.

    Attributes:
        log_partition: None where it is not known.
        file_id: which of the run's files they came from.
        what: commit, record, quarantine or control.
        kind: Kafka's name of it, or the class of its error; None for control records.
        is_known: whether earlier runs have read their positions.
        records: how many.
        low: the lowest offset, None where none has one.
        high: the highest.
        missing: the ``missing_before`` of the lowest: it only rises.
        end: the latest timestamp, in microseconds.
    """

    log_partition: int | None
    file_id: int
    what: str
    kind: str | None
    is_known: bool
    records: int
    low: int | None
    high: int | None
    missing: int | None
    end: int | None


@dataclass(slots=True)
class Tally:
    """Counts of all records, and what commits call topics.

    Attributes:
        counts: of several batches or tasks, not summed.
        names: topic name by id.
        may_wait: whether a commit may wait for a transaction's marker.
    """

    counts: list[Count] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    may_wait: bool = False

    def text(self) -> str:
        """As a worker hands it over: a count for each key, however many batches there were."""
        counts = [[getattr(count, name) for name in Count.__slots__] for count in _summed(self.counts)]
        return json.dumps({"counts": counts, "names": self.names, "may_wait": self.may_wait})

    def take(self, text: str) -> None:
        """Add what a worker handed over."""
        told = json.loads(text)
        self.counts.extend(Count(*row) for row in told["counts"])
        self.name(told["names"].items())
        self.may_wait |= told["may_wait"]

    def shifted(self, missing: Mapping[int, int]) -> "Tally":
        """The same, with what is missing before each file added to what is missing within it."""
        counts = [
            replace(count, missing=count.missing + missing.get(count.file_id, 0))
            if count.missing is not None
            else count
            for count in self.counts
        ]
        return replace(self, counts=counts)

    def end(self) -> datetime | None:
        """The latest time of any record; None where none carries one."""
        latest = max((count.end for count in self.counts if count.end is not None), default=None)
        return None if latest is None else _EPOCH + timedelta(microseconds=latest)

    def name(self, named: Iterable[tuple[str, str]]) -> None:
        """Add what commits call topics; of two names of one id, the same stays whatever comes first."""
        for topic_id, topic in named:
            self.names[topic_id] = max(topic, self.names.get(topic_id, topic))

    def add(self, what: str, rows: pa.RecordBatch, known: Ranges) -> None:
        """Count a batch of staged rows.

        Args:
            what: their kind.
            rows: in the columns of STAGED for that kind.
            known: positions that earlier runs have read.
        """
        n = rows.num_rows
        columns = {name: rows.column(name) for name in _COLUMNS}
        self._count(
            columns | {"what": pa.repeat(what, n), "kind": _kinds(what, rows), "is_known": _is_known(rows, known)}
        )
        if what == "commit":
            self._name(rows)
            # Those of unknown producers, of exports, wait for none; but nothing hangs on asking in vain.
            producers = rows.column("producer_id") if "producer_id" in rows.schema.names else None
            self.may_wait |= producers is None or pc.any(pc.not_equal(producers, -1)).as_py() is True

    def _count(self, columns: dict[str, pa.Array]) -> None:
        sums = pa.table(columns).group_by(list(_COUNTED), use_threads=False).aggregate(list(_SUMS))
        names = (*_COUNTED, *(f"{column}_{how}" if column else how for column, how in _SUMS))
        at = sums.column("log_timestamp_max").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        told = sums.set_column(sums.schema.get_field_index("log_timestamp_max"), "log_timestamp_max", at)
        self.counts.extend(Count(*row) for row in zip(*(told.column(name).to_pylist() for name in names), strict=True))

    def _name(self, rows: pa.RecordBatch) -> None:
        topic_ids = rows.column("topic_id")
        if topic_ids.null_count == rows.num_rows:
            return
        named = pa.table({"topic_id": topic_ids, "topic": rows.column("topic")}).filter(pc.is_valid(topic_ids))
        best = named.group_by("topic_id", use_threads=False).aggregate([("topic", "max")])
        self.name(zip(*(best.column(name).to_pylist() for name in ("topic_id", "topic_max")), strict=True))


def _summed(counts: Iterable[Count]) -> Iterable[Count]:
    """Counts of the same key as one."""
    sums: dict[tuple[Any, ...], Count] = {}
    for count in counts:
        key = tuple(getattr(count, name) for name in _COUNTED)
        sums[key] = _both(sums[key], count) if key in sums else count
    return sums.values()


def _both(one: Count, other: Count) -> Count:
    def best(choose: Callable[..., int], name: str) -> int | None:
        told = [value for count in (one, other) if (value := getattr(count, name)) is not None]
        return choose(told, default=None)

    return replace(
        one,
        records=one.records + other.records,
        low=best(min, "low"),
        high=best(max, "high"),
        missing=best(min, "missing"),
        end=best(max, "end"),
    )


def _kinds(what: str, rows: pa.RecordBatch) -> pa.Array:
    """Kafka's name of each record's kind, or the class of its error."""
    if what == "commit":
        is_legacy = pc.equal(rows.column("key_version"), 0)
        return pc.if_else(is_legacy, "LegacyOffsetCommit", "OffsetCommit")
    return rows.column(_KINDS[what][0]) if what in _KINDS else pa.nulls(rows.num_rows, pa.string())


def _is_known(rows: pa.RecordBatch, known: Ranges) -> pa.Array:
    partitions, offsets = _numbers(rows.column("log_partition")), _numbers(rows.column("log_offset"))
    is_known = np.zeros(rows.num_rows, np.bool_)
    for partition, ranges in known.items():
        for start, end in ranges:
            is_known |= (partitions == partition) & (offsets >= start) & (offsets < end)
    return pa.array(is_known)


def _numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = column.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return numbers


def tally_of(records: DataFrame, known: Ranges) -> Tally:
    """Count records that came through Spark: an action.

    Args:
        records: as ``as_records`` has them.
        known: positions that earlier runs have read.
    """
    ranges = dict(known)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = Tally()
        for batch in batches:
            for what, rows in _by_kind(batch):
                part.add(what, rows, ranges)
        yield pa.record_batch({"told": [part.text()]})

    structs = (
        F.when(F.col(what).isNotNull(), F.struct(*(f"{what}.{name}" for name in _KINDS[what]))) for what in _KINDS
    )
    narrow = records.select(*_COLUMNS, *(struct.alias(what) for what, struct in zip(_KINDS, structs, strict=True)))
    tally = Tally()
    for row in narrow.mapInArrow(count, _TOLD).collect():
        tally.take(row["told"])
    return tally


def _by_kind(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows of each kind, in the columns that tell about it; control records are those of no kind."""
    is_other = np.ones(batch.num_rows, np.bool_)
    for what, names in _KINDS.items():
        is_mine = batch.column(what).is_valid()
        is_other &= ~is_mine.to_numpy(zero_copy_only=False)
        mine = batch.filter(is_mine)
        columns = {name: mine.column(name) for name in _COLUMNS}
        yield what, pa.record_batch(columns | {name: pc.struct_field(mine.column(what), name) for name in names})
    yield CONTROL, batch.filter(pa.array(is_other))
