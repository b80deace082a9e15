"""Reads segments for tests: all parts of a file at once, in plain Python values."""

import io
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from coordinator_replay.log.coverage import SegmentCoverage
from coordinator_replay.log.schema import LOG_RECORD
from coordinator_replay.log.segment import read_segment

_NOTES = {
    "TORN_TAIL": "was cut off",
    "TORN_GZIP": "lacks its end",
    "ZERO_PADDING": "zero bytes",
    "EMPTY_BATCHES": "empty batch",
    "OFFSETS_DECREASE": "Offsets go back",
}


@dataclass(frozen=True)
class Reading:
    """What a file held."""

    rows: list[dict[str, Any]]
    notes: tuple[str, ...]
    coverage: SegmentCoverage

    @property
    def records(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["error_class"] is None]

    @property
    def damage(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["error_class"] is not None]

    @property
    def note_kinds(self) -> list[str]:
        return [next(kind for kind, text in _NOTES.items() if text in note) for note in self.notes]

    @property
    def missing_offsets(self) -> int:
        """Offsets from first to last that no record was read or skipped for."""
        of = self.coverage
        if of.first_offset is None or of.last_offset is None:
            return 0
        records = of.records + of.skipped
        return max(0, of.last_offset - of.first_offset + 1 - records)


def read(data: bytes, **options: Any) -> Reading:
    parts = list(read_segment(io.BytesIO(data), source="a.log", log_partition=3, **options))
    for part in parts:
        assert part.records.schema == LOG_RECORD
        part.records.validate(full=True)
        assert part.coverage is None or part is parts[-1]
    rows = [row for part in parts for row in part.records.to_pylist()]
    coverage = parts[-1].coverage
    assert coverage is not None
    reading = Reading(rows, parts[-1].notes, coverage)
    assert coverage.records == len(reading.records)
    assert coverage.damaged == len(reading.damage)
    return reading


def moment(milliseconds: int) -> datetime | None:
    if milliseconds < 0:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
