"""Selection of commits as signs of life: only the last commits before a record that may show a departure count.

Nearly all records of a log are commits, so a group's replay does not get each of them. Before each record of a kind in
``DEPARTURES``, the caller passes the last commit of each partition since the previous such record (``heed_commits``).
"""

from collections.abc import Mapping

SIGNS_WITHIN_MS = 600_000
"""Longest time between a commit and the record after it for which the commit is looked for; timeouts of members are
shorter."""

DEPARTURES: Mapping[str, bool] = {
    "GroupMetadata": False,
    "ConsumerGroupMemberMetadata": True,
    "StreamsGroupMemberMetadata": True,
}
"""Kinds of records that may show a departure, each with whether only its tombstone does."""
