"""Texts and colours for pages.

``neutral`` makes text from a dump harmless, and short enough to draw.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from coordinator_replay.analysis.reasons.vocabulary import Cause
from coordinator_replay.safe_text import UNSAFE

MOST_TEXT = 300
"""Largest number of characters of a text in a tooltip; tables on the page have the whole text."""

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

ROLLOUT = "rollout"
ROLLOUT_COLOUR = "#5b6bb5"

SEVERITY_COLOURS: Mapping[str, str] = {"error": "#d33c3c", "warning": "#d98a12", "info": "#4a7fb5"}

GAP_COLOUR = "#d62728"
OTHERS_COLOUR = "#a9b1ba"
"""Colour of causes without their own colour in a figure."""

MARK_COLOUR = "#c2185b"

# fmt: off
COLOURS = [
    "#1f77b4", "#ff7f0e", "#17a398", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#6baed6",
    "#fdae6b", "#74c476", "#b3a2d6", "#c49c94", "#f7b6d2", "#c7c7c7", "#dbdb8d", "#3f6fa8", "#a05d1a",
]
# fmt: on
"""Colours of clients, causes and topics, without the red of partitions without an owner."""

_CAUSE_COLOURS = {str(cause): COLOURS[place % len(COLOURS)] for place, cause in enumerate(sorted(Cause))}
_SHADES = (0.0, 0.35, 0.6, 0.2, 0.5)
"""Shares of white that are mixed into a client's colour for its first, second, … incarnation."""

_TEX = re.compile(r"\$(?=\$)|\\(?=[\[(])")


@lru_cache(maxsize=100_000)
def neutral(text: str | None, most: int = MOST_TEXT) -> str:
    """Return a text from a dump as a figure may show it; an empty text for None.

    Control characters and invisible characters become U+FFFD. Delimiters of TeX are broken up, so that Bokeh shows
    them as text. A text longer than ``most`` is cut and ends in ``…``.
    """
    shown = UNSAFE.sub("\ufffd", text or "")
    # A zero-width space separates the marks of TeX, which Bokeh would pass to MathJax.
    shown = _TEX.sub(lambda match: match[0] + "\u200b", shown)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def cause_colour(cause: str | None) -> str:
    """Return the colour that a cause has on every page."""
    return _CAUSE_COLOURS.get(cause or Cause.UNKNOWN, UNKNOWN_COLOUR)


def shade(colour: str, incarnation: int) -> str:
    """Return a shade of a client's colour. Members that used the same client id in turn get different shades.

    Args:
        colour: the client's colour.
        incarnation: number of earlier members with the same client id.
    """
    share = _SHADES[incarnation % len(_SHADES)]
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)


def shortened(text: str, most: int = 34) -> str:
    """Shorten a long name: leave out its middle. Both ends remain, because generated ids differ at their ends.

    Args:
        text: the name.
        most: largest number of characters.
    """
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-(most // 2 - 1) :]}"
