"""The figure of the page of all groups: rebalances by cause over time."""

from collections.abc import Mapping
from datetime import timedelta
from itertools import repeat
from typing import Any

from bokeh.models import BasicTicker, Range1d
from bokeh.plotting import figure

from coordinator_replay.analysis.reasons import by_frequency
from coordinator_replay.query.fleet import ClusterGroups
from coordinator_replay.report.columns import Clock, columns
from coordinator_replay.report.figures import Axis, add_hover, source, time_figure
from coordinator_replay.report.wording import cause_colour, neutral

CAUSES = ("left", "right", "bottom", "top", "since", "cause", "count", "colour")


def fleet_figures() -> list[figure]:
    """The figures of the page of all groups, without data."""
    drawn = time_figure("causes", Axis(), height=200, y_range=Range1d(start=0, end=1))
    bars = drawn.quad(
        left="left", right="right", bottom="bottom", top="top", color="colour", source=source("causes", CAUSES)
    )
    drawn.ygrid.visible = True
    drawn.yaxis.ticker = BasicTicker(desired_num_ticks=4, mantissas=[1, 2, 5], min_interval=1)
    add_hover(drawn, [bars], [("cause", "@cause"), ("rebalances", "@count"), ("since", "@since")], ["since"])
    return [drawn]


def causes_of(fleet: ClusterGroups) -> Mapping[str, str]:
    """Causes, the most frequent first, with their colours."""
    causes = by_frequency(cause for one in fleet.causes for cause in repeat(one.cause, one.count))
    return {cause: cause_colour(cause) for cause in causes}


def cause_data(fleet: ClusterGroups, clock: Clock) -> Mapping[str, Any]:
    """Rebalances of each day, hour or minute, stacked by cause: columns of the figure, and how high it is."""
    colours = causes_of(fleet)
    order = list(colours)
    width = round(timedelta(**{f"{fleet.unit}s": 1}) / timedelta(milliseconds=1))
    reached: dict[int, int] = {}
    rows = []
    for one in sorted(fleet.causes, key=lambda one: order.index(one.cause)):
        left = clock.since_start(one.since)
        bottom = reached.get(left, 0)
        reached[left] = bottom + one.count
        rows.append(
            {
                "left": left + round(0.04 * width),
                "right": left + round(0.96 * width),
                "bottom": bottom,
                "top": bottom + one.count,
                "since": left,
                "cause": neutral(one.cause),
                "count": f"{one.count:,}",
                "colour": colours[one.cause],
            }
        )
    return {
        "sources": {"causes": columns(rows, CAUSES, ("left", "right", "since"))},
        "tops": {"causes": max(reached.values(), default=1) * 1.08},
        "rows": {},
    }
