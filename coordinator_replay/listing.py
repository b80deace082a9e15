"""Lists and numbers in sentences."""

from collections.abc import Sequence


def listed(names: Sequence[object], most: int = 5, separator: str = ", ") -> str:
    """The first of some names, and how many more there are.

    >>> listed(["a", "b", "c"], most=2), listed(["a left", "b left"], 1, "; ")
    ('a, b and 1 more', 'a left; and 1 more')
    """
    shown = separator.join(map(str, names[:most]))
    if len(names) <= most:
        return shown
    return f"{shown}{' ' if separator == ', ' else separator}and {len(names) - most:,} more"


def counted(number: int | None, what: str) -> str:
    """A number with its noun.

    >>> counted(1, "member"), counted(2000, "partition"), counted(None, "member")
    ('1 member', '2,000 partitions', '? members')
    """
    return f"{'?' if number is None else f'{number:,}'} {what}{'' if number == 1 else 's'}"
