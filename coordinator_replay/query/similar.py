"""Names that somebody may have meant by one that nothing has."""

import difflib
from collections.abc import Sequence

_MOST_COMPARED = 20_000
"""Names beyond which only those with the same first letter are compared."""


def nearest(name: str, names: Sequence[str]) -> str | None:
    """The name most like another one; None where none is like it."""
    lowered = name.lower()
    alike = [other for other in names if lowered in other.lower() or (other and other.lower() in lowered)]
    if not alike and len(names) > _MOST_COMPARED:
        names = [other for other in names if other[:1].lower() == lowered[:1]]
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return next(iter([*close, *sorted(alike, key=len)]), None)


def did_you_mean(name: str, names: Sequence[str], otherwise: str = "") -> str:
    """The question whether the most similar name was meant; where none is similar, something else to say.

    >>> did_you_mean("order", ["orders", "payments"])
    "did you mean 'orders'?"
    """
    near = nearest(name, names)
    return otherwise if near is None else f"did you mean {near!r}?"
