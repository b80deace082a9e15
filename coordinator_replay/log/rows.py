"""Rows of ``LOG_RECORD`` for one segment file, built from columns of its entries and its records.

Most columns say something about a whole batch, so they are kept one value for each entry and repeated by its number of
records at the very end; those that say the same of all batches, as most do, are slices of what is kept for the file.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from coordinator_replay.arrow_times import timestamps
from coordinator_replay.log.compression import Codec
from coordinator_replay.log.schema import LOG_RECORD, DamageClass

DAMAGE_VALUE_LIMIT = 1 << 20
"""How many bytes of a damaged range are kept."""

_CODEC_NAMES = [codec.name.lower() for codec in Codec]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryColumns:
    """What records inherit from their batch or message set: one value for each entry, and how many records it has."""

    counts: np.ndarray
    magics: np.ndarray
    codecs: np.ndarray
    leader_epochs: np.ndarray
    producer_ids: np.ndarray
    producer_epochs: np.ndarray
    transactional: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns:
    """What differs from record to record, and where each one's batch or message set is."""

    offsets: np.ndarray
    timestamps_ms: np.ndarray
    batch_offsets: np.ndarray
    batch_positions: np.ndarray
    missing_before: np.ndarray
    control_types: pa.StringArray
    keys: pa.BinaryArray
    values: pa.BinaryArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A range of the file that could not be read.

    Attributes:
        position: Where it begins in the file.
        size: How many bytes it is long.
        offset: The offset that its header claims, None if there is no believable one.
        head: Its bytes, or as many of them as are kept; None if they can't be had.
    """

    error_class: DamageClass
    message: str
    position: int
    size: int
    offset: int | None
    head: bytes | None


class SegmentRows:
    """Builds the rows of one file."""

    def __init__(self, source: str, log_partition: int) -> None:
        self._source = source
        self._log_partition = log_partition
        self._kept: dict[str, tuple[object, pa.Array | None]] = {}

    def records(self, entries: EntryColumns, records: RecordColumns) -> pa.RecordBatch:
        """One row for each record, in order."""
        counts = entries.counts
        count = len(records.offsets)
        columns = {
            "log_partition": self._same("log_partition", self._log_partition, count),
            "log_offset": records.offsets,
            "log_timestamp": timestamps(records.timestamps_ms),
            "leader_epoch": self._inherited("leader_epoch", entries.leader_epochs, counts, null_below_0=True),
            "batch_offset": records.batch_offsets,
            "magic": self._inherited("magic", entries.magics, counts),
            "compression": self._codecs(entries, count),
            "producer_id": self._inherited("producer_id", entries.producer_ids, counts),
            "producer_epoch": self._inherited("producer_epoch", entries.producer_epochs, counts),
            "is_transactional": self._inherited("is_transactional", entries.transactional, counts),
            "control_type": records.control_types,
            "missing_before": records.missing_before,
            "key": records.keys,
            "value": records.values,
            "source": self._same("source", self._source, count),
            "source_position": records.batch_positions,
            "error_class": self._same("error_class", None, count),
            "error_message": self._same("error_message", None, count),
        }
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column, field.type)
            for column, field in zip(columns.values(), LOG_RECORD, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=LOG_RECORD)

    def damage(self, damages: list[Damage]) -> pa.RecordBatch:
        """One row for each damaged range."""
        columns: dict[str, list[object]] = {
            "log_partition": [self._log_partition] * len(damages),
            "log_offset": [damage.offset for damage in damages],
            "value": [None if damage.head is None else damage.head[:DAMAGE_VALUE_LIMIT] for damage in damages],
            "source": [self._source] * len(damages),
            "source_position": [damage.position for damage in damages],
            "error_class": [damage.error_class.value for damage in damages],
            "error_message": [damage.message + _cut_note(damage) for damage in damages],
        }
        arrays = [
            pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(len(damages), field.type)
            for field in LOG_RECORD
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=LOG_RECORD)

    def _codecs(self, entries: EntryColumns, count: int) -> pa.StringArray:
        codec = int(entries.codecs[0])
        if (entries.codecs == codec).all():
            return self._same("compression", _CODEC_NAMES[codec], count)
        return pa.array(_CODEC_NAMES, pa.string()).take(pa.array(np.repeat(entries.codecs, entries.counts)))

    def _inherited(self, name: str, values: np.ndarray, counts: np.ndarray, *, null_below_0: bool = False) -> pa.Array:
        """A column whose values are those of the entries."""
        first = values[0].item()
        if (values == first).all():
            return self._same(name, None if null_below_0 and first < 0 else first, int(counts.sum()))
        type_ = LOG_RECORD.field(name).type
        column = np.repeat(values.astype(type_.to_pandas_dtype()), counts)
        return pa.array(column, type_, mask=column < 0 if null_below_0 else None)

    def _same(self, name: str, value: object, count: int) -> pa.Array:
        """A column that holds one value over and over."""
        kept, column = self._kept.get(name, (None, None))
        if column is None or kept != value or len(column) < count:
            # Some more than asked for, or each part that is a little larger than the last one would make it again.
            column = _repeated(value, LOG_RECORD.field(name).type, count + count // 8)
            self._kept[name] = (value, column)
        return column[:count]


def _repeated(value: object, type_: pa.DataType, count: int) -> pa.Array:
    """One value over and over; of numbers Arrow takes one at a time, and numpy many."""
    if value is None or not pa.types.is_integer(type_):
        return pa.repeat(pa.scalar(value, type_), count)
    return pa.array(np.full(count, value, type_.to_pandas_dtype()))


def _cut_note(damage: Damage) -> str:
    if damage.head is None or damage.size <= DAMAGE_VALUE_LIMIT:
        return ""
    return f" Kept: the first {DAMAGE_VALUE_LIMIT} of its {damage.size} bytes."


def in_file_order(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Joins rows of one range of the file, records and damage, sorted by their position in it."""
    if len(batches) == 1:
        return batches[0]
    joined = pa.concat_batches(batches)
    order = np.argsort(joined["source_position"].to_numpy(zero_copy_only=False), kind="stable")
    return joined.take(pa.array(order))
