"""The columns into which dumps of all forms are read, with a row for each log record or range of damaged bytes."""

from enum import StrEnum

import pyarrow as pa


class ControlType(StrEnum):
    """Types of control records.

    Types that this package does not need are ``OTHER``.
    """

    COMMIT = "COMMIT"
    ABORT = "ABORT"
    OTHER = "OTHER"


class DamageClass(StrEnum):
    """Reasons why bytes of a segment could not be turned into records (``error_class`` of their row)."""

    CHECKSUM_MISMATCH = "ChecksumMismatch"
    MALFORMED_BATCH = "MalformedBatch"
    TORN_BATCH = "TornBatch"
    BATCH_TOO_LARGE = "BatchTooLarge"
    UNSUPPORTED_MAGIC = "UnsupportedMagic"
    UNSUPPORTED_CODEC = "UnsupportedCodec"
    DECOMPRESSION_FAILED = "DecompressionFailed"


_ABOUT: dict[str, tuple[pa.DataType, str]] = {
    "log_partition": (pa.int32(), "partition of the topic"),
    "log_offset": (
        pa.int64(),
        "offset of the record; for damage the offset its header claims, null if that is not credible",
    ),
    "log_timestamp": (
        pa.timestamp("us", tz="UTC"),
        "create or append time; null if the record has none (-1), or one that no clock can show",
    ),
    "leader_epoch": (pa.int32(), "partition leader epoch of the batch; null if unknown"),
    "batch_offset": (
        pa.int64(),
        "base offset of the batch (message sets: offset of the set's first record); null for exports and damage",
    ),
    "magic": (pa.int8(), "format of the batch: 0, 1 or 2; null for exports and damage"),
    "compression": (pa.string(), "none, gzip, snappy, lz4 or zstd; null for exports and damage"),
    "producer_id": (pa.int64(), "-1: none; null: the input form does not carry it"),
    "producer_epoch": (pa.int16(), "-1: none; null: the input form does not carry it"),
    "is_transactional": (pa.bool_(), "the batch belongs to a transaction, or ends one; null for exports and damage"),
    "control_type": (pa.string(), "COMMIT, ABORT or OTHER; null: not a control record"),
    "missing_before": (
        pa.int64(),
        "offsets without a record between the first batch of the file and this record: offset - first base offset - "
        "records before it; rises if offsets are missing, falls if offsets go back; null for exports and damage",
    ),
    "key": (pa.binary(), "null: none"),
    "value": (pa.binary(), "null: tombstone; for damage the bytes themselves, at most 1 MiB of them"),
    "source": (pa.string(), "the file, as given"),
    "source_position": (pa.int64(), "byte position of the batch in the file (in the plain form of a gzip'ed file)"),
    "error_class": (pa.string(), "null: a record; else why these bytes are none"),
    "error_message": (pa.string(), "one sentence on the damage"),
}

LOG_RECORD = pa.schema([pa.field(name, type_, metadata={"about": about}) for name, (type_, about) in _ABOUT.items()])
"""Columns of a row; the metadata of each field explain it under ``about``."""
