"""The figures of the fleet's page: groups by type and state, rebalances by cause over time."""

from datetime import timedelta

from bokeh.models import BasicTicker, ColumnDataSource, Range1d
from bokeh.palettes import Category20
from bokeh.plotting import figure

from coordinator_replay.query.fleet import Fleet
from coordinator_replay.report.figures import (
    COMPACT,
    STATE_COLOURS,
    UNKNOWN_COLOUR,
    add_hover,
    columns,
    height_of,
    label_rows,
    milliseconds,
    neutral,
    time_figure,
)


def kinds_bars(fleet: Fleet) -> figure:
    """A bar for each type of group, in the colours of their states."""
    types = list(dict.fromkeys(kind for kind, _, _ in fleet.kinds))
    reached = dict.fromkeys(types, 0)
    rows = []
    for kind, state, count in fleet.kinds:
        rows.append(
            {
                "row": types.index(kind),
                "left": reached[kind],
                "right": reached[kind] + count,
                "type": kind,
                "state": neutral(state),
                "count": f"{count:,}",
                "colour": STATE_COLOURS.get(state, UNKNOWN_COLOUR),
            }
        )
        reached[kind] += count
    drawn = figure(
        name="kinds",
        height=height_of(len(types), 30, 300) + 20,
        sizing_mode="stretch_width",
        title="Groups by type and state",
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_alpha=0,
        min_border_left=180,
        min_border_right=20,
        tools=[],
        toolbar_location=None,
        x_range=Range1d(start=0, end=max(reached.values(), default=1) * 1.05),
    )
    names = ("row", "left", "right", "type", "state", "count", "colour")
    bars = drawn.hbar(
        left="left",
        right="right",
        y="row",
        height=0.7,
        color="colour",
        legend_field="state",
        source=columns(rows, names),
    )
    label_rows(drawn, types or ["none"])
    if rows:
        drawn.add_layout(drawn.legend[0], "above")
        drawn.legend[0].update(**COMPACT)
    drawn.xaxis.ticker = BasicTicker(desired_num_ticks=6, mantissas=[1, 2, 5], min_interval=1)
    drawn.xaxis.minor_tick_line_alpha = 0
    drawn.grid.grid_line_alpha = 0.25
    add_hover(drawn, [bars], [("type", "@type"), ("state", "@state"), ("groups", "@count")], [])
    return drawn


def causes_bars(fleet: Fleet, times: Range1d) -> figure:
    """Rebalances of each day, hour or minute, stacked by cause."""
    total: dict[str, int] = {}
    for one in fleet.causes:
        total[one.cause] = total.get(one.cause, 0) + one.count
    causes = sorted(total, key=lambda cause: -total[cause])
    colours = {cause: Category20[20][(2 * place + place // 10) % 20] for place, cause in enumerate(causes)}
    width = timedelta(**{f"{fleet.unit}s": 1}) / timedelta(milliseconds=1)
    reached: dict[float, int] = {}
    rows = []
    for one in sorted(fleet.causes, key=lambda one: causes.index(one.cause)):
        left = milliseconds(one.since)
        bottom = reached.get(left, 0)
        reached[left] = bottom + one.count
        rows.append(
            {
                "left": left + 0.04 * width,
                "right": left + 0.96 * width,
                "bottom": bottom,
                "top": bottom + one.count,
                "since": left,
                "cause": neutral(one.cause),
                "count": f"{one.count:,}",
                "colour": colours[one.cause],
            }
        )
    drawn = time_figure("causes", times, height=280, title=f"Rebalances by cause, for each {fleet.unit}")
    names = ("left", "right", "bottom", "top", "since", "cause", "count", "colour")
    data: ColumnDataSource = columns(rows, names)
    bars = drawn.quad(
        left="left", right="right", bottom="bottom", top="top", color="colour", legend_field="cause", source=data
    )
    drawn.ygrid.visible = True
    drawn.yaxis.ticker = BasicTicker(desired_num_ticks=5, mantissas=[1, 2, 5], min_interval=1)
    drawn.y_range = Range1d(start=0, end=max(reached.values(), default=1) * 1.08)
    if rows:
        drawn.add_layout(drawn.legend[0], "right")
        drawn.legend[0].update(margin=0, padding=0, spacing=0, label_text_font_size="11px", glyph_height=14)
    add_hover(drawn, [bars], [("cause", "@cause"), ("rebalances", "@count"), ("since", "@since")], ["since"])
    return drawn
