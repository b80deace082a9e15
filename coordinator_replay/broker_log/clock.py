"""Conversion of the local times in a broker's log to UTC.

If the user names the zone, ``ZoneClock`` converts times. Otherwise ``utc_offsets`` compares the times of lines with the
times of records, which are in UTC.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from coordinator_replay.zones import FARTHEST

QUARTER_MS = 900_000
"""Zones differ from UTC by a whole number of quarter hours."""

WITHIN_MS = 2_000
"""Largest difference between the times of a line and its record. The coordinator writes the line and the record in the
same call, but the append of the record may have to wait."""

FARTHEST_MS = round(FARTHEST.total_seconds() * 1000)
"""Largest difference of a zone from UTC."""

_CHANGES_MS = (1_800_000, 3_600_000)
"""Times by which daylight saving may move clocks."""


@dataclass(frozen=True, slots=True)
class RecordedLine:
    """A line of a broker's log about a group, with the times of the records that may belong to the line.

    A record may belong to the line if it has the same group, and the same generation or epoch.

    Attributes:
        place: number of the line in the file.
        local_ms: the time in the line, which is local. It is in milliseconds since 1970, computed as if it were in UTC.
        recorded_ms: times of these records, in milliseconds since 1970.
    """

    place: int
    local_ms: int
    recorded_ms: Sequence[int]

    def offsets(self) -> frozenset[int]:
        """Return the possible UTC offsets (local time minus UTC) of the line's time, in milliseconds.

        The line and a record of the same event have nearly the same time. So an offset is possible if it turns the
        line's time into the time of a record, with a difference of at most ``WITHIN_MS``. Only whole quarter hours up
        to ``FARTHEST_MS`` are tried.
        """
        differences = set()
        for recorded in self.recorded_ms:
            difference = self.local_ms - recorded
            offset = round(difference / QUARTER_MS) * QUARTER_MS
            if abs(difference - offset) <= WITHIN_MS and abs(offset) <= FARTHEST_MS:
                differences.add(offset)
        return frozenset(differences)


@dataclass(frozen=True, slots=True)
class UtcOffset:
    """The UTC offset of a range of lines in a file.

    Attributes:
        first, last: numbers of the first and the last line of the range; None for no bound.
        offset_ms: local time minus UTC.
    """

    first: int | None
    last: int | None
    offset_ms: int

    def has(self, place: int) -> bool:
        """Return whether this UTC offset applies to a line of the log.

        Args:
            place: the line's number in the file.
        """
        return (self.first is None or place >= self.first) and (self.last is None or place <= self.last)


def utc_offsets(lines: Iterable[RecordedLine]) -> list[UtcOffset] | None:
    """Return the differences of a file's times from UTC.

    A file has one difference, or two if daylight saving began or ended while the file was written. Lines around that
    change get no difference if either difference is possible.

    Args:
        lines: lines of the file, in order. Lines without records are ignored.

    Returns:
        One or two differences. None in three cases: no line has a record; at least half of the lines with records have
        no possible difference; or the other lines need more than two differences.
    """
    shown = [(line.place, line.offsets()) for line in lines if line.recorded_ms]
    fitting = [(place, offsets) for place, offsets in shown if offsets]
    # One line in 225 fits some zone by chance. So if most lines of a file fit no zone, the file is from other brokers.
    if not fitting or 2 * len(fitting) <= len(shown):
        return None
    counts = Counter(offset for _, offsets in fitting for offset in offsets)
    common = min(counts, key=lambda offset: (-counts[offset], abs(offset), offset))
    if counts[common] == len(fitting):
        return [UtcOffset(None, None, common)]
    return _two(fitting)


def _two(fitting: Sequence[tuple[int, frozenset[int]]]) -> list[UtcOffset] | None:
    for before in fitting[0][1]:
        for after in fitting[-1][1]:
            turn = next((number for number, (_, offsets) in enumerate(fitting) if before not in offsets), len(fitting))
            if abs(before - after) in _CHANGES_MS and all(after in offsets for _, offsets in fitting[turn:]):
                return [UtcOffset(None, fitting[turn - 1][0], before), UtcOffset(fitting[turn][0], None, after)]
    return None


class ZoneClock:
    """Conversion of one zone's local times to UTC. Times must come in the order in which they were logged."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._last_ms: int | None = None

    def utc_ms(self, local_ms: int) -> int:
        """Return UTC for a local time, both in milliseconds.

        When daylight saving ends, clocks show one hour twice. A time in this hour belongs to the first of the two hours
        until the logged times go back, and to the second hour from then on.
        """
        local = datetime.fromtimestamp(local_ms // 1000, UTC).replace(tzinfo=self._zone)
        first, second = (round(local.replace(fold=fold).timestamp()) * 1000 + local_ms % 1000 for fold in (0, 1))
        is_second = self._last_ms is not None and first < self._last_ms - WITHIN_MS
        self._last_ms = second if is_second else first
        return self._last_ms
