"""Counts of the records that a run read, by log partition, and the topics and leader epochs in these records."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.columns import numbers_of
from coordinator_replay.log.coverage import SkipRanges
from coordinator_replay.pipeline.group_moves import hash_divisor

Ranges = Mapping[int, Sequence[tuple[int, int]]]
"""Half-open ranges of offsets, by log partition."""

Audited = Mapping[int, SkipRanges]
"""Offsets that earlier runs have read, by log partition."""

COMMIT, RECORD, QUARANTINE, CONTROL = "commit", "record", "quarantine", "control"
"""Sorts of records."""

NAMING_KINDS = frozenset(
    {"ConsumerGroupPartitionMetadata", "ShareGroupPartitionMetadata", "ShareGroupStatePartitionMetadata"}
)
"""Kinds of group records that have both ids and names of topics."""

BATCH_EPOCH = "batch_epoch"
"""Column with the leader epoch of a record's batch. It is not called ``leader_epoch``, because commits have a column of
that name with another epoch."""

_SHARE_LISTS = ("initializingTopics", "initializedTopics")
_UNKNOWN_TOPIC = "<UNKNOWN>"
_KEY = ("log_partition", "is_audited")
_SUMS: tuple[tuple[Any, str], ...] = (
    ([], "count_all"),
    ("log_offset", "min"),
    ("log_offset", "max"),
    ("log_timestamp", "min"),
    ("log_timestamp", "max"),
)


class CountKey(NamedTuple):
    """Key of a ``Count``: records with equal keys are counted together.

    Attributes:
        log_partition: log partition of the records; None for records without a log partition.
        is_audited: whether the records are at log offsets that earlier runs have read.
    """

    log_partition: int | None
    is_audited: bool


@dataclass(slots=True)
class Count:
    """The count of the records of one key.

    Attributes:
        records: number of records.
        low: lowest log offset of the records; None if no record has a log offset.
        high: highest log offset of the records; None if no record has a log offset.
        begin: earliest timestamp of the records; None if no record has a timestamp.
        end: latest timestamp of the records; None if no record has a timestamp.
    """

    records: int
    low: int | None
    high: int | None
    begin: datetime | None
    end: datetime | None

    def add(self, other: "Count") -> None:
        """Add another count to this count."""

        def best(choose: Callable[..., Any], name: str) -> Any:
            values = [value for tally in (self, other) if (value := getattr(tally, name)) is not None]
            return choose(values, default=None)

        self.records += other.records
        self.low, self.high = best(min, "low"), best(max, "high")
        self.begin, self.end = best(min, "begin"), best(max, "end")


class NamedTopic(NamedTuple):
    """Name of a topic in a record. These objects sort by the position of the record in the log.

    Attributes:
        log_offset: log offset of the record; -1 if the record has none.
        log_partition: log partition of the record; -1 if the record has no log partition.
        topic: the name.
        partition_count: number of the topic's partitions; -1 if the record does not have this number.
    """

    log_offset: int
    log_partition: int
    topic: str
    partition_count: int = -1


Place = tuple[int, datetime | None]
"""Position of a record: its offset and its time."""


@dataclass(slots=True)
class Tally:
    """Counts of records, and the topics and leader epochs that these records name.

    Attributes:
        counts: the counts of records.
        names: names of topics by topic id, from commits.
        named: names of topics by topic id, from group records.
        epochs: position of the first record of each leader epoch, by log partition and leader epoch.
        divisors: greatest common divisor of ``hash(group) - log_partition`` over the groups of each log partition; 0
            if the log partition has no groups. See ``hash_divisor``.
    """

    counts: dict[CountKey, Count] = field(default_factory=dict)
    names: dict[str, NamedTopic] = field(default_factory=dict)
    named: dict[str, NamedTopic] = field(default_factory=dict)
    epochs: dict[tuple[int, int], Place] = field(default_factory=dict)
    divisors: dict[int, int] = field(default_factory=dict)

    def add(self, what: str, rows: pa.RecordBatch, audited: Audited) -> None:
        """Count a batch of staged rows.

        Args:
            what: the category of the rows, a key of ``decode.KINDS``.
            rows: the rows, with the columns of ``decode.STAGED`` for this category.
            audited: log offsets that earlier runs have read. Records at these log offsets are counted separately.
        """
        columns = {name: rows.column(name) for name in ("log_partition", "log_offset", "log_timestamp")}
        counted = pa.table(columns | {"is_audited": pa.array(is_audited(rows, audited))})
        sums = counted.group_by(list(_KEY), use_threads=False).aggregate(list(_SUMS))
        names = [*_KEY, "count_all", *(f"{column}_{how}" for column, how in _SUMS[1:])]
        for row in zip(*sums.select(names).to_pydict().values(), strict=True):
            self.count(CountKey(*row[: len(_KEY)]), Count(*row[len(_KEY) :]))
        self._begin_epochs(rows)
        if what in (COMMIT, RECORD):
            self._divide_hashes(rows)
        if what == COMMIT:
            self._name_by_commits(rows)
        elif what == RECORD:
            self._name_by_records(rows)

    def count(self, key: CountKey, count: Count) -> None:
        """Add a count to the count for a key.

        Args:
            key: the key.
            count: the count to add. This object is not changed.
        """
        if key in self.counts:
            self.counts[key].add(count)
        else:
            # A new object: additions here must not change the other tally.
            self.counts[key] = replace(count)

    def merge(self, other: "Tally") -> None:
        """Add the counts of another task."""
        for key, count in other.counts.items():
            self.count(key, count)
        for into, topics in ((self.names, other.names), (self.named, other.named)):
            for topic_id, topic in topics.items():
                _take(into, topic_id, topic)
        for epoch, place in other.epochs.items():
            self._begin_epoch(epoch, place)
        for partition, divisor in other.divisors.items():
            self.divisors[partition] = math.gcd(divisor, self.divisors.get(partition, 0))

    @property
    def log_partitions(self) -> set[int]:
        """Return the log partitions of the counted records."""
        return {key.log_partition for key in self.counts if key.log_partition is not None}

    def by_partition(self, *, only_new: bool = False) -> dict[int, Count]:
        """Return the counts of each log partition.

        Args:
            only_new: whether to leave out records at positions that earlier runs have read.
        """
        counts: dict[int, Count] = {}
        for key, count in self.counts.items():
            if key.log_partition is not None and not (only_new and key.is_audited):
                counts.setdefault(key.log_partition, Count(0, None, None, None, None)).add(count)
        return counts

    def records(self) -> int:
        """Return the number of records counted."""
        return sum(count.records for count in self.counts.values())

    def end(self) -> datetime | None:
        """Return the latest time of a record, including records in ``quarantine``; None if no record has a time."""
        return max((count.end for count in self.counts.values() if count.end is not None), default=None)

    def _begin_epochs(self, rows: pa.RecordBatch) -> None:
        names = ("log_partition", BATCH_EPOCH, "log_offset")
        partitions, epochs, offsets = (numbers_of(rows.column(name), -1) for name in names)
        is_first = np.ones(rows.num_rows, np.bool_)
        is_first[1:] = (partitions[1:] != partitions[:-1]) | (epochs[1:] != epochs[:-1])
        for row in np.flatnonzero(is_first & (partitions >= 0) & (epochs >= 0) & (offsets >= 0)).tolist():
            at = rows.column("log_timestamp")[row].as_py()
            self._begin_epoch((int(partitions[row]), int(epochs[row])), (int(offsets[row]), at))

    def _begin_epoch(self, key: tuple[int, int], place: Place) -> None:
        # Positions with the same offset belong to one record, so the offset alone decides.
        self.epochs[key] = min(place, self.epochs.get(key, place), key=lambda pair: pair[0])

    def _divide_hashes(self, rows: pa.RecordBatch) -> None:
        named = pa.table({name: rows.column(name) for name in ("log_partition", "group_id")})
        groups = named.group_by(["log_partition", "group_id"], use_threads=False).aggregate([])
        for partition, group in zip(*groups.to_pydict().values(), strict=True):
            if partition is not None and group is not None:
                divisor = hash_divisor([group], partition)
                self.divisors[partition] = math.gcd(divisor, self.divisors.get(partition, 0))

    def _name_by_commits(self, rows: pa.RecordBatch) -> None:
        topic_ids = rows.column("topic_id")
        if topic_ids.null_count == rows.num_rows:
            return
        keys = ("topic_id", "topic", "log_partition")
        named = pa.table({name: rows.column(name) for name in (*keys, "log_offset")})
        last = named.group_by(list(keys), use_threads=False).aggregate([("log_offset", "max")])
        values = (last.column(name).to_pylist() for name in (*keys, "log_offset_max"))
        for topic_id, topic, log_partition, log_offset in zip(*values, strict=True):
            if topic_id is not None:
                _take(self.names, topic_id, NamedTopic(_number(log_offset), _number(log_partition), topic))

    def _name_by_records(self, rows: pa.RecordBatch) -> None:
        kinds = pc.is_in(rows.column("kind"), value_set=pa.array(sorted(NAMING_KINDS)))
        naming = rows.filter(pc.and_(kinds, rows.column("value_json").is_valid()))
        columns = (naming.column(name).to_pylist() for name in ("log_offset", "log_partition", "value_json"))
        for offset, partition, text in zip(*columns, strict=True):
            place = _number(offset), _number(partition)
            value = orjson.loads(text)
            for topic in (
                *(value.get("topics") or ()),
                *(element for name in _SHARE_LISTS for element in value.get(name) or ()),
            ):
                topic_id, name = topic.get("topicId"), topic.get("topicName")
                if topic_id and name and name != _UNKNOWN_TOPIC:
                    _take(self.named, topic_id, NamedTopic(*place, name, _number(topic.get("numPartitions"))))


def _take(into: dict[str, NamedTopic], topic_id: str, topic: NamedTopic) -> None:
    into[topic_id] = max(topic, into.get(topic_id, topic))


def _number(value: int | None) -> int:
    return -1 if value is None else value


def kinds_of(what: str, rows: pa.RecordBatch) -> pa.Array:
    """Return Kafka's name of each record's kind, or the class of its error; null for control records."""
    if what == COMMIT:
        is_legacy = pc.equal(rows.column("key_version"), 0)
        return pc.if_else(is_legacy, "LegacyOffsetCommit", "OffsetCommit")
    names = {RECORD: "kind", QUARANTINE: "error_class"}
    return rows.column(names[what]) if what in names else pa.nulls(rows.num_rows, pa.string())


def is_audited(rows: pa.RecordBatch, audited: Audited) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return, for each row, whether the row lies at a log offset that earlier runs have read."""
    partitions, offsets = (numbers_of(rows.column(name), -1) for name in ("log_partition", "log_offset"))
    is_in = np.zeros(rows.num_rows, np.bool_)
    for partition, ranges in audited.items():
        of_partition = partitions == partition
        is_in[of_partition] = ranges.have(offsets[of_partition])
    return is_in


def audited_in(ranges: Ranges) -> Audited:
    """Return ranges of log offsets in a form for fast look-ups.

    Args:
        ranges: the ranges by log partition, as tuples of first log offset and end (not included).
    """
    read = {partition: some for partition, some in ranges.items() if some}
    return {partition: SkipRanges([(start, end - 1) for start, end in some]) for partition, some in read.items()}
