"""A file for trace viewers, such as Perfetto, with what happened to groups: JSON in the Trace Event Format.

Each group looks like two processes in the viewer. The first has the state of the group, its rebalances, and a track
for each member. The second has a track for each partition, with the owners of the partition. In a share group, a
partition may have several owners at the same time: then it has several tracks.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import Any

from coordinator_replay.errors import writing
from coordinator_replay.query.rebalances import COLUMNS
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.columns import Clock
from coordinator_replay.report.gaps import gaps_of
from coordinator_replay.report.lanes import Lanes
from coordinator_replay.report.life import GroupLife, MemberSpan
from coordinator_replay.report.lives import Detail, Limits, lives_of, spans_of
from coordinator_replay.report.members import MemberIdentities
from coordinator_replay.report.owner_marks import partitions_of
from coordinator_replay.times import milliseconds, moment_text, moments_in_zone

LIMITS = Limits(intervals=250_000)
"""Limits of a trace: viewers become slow at a million events."""

GROUP_PROCESS = 1
PARTITIONS_PROCESS = 2
STATE_TRACK = 1
REBALANCE_TRACK = 2
_FIRST_TRACK = 10

Event = dict[str, Any]
Span = tuple[int, int, str, Event]
"""A future slice: its start and end in microseconds since 1970, its name, its arguments."""


def _span(clock: Clock, since: datetime | int | None, until: datetime | int | None) -> tuple[int, int]:
    """Return start and end of a time range, cut to the range of the trace, in microseconds since 1970."""
    begin, end = clock.left(since), clock.right(until)
    return 1000 * (clock.start_ms + begin), 1000 * (clock.start_ms + max(begin, end))


def _named(process: int, track: int | None, name: str, order: int) -> Iterator[Event]:
    """Yield the events that tell a viewer of the trace the name and the position of a process or track.

    Args:
        process: number of the process.
        track: number of the track; None for the process itself.
        name: the name.
        order: number by which the viewer sorts processes or tracks.
    """
    kind = "process" if track is None else "thread"
    place = {"ph": "M", "pid": process, "tid": track or 0}
    yield {**place, "name": f"{kind}_name", "args": {"name": name}}
    yield {**place, "name": f"{kind}_sort_index", "args": {"sort_index": order}}


def _slice(process: int, track: int, span: Span, category: str) -> Event:
    begin, end, name, arguments = span
    place = {"pid": process, "tid": track, "ts": begin, "dur": end - begin}
    return {"ph": "X", **place, "name": name, "cat": category, "args": arguments}


def _lanes(spans: Iterable[Span]) -> list[list[Span]]:
    """Divide the slices of a track into the fewest lists possible, so that no two slices of a list overlap in time."""
    lanes, rows = Lanes(), list[list[Span]]()
    for span in sorted(spans, key=lambda span: span[:2]):
        lane = lanes.place(span[0], span[1])
        if lane == len(rows):
            rows.append([])
        rows[lane].append(span)
    return rows


def _tracks(process: int, spans: dict[str, list[Span]], category: str, first: int = _FIRST_TRACK) -> Iterator[Event]:
    """Yield the events that show tracks in a trace viewer: the name of each track, and its slices.

    If slices of one track overlap, they are divided into several tracks. The name of each further track ends with a
    number.

    Args:
        process: number of the process to which the tracks belong.
        spans: for each track, by name, its slices.
        category: category of the slices.
        first: number of the first track.
    """
    track = first
    for name, own in spans.items():
        for number, lane in enumerate(_lanes(own)):
            yield from _named(process, track, name if number == 0 else f"{name} ({number + 1})", track)
            for span in lane:
                yield _slice(process, track, span, category)
                state = span[3].get("member_state")
                if state is not None and state != "STABLE":
                    yield _slice(process, track, (span[0], span[1], state, {}), "member_state")
            track += 1


def _member_track(member: MemberSpan) -> str:
    """Return the name of a member's track: client id, instance id of a static member, and member id.

    The client id of a static member is left out if it may be the client id of an earlier process.
    """
    static = f"{member.instance_id} = " if member.instance_id else ""
    if member.is_client_inherited:
        return f"{static}{member.member_id}"
    return f"{member.client_id or 'no client id'}: {static}{member.member_id}"


def _members(life: GroupLife, clock: Clock) -> dict[str, list[Span]]:
    spans: dict[str, list[Span]] = {}
    for member in life.members:
        about = {
            "client_id": member.client_id,
            "client_host": member.client_host,
            "is_client_inherited": member.is_client_inherited,
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "member_state": member.member_state,
            "member_epoch": member.member_epoch,
            "assigned": member.assigned,
            "pending_revocation": member.pending,
        }
        name = f"{member.partitions} partition{'' if member.partitions == 1 else 's'}"
        spans.setdefault(_member_track(member), []).append((*_span(clock, member.from_ms, member.to_ms), name, about))
    return spans


def _owners(life: GroupLife, clock: Clock) -> dict[str, list[Span]]:
    members = MemberIdentities(life)
    clients = {member.member_id: member.client_id for member in life.members if not member.is_client_inherited}
    spans: dict[tuple[str, int], list[Span]] = {}
    for holding in life.holdings:
        about = {
            "client_id": clients.get(holding.member_id),
            "member_id": holding.member_id,
            "instance_id": holding.instance_id,
            "released_by": holding.released_by,
            "unowned_ms": holding.unowned_ms,
        }
        span = (*_span(clock, holding.from_ms, holding.to_ms), members.label(holding.member_id), about)
        spans.setdefault((holding.topic, holding.partition), []).append(span)
    return {f"{topic}-{partition}": spans[topic, partition] for topic, partition in sorted(spans)}


def _states(life: GroupLife, clock: Clock) -> Iterator[Event]:
    for band in life.states:
        about = {
            "group_type": band.group_type,
            "epochs": [band.first_epoch, band.last_epoch],
            "members": [band.fewest_members, band.most_members],
            "is_exact": band.is_exact,
            "is_logged": band.is_logged,
        }
        span = (*_span(clock, band.since, band.until), band.state, about)
        yield _slice(GROUP_PROCESS, STATE_TRACK, span, "group_state")


def _rebalances(life: GroupLife, clock: Clock) -> dict[str, list[Span]]:
    """Return the slices that show rebalances in a trace, by name of the track.

    There are two tracks. A slice of the first track shows when a rebalance was certainly in progress. A slice of the
    second track shows when a classic rebalance may have been in its join phase.
    """
    certain: list[Span] = []
    possible: list[Span] = []
    for rebalance in life.rebalances:
        evidence = None if rebalance.evidence is None else [clock.sentence(fact) for fact in rebalance.evidence]
        about = {**{name: getattr(rebalance, name) for name in COLUMNS}, "evidence": evidence}
        cause = rebalance.cause or "UNKNOWN"
        # A rebalance that was over before the group's first timed record ends where the trace begins.
        until = life.start if rebalance.is_end_untimed else rebalance.in_progress_to
        begin, end = _span(clock, rebalance.began_by or until, until)
        certain.append((begin, end, cause, about))
        if rebalance.began_after is not None and (earliest := _span(clock, rebalance.began_after, None)[0]) < begin:
            possible.append((earliest, begin, f"{cause} may have begun", {"rebalance_id": rebalance.rebalance_id}))
    return {"rebalances": certain, "join phase: not on record": possible}


def _counter(name: str, steps: Iterable[tuple[int, int]]) -> Iterator[Event]:
    """Yield the events of a counter.

    Args:
        name: name of the counter.
        steps: pairs of a time in microseconds and the change of the counter at this time.
            Changes at the same time are added up.
    """
    changes: dict[int, int] = defaultdict(int)
    for at, step in steps:
        changes[at] += step
    count = 0
    for at, change in sorted(changes.items()):
        if change:
            count += change
            place = {"pid": GROUP_PROCESS, "tid": 0, "ts": at}
            yield {"ph": "C", **place, "name": name, "cat": "counter", "args": {name: count}}


def _member_steps(life: GroupLife, clock: Clock) -> Iterator[tuple[int, int]]:
    for member in life.members:
        begin, end = _span(clock, member.from_ms, member.to_ms)
        yield begin, 1
        if member.to_ms is not None and end < 1000 * milliseconds(life.end):
            yield end, -1


def _unowned_steps(life: GroupLife, clock: Clock) -> Iterator[tuple[int, int]]:
    for holdings in partitions_of(life).values():
        for gap in gaps_of(holdings, milliseconds(life.end)):
            begin, end = _span(clock, gap.since_ms, gap.until_ms)
            yield begin, 1
            yield end, -1


def trace_events(life: GroupLife, zone: tzinfo = UTC) -> Iterator[Event]:
    """Yield everything that happened to a group as events of a trace. The name of a track comes before its slices.

    Args:
        life: the recorded life of the group.
        zone: time zone of the times in texts.
    """
    clock = Clock(life.start, life.end, zone)
    yield from _named(GROUP_PROCESS, None, f"group {life.group}", 1)
    yield from _named(GROUP_PROCESS, STATE_TRACK, "state", STATE_TRACK)
    yield from _states(life, clock)
    yield from _counter("members", _member_steps(life, clock))
    yield from _counter("partitions without owner", _unowned_steps(life, clock))
    rebalances = list(_tracks(GROUP_PROCESS, _rebalances(life, clock), "rebalance", REBALANCE_TRACK))
    yield from rebalances
    after = 1 + max((event["tid"] for event in rebalances), default=REBALANCE_TRACK)
    yield from _tracks(GROUP_PROCESS, _members(life, clock), "member", max(after, _FIRST_TRACK))
    yield from _named(PARTITIONS_PROCESS, None, f"partitions of {life.group}", 2)
    yield from _tracks(PARTITIONS_PROCESS, _owners(life, clock), "ownership")


def write_trace(lives: Sequence[GroupLife], path: Path, basis: str | None = None, zone: tzinfo = UTC) -> int:
    """Write what happened to groups into a file for a trace viewer, such as Perfetto.

    Args:
        lives: the recorded life of each group.
        path: the file.
        basis: a sentence that says which log the trace comes from, for the file's metadata.
        zone: time zone of the times in texts. The time zone of the axis is the viewer's.

    Returns:
        The number of written events.

    Raises:
        UsageError: the file can't be written.
    """
    count = 0
    with writing(path), path.open("w", encoding="utf-8") as file:
        about = {"otherData": {"basis": moments_in_zone(basis, zone)}} if basis is not None else {}
        file.write(json.dumps({"displayTimeUnit": "ms", **about}, separators=(",", ":"))[:-1])
        file.write(',"traceEvents":[\n')
        for number, life in enumerate(lives):
            for event in trace_events(life, zone):
                event["pid"] += 2 * number
                file.write(",\n" if count else "")
                file.write(json.dumps(event, separators=(",", ":"), default=partial(moment_text, zone=zone)))
                count += 1
        file.write("\n]}\n")
    return count


def traces_of(
    warehouse: Tables, groups: Sequence[str], start: datetime | None = None, end: datetime | None = None
) -> list[GroupLife]:
    """Return the recorded life of each group that a trace shows, in the order of ``groups``.

    A group that did not exist in the time range is left out.

    Raises:
        UsageError: ``groups`` has only one group, and this group is not in the tables; or the tables have no record of
            the time range.
    """
    only = groups[0] if len(groups) == 1 else None
    wanted = frozenset(groups)
    spans = [span for span in spans_of(warehouse, only, start, end) if span.group in wanted]
    lives = {life.group: life for life in lives_of(warehouse, spans, start, end, detail=Detail.OWNERS, limits=LIMITS)}
    return [lives[group] for group in groups if group in lives]
