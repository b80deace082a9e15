"""Rows of ``LOG_RECORD`` for one segment file, built from the headers of its entries and its records.

Most columns are about a whole batch. So only one value is kept for each batch until the rows are made.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from coordinator_replay.arrow_times import timestamps_of
from coordinator_replay.log.compression import Codec
from coordinator_replay.log.layout import Attribute, HeaderField
from coordinator_replay.log.schema import LOG_RECORD, ControlType, DamageClass

DAMAGE_VALUE_LIMIT = 1 << 20
"""Number of bytes of a damaged range that are kept."""

_CODEC_NAMES = pa.array([codec.name.lower() for codec in Codec], pa.string())
_CONTROL_NAMES = pa.array([ControlType.ABORT.value, ControlType.COMMIT.value, ControlType.OTHER.value], pa.string())
_CONTROL_CODES = {b"\0\0": 0, b"\0\1": 1}
_ONLY_OF_BATCHES = [HeaderField.LEADER_EPOCH, HeaderField.PRODUCER_ID, HeaderField.PRODUCER_EPOCH]


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The records of some entries, one after the other.

    Attributes:
        batch_offsets: for each record, the base offset of its batch, or the first log offset of its message set.
        batch_positions: for each record, the position of its batch or message set in the file.
        counts: number of records of each entry.
    """

    offsets: np.ndarray
    timestamps_ms: np.ndarray
    batch_offsets: np.ndarray
    batch_positions: np.ndarray
    keys: pa.BinaryArray
    values: pa.BinaryArray
    counts: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A range of the file that could not be read.

    Attributes:
        position: position in the file at which the range begins.
        size: length of the range in bytes.
        offset: the log offset that a header at the range's beginning claims; None if the claim is not credible.
        head: the first bytes of the range, at most ``DAMAGE_VALUE_LIMIT``; None if they are not available.
    """

    error_class: DamageClass
    message: str
    position: int
    size: int
    offset: int | None
    head: bytes | None


class SegmentRows:
    """A builder of the rows of one file."""

    def __init__(self, source: str, log_partition: int) -> None:
        self._source = source
        self._log_partition = log_partition

    def records(self, headers: np.ndarray, records: Records, missing_before: np.ndarray) -> pa.RecordBatch:
        """Return one row for each record, in order.

        Args:
            headers: the headers of the records' entries: a row for each ``HeaderField``, and a column for each entry.
            records: the records.
            missing_before: for each record, the number of lower log offsets without a record.
        """
        counts = records.counts
        attributes = headers[HeaderField.ATTRIBUTES]
        is_batch = headers[HeaderField.MAGIC] == 2
        is_control = is_batch & ((attributes & Attribute.CONTROL) != 0)
        is_transactional = is_batch & ((attributes & Attribute.TRANSACTIONAL) != 0)
        leader_epochs, producer_ids, producer_epochs = np.where(is_batch, headers[_ONLY_OF_BATCHES], -1)
        count, epochs = len(records.offsets), np.repeat(leader_epochs.astype(np.int32), counts)
        columns = {
            "log_partition": np.full(count, self._log_partition, np.int32),
            "log_offset": records.offsets,
            "log_timestamp": timestamps_of(pa.array(records.timestamps_ms, pa.int64())),
            "leader_epoch": pa.array(epochs, pa.int32(), mask=epochs < 0),
            "batch_offset": records.batch_offsets,
            "magic": np.repeat(headers[HeaderField.MAGIC].astype(np.int8), counts),
            "compression": _CODEC_NAMES.take(pa.array(np.repeat(attributes & Attribute.CODEC, counts))),
            "producer_id": np.repeat(producer_ids, counts),
            "producer_epoch": np.repeat(producer_epochs.astype(np.int16), counts),
            "is_transactional": np.repeat(is_transactional, counts),
            "control_type": _control_types(records.keys, is_control, counts),
            "missing_before": missing_before,
            "key": records.keys,
            "value": records.values,
            "source": pa.repeat(self._source, count),
            "source_position": records.batch_positions,
            "error_class": pa.nulls(count, pa.string()),
            "error_message": pa.nulls(count, pa.string()),
        }
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column, field.type)
            for column, field in zip(columns.values(), LOG_RECORD, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=LOG_RECORD)

    def damage(self, damages: list[Damage]) -> pa.RecordBatch:
        """Return one row for each damaged range."""
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


def _control_types(keys: pa.BinaryArray, is_control: np.ndarray, counts: np.ndarray) -> pa.StringArray:
    """Return the types of the control records; null for other records.

    A control record's key is version int16, type int16; versions above 0 are read as 0. Source: ControlRecordType.

    Args:
        keys: the keys of the records of some batches.
        is_control: for each batch, whether it is a control batch.
        counts: number of records of each batch.
    """
    if not is_control.any():
        return pa.nulls(len(keys), pa.string())
    rows = np.repeat(is_control, counts)
    codes = np.zeros(len(keys), np.int8)
    for row in np.flatnonzero(rows).tolist():
        key = keys[row].as_py() or b""
        codes[row] = _CONTROL_CODES.get(key[2:4], 2)
    return _CONTROL_NAMES.take(pa.array(codes, mask=~rows))


def _cut_note(damage: Damage) -> str:
    if damage.head is None or damage.size <= DAMAGE_VALUE_LIMIT:
        return ""
    return f" Kept: the first {DAMAGE_VALUE_LIMIT} of its {damage.size} bytes."


def in_file_order(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches of the same file as one batch, sorted by position in the file."""
    if len(batches) == 1:
        return batches[0]
    joined = pa.concat_batches(batches)
    order = np.argsort(joined["source_position"].to_numpy(zero_copy_only=False), kind="stable")
    return joined.take(pa.array(order))
