"""UTC times of the lines of a broker's log.

A line without a time zone is in the zone that the user names. Without a named zone, ``utc_times`` infers the offset
from UTC from the times of recorded rebalances.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow.dataset as ds

from coordinator_replay.broker_log.clock import RecordedLine, UtcOffset, ZoneClock, utc_offsets
from coordinator_replay.broker_log.events import BrokerEvent
from coordinator_replay.broker_log.layouts import LogLine
from coordinator_replay.store.scan import read_paths
from coordinator_replay.times import milliseconds, shown_ms
from coordinator_replay.zones import parse_zone

_REBALANCE_COLUMNS = ("group_id", "epoch", "started_at", "began_by")
_RECORDED_EVENTS = ("STABILIZED", "EPOCH_BUMPED")
"""Events with which the coordinator writes a record that has a time."""


def utc_times(
    events: Sequence[tuple[LogLine, BrokerEvent]],
    rebalances: Sequence[str],
    *,
    zone: str | None,
    earlier_ms: int | None,
) -> tuple[list[int | None], int | None] | None:
    """Return the UTC time of each line of a file, in milliseconds since 1970.

    Args:
        events: lines with their events, in the order of the file.
        rebalances: files of table ``rebalances``. Their times show the offset from UTC if ``zone`` is None.
        zone: time zone of local times; None to infer the offset from UTC.
        earlier_ms: the offset from UTC that an earlier run inferred for this file, in milliseconds; None if no run did.

    Returns:
        The UTC time of each line, and the offset from UTC of the last lines (local time minus UTC, in milliseconds). A
        time is None if clocks changed near the line. The offset is None if nothing was inferred. The whole result is
        None if the offset is needed and can't be inferred.
    """
    if all(line.has_zone for line, _ in events):
        return [line.time_ms for line, _ in events], earlier_ms
    if zone is not None:
        clock = ZoneClock(parse_zone(zone))
        placed = [line.time_ms if line.has_zone else clock.utc_ms(line.time_ms) for line, _ in events]
        return [shown_ms(at) for at in placed], None
    offsets = utc_offsets(_recorded_lines(events, rebalances))
    if offsets is None and earlier_ms is not None and not any(event.event in _RECORDED_EVENTS for _, event in events):
        # No new line is about an event that writes a record, so the offset from UTC is taken to be unchanged.
        offsets = [UtcOffset(None, None, earlier_ms)]
    if offsets is None:
        return None
    times = []
    for place, (line, _) in enumerate(events):
        offset = 0 if line.has_zone else next((offset.offset_ms for offset in offsets if offset.has(place)), None)
        times.append(None if offset is None else shown_ms(line.time_ms - offset))
    return times, offsets[-1].offset_ms


def other_offset_ms(events: Sequence[tuple[LogLine, BrokerEvent]], rebalances: Sequence[str], zone: str) -> int | None:
    """Return the true offset from UTC of a broker's log, if the user named a wrong time zone.

    The offset is in milliseconds. It follows from the times in ``rebalances``. Return None if these times show no
    offset, or if the named zone has this offset at the time of at least one line.

    Args:
        events: lines with their events, in the order of the file.
        rebalances: files of table ``rebalances``.
        zone: the time zone that the user named.
    """
    offsets = utc_offsets(_recorded_lines(events, rebalances))
    if offsets is None:
        return None
    clock = ZoneClock(parse_zone(zone))
    named = {line.time_ms - clock.utc_ms(line.time_ms) for line, _ in events if not line.has_zone}
    return None if named & {offset.offset_ms for offset in offsets} else offsets[-1].offset_ms


def _recorded_lines(events: Sequence[tuple[LogLine, BrokerEvent]], rebalances: Sequence[str]) -> list[RecordedLine]:
    lines = [
        (place, line, event)
        for place, (line, event) in enumerate(events)
        if event.event in _RECORDED_EVENTS and not line.has_zone
    ]
    recorded = _recorded_times(rebalances, {event.group_id for _, _, event in lines})
    return [
        RecordedLine(place, line.time_ms, recorded.get((event.event, event.group_id, event.epoch), ()))
        for place, line, event in lines
    ]


def _recorded_times(rebalances: Sequence[str], groups: set[str | None]) -> dict[tuple[Any, ...], list[int]]:
    """Return the times of events in ``rebalances`` that a broker's log has lines about, too.

    The keys are the event, the group, and the generation or group epoch. For classic groups, the event is STABILIZED,
    the end of the join phase. For other groups, the event is EPOCH_BUMPED, the beginning of the rebalance.

    Args:
        rebalances: files of table ``rebalances``.
        groups: the groups that the lines name.
    """
    times: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    if not groups:
        return times
    where = ds.field("group_id").isin([group for group in groups if group is not None])
    for batch in read_paths(rebalances, (*_REBALANCE_COLUMNS, "group_type"), where):
        for row in batch.to_pylist():
            if row["group_type"] != "classic":
                if row["started_at"] is not None:
                    times["EPOCH_BUMPED", row["group_id"], row["epoch"]].append(milliseconds(row["started_at"]))
            elif row["began_by"] is not None:
                times["STABILIZED", row["group_id"], row["epoch"]].append(milliseconds(row["began_by"]))
    return times
