"""Colours on a terminal: the words of an answer that stand out, and whether the terminal wants colours."""

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
"""Styles of words, by the column in which the words are."""


def style_of(column: str, word: str) -> Mapping[str, object] | None:
    """Return the style of a word in a column, as arguments of ``click.style``.

    Return None if the word does not stand out.
    """
    return _WORDS.get(column, {}).get(word)


def wants_styles() -> bool:
    """Return whether to use colours.

    Return False if NO_COLOR is set, or if TERM names a terminal without colours.
    """
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
