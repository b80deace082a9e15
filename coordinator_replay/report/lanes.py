"""A group as a row of the page of all groups: its states as a lane, its rebalances as ticks, and what to sort by."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator_replay.analysis.reasons import by_frequency
from coordinator_replay.query.findings import Finding
from coordinator_replay.query.life import GroupLife, StateBand
from coordinator_replay.report.columns import Clock
from coordinator_replay.report.life_marks import began
from coordinator_replay.report.wording import STATE_COLOURS, UNKNOWN_COLOUR, duration

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

    @property
    def pause(self) -> str:
        """The longest pause of commits around one of its rebalances."""
        return "–" if self.pause_ms is None else duration(self.pause_ms)


def lane_of(life: GroupLife, clock: Clock, findings: Sequence[Finding], page: str | None = None) -> Lane:
    """The row of a group.

    Args:
        life: its states and rebalances.
        clock: of the page's range.
        findings: about the group.
        page: the way to its own page.
    """
    scale = UNITS / max(clock.length, 1)
    times = sorted(clock.left(moment) for one in life.rebalances if (moment := began(one)) is not None)
    severities = Counter(one.severity for one in findings)
    causes = by_frequency(one.cause for one in life.rebalances)
    pauses = [one.commit_pause_ms for one in life.rebalances if one.commit_pause_ms is not None]
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
    )


def _paths(bands: Sequence[StateBand], clock: Clock, scale: float) -> list[tuple[str, str, str]]:
    """States as SVG paths, those that pass drawn over those that rest; as many marks as the lane can show."""
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
    """What the page's script counts in a chosen time range."""
    return [{"times": lane.times, "complete": len(lane.times) == lane.rebalances} for lane in lanes]
