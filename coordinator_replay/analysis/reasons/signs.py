"""Which commits are worth looking at: those before a record that may show a departure, and not much older.

Commits are nearly all of a log, so nobody hands each of them to a group's replay. Whoever feeds it gives, before each
record of one of ``DEPARTURES``, the last commit of each partition since the one before: ``heed_commits``.
"""

from collections.abc import Mapping

SIGNS_WITHIN_MS = 600_000
"""Commits older than this before the record are not looked for: timeouts of members are shorter."""

DEPARTURES: Mapping[str, bool] = {
    "GroupMetadata": False,
    "ConsumerGroupMemberMetadata": True,
    "StreamsGroupMemberMetadata": True,
}
"""Kinds of record that may show a departure, and whether it is their tombstone that does."""
