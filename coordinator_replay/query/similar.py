"""Suggestions for a name that does not exist."""

import difflib
from collections.abc import Sequence

_MOST_COMPARED = 20_000
"""If there are more names than this, only names with the same first letter are compared."""


LEAST_PART = 4
"""A typed part of a name with at least this many letters, such as ``storms`` of ``rebalance-storms``, counts more than
similar letters."""


def nearest(name: str, names: Sequence[str]) -> str | None:
    """Return the name that is most similar to another name; None if no name is similar.

    Upper and lower case count as the same. The order of preference:

    1. The shortest name that contains the given name, if the given name has at least ``LEAST_PART`` letters.
    2. The name with the most similar letters.
    3. The shortest name that contains the given name or is a part of it.
    """
    lowered = name.lower()
    if not lowered.strip():
        return None
    alike = [other for other in names if lowered in other.lower() or (other and other.lower() in lowered)]
    if not alike and len(names) > _MOST_COMPARED:
        names = [other for other in names if other[:1].lower() == lowered[:1]]
    by_lowered = {other.lower(): other for other in names}
    close = [by_lowered[other] for other in difflib.get_close_matches(lowered, by_lowered, n=1, cutoff=0.5)]
    containing = [other for other in alike if len(lowered) >= LEAST_PART and lowered in other.lower()]
    return next(iter([*sorted(containing, key=len)[:1], *close, *sorted(alike, key=len)]), None)


def did_you_mean(name: str, names: Sequence[str], otherwise: str = "") -> str:
    """Return a question that suggests the most similar name.

    If no name is similar, return the text ``otherwise``.

    >>> did_you_mean("order", ["orders", "payments"])
    "did you mean 'orders'?"
    """
    near = nearest(name, names)
    return otherwise if near is None else f"did you mean {near!r}?"
