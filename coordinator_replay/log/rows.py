"""Rows of ``LOG_RECORD`` for one segment file, built from columns of its entries and its records.

Most columns say something about a whole batch, so they are kept one value for each entry and repeated by its number of
records at the very end.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from coordinator_replay.log.compression import Codec
from coordinator_replay.log.schema import LOG_RECORD, DamageClass

DAMAGE_VALUE_LIMIT = 1 << 20
"""How many bytes of a damaged stretch are kept."""

# 9999-12-31T23:59:59.999: what lies beyond is no time that Python, Spark or pandas could show.
_LAST_TIMESTAMP_MS = 253_402_300_799_999

_CODEC_NAMES = pa.array([codec.name.lower() for codec in Codec], pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryColumns:
    """What records inherit from their batch or message set: one value for each entry, and how many records it has."""

    counts: np.ndarray
    positions: np.ndarray
    offsets: np.ndarray
    magics: np.ndarray
    codecs: np.ndarray
    leader_epochs: np.ndarray
    producer_ids: np.ndarray
    producer_epochs: np.ndarray
    transactional: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns:
    """What each record says itself."""

    offsets: np.ndarray
    timestamps_ms: np.ndarray
    missing_before: np.ndarray
    control_types: pa.StringArray
    keys: pa.BinaryArray
    values: pa.BinaryArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A stretch of the file that could not be read.

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
        self._sources = pa.array([], pa.string())
        self._nulls = pa.array([], pa.string())
        self._codec_names: dict[int, pa.StringArray] = {}

    def records(self, entries: EntryColumns, records: RecordColumns) -> pa.RecordBatch:
        """One row for each record, in order."""
        counts = entries.counts
        count = len(records.offsets)
        self._reserve(count)
        epochs = np.repeat(entries.leader_epochs.astype(np.int32), counts)
        timestamps = records.timestamps_ms
        timeless = (timestamps < 0) | (timestamps > _LAST_TIMESTAMP_MS)
        with np.errstate(over="ignore"):
            microseconds = pa.array(timestamps * 1000, pa.int64(), mask=timeless if timeless.any() else None)
        columns = {
            "log_partition": np.full(count, self._log_partition, np.int32),
            "log_offset": records.offsets,
            "log_timestamp": microseconds.view(LOG_RECORD.field("log_timestamp").type),
            "leader_epoch": pa.array(epochs, mask=epochs < 0) if (epochs < 0).any() else epochs,
            "batch_offset": np.repeat(entries.offsets, counts),
            "magic": np.repeat(entries.magics.astype(np.int8), counts),
            "compression": self._codecs(entries, count),
            "producer_id": np.repeat(entries.producer_ids, counts),
            "producer_epoch": np.repeat(entries.producer_epochs.astype(np.int16), counts),
            "is_transactional": np.repeat(entries.transactional, counts),
            "control_type": records.control_types,
            "missing_before": records.missing_before,
            "key": records.keys,
            "value": records.values,
            "source": self._sources[:count],
            "source_position": np.repeat(entries.positions, counts),
            "error_class": self._nulls[:count],
            "error_message": self._nulls[:count],
        }
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column, field.type)
            for column, field in zip(columns.values(), LOG_RECORD, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=LOG_RECORD)

    def damage(self, damages: list[Damage]) -> pa.RecordBatch:
        """One row for each damaged stretch."""
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
        """The codec of each record; a writer rarely changes it, so that a slice of what is kept will do."""
        codec = int(entries.codecs[0])
        if (entries.codecs != codec).any():
            return _CODEC_NAMES.take(pa.array(np.repeat(entries.codecs, entries.counts)))
        if len(self._codec_names.get(codec, ())) < count:
            self._codec_names[codec] = pa.repeat(_CODEC_NAMES[codec], count)
        return self._codec_names[codec][:count]

    def _reserve(self, count: int) -> None:
        """Keeps columns that hold one string over and over; slices of them are free."""
        if count > len(self._sources):
            self._sources = pa.repeat(pa.scalar(self._source), count)
            self._nulls = pa.nulls(count, pa.string())


def _cut_note(damage: Damage) -> str:
    if damage.head is None or damage.size <= DAMAGE_VALUE_LIMIT:
        return ""
    return f" Kept: the first {DAMAGE_VALUE_LIMIT} of its {damage.size} bytes."


def in_file_order(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Joins rows of one stretch of the file, records and damage, sorted by their position in it."""
    if len(batches) == 1:
        return batches[0]
    joined = pa.concat_batches(batches)
    order = np.argsort(joined["source_position"].to_numpy(zero_copy_only=False), kind="stable")
    return joined.take(pa.array(order))
