"""Marks of Bokeh's figures as paths of SVG: the same figures, drawn without a browser."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from xml.sax.saxutils import quoteattr

from coordinator_replay.report.columns import Columns

_THINNEST = 1.0
"""Width in pixels of a bar without duration."""

Values = Mapping[str, Sequence[Any]]
"""Columns of a source, times in milliseconds since the page's start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The rectangle of a picture in which the marks of a figure are drawn.

    Attributes:
        left, upper, width, height: position and size of the rectangle in pixels.
        length: length of the horizontal time axis in milliseconds.
        bottom: the number at the lower end of the vertical axis.
        top: the number at the upper end of the vertical axis.
    """

    left: float
    upper: float
    width: float
    height: float
    length: int
    bottom: float
    top: float

    def x(self, at: float) -> float:
        """Return the horizontal position of a time in the picture, in pixels.

        Args:
            at: the time, in milliseconds after the time at the left edge.
        """
        return self.left + self.width * at / max(self.length, 1)

    def y(self, value: float) -> float:
        """Return the vertical position of a number in the picture, in pixels."""
        return self.upper + self.height * (self.top - value) / ((self.top - self.bottom) or 1)


def unpacked(packed: Columns) -> Values:
    """Convert columns from the form that a page's script reads to lists of values."""
    return {name: _unpacked(column) for name, column in packed.items()}


def _unpacked(column: Mapping[str, Any]) -> Sequence[Any]:
    if "texts" in column:
        return [column["texts"][place] for place in column["at"]]
    values: Sequence[Any] = column["since_start"] if "since_start" in column else column["values"]
    return values


def drawn_marks(glyph: Any, values: Values, frame: Frame, hatching: str) -> Iterator[str]:
    """Yield SVG paths that draw what a glyph of Bokeh draws. All marks that look the same are in one path.

    Args:
        glyph: the glyph. Each of its properties is a value or the name of a column.
        values: the columns of the glyph's data source.
        frame: the part of the picture in which the glyph is drawn.
        hatching: the first part of the SVG ids of hatching patterns.
    """
    count = len(next(iter(values.values()), ()))
    own = partial(_own, glyph, values, count)
    shapes = _SHAPES[type(glyph).__name__](own, frame)
    paths: dict[str, dict[str, None]] = {}
    for shape, looks in zip(shapes, _looks(type(glyph).__name__, own, hatching), strict=True):
        for look in looks:
            # A second mark at the same place would not be seen.
            paths.setdefault(look, {})[shape] = None
    for look, places in paths.items():
        yield f'<path {look} d="{"".join(places)}"/>'


def hatch_colours(glyph: Any) -> Sequence[str]:
    """Return a list with the colour of a glyph's hatching. The list is empty if the glyph has no hatching."""
    return [glyph.hatch_color] if getattr(glyph, "hatch_pattern", None) else []


def hatch_id(colour: str) -> str:
    """Return the last part of the id of a hatching pattern: the digits of its colour."""
    return colour.removeprefix("#")


def _own(glyph: Any, values: Values, count: int, name: str) -> Sequence[Any]:
    """Return the values of a glyph's property, one for each mark.

    Args:
        glyph: the glyph. Its property is a value for all marks, or the name of a column.
        values: the columns of the glyph's data source.
        count: number of marks.
        name: name of the property.
    """
    value = getattr(glyph, name)
    return values[value] if isinstance(value, str) and value in values else [value] * count


def _bars(own: Any, frame: Frame) -> Iterator[str]:
    for left, right, row, height in zip(own("left"), own("right"), own("y"), own("height"), strict=True):
        yield _box(frame, left, right, row - height / 2, row + height / 2)


def _quads(own: Any, frame: Frame) -> Iterator[str]:
    for left, right, bottom, top in zip(own("left"), own("right"), own("bottom"), own("top"), strict=True):
        yield _box(frame, left, right, bottom, top)


def _box(frame: Frame, left: int, right: int, low: float, high: float) -> str:
    x, width = frame.x(left), max(frame.x(right) - frame.x(left), _THINNEST)
    upper, lower = sorted((frame.y(low), frame.y(high)))
    return f"M{x:.1f} {upper:.1f}h{width:.1f}v{lower - upper:.1f}h-{width:.1f}z"


def _points(own: Any, frame: Frame) -> Iterator[str]:
    for at, value, size, marker in zip(own("x"), own("y"), own("size"), own("marker"), strict=True):
        x, y, half = frame.x(at), frame.y(float(value)), size / 2
        if marker == "circle":
            yield f"M{x - half:.1f} {y:.1f}a{half} {half} 0 1 0 {size} 0a{half} {half} 0 1 0 -{size} 0z"
        elif marker == "triangle":
            yield f"M{x:.1f} {y - half:.1f}l{half} {size}h-{size}z"
        else:
            yield f"M{x - half:.1f} {y - half:.1f}l{size} {size}m0 -{size}l-{size} {size}"


def _lines(own: Any, frame: Frame) -> Iterator[str]:
    """Yield an SVG path for each line. A line is horizontal from the time of a value to the time of the next value.

    The line has a gap where a value is missing.
    """
    for times, values in zip(own("xs"), own("ys"), strict=True):
        path, held = "", False
        for at, value in zip(times, values, strict=True):
            path += f"H{frame.x(at):.1f}" if held else ""
            if value is not None:
                path += f"V{frame.y(value):.1f}" if held else f"M{frame.x(at):.1f} {frame.y(value):.1f}"
            held = value is not None
        yield path


def _spans(own: Any, frame: Frame) -> Iterator[str]:
    for at in own("x"):
        yield f"M{frame.x(at):.1f} {frame.upper:.1f}v{frame.height:.1f}" if 0 <= at <= frame.length else ""


_SHAPES: Mapping[str, Any] = {
    "HBar": _bars,
    "Quad": _quads,
    "Scatter": _points,
    "MultiLine": _lines,
    "VSpan": _spans,
}
"""Functions that draw marks, by the type of their Bokeh glyph."""


def _looks(kind: str, own: Any, hatching: str) -> Iterator[Sequence[str]]:
    """Yield, for each mark, the SVG attributes of one or two shapes: a filled shape, and a hatched shape on top of it.

    Args:
        kind: class name of the mark's glyph in Bokeh.
        own: a function that takes the name of a property and returns its value for each mark.
        hatching: the first part of the SVG ids of hatching patterns.
    """
    lines = zip(own("line_color"), own("line_alpha"), own("line_width"), strict=True)
    if kind in ("MultiLine", "VSpan"):
        dash = ' stroke-dasharray="5 4"' if kind == "VSpan" else ""
        for colour, alpha, width in lines:
            yield [f'fill="none" stroke={quoteattr(colour)} stroke-opacity="{alpha}" stroke-width="{width}"{dash}']
        return
    fills = zip(own("fill_color"), own("fill_alpha"), own("hatch_pattern"), own("hatch_color"), strict=True)
    for (colour, alpha, pattern, hatched), (line, line_alpha, width) in zip(fills, lines, strict=True):
        # The line around a bar would hide a short one beside it.
        is_lined = kind == "Scatter"
        stroke = f' stroke={quoteattr(line)} stroke-opacity="{line_alpha}" stroke-width="{width}"' if is_lined else ""
        looks = [f'fill={quoteattr(colour)} fill-opacity="{alpha}"{stroke}'] if alpha or is_lined else []
        yield [*looks, *([f'fill="url(#{hatching}{hatch_id(hatched)})"'] if pattern else [])]
