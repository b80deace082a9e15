"""Bokeh figures with a time axis, without data.

All figures of a page share a time axis, a crosshair, and a tool with which the reader chooses a time range (``Axis``).
When the page is opened, its script fills the figures with data, and colours them for the light or dark theme.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bokeh.models import (
    BoxSelectTool,
    ColumnDataSource,
    CrosshairTool,
    DatetimeTickFormatter,
    FixedTicker,
    HoverTool,
    NoOverlap,
    Range1d,
    WheelPanTool,
    WheelZoomTool,
)
from bokeh.models.annotations import BoxAnnotation, Span
from bokeh.plotting import figure

from coordinator_replay.report.drawing import MARKS
from coordinator_replay.report.wording import GAP_COLOUR, MARK_COLOUR

# All marks of a kind share a pattern: with a pattern for each mark, a browser would draw for half a minute.
HATCHED: Mapping[str, Any] = {
    "fill_alpha": 0,
    "line_alpha": 0,
    "hatch_pattern": "/",
    "hatch_alpha": 0.5,
    "hatch_scale": 8,
}

_HOVER = (
    '<div style="max-width: min(38rem, 84vw); padding: 4px; white-space: pre-wrap; overflow-wrap: anywhere; '
    'display: grid; grid-template-columns: max-content 1fr; gap: 1px 10px">{lines}</div>'
)
_HOVER_LINE = '<span style="opacity: 0.65; text-align: right">{label}</span><span>{value}</span>'
_TIME = "%F %T.%3N"


def source(name: str, names: Sequence[str]) -> ColumnDataSource:
    """Return an empty data source for marks of a figure. The page's script fills the data source with columns.

    Args:
        name: name of the data source.
        names: names of the columns.
    """
    return ColumnDataSource(name=f"{name}-data", data={column: [] for column in names})


@dataclass(slots=True)
class Axis:
    """Time axis that all figures of a page share.

    Attributes:
        times: the time range that the figures show.
        pointer: the vertical line of the crosshair.
        brush: the box over the time range that the reader has chosen with the mouse.
        marks: data source of the times that the user asked to mark.
    """

    times: Range1d = field(default_factory=lambda: Range1d(name="times", start=0, end=1))
    pointer: Span = field(
        default_factory=lambda: Span(name="pointer", dimension="height", line_width=1, line_alpha=0.7, visible=False)
    )
    brush: BoxAnnotation = field(
        default_factory=lambda: BoxAnnotation(
            name="brush", left=0, right=0, fill_alpha=0.15, line_alpha=0.6, visible=False, level="overlay"
        )
    )
    marks: ColumnDataSource = field(default_factory=lambda: source("marks", MARKS))


def time_figure(name: str, axis: Axis, *, height: int, **options: Any) -> figure:
    """Return an empty figure over time.

    Args:
        name: name of the figure.
        axis: the time axis that all figures of the page share.
        height: height in pixels; the width is the page's.
        options: further options of Bokeh's ``figure``.
    """
    drawn = figure(
        name=name,
        x_range=axis.times,
        x_axis_type="datetime",
        height=height,
        sizing_mode="stretch_width",
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_alpha=0,
        min_border_left=180,
        min_border_right=20,
        min_border_top=4,
        tools=[],
        toolbar_location=None,
        **options,
    )
    # Dragging chooses a time range. Unless a key is pressed the wheel scrolls the page, as everywhere.
    drag = BoxSelectTool(dimensions="width", renderers=[], persistent=False)
    drawn.add_tools(
        drag,
        WheelZoomTool(dimensions="width", modifiers="ctrl"),
        WheelPanTool(dimension="width", modifiers="shift"),
        CrosshairTool(dimensions="height", overlay=axis.pointer),
    )
    drawn.toolbar.active_drag = drag
    drawn.add_layout(axis.brush)
    drawn.xaxis.formatter = DatetimeTickFormatter(
        milliseconds="%T.%3N", seconds="%T", minsec="%T", minutes="%H:%M", hourmin="%H:%M", hours="%m-%d %H:%M"
    )
    # A figure beside a legend may be narrow, so times without room are left out.
    drawn.xaxis.major_label_policy = NoOverlap(min_distance=8)
    lines = drawn.vspan(
        x="at", line_color=MARK_COLOUR, line_dash="dashed", line_width=1.5, level="annotation", source=axis.marks
    )
    add_hover(drawn, [lines], [("mark", "@text"), ("at", "@at")], ["at"])
    drawn.grid.grid_line_alpha = 0.25
    drawn.ygrid.visible = False
    return drawn


def rows_figure(name: str, axis: Axis, **options: Any) -> figure:
    """Return an empty figure with a time axis. The page's script adds named rows, such as a row for each member."""
    drawn = time_figure(name, axis, height=100, y_range=Range1d(start=0.6, end=-0.6), **options)
    drawn.yaxis.ticker = FixedTicker(ticks=[])
    # Names without room are hidden until there is room.
    drawn.yaxis.major_label_policy = NoOverlap(min_distance=1)
    drawn.yaxis.major_tick_line_alpha = 0
    return drawn


def bars(drawn: figure, name: str, names: Sequence[str], *, height: float | str = 0.8, **look: Any) -> Any:
    """Add horizontal bars to a figure, and return their renderer.

    The columns ``left``, ``right`` and ``row`` of the data source have the two ends of each bar and its row.

    Args:
        drawn: the figure.
        name: name of the data source of the bars.
        names: columns of this data source.
        height: height of a bar, or the column with the heights. The height of a row is 1.
        look: further arguments for Bokeh's ``hbar``, such as colours.
    """
    return drawn.hbar(left="left", right="right", y="row", height=height, source=source(name, names), **look)


def unowned_bars(drawn: figure, name: str, names: Sequence[str], *, fill_alpha: float, hatch_alpha: float) -> Any:
    """Add red hatched bars to a figure, and return their renderer. A bar shows when a partition had no owner.

    Args:
        drawn: a figure with a row for each partition.
        name: name of the data source of the bars.
        names: columns of this data source.
        fill_alpha: opacity of a bar.
        hatch_alpha: opacity of a bar's hatching.
    """
    return bars(
        drawn,
        name,
        names,
        line_color=GAP_COLOUR,
        fill_color=GAP_COLOUR,
        fill_alpha=fill_alpha,
        hatch_pattern="/",
        hatch_color=GAP_COLOUR,
        hatch_alpha=hatch_alpha,
        hatch_scale=6,
    )


def add_hover(drawn: figure, renderers: Sequence[Any], rows: Sequence[tuple[str, str]], times: Sequence[str]) -> None:
    """Show a tooltip for marks.

    The value of ``@column`` is shown as text, never as markup.

    Args:
        drawn: the figure.
        renderers: the marks.
        rows: label and value of each line of the tooltip. A value such as ``@group`` stands for the value of a column.
        times: names of the columns that hold times.
    """
    lines = [
        _HOVER_LINE.format(label=label, value=f"{value}{{{_TIME}}}" if value.lstrip("@") in times else value)
        for label, value in rows
    ]
    formatters: Any = {f"@{column}": "datetime" for column in times}
    drawn.add_tools(
        HoverTool(
            renderers=list(renderers), tooltips=_HOVER.format(lines="".join(lines)), formatters=formatters, limit=3
        )
    )
