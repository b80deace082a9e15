"""What all figures share: a common axis of time, tools, text that is safe to draw, and colours for both themes.

Bokeh draws. Text that stands on the page outside a figure is coloured by the style sheet; what is drawn on a canvas is
painted by ``page.js``, which knows the models by their kind, so figures leave such colours alone.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from bokeh.models import (
    BoxZoomTool,
    ColumnDataSource,
    DatetimeTickFormatter,
    FixedTicker,
    HoverTool,
    NoOverlap,
    PanTool,
    Range1d,
    ResetTool,
    SaveTool,
    WheelZoomTool,
)
from bokeh.palettes import Category20
from bokeh.plotting import figure

from coordinator_replay.safe_text import UNSAFE

MOST_TEXT = 300
"""Characters of a text that hovering shows; tables on the page have all of it."""

STATE_COLOURS: Mapping[str, str] = {
    "Stable": "#2e9e5b",
    "Empty": "#9aa3ad",
    "Dead": "#4b5158",
    "PreparingRebalance": "#e07b1a",
    "CompletingRebalance": "#e8a33d",
    "Assigning": "#e07b1a",
    "Reconciling": "#d9b310",
    "NotReady": "#8e6bbf",
}
UNKNOWN_COLOUR = "#b07aa1"

# Without the two reds, which stand for a partition that nobody owns.
MEMBER_COLOURS = [colour for colour in Category20[20] if colour not in ("#d62728", "#ff9896")]
GAP_COLOUR = "#d62728"

# A pattern for all marks of a kind: one for each mark makes a browser draw for half a minute.
HATCHED: Mapping[str, Any] = {
    "fill_alpha": 0,
    "line_alpha": 0,
    "hatch_pattern": "/",
    "hatch_alpha": 0.5,
    "hatch_scale": 8,
}

COMPACT: Mapping[str, Any] = {"orientation": "horizontal", "margin": 0, "padding": 0, "location": "left"}
"""A legend as one line above a figure."""

_TEX = re.compile(r"\$(?=\$)|\\(?=[\[(])")
_HOVER = (
    '<div style="max-width: 38rem; padding: 4px; white-space: pre-wrap; overflow-wrap: anywhere; display: grid; '
    'grid-template-columns: max-content 1fr; gap: 1px 10px">{lines}</div>'
)
_HOVER_LINE = '<span style="opacity: 0.65; text-align: right">{label}</span><span>{value}</span>'
_TIME = "%F %T.%3N"


def neutral(text: str | None, most: int = MOST_TEXT) -> str:
    """Text from a dump as a figure may draw it: no controls, no TeX that would be typeset, not too long."""
    shown = UNSAFE.sub("\ufffd", text or "")
    # A zero-width space keeps the marks of TeX apart, which Bokeh would hand to MathJax.
    shown = _TEX.sub(lambda match: match[0] + "\u200b", shown)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def shortened(text: str, most: int = 34) -> str:
    """A long name with its middle left out: the ends tell generated ids apart."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-(most // 2 - 1) :]}"


def milliseconds(moment: datetime) -> float:
    """A moment as a datetime axis counts it."""
    return moment.timestamp() * 1000


def time_range(start: datetime, end: datetime) -> Range1d:
    """The axis that all figures of a page share, a little wider than what happened."""
    first, last = milliseconds(start), milliseconds(end)
    edge = max((last - first) * 0.01, 500)
    return Range1d(start=first - edge, end=last + edge, bounds=(first - 20 * edge, last + 20 * edge))


def time_figure(name: str, times: Range1d, *, height: int, is_tall: bool = False, **options: Any) -> figure:
    """An empty figure over time.

    Args:
        name: by which the page finds it.
        times: the axis that it shares.
        height: in pixels; the width is the page's.
        is_tall: whether it can be zoomed upwards too.
        options: more for Bokeh's ``figure``.
    """
    drawn = figure(
        name=name,
        x_range=times,
        x_axis_type="datetime",
        height=height,
        sizing_mode="stretch_width",
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_alpha=0,
        min_border_left=180,
        min_border_right=20,
        tools=[],
        **{"toolbar_location": "above", **options},
    )
    # Without a key held down the wheel scrolls the page, as everywhere.
    zoom = WheelZoomTool(dimensions="width", modifiers="ctrl")
    drag = PanTool(dimensions="both" if is_tall else "width")
    box = BoxZoomTool(dimensions="auto" if is_tall else "width")
    drawn.add_tools(drag, box, zoom, ResetTool(), SaveTool())
    drawn.toolbar.active_drag = drag
    drawn.toolbar.logo = None
    drawn.xaxis.formatter = DatetimeTickFormatter(
        milliseconds="%T.%3N", seconds="%T", minsec="%T", minutes="%H:%M", hourmin="%H:%M", hours="%m-%d %H:%M"
    )
    drawn.grid.grid_line_alpha = 0.25
    drawn.ygrid.visible = False
    return drawn


def add_hover(drawn: figure, renderers: Sequence[Any], rows: Sequence[tuple[str, str]], times: Sequence[str]) -> None:
    """Let marks tell about themselves; what ``@column`` stands for is shown as text, never as markup.

    Args:
        drawn: the figure.
        renderers: the marks.
        rows: label and value of each line.
        times: the columns that hold moments.
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


def label_rows(drawn: figure, labels: Sequence[str]) -> None:
    """Write a name beside each row 0, 1, 2 … from the top; those without room are left out until there is."""
    axis = drawn.yaxis
    axis.ticker = FixedTicker(ticks=list(range(len(labels))))
    axis.major_label_overrides = {row: neutral(shortened(label)) or "?" for row, label in enumerate(labels)}
    axis.major_label_policy = NoOverlap(min_distance=1)
    axis.major_tick_line_alpha = 0
    drawn.y_range = Range1d(start=len(labels) - 0.4, end=-0.6, bounds=(-0.6, max(len(labels), 1) - 0.4))


@dataclass(frozen=True, slots=True)
class Stretch:
    """Turns moments into positions on the axis, unknown ones into its ends."""

    start: datetime
    end: datetime

    def left(self, moment: datetime | None) -> float:
        """Where something begins."""
        return milliseconds(max(moment or self.start, self.start))

    def right(self, moment: datetime | None) -> float:
        """Where something ends."""
        return milliseconds(min(moment or self.end, self.end))


def columns(rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> ColumnDataSource:
    """Rows as the columns that Bokeh draws from; without rows, empty columns of these names."""
    listed = list(rows)
    return ColumnDataSource({name: _column([row[name] for row in listed]) for name in names})


def _column(values: list[Any]) -> Any:
    """Numbers as arrays, which travel to the page in one piece instead of one by one."""
    if values and isinstance(values[0], int | float):
        return np.array(values, dtype=np.float64)
    if values and isinstance(values[0], list):
        return [np.array(value, dtype=np.float64) for value in values]
    return values


def height_of(rows: int, each: int, most: int) -> int:
    """The height in pixels of a figure with so many rows."""
    return min(max(rows * each + 60, 120), most)


def counted_as(number: int | None) -> str:
    """A number that may not be known."""
    return "?" if number is None else f"{number:,}"


def duration(length_ms: int | None) -> str:
    """Milliseconds as people say them."""
    if length_ms is None:
        return "not known"
    seconds = length_ms / 1000
    if seconds < 1:
        return f"{length_ms} ms"
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size * 2:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.1f} s"
