"""The allowed words of options. ``--help`` shows them, so this module loads neither DuckDB nor Arrow."""

from collections.abc import Sequence

from coordinator_replay.errors import UsageError

GROUP_TYPES = ("classic", "consumer", "share", "streams")

GROUP_STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Stable",
    "Unknown",
)
"""States of groups of all types in Kafka's spelling. ``Unknown`` is a state that the log does not prove."""

SEVERITIES = ("error", "warning", "info")
"""Severities of findings, from most to least severe."""

STATUSES = ("EXPIRED", "DUE", "EXPIRING")
"""Statuses of committed offsets. EXPIRED: removed by the broker. DUE: past retention, but not removed yet. EXPIRING:
about to expire."""


def chosen(word: str, words: Sequence[str], what: str) -> str:
    """Return a word after checking that it is one of the allowed words.

    Args:
        word: the word that the user typed.
        words: the allowed words.
        what: kind of the word, such as ``severity``, for the message.

    Raises:
        UsageError: the word is not one of the allowed words.
    """
    if word not in words:
        raise UsageError(f"there is no {what} {word!r}: there are {', '.join(words)}")
    return word
