"""Selection of the commits that count as signs of life: the last ones before each record that may show a departure.

Nearly all records of a log are commits, so a group's replay does not get each of them. Before each record of a kind in
``DEPARTURES``, the caller passes the last commit of each partition since the previous such record (``heed_commits``).
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
