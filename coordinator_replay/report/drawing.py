"""Drawings: figures with their captions and data. HTML pages and pictures are made from the same drawings."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bokeh.plotting import figure

from coordinator_replay.report.columns import Clock, Columns, columns
from coordinator_replay.report.wording import neutral

Figures = Callable[[], list[figure]]
"""A function that makes all figures of a page, without data."""

Key = tuple[str, str]
"""An entry of a legend: text and colour."""

MARKS = ("at", "text")


@dataclass(frozen=True, slots=True)
class Mark:
    """A time to mark in all figures, and its text."""

    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Panel:
    """The caption of a figure.

    Attributes:
        name: name of the figure.
        title: heading above the figure.
        keys: entries of the figure's legend.
        about: further explanation for the reader.
    """

    name: str
    title: str
    keys: Sequence[Key] = ()
    about: str = ""


@dataclass(frozen=True, slots=True)
class Strip:
    """A group's row in the picture of a cluster: the group's states and rebalances over time.

    Attributes:
        name: the group.
        paths: colour, name and SVG path of each state.
        ticks: the rebalances as an SVG path.
    """

    name: str
    paths: Sequence[tuple[str, str, str]]
    ticks: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Figures that share one time axis.

    Attributes:
        title: title of the page, which names the group or the cluster.
        lines: sentences below the title.
        make: function that makes the figures, without data.
        panels: captions of the figures, in the order in which the figures are drawn.
        data: data that the page's script reads. For example, ``data["sources"]`` has the columns of each data source,
            and ``data["rows"]`` has the names of each figure's rows.
        clock: the time range and the time zone of the figures.
        marks: times that the user asked to mark.
        strips: for the picture of a cluster, a row for each group, to be drawn below the figures.
        strip_panel: the caption above the rows in ``strips``.
    """

    title: str
    lines: Sequence[str]
    make: Figures
    panels: Sequence[Panel]
    data: Mapping[str, Any]
    clock: Clock
    marks: Sequence[Mark] = ()
    strips: Sequence[Strip] = ()
    strip_panel: Panel | None = None

    @property
    def page_data(self) -> Mapping[str, Any]:
        """Return the data that the page's script reads: time range, time zone, and the data of the figures."""
        sources = {**self.data["sources"], "marks": mark_columns(self.marks, self.clock)}
        return {**self.clock.as_data(), **self.data, "sources": sources}


def mark_columns(marks: Iterable[Mark], clock: Clock) -> Columns:
    """Return the times and the texts of marks as two columns, in the form that the page's script reads."""
    rows = [{"at": clock.since_start(mark.at), "text": neutral(mark.text)} for mark in marks]
    return columns(rows, MARKS, ("at",))
