"""Colours on a terminal: which words of an answer stand out, and whether the terminal wants any."""

import os
from collections.abc import Mapping

_BAD: Mapping[str, object] = {"fg": "red", "bold": True}
_LOOK: Mapping[str, object] = {"fg": "yellow"}
_GOOD: Mapping[str, object] = {"fg": "green"}
_NOTHING: Mapping[str, object] = {"dim": True}

_STATES = {
    "Stable": _GOOD,
    "Empty": _NOTHING,
    "Unknown": _NOTHING,
    "Dead": _BAD,
    **dict.fromkeys(("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady"), _LOOK),
}

_WORDS: Mapping[str, Mapping[str, Mapping[str, object]]] = {
    "severity": {"error": _BAD, "warning": _LOOK},
    "state": _STATES,
    "group_state": _STATES,
    "status": {"EXPIRED": _BAD, "DUE": _BAD, "EXPIRING": _LOOK},
}
"""Words by the column of an answer that they stand in."""


def style_of(column: str, word: str) -> Mapping[str, object] | None:
    """Return how a word of a column is shown, as click.style takes it; None where it does not stand out."""
    return _WORDS.get(column, {}).get(word)


def wants_styles() -> bool:
    """Return whether the terminal takes colours: not where NO_COLOR is set, or it says that it can't."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
