"""The page of a cluster: its groups at a glance, each a row with a lane on one axis of time.

A lane has a group's states, and ticks for its rebalances; above them are rebalances by cause over time.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import repeat
from typing import Any

from bokeh.models import BasicTicker, Range1d
from bokeh.plotting import figure

from coordinator_replay.analysis.reasons.vocabulary import by_frequency
from coordinator_replay.query.basis import basis_from, basis_of_group
from coordinator_replay.query.findings import Finding
from coordinator_replay.query.fleet import MOST_ROWS, ClusterGroups, fleet_of
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.columns import Clock, columns
from coordinator_replay.report.figures import Axis, add_hover, source, time_figure
from coordinator_replay.report.life import GroupLife, StateBand
from coordinator_replay.report.life_marks import began
from coordinator_replay.report.lives import Detail, lives_of, spans_of
from coordinator_replay.report.page import render_page
from coordinator_replay.report.unknown_past import unknown_past
from coordinator_replay.report.wording import STATE_COLOURS, UNKNOWN_COLOUR, cause_colour, duration, neutral
from coordinator_replay.times import milliseconds

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


def causes_of(fleet: ClusterGroups) -> Mapping[str, str]:
    """Return causes, the most frequent first, with their colours."""
    causes = by_frequency(cause for count in fleet.causes for cause in repeat(count.cause, count.count))
    return {cause: cause_colour(cause) for cause in causes}


def cause_data(fleet: ClusterGroups, clock: Clock) -> Mapping[str, Any]:
    """Return rebalances of each day, hour or minute, stacked by cause: columns of the figure, and how high it is."""
    colours = causes_of(fleet)
    order = list(colours)
    width = round(timedelta(**{f"{fleet.unit}s": 1}) / timedelta(milliseconds=1))
    reached: dict[int, int] = {}
    rows = []
    for cause in sorted(fleet.causes, key=lambda cause: order.index(cause.cause)):
        left = clock.since_start(cause.since)
        bottom = reached.get(left, 0)
        reached[left] = bottom + cause.count
        rows.append(
            {
                "left": left + round(0.04 * width),
                "right": left + round(0.96 * width),
                "bottom": bottom,
                "top": bottom + cause.count,
                "since": left,
                "cause": neutral(cause.cause),
                "count": f"{cause.count:,}",
                "colour": colours[cause.cause],
            }
        )
    return {
        "sources": {"causes": columns(rows, CAUSES, ("left", "right", "since"))},
        "tops": {"causes": max(reached.values(), default=1) * 1.08},
        "rows": {},
    }


UNITS = 10_000
"""Of the axis, as lanes are drawn."""

_NARROWEST = 8
"""Units of a passing state: what lasts shorter is drawn as wide as that, so that it can be seen."""

MOST_TIMES = 1000
"""Rebalances of a group that the page can find in a time range; of more it has a part."""

_RESTING = ("Stable", "Empty", "Dead")


@dataclass(frozen=True, slots=True)
class Lane:
    """A row.

    Attributes:
        page: the way to the group's own page, where there is one.
        paths: colour, state and SVG path of each state that occurs.
        ticks: rebalances as an SVG path.
        times: when rebalances began, in milliseconds since the start; thinned out beyond ``MOST_TIMES``.
        findings: how many, by severity.
        rank: for sorting by the most severe findings.
        is_at_least: whether there may have been more rebalances, by records that are missing.
        is_pause_at_least: whether commits may have paused for longer, likewise.
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
        """Return the longest pause of commits around one of its rebalances."""
        least = "at least " * self.is_pause_at_least
        return "–" if self.pause_ms is None else f"{least}{duration(self.pause_ms)}"


def lane_of(
    life: GroupLife, clock: Clock, findings: Sequence[Finding], page: str | None = None, *, is_complete: bool = True
) -> Lane:
    """Return the row of a group.

    Args:
        life: its states and rebalances.
        clock: of the page's range.
        findings: about the group.
        page: the way to its own page.
        is_complete: no record of the range is missing; otherwise there may have been other rebalances.
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
        usual_cause=next(iter(causes), "–"),
        pause_ms=max(pauses, default=None),
        paths=_paths(life.states, clock, scale),
        ticks="".join(f"M{place} 0v1" for place in dict.fromkeys(round(time * scale) for time in times)),
        times=times if len(times) <= MOST_TIMES else times[:: len(times) // MOST_TIMES + 1],
        findings=severities,
        rank=1_000_000 * severities["error"] + 1000 * severities["warning"] + severities["info"],
        is_at_least=not is_complete or any(rebalance.lacks_records for rebalance in life.rebalances),
        is_pause_at_least=not is_complete or any(rebalance.is_pause_at_least for rebalance in life.rebalances),
    )


def _paths(bands: Sequence[StateBand], clock: Clock, scale: float) -> list[tuple[str, str, str]]:
    """Return states as SVG paths, as many as the lane can show; transient states are drawn over resting ones."""
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


def lane_data(lanes: Sequence[Lane]) -> list[Mapping[str, Any]]:
    """Return the data that the page's script counts in a chosen time range."""
    return [{"times": lane.times, "complete": len(lane.times) == lane.rebalances} for lane in lanes]


Tile = tuple[str, str, str]


class FleetPage:
    """Builder of the page: it sees the lives of groups one by one and keeps one row of each.

    Args:
        warehouse: the tables.
        start: from then on; the first record read if None.
        end: before then; after the last record of the log read if None.

    Raises:
        UsageError: the tables don't know the cluster, or have no record of that range.

    Attributes:
        lanes: the rows.
        notes: sentences about the pages.
    """

    def __init__(self, warehouse: Tables, start: datetime | None = None, end: datetime | None = None) -> None:
        self._warehouse = warehouse
        self._start = start
        self.fleet = fleet_of(warehouse, start, end)
        self._clock = Clock(self.fleet.start, self.fleet.end)
        self.lanes: list[Lane] = []
        self.notes: list[str] = []
        self._findings: dict[str | None, list[Finding]] = defaultdict(list)
        for finding in self.fleet.findings:
            self._findings[finding.group_id].append(finding)

    def add(self, life: GroupLife, page: str | None = None) -> None:
        """Take up a group: its states and rebalances.

        Args:
            life: the group's.
            page: the way to the group's own page, where there is one.
        """
        is_complete = basis_of_group(self._warehouse, self._start, life.group, life.log_partition).is_complete
        findings = self._findings.get(life.group, ())
        partition, start = life.log_partition, self.fleet.start
        past = unknown_past(self._warehouse, partition, life.first, life.states, start, min(life.start, self.fleet.end))
        shown = replace(life, states=(*past, *life.states))
        self.lanes.append(lane_of(shown, self._clock, findings, page, is_complete=is_complete))

    @property
    def rebalances(self) -> int:
        """Return how many there were, of all groups."""
        return sum(lane.rebalances for lane in self.lanes)

    def html(self, assets: str | None = None) -> str:
        """Return the page."""
        fleet = self.fleet
        # Groups that deserve a look come first, then those with most rebalances.
        lanes = sorted(self.lanes, key=lambda lane: (-lane.rank, -lane.rebalances, lane.group))
        data = {
            "start": milliseconds(fleet.start),
            "end": milliseconds(fleet.end),
            "lanes": lane_data(lanes),
            **cause_data(fleet, self._clock),
        }
        states = dict.fromkeys(state for lane in lanes for _, state, _ in lane.paths)
        return render_page(
            "fleet.html.j2",
            fleet_figures,
            data,
            assets,
            fleet=fleet,
            lanes=lanes,
            pages={lane.group: lane.page for lane in lanes},
            last=min(fleet.end, fleet.coverage.last),
            cluster=self._warehouse.cluster,
            basis=str(basis_from(self._warehouse, self._start)),
            history=self._warehouse.completeness.history_line(),
            tiles=self._tiles(),
            causes=list(causes_of(fleet).items()),
            states=[(state, STATE_COLOURS.get(state, UNKNOWN_COLOUR)) for state in states],
            most=MOST_ROWS,
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


def fleet_page(warehouse: Tables, start: datetime | None = None, end: datetime | None = None) -> tuple[str, FleetPage]:
    """Return the page of the cluster as HTML, complete in itself, and its builder.

    Args:
        warehouse: the tables.
        start: from then on; the first record read if None.
        end: before then; after the last record of the log read if None.

    Raises:
        UsageError: the tables don't know the cluster, or have no record of that range.
    """
    page = FleetPage(warehouse, start, end)
    for life in lives_of(warehouse, spans_of(warehouse, None, start, end), start, end, detail=Detail.STATES):
        page.add(life)
    return page.html(), page
