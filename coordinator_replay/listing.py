"""Words for lists, numbers and partitions in sentences."""

from collections.abc import Iterable, Sequence


def listed(names: Sequence[object], most: int = 5, separator: str = ", ") -> str:
    """Return the first names of a list as text, with the number of names that are left out.

    >>> listed(["a", "b", "c"], most=2), listed(["a left", "b left"], 1, "; ")
    ('a, b and 1 more', 'a left; and 1 more')
    """
    shown = separator.join(map(str, names[:most]))
    if len(names) <= most:
        return shown
    return f"{shown}{' ' if separator == ', ' else separator}and {len(names) - most:,} more"


def counted_as(number: int | None) -> str:
    """Return a number as text.

    An unknown number is ``?``.
    """
    return "?" if number is None else f"{number:,}"


def counted(number: int | None, what: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "member"), counted(2000, "partition"), counted(None, "member")
    ('1 member', '2,000 partitions', '? members')
    """
    return f"{counted_as(number)} {what}{'' if number == 1 else 's'}"


def partition_range(first: int, last: int) -> str:
    """Return a range of partitions in short form.

    >>> partition_range(7, 7), partition_range(7, 8), partition_range(7, 9)
    ('7', '7,8', '7-9')
    """
    separator = "," if last - first == 1 else "-"
    return separator.join(map(str, sorted({first, last})))


def partition_ranges(partitions: Sequence[int]) -> str:
    """Return partitions of a topic in short form.

    >>> partition_ranges([0, 1, 2, 5, 7, 8])
    '0-2,5,7,8'
    """
    runs: list[list[int]] = []
    for partition in partitions:
        if runs and partition == runs[-1][1] + 1:
            runs[-1][1] = partition
        else:
            runs.append([partition, partition])
    return ",".join(partition_range(first, last) for first, last in runs)


def ranges_by_topic(partitions: Iterable[tuple[str, int]]) -> str:
    """Return partitions of several topics in short form.

    >>> ranges_by_topic([("orders", 1), ("orders", 0), ("audit", 2), ("orders", 2)])
    'audit:2; orders:0-2'
    """
    by_topic: dict[str, set[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, set()).add(number)
    return "; ".join(f"{topic}:{partition_ranges(sorted(numbers))}" for topic, numbers in sorted(by_topic.items()))
