"""Which commits are worth looking at: those before a record that may show a departure, and not much older.

Commits are nearly all of a log, so nobody hands each of them to a group's replay. Whoever feeds it gives, before each
record that ``may_show_departure``, the last commit of each partition since the one before: ``heed_commits``.
"""

from collections.abc import Mapping
from typing import Any

SIGNS_WITHIN_MS = 600_000
"""Commits older than this before the record are not looked for: timeouts of members are shorter."""

DEPARTURES: Mapping[str, bool] = {
    "GroupMetadata": False,
    "ConsumerGroupMemberMetadata": True,
    "StreamsGroupMemberMetadata": True,
}
"""Kinds of record that may show a departure, and whether it is their tombstone that does."""


def may_show_departure(kind: str, value: Mapping[str, Any] | None) -> bool:
    """Whether a record may show that a member was removed.

    >>> may_show_departure("GroupMetadata", {"generation": 3}), may_show_departure("ConsumerGroupMemberMetadata", {})
    (True, False)
    """
    return kind in DEPARTURES and DEPARTURES[kind] is (value is None)
