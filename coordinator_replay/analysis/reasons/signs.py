"""Selection of the commits that show that a member was alive.

Most records of a log are commits. So the replay of a group gets only some commits: the last one of each partition
before each record that may show that a member left.
"""

from collections.abc import Mapping

SIGNS_WITHIN_MS = 600_000
"""A commit is looked for if at most this time lies between the commit and the next record. Timeouts of members are
shorter."""

DEPARTURES: Mapping[str, bool] = {
    "GroupMetadata": False,
    "ConsumerGroupMemberMetadata": True,
    "StreamsGroupMemberMetadata": True,
}
"""Kinds of records that may show a departure. The value says whether only a tombstone of this kind shows one."""
