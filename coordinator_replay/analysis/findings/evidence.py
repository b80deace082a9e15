"""What findings and metrics of a group are made of: rows of plain data with a tag.

Of each group they come by tag, what happened by time, partitions by topic, sightings by finding: so whoever looks at
them keeps totals, and never the rows. What a group's own records show is kept in the internal table ``group_evidence``;
what its offsets come to is gathered by every run.
"""

from enum import IntEnum
from typing import Any

from coordinator_replay.analysis.rows import Row, Scope

TABLE = "group_evidence"


class Evidence(IntEnum):
    """The kinds of evidence, in the order in which they come.

    STANDING is the group at its last record. Happenings are states and rebalances one by one, and what all commits
    come to. OFFSETS is what the history of one partition comes to, REWIND those of its commits that went back.
    """

    STANDING = 0
    HAPPENING = 1
    LARGE_RECORD = 2
    OFFSETS = 3
    PENDING = 4
    EXPIRY = 5
    SIGHTING = 6
    UNREADABLE = 7
    GAP = 8
    REWIND = 9


def evidence_row(
    scope: Scope, kind: Evidence, told: dict[str, Any], *, at: int = 0, name: str = "", seq: int = 0
) -> Row:
    """Evidence as a row of ``group_evidence``.

    Args:
        scope: whose it is.
        kind: its tag.
        told: fit for JSON.
        at: where it comes among its kind, first by time,
        name: then by name,
        seq: and then by number.
    """
    return TABLE, {
        "cluster": scope.cluster,
        "group_id": scope.group_id,
        "tag": int(kind),
        "at": at,
        "name": name,
        "seq": seq,
        "told": scope.encode(told),
    }
