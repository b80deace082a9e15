"""The page of all groups of a cluster: a row for each group, and above the rows a figure of rebalances by cause.

The row of a group shows its states and rollouts over time, and has a vertical line for each rebalance.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice, repeat
from typing import Any

from bokeh.models import BasicTicker, Range1d
from bokeh.plotting import figure

from coordinator_replay.analysis.reasons.vocabulary import by_frequency
from coordinator_replay.listing import counted
from coordinator_replay.query.basis import basis_from, basis_of_group
from coordinator_replay.query.findings import Finding
from coordinator_replay.query.fleet import MOST_ROWS, ClusterGroups, fleet_of, groups_with_news
from coordinator_replay.query.rollouts import Rollout
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.columns import Clock, columns
from coordinator_replay.report.drawing import Drawing, Key, Mark, Panel, Strip
from coordinator_replay.report.figures import Axis, add_hover, source, time_figure
from coordinator_replay.report.life import GroupLife, StateBand
from coordinator_replay.report.life_marks import began
from coordinator_replay.report.lives import Detail, Span, lives_of, spans_of
from coordinator_replay.report.page import render_page
from coordinator_replay.report.unknown_past import unknown_past
from coordinator_replay.report.wording import (
    OTHERS_COLOUR,
    ROLLOUT,
    ROLLOUT_COLOUR,
    STATE_COLOURS,
    UNKNOWN_COLOUR,
    cause_colour,
    neutral,
)
from coordinator_replay.times import duration

MOST_CAUSES = 6
"""Largest number of causes with their own colours in a stacked bar; more colours can't be told apart."""

CAUSES = ("left", "right", "bottom", "top", "since", "cause", "count", "colour")


def fleet_figures() -> list[figure]:
    """Return the figures of the page of all groups, without data."""
    drawn = time_figure("causes", Axis(), height=200, y_range=Range1d(start=0, end=1))
    bars = drawn.quad(
        left="left", right="right", bottom="bottom", top="top", color="colour", source=source("causes", CAUSES)
    )
    drawn.ygrid.visible = True
    drawn.yaxis.ticker = BasicTicker(desired_num_ticks=4, mantissas=[1, 2, 5], min_interval=1)
    add_hover(drawn, [bars], [("cause", "@cause"), ("rebalances", "@count"), ("since", "@since")], ["since"])
    return [drawn]


def causes_of(fleet: ClusterGroups) -> Mapping[str, int]:
    """Return the number of rebalances by cause, the most frequent cause first."""
    return by_frequency(cause for count in fleet.causes for cause in repeat(count.cause, count.count))


def _own_causes(fleet: ClusterGroups) -> list[str]:
    """Return the most frequent causes of rebalances. Each of these causes gets its own colour in the figure."""
    causes = causes_of(fleet)
    return list(islice(causes, None if len(causes) <= MOST_CAUSES + 1 else MOST_CAUSES))


def cause_keys(fleet: ClusterGroups) -> list[Key]:
    """Return the legend of the figure of causes. All causes without their own colour share one entry."""
    causes, own = causes_of(fleet), _own_causes(fleet)
    keys = [(f"{cause}  {causes[cause]:,}", cause_colour(cause)) for cause in own]
    others = sum(causes.values()) - sum(causes[cause] for cause in own)
    return [*keys, *([(f"{len(causes) - len(own)} other causes  {others:,}", OTHERS_COLOUR)] if others else [])]


def cause_data(fleet: ClusterGroups, clock: Clock) -> Mapping[str, Any]:
    """Return the data of the figure of causes: for each interval, a bar with the number of rebalances by cause."""
    own = _own_causes(fleet)
    stacks: dict[datetime, dict[str, int]] = defaultdict(dict)
    for count in fleet.causes:
        stacks[count.since][count.cause] = count.count
    width = fleet.width // timedelta(milliseconds=1)
    rows = []
    for since, causes in stacks.items():
        left, reached = clock.since_start(since), 0
        for name, shown, colour in _stack(causes, own):
            rows.append(
                {
                    "left": left + round(0.04 * width),
                    "right": left + round(0.96 * width),
                    "bottom": reached,
                    "top": reached + shown,
                    "since": left,
                    "cause": neutral(name),
                    "count": f"{shown:,}",
                    "colour": colour,
                }
            )
            reached += shown
    return {
        "sources": {"causes": columns(rows, CAUSES, ("left", "right", "since"))},
        "tops": {"causes": max((sum(causes.values()) for causes in stacks.values()), default=1) * 1.08},
        "rows": {},
    }


def _stack(causes: Mapping[str, int], own: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """Yield name, count and colour of each part of a stacked bar, from the bottom to the top.

    Args:
        causes: number of rebalances by cause.
        own: the causes that get a part of their own. All other causes share one part.
    """
    for cause in own:
        if cause in causes:
            yield cause, causes[cause], cause_colour(cause)
    others = {cause: count for cause, count in causes.items() if cause not in own}
    if others:
        names = ", ".join(f"{cause} {count:,}" for cause, count in others.items())
        yield f"others: {names}", sum(others.values()), OTHERS_COLOUR


UNITS = 10_000
"""Units of the axis on which lanes are drawn."""

_NARROWEST = 8
"""Smallest width of a transient state; a shorter state is drawn this wide, so that it can be seen."""

MOST_TIMES = 1000
"""Largest number of times of rebalances that the page's script gets for a group. If a group has more rebalances, the
script gets the times of only some of them."""

MOST_QUIET = 500
"""Largest number of groups that have a row although no rebalance or finding of theirs is in the time range."""

_RESTING = ("Stable", "Empty", "Dead")


@dataclass(frozen=True, slots=True)
class Lane:
    """A group's row on the page of all groups.

    Attributes:
        page: link to the group's own page, if it has a page.
        members: the largest number of members that the group had while in its last state; None if not on record.
        pause_ms: longest commit pause around a rebalance; None if no pause is on record.
        paths: colour, name and SVG path of the shapes for each state of the group, and of the shape for its rollouts.
        usual_cause: the most frequent cause of the group's rebalances. If several causes are equally frequent, all of
            them.
        ticks: an SVG path with a line for each rebalance.
        times: times at which rebalances began, in milliseconds since the start of the page's time range. If there are
            more than ``MOST_TIMES``, only some of them.
        findings: number of findings, by severity.
        rank: a number that sorts groups with more severe findings first.
        is_at_least: whether there may have been more rebalances than ``rebalances``, because records are missing.
        is_pause_at_least: whether the longest pause may have been longer than ``pause_ms``, because records are
            missing.
    """

    group: str
    page: str | None
    group_type: str
    state: str
    members: int | None
    rebalances: int
    usual_cause: str
    pause_ms: int | None
    paths: Sequence[tuple[str, str, str]]
    ticks: str
    times: Sequence[int]
    findings: Mapping[str, int]
    rank: int
    is_at_least: bool
    is_pause_at_least: bool = False

    @property
    def pause(self) -> str:
        """Return a text with the longest commit pause around one of the group's rebalances."""
        least = "at least " * self.is_pause_at_least
        return "–" if self.pause_ms is None else f"{least}{duration(self.pause_ms)}"


def lane_of(
    life: GroupLife, clock: Clock, findings: Sequence[Finding], page: str | None = None, *, is_complete: bool = True
) -> Lane:
    """Return the row of a group on the page of all groups.

    Args:
        life: the group's states and rebalances.
        clock: time range and time zone of the page.
        findings: findings about the group.
        page: link to the group's own page; None if the group has no page.
        is_complete: whether no record of the time range is missing. If records are missing, the row shows the number of
            rebalances as a lower bound.
    """
    scale = UNITS / max(clock.length, 1)
    times = sorted(clock.left(moment) for rebalance in life.rebalances if (moment := began(rebalance)) is not None)
    severities = Counter(finding.severity for finding in findings)
    causes = by_frequency(rebalance.cause for rebalance in life.rebalances)
    pauses = [rebalance.commit_pause_ms for rebalance in life.rebalances if rebalance.commit_pause_ms is not None]
    return Lane(
        group=life.group,
        page=page,
        group_type=life.outcome.group_type,
        state=life.outcome.state,
        members=life.states[-1].most_members if life.states else None,
        rebalances=len(life.rebalances),
        usual_cause=_usual_cause(causes),
        pause_ms=max(pauses, default=None),
        paths=[*_paths(life.states, clock, scale), *_rollout_path(life.rollouts, clock, scale)],
        ticks="".join(f"M{place} 0v1" for place in dict.fromkeys(round(time * scale) for time in times)),
        times=times if len(times) <= MOST_TIMES else times[:: len(times) // MOST_TIMES + 1],
        findings=severities,
        rank=1_000_000 * severities["error"] + 1000 * severities["warning"] + severities["info"],
        is_at_least=not is_complete or any(rebalance.lacks_records for rebalance in life.rebalances),
        is_pause_at_least=not is_complete or any(rebalance.is_pause_at_least for rebalance in life.rebalances),
    )


def _usual_cause(causes: Mapping[str, int]) -> str:
    """Return the most frequent cause. If several causes are the most frequent, return all of them in one text.

    Return a dash if there is no cause.

    Args:
        causes: number of rebalances by cause.
    """
    most = max(causes.values(), default=0)
    return " or ".join(cause for cause, count in causes.items() if count == most) or "–"


def _paths(bands: Sequence[StateBand], clock: Clock, scale: float) -> list[tuple[str, str, str]]:
    """Return colour, name and SVG path of each state that occurs.

    States that a group passes through, such as PreparingRebalance, are drawn over Stable, Empty and Dead.

    Args:
        bands: the time ranges in which the group stayed in one state.
        clock: clock of the page's range.
        scale: length of a millisecond in the path.
    """
    drawn: dict[str, list[str]] = {}
    reached: dict[str, int] = {}
    for band in bands:
        left, right = round(clock.left(band.since) * scale), round(clock.right(band.until) * scale)
        if band.state not in _RESTING:
            right = max(right, left + _NARROWEST)
        if right <= reached.get(band.state, -1):
            continue
        left = max(left, reached.get(band.state, left))
        if right > left:
            drawn.setdefault(band.state, []).append(f"M{left} 0H{right}V1H{left}z")
            reached[band.state] = right
    order = sorted(drawn, key=lambda state: state not in _RESTING)
    return [(STATE_COLOURS.get(state, UNKNOWN_COLOUR), state, "".join(drawn[state])) for state in order]


def _rollout_path(rollouts: Sequence[Rollout], clock: Clock, scale: float) -> list[tuple[str, str, str]]:
    """Return the colour, the name and the SVG path of a shape that shows the rollouts of a group.

    The list has one item for all rollouts together. It is empty if the group had no rollouts.
    """
    path = ""
    for rollout in rollouts:
        if rollout.first_at is not None:
            left = round(clock.left(rollout.first_at) * scale)
            right = round(clock.right(rollout.last_at or rollout.first_at) * scale)
            path += f"M{left} .75H{max(right, left + _NARROWEST)}V1H{left}z"
    return [(ROLLOUT_COLOUR, ROLLOUT, path)] if path else []


def lane_data(lanes: Sequence[Lane]) -> list[Mapping[str, Any]]:
    """Return, for each row, times at which rebalances began, and whether these are all rebalances of the group.

    The page's script counts these times when the reader chooses a time range.
    """
    return [{"times": lane.times, "complete": len(lane.times) == lane.rebalances} for lane in lanes]


Tile = tuple[str, str, str]


class FleetPage:
    """Builder of the page of all groups of a cluster. Each group that the caller adds becomes a row of the page.

    Args:
        warehouse: the tables to read.
        start: start of the time range, included; None to begin at the first record that was read.
        end: end of the time range, excluded; None to end after the last record that was read.
        marks: times to mark.

    Raises:
        UsageError: the tables have no record of the cluster, or of the time range.

    Attributes:
        lanes: the rows of the page.
        left_out: number of groups that have no row, because the page would be too long.
        notes: sentences that say what is not on this page or on the pages of single groups.
    """

    def __init__(
        self,
        warehouse: Tables,
        start: datetime | None = None,
        end: datetime | None = None,
        marks: Sequence[Mark] = (),
    ) -> None:
        self._warehouse = warehouse
        self._marks = marks
        self._start, self._end = start, end
        self.fleet = fleet_of(warehouse, start, end)
        self._clock = Clock(self.fleet.start, self.fleet.end, warehouse.zone)
        self.lanes: list[Lane] = []
        self.left_out = 0
        self.notes: list[str] = []
        self._findings: dict[str | None, list[Finding]] = defaultdict(list)
        for finding in self.fleet.findings:
            self._findings[finding.group_id].append(finding)

    def add(self, life: GroupLife, page: str | None = None) -> None:
        """Add the row of a group.

        Args:
            life: the group's states and rebalances.
            page: link to the group's own page, if it has a page.
        """
        is_complete = basis_of_group(self._warehouse, self._start, life.group, life.log_partition).is_complete
        findings = self._findings.get(life.group, ())
        partition, start = life.log_partition, self.fleet.start
        past = unknown_past(self._warehouse, partition, life.first, life.states, start, min(life.start, self.fleet.end))
        shown = replace(life, states=(*past, *life.states))
        self.lanes.append(lane_of(shown, self._clock, findings, page, is_complete=is_complete))

    def spans(self) -> tuple[list[Span], list[Span]]:
        """Return two lists: groups that have a rebalance or a finding in the time range, and all other groups.

        Each item has the name of a group, and the time range that pictures of the group show.
        """
        spans = spans_of(self._warehouse, None, self._start, self._end)
        news = groups_with_news(self._warehouse, self._start, self._end)
        return [span for span in spans if span.group in news], [span for span in spans if span.group not in news]

    def add_quiet(self, spans: Sequence[Span]) -> None:
        """Add rows for groups that have no rebalance and no finding in the page's time range.

        Args:
            spans: the groups. Only the first ``MOST_QUIET`` of them get a row.
        """
        shown = spans[:MOST_QUIET]
        for life in lives_of(self._warehouse, shown, self._start, self._end, detail=Detail.STATES):
            self.add(life)
        self.left_out = len(spans) - len(shown)
        if self.left_out:
            self.notes.append(
                f"The overview leaves out {counted(self.left_out, 'group')} of {self.group_count:,}: no "
                "rebalance and no finding of theirs is on record in this time."
            )

    @property
    def group_count(self) -> int:
        """Return the number of all groups, including groups that have no row on the page."""
        return len(self.lanes) + self.left_out

    @property
    def rebalances(self) -> int:
        """Return the number of rebalances of all groups."""
        return sum(lane.rebalances for lane in self.lanes)

    def _rows(self) -> list[Lane]:
        """Return the groups of the page's table, one for each row.

        Groups with more severe findings come first. Among groups with equally severe findings, groups with more
        rebalances come first.
        """
        return sorted(self.lanes, key=lambda lane: (-lane.rank, -lane.rebalances, lane.group))

    def drawing(self) -> Drawing:
        """Return a figure with the number of rebalances by cause, and below it a row for each group.

        The result is the source of the HTML page, and also of the SVG picture.
        """
        warehouse, fleet, clock, lanes = self._warehouse, self.fleet, self._clock, self._rows()
        basis = str(basis_from(warehouse, self._start))
        colours = {name: colour for lane in lanes for colour, name, _ in lane.paths}
        return Drawing(
            title=f"Consumer groups of cluster {warehouse.cluster}",
            lines=[
                f"{clock.text(fleet.start)} to {clock.text(self._last)} ({clock.zone}). "
                + clock.sentence(f"{basis[0].upper()}{basis[1:]}.")
            ],
            make=fleet_figures,
            panels=[
                Panel("causes", f"Rebalances by cause, for each {_width_text(fleet.width)}", cause_keys(fleet)),
            ],
            data={"lanes": lane_data(lanes), **cause_data(fleet, clock)},
            clock=clock,
            marks=self._marks,
            strips=[Strip(lane.group, lane.paths, lane.ticks) for lane in lanes],
            strip_panel=Panel(
                "groups",
                "State of each group",
                list(colours.items()),
                "a line: a rebalance",
            ),
        )

    @property
    def _last(self) -> datetime:
        return min(self.fleet.end, self.fleet.coverage.last)

    def html(self, assets: str | None = None) -> str:
        """Return the page as HTML.

        Args:
            assets: link to the folder of shared files; None if the page has everything in itself.
        """
        lanes, drawing = self._rows(), self.drawing()
        return render_page(
            "fleet.html.j2",
            drawing,
            assets,
            fleet=self.fleet,
            lanes=lanes,
            pages={lane.group: lane.page for lane in lanes},
            last=self._last,
            cluster=self._warehouse.cluster,
            basis=str(basis_from(self._warehouse, self._start)),
            history=self._warehouse.completeness.history_line(),
            tiles=self._tiles(),
            strip_panel=drawing.strip_panel,
            most=MOST_ROWS,
            group_count=self.group_count,
        )

    def _tiles(self) -> list[Tile]:
        fleet = self.fleet
        types: dict[str, Counter[str]] = defaultdict(Counter)
        for kind, state, count in fleet.kinds:
            types[kind][state] += count
        losing = Counter[str]()
        for offset in fleet.expiring:
            losing[offset.status] += offset.partitions
        quarantined = sum(kind.count for kind in fleet.undecoded)
        with_rebalances = sum(lane.rebalances > 0 for lane in self.lanes)
        return [
            *(
                (
                    f"{states.total():,}",
                    f"{kind} groups",
                    ", ".join(f"{count:,} {state}" for state, count in states.items()),
                )
                for kind, states in types.items()
            ),
            (f"{self.rebalances:,}", "rebalances on record", f"of {with_rebalances:,} groups"),
            (
                f"{losing['DUE'] + losing['EXPIRING']:,}",
                "offsets due or expiring",
                f"{losing['EXPIRED']:,} expired, on record",
            ),
            (f"{quarantined:,}", "records not decoded", f"{len(fleet.gaps):,} gaps in the log, over all audits"),
        ]


def _width_text(width: timedelta) -> str:
    """Return a length of time in one unit, as ``5 min``."""
    seconds = width // timedelta(seconds=1)
    units = (("day", 86_400), ("hour", 3600), ("min", 60), ("s", 1))
    name, size = next((name, size) for name, size in units if seconds % size == 0)
    return name if seconds == size and name in ("day", "hour") else f"{seconds // size:,} {name}"


def fleet_page(
    warehouse: Tables, start: datetime | None = None, end: datetime | None = None, marks: Sequence[Mark] = ()
) -> tuple[str, FleetPage]:
    """Make the page of all groups of a cluster, as one HTML file that needs no other files.

    Args:
        warehouse: the tables to read.
        start: start of the time range, included; None to begin at the first record that was read.
        end: end of the time range, excluded; None to end after the last record that was read.
        marks: times to mark.

    Raises:
        UsageError: the tables have no record of the cluster, or of the time range.

    Returns:
        The HTML, and the object from which it was made.
    """
    page = FleetPage(warehouse, start, end, marks)
    with_news, quiet = page.spans()
    for life in lives_of(warehouse, with_news, start, end, detail=Detail.STATES):
        page.add(life)
    page.add_quiet(quiet)
    return page.html(), page
