"""A drawing as an SVG picture, made without a browser."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from unicodedata import east_asian_width
from xml.sax.saxutils import escape, quoteattr

from bokeh.models.renderers import GlyphRenderer
from bokeh.plotting import figure

from coordinator_replay.report.drawing import Drawing, Key, Panel
from coordinator_replay.report.lanes import Lanes
from coordinator_replay.report.svg_marks import Frame, Values, drawn_marks, hatch_colours, hatch_id, unpacked
from coordinator_replay.report.ticks import number_ticks, time_ticks
from coordinator_replay.report.wording import MARK_COLOUR, neutral, shortened
from coordinator_replay.times import moment_text
from coordinator_replay.version import __version__

WIDTH = 1200
_LEFT, _RIGHT, _EDGE = 200, 24, 16
_AXIS = 24
"""Pixels below a figure for its axis."""

_LINE, _STRIP = 18, 20
_FRAME_WIDTH = WIDTH - _LEFT - _RIGHT
_LEAST_ROW = 11
"""Smallest height in pixels of a row with room for its name."""

_MOST_STRIPS = 300
_TICKS, _NUMBERS = 9, 5
_INK, _SOFT, _GRID = "#1d2329", "#5b6570", "#dfe3e8"


def svg_of(drawing: Drawing) -> str:
    """Return a drawing as the text of an SVG file."""
    return _Sheet(drawing).svg()


def _clean(text: str) -> str:
    """Return text escaped for XML, without control characters, and cut to 1000 characters."""
    return escape(neutral(text, 1000))


def _length(text: str, size: float) -> float:
    """Return the approximate width of a text in pixels."""
    return size * sum(1.0 if east_asian_width(letter) in "WF" else 0.58 for letter in text)


def _text(x: float, y: float, text: str, *, size: float = 12, colour: str = _INK, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}"{more}>{_clean(text)}</text>'


def _wrapped(text: str, size: float) -> Iterator[str]:
    """Divide a text into lines that are not wider than the picture, and yield the lines."""
    line = ""
    for word in text.split():
        if line and _length(f"{line} {word}", size) > WIDTH - 2 * _EDGE:
            yield line
            line = word
        else:
            line = f"{line} {word}".strip()
    yield line


class _Sheet:
    """An SVG picture that is being drawn: its elements so far, and their height."""

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing
        self._parts: list[str] = []
        self._y = float(_EDGE)
        self._sources = _sources_of(drawing.page_data)
        self._ticks = time_ticks(drawing.clock, _TICKS)
        self._x = Frame(
            left=_LEFT, upper=0, width=_FRAME_WIDTH, height=0, length=drawing.clock.length, bottom=0, top=1
        ).x

    def svg(self) -> str:
        """Return the picture as the text of an SVG file."""
        drawn = {shown.name: shown for shown in self._drawing.make()}
        self._head()
        self._marks()
        for panel in self._drawing.panels:
            shown = drawn[panel.name]
            if shown.visible and panel.name not in self._drawing.data.get("hidden", ()):
                self._panel(panel, shown)
        if self._drawing.strip_panel is not None:
            self._strips(self._drawing.strip_panel)
        self._y += 4
        self._line(f"Drawn by coordinator-replay {__version__}", 11, _SOFT)
        height = round(self._y + 6)
        colours = {colour for shown in drawn.values() for colour in _hatch_colours(shown)}
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'viewBox="0 0 {WIDTH} {height}" font-family="system-ui, DejaVu Sans, Arial, sans-serif">\n'
            f"<title>{_clean(self._drawing.title)}</title>\n<defs>{''.join(map(_hatching, sorted(colours)))}</defs>\n"
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n' + "\n".join(self._parts) + "\n</svg>\n"
        )

    def _line(self, text: str, size: float = 12, colour: str = _INK, more: str = "") -> None:
        for line in _wrapped(text, size):
            self._y += size * 1.4
            self._parts.append(_text(_EDGE, self._y, line, size=size, colour=colour, more=more))

    def _head(self) -> None:
        self._line(self._drawing.title, 20, more=' font-weight="bold"')
        for line in self._drawing.lines:
            self._line(line, 12, _SOFT)

    def _marks(self) -> None:
        """Draw the texts of the times that the user asked to mark, in several rows if they would overlap."""
        drawing, rows = self._drawing, Lanes()
        shown = [(drawing.clock.since_start(mark.at), mark) for mark in sorted(drawing.marks, key=lambda mark: mark.at)]
        upper = self._y + 8
        for at, mark in shown:
            text = f"{moment_text(mark.at, drawing.clock.zone)}  {mark.text}"
            if not 0 <= at <= drawing.clock.length:
                self._line(f"Outside of this time range: {text}", 12, MARK_COLOUR)
                continue
            x, size = self._x(at), _length(text, 12)
            begin = min(x + 3, WIDTH - _EDGE - size)
            row = rows.place(round(begin), round(begin + size) + 12)
            self._parts.append(_text(begin, upper + _LINE * (row + 1) - 4, text, colour=MARK_COLOUR))
        self._y = max(self._y, upper + _LINE * rows.count if rows.count else self._y)

    def _caption(self, panel: Panel) -> None:
        """Draw a figure's title, the explanation beside the title, and the legend, which may take several lines."""
        self._y += 14
        self._line(panel.title, 13, more=' font-weight="bold"')
        if panel.about:
            x = _EDGE + _length(panel.title, 14) + 12
            self._parts.append(_text(x, self._y, panel.about, size=11, colour=_SOFT))
        self._keys(panel.keys)
        self._y += 6

    def _keys(self, keys: Iterable[Key]) -> None:
        x = WIDTH * 1.0
        for text, colour in keys:
            name = shortened(text, 60)
            width = 22 + _length(name, 11)
            if x + width > WIDTH - _EDGE:
                x, self._y = float(_EDGE), self._y + _LINE
            self._parts.append(
                f'<rect x="{x:.1f}" y="{self._y - 9:.1f}" width="10" height="10" fill={quoteattr(colour)}/>'
                + _text(x + 14, self._y, name, size=11, colour=_SOFT)
            )
            x += width

    def _panel(self, panel: Panel, drawn: figure) -> None:
        """Draw a figure of a page: its title, axes, rows and marks.

        Args:
            panel: name, title and legend of the figure.
            drawn: the figure as Bokeh has it.
        """
        self._caption(panel)
        rows = self._drawing.data["rows"].get(panel.name)
        bottom, top = _edges(panel.name, rows, drawn, self._drawing.data, self._sources)
        height = (drawn.height or 0) - _AXIS if rows is None else _rows_height(rows)
        frame = Frame(
            left=_LEFT, upper=self._y, width=_FRAME_WIDTH, height=height, length=self._drawing.clock.length,
            bottom=bottom, top=top,
        )  # fmt: skip
        self._time_axis(frame)
        self._parts += _names(frame, rows["labels"]) if rows is not None else _numbers(frame)
        for shown in _renderers(drawn):
            values = self._sources[_source(shown)]
            self._parts += drawn_marks(shown.glyph, values, frame, "hatch-")
        self._y += height + _AXIS

    def _time_axis(self, frame: Frame) -> None:
        lower = frame.upper + frame.height
        for at, label in self._ticks:
            x = frame.x(at)
            self._parts.append(f'<path stroke="{_GRID}" d="M{x:.1f} {frame.upper:.1f}V{lower:.1f}"/>')
            self._parts.append(_text(x, lower + 15, label, size=11, colour=_SOFT, more=' text-anchor="middle"'))
        self._parts.append(f'<path stroke="{_SOFT}" d="M{frame.left:.1f} {lower:.1f}h{frame.width:.1f}"/>')

    def _strips(self, panel: Panel) -> None:
        """Draw the states and rebalances of each group as a row below the figures."""
        self._caption(panel)
        shown, upper = self._drawing.strips[:_MOST_STRIPS], self._y
        height = _STRIP * len(shown)
        frame = Frame(
            left=_LEFT,
            upper=upper,
            width=_FRAME_WIDTH,
            height=height,
            length=self._drawing.clock.length,
            bottom=0,
            top=1,
        )
        self._time_axis(frame)
        for strip in shown:
            name = shortened(strip.name, 26)
            self._parts.append(_text(_LEFT - 8, self._y + 14, name, size=11, more=' text-anchor="end"'))
            paths = "".join(f'<path fill="{colour}" d="{path}"/>' for colour, _, path in strip.paths)
            ticks = (
                f'<path stroke="{_INK}" vector-effect="non-scaling-stroke" d="{strip.ticks}"/>' if strip.ticks else ""
            )
            place = f"translate({_LEFT} {self._y + 2:.1f}) scale({_FRAME_WIDTH / 10_000} {_STRIP - 4})"
            self._parts.append(f'<g transform="{place}">{paths}{ticks}</g>')
            self._y += _STRIP
        for mark in self._drawing.marks:
            x = frame.x(self._drawing.clock.since_start(mark.at))
            line = f'stroke="{MARK_COLOUR}" stroke-dasharray="5 4"'
            self._parts.append(f'<path {line} d="M{x:.1f} {upper:.1f}v{height:.1f}"/>')
        self._y += _AXIS
        more = len(self._drawing.strips) - len(shown)
        if more:
            self._line(f"{more:,} more groups are not drawn.", 11, _SOFT)


def _hatching(colour: str) -> str:
    return (
        f'<pattern id="hatch-{hatch_id(colour)}" width="6" height="6" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><path stroke={quoteattr(colour)} stroke-opacity="0.6" stroke-width="2" '
        'd="M0 0V6"/></pattern>'
    )


def _sources_of(data: Mapping[str, Any]) -> Mapping[str, Values]:
    """Return the columns of each data source of a page's figures, by name of the source.

    The result also has the columns that the page's script would compute from other columns.

    Args:
        data: the data that the page's script reads.
    """
    sources = {name: unpacked(columns) for name, columns in data["sources"].items()}
    lines = sources.get("offset-lines")
    if lines is None:
        return sources
    # A line begins with an offset; offsets above 2^53 are text.
    offsets = [[None if offset is None else int(offset) for offset in line] for line in lines["offset"]]
    progress = [[None if offset is None else offset - (line[0] or 0) for offset in line] for line in offsets]
    return {**sources, "offset-lines": {**lines, "offset": offsets, "progress": progress}}


def _renderers(drawn: figure) -> Sequence["GlyphRenderer[Any]"]:
    """Return the renderers of a figure's marks, in drawing order."""
    shown = [renderer for renderer in drawn.renderers if isinstance(renderer, GlyphRenderer)]
    return sorted(shown, key=lambda renderer: renderer.level == "annotation")


def _hatch_colours(drawn: figure) -> Iterator[str]:
    """Yield the colours of the hatching of a figure's marks."""
    for shown in _renderers(drawn):
        yield from hatch_colours(shown.glyph)


def _source(shown: "GlyphRenderer[Any]") -> str:
    """Return the name of the data source of marks."""
    return str(shown.data_source.name).removesuffix("-data")


def _rows_height(rows: Mapping[str, Any]) -> int:
    """Compute the height of a figure with rows, without the axis. The page's script computes the same height."""
    return int(min(max(len(rows["labels"]) * rows["each"] + 12, 40), rows["most"] - 24))


def _edges(
    name: str, rows: Mapping[str, Any] | None, drawn: figure, data: Mapping[str, Any], sources: Mapping[str, Any]
) -> tuple[float, float]:
    """Return the two ends of a figure's vertical axis: the number at the lower edge and the number at the upper edge.

    Args:
        name: name of the figure.
        rows: labels and heights of the figure's rows; None if the figure has a numeric axis.
        drawn: the figure.
        data: data of all figures of the page.
        sources: columns of each data source, by name of the source.
    """
    if rows is not None:
        return max(len(rows["labels"]), 1) - 0.4, -0.6
    if name in data.get("tops", {}):
        return 0, data["tops"][name]
    numbers = [
        number
        for shown in _renderers(drawn)
        if hasattr(shown.glyph, "ys")
        for line in sources[_source(shown)][shown.glyph.ys]
        for number in line
        if number is not None
    ]
    low, high = min(numbers, default=0), max(numbers, default=1)
    margin = (high - low) * 0.05 or 1
    return low - margin, high + margin


def _names(frame: Frame, labels: Sequence[str]) -> Iterator[str]:
    """Yield the names of rows as SVG texts. If rows are too low for their names, some names are left out."""
    apart = abs(frame.y(1) - frame.y(0))
    every = max(round(_LEAST_ROW / apart + 0.5), 1) if apart < _LEAST_ROW else 1
    for row, label in enumerate(labels):
        if row % every == 0:
            name = shortened(label, 30)
            yield _text(frame.left - 8, frame.y(row) + 4, name, size=11, more=' text-anchor="end"')


def _numbers(frame: Frame) -> Iterator[str]:
    for number in number_ticks(frame.bottom, frame.top, _NUMBERS):
        y = frame.y(number)
        yield f'<path stroke="{_GRID}" d="M{frame.left:.1f} {y:.1f}h{frame.width:.1f}"/>'
        yield _text(frame.left - 8, y + 4, f"{number:,.10g}", size=11, colour=_SOFT, more=' text-anchor="end"')
