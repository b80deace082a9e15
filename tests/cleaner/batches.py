"""The batches of a segment with their records, as the cleaner sees them: read by our reader, written by our writer."""

import io
import struct
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from crc32c import crc32c

from coordinator_replay.log.layout import Attribute
from coordinator_replay.log.segment import read_segment
from tests.log.batch_spans import walk_batches
from tests.log.writer import LogEntry, write_batch

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC_START = 21
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ABORT = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A record batch, or the messages of one wrapper.

    Attributes:
        raw: Its bytes.
        records: Its records, each with its offset.
        append_time_ms: The broker's time, if the batch takes that for its records.
        max_timestamp_ms: The largest timestamp, as the header has it.
        delete_horizon_ms: From when on its tombstones may go; None before its first cleaning with tombstones in it.
    """

    raw: bytes
    base_offset: int
    last_offset: int
    magic: int
    codec: str
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool
    append_time_ms: int | None
    max_timestamp_ms: int
    delete_horizon_ms: int | None
    records: tuple[LogEntry, ...]

    @property
    def is_abort(self) -> bool:
        """Whether this is the marker of an aborted transaction."""
        return self.is_control and bool(self.records) and control_type(self.records[0]) == ABORT

    def thinned(self, records: Sequence[LogEntry], delete_horizon_ms: int | None) -> "Batch":
        """The batch with fewer records: ``MemoryRecords.buildRetainedRecordsInto``; without any an empty header."""
        if not records:
            return self._emptied()
        # Messages of the old formats become a batch that begins with what is left of them.
        base = self.base_offset if self.magic == 2 else _offset(records[0])
        last = self.last_offset if self.magic == 2 else _offset(records[-1])
        raw = write_batch(
            records,
            base_offset=base,
            last_offset=last,
            codec=self.codec,
            leader_epoch=self.leader_epoch,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            is_transactional=self.is_transactional,
            is_control=self.is_control,
            append_time_ms=self.append_time_ms,
            delete_horizon_ms=delete_horizon_ms,
        )
        return replace(
            self,
            raw=raw,
            base_offset=base,
            last_offset=last,
            magic=2,
            records=tuple(records),
            delete_horizon_ms=delete_horizon_ms,
            max_timestamp_ms=_HEADER.unpack_from(raw)[8],
        )

    def _emptied(self) -> "Batch":
        """``DefaultRecordBatch.writeEmptyHeader``: no codec, no horizon, the largest timestamp kept."""
        attributes = Attribute.TRANSACTIONAL if self.is_transactional else 0
        attributes |= Attribute.CONTROL if self.is_control else 0
        attributes |= Attribute.LOG_APPEND_TIME if self.append_time_ms is not None else 0
        summed = struct.pack(
            ">hiqqqhii",
            attributes,
            self.last_offset - self.base_offset,
            -1,
            self.max_timestamp_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            0,
        )
        raw = struct.pack(">qiibI", self.base_offset, 9 + len(summed), self.leader_epoch, 2, crc32c(summed)) + summed
        return replace(self, raw=raw, codec="none", records=(), delete_horizon_ms=None)


def control_type(record: LogEntry) -> int:
    """What a marker says: 0 abort, 1 commit."""
    return int.from_bytes((record.key or b"")[2:4], "big")


def _offset(record: LogEntry) -> int:
    assert record.offset is not None
    return record.offset


def _milliseconds(moment: datetime | None) -> int:
    return -1 if moment is None else (moment - _EPOCH) // timedelta(milliseconds=1)


def read_batches(data: bytes) -> list[Batch]:
    """The batches of a segment's bytes, in order. What is damaged is not for the cleaner and fails here."""
    rows: dict[int, list[dict[str, object]]] = defaultdict(list)
    for part in read_segment(io.BytesIO(data), source="", log_partition=0):
        for row in part.records.to_pylist():
            assert row["error_class"] is None, row
            rows[row["source_position"]].append(row)
    found = []
    for spans in walk_batches(data):
        for position, size in zip(spans.positions.tolist(), spans.sizes.tolist(), strict=True):
            found.append(_batch(data[position : position + size], rows[position]))
    return found


def _batch(raw: bytes, rows: Sequence[dict[str, object]]) -> Batch:
    records = tuple(
        LogEntry(
            key=row["key"],  # type: ignore[arg-type]
            value=row["value"],  # type: ignore[arg-type]
            timestamp_ms=_milliseconds(row["log_timestamp"]),  # type: ignore[arg-type]
            offset=row["log_offset"],  # type: ignore[arg-type]
        )
        for row in rows
    )
    magic, codec = raw[16], str(rows[0]["compression"]) if rows else "none"
    if magic < 2:
        return Batch(
            raw=raw,
            base_offset=_offset(records[0]),
            last_offset=_offset(records[-1]),
            magic=magic,
            codec=codec,
            leader_epoch=-1,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            is_transactional=False,
            is_control=False,
            append_time_ms=None,
            max_timestamp_ms=max(record.timestamp_ms for record in records),
            delete_horizon_ms=None,
            records=records,
        )
    header = _HEADER.unpack_from(raw)
    base, epoch, attributes, delta, base_time, max_time = header[0], header[2], *header[5:9]
    return Batch(
        raw=raw,
        base_offset=base,
        last_offset=base + delta,
        magic=2,
        codec=codec,
        leader_epoch=epoch,
        producer_id=header[9],
        producer_epoch=header[10],
        base_sequence=header[11],
        is_transactional=bool(attributes & Attribute.TRANSACTIONAL),
        is_control=bool(attributes & Attribute.CONTROL),
        append_time_ms=max_time if attributes & Attribute.LOG_APPEND_TIME else None,
        max_timestamp_ms=max_time,
        delete_horizon_ms=base_time if attributes & Attribute.DELETE_HORIZON else None,
        records=records,
    )


def checked(raw: bytes) -> bool:
    """Whether a batch's checksum is that of its bytes."""
    return bool(_HEADER.unpack_from(raw)[4] == crc32c(raw[_CRC_START:]))
