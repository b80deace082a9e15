"""What findings and metrics of a group are made of: rows of plain data with a tag.

Of each group they come by tag, what happened by time, partitions by topic, observations by finding: so whoever looks at
them keeps totals, and never the rows. What a group's own records show is kept in the internal table ``group_evidence``;
what its offsets come to is gathered by every run.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from coordinator_replay.analysis.rows import Row, Scope
from coordinator_replay.engine.model import GroupState, GroupType

TABLE = "group_evidence"


class Evidence(IntEnum):
    """The kinds of evidence, in the order in which they come.

    STANDING is the group at its last record. Happenings are rebalances one by one, and what all commits come to.
    OFFSETS is what the history of one partition comes to, REWIND those of its commits that went back. STATE is a state
    that the group came into, told by its name alone: for the metrics, and no rule looks at it. FAILURE is a step for
    the group that failed.
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
    STATE = 10
    FAILURE = 11
    LOST = 12


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


KINDS: Mapping[tuple[GroupType, GroupState], str] = {
    (group_type, state): f"{group_type}/{state}" for group_type in GroupType for state in GroupState
}
"""Every type and state that a group can have, and how evidence names it."""


def state_row(scope: Scope, group_type: GroupType, state: GroupState, *, at: int, seq: int) -> Row:
    """A state that a group came into, as a row of ``group_evidence``.

    Args:
        scope: whose it is.
        group_type: the group's type from then on.
        state: its state.
        at: when, in milliseconds.
        seq: which of its states it is.
    """
    return TABLE, {
        "cluster": scope.cluster,
        "group_id": scope.group_id,
        "tag": int(Evidence.STATE),
        "at": at,
        "name": KINDS[group_type, state],
        "seq": seq,
        "told": "",
    }
