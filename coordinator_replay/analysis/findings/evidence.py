"""Evidence: rows of plain data, each of one kind, that findings and metrics of a group are made of.

The evidence of a group comes in the order of its kinds: rebalances by time, partitions by topic, observations by
finding. So rules keep sums, and never the rows. What a group's own records show is kept in the internal table
``group_evidence``; every run makes the evidence about offsets from the tables of offsets.
"""

from collections.abc import Mapping
from enum import IntEnum

from coordinator_replay.analysis.findings.evidence_rows import Content
from coordinator_replay.analysis.rows import Row, Scope
from coordinator_replay.engine.model import GroupState, GroupType

TABLE = "group_evidence"


class Evidence(IntEnum):
    """The kinds of evidence, in the order in which they come.

    Attributes:
        STATUS: the group at its last record.
        REBALANCE: one rebalance.
        LARGE_RECORD: a record near the topic's limit.
        OFFSETS: the sums of one partition's commits, and what is over of its offsets.
        PENDING: a transaction of which commits waited long for its marker.
        EXPIRY: an offset that expired, is past retention or expires next.
        OBSERVATION: what a rule over the group's steps observed.
        UNREADABLE: records of a log partition that could not be decoded.
        GAP: a range of log offsets that no audit has read.
        REWIND: a burst of commits of a topic that are below the one before.
        STATE: a state that the group came into. Its name says all; it is for the metrics, and no rule looks at it.
        FAILURE: a step for the group that failed.
        LOST: a range of log offsets that a leader election has truncated.
        LOADING: a coordinator that loaded a log partition.
        QUIET: a long time in which a Stable group wrote no record of its own.
        UNKNOWN_KIND: records of a log partition that are of a kind which this release does not know.
        UNCOMMITTED: a time in which a partition had an owner and no commit yet, and that is over.
        POSITION_LOSS: a burst of commits of a topic with negative offsets.
        MOVED: groups whose records moved to another log partition.
    """

    STATUS = 0
    REBALANCE = 1
    LARGE_RECORD = 2
    OFFSETS = 3
    PENDING = 4
    EXPIRY = 5
    OBSERVATION = 6
    UNREADABLE = 7
    GAP = 8
    REWIND = 9
    STATE = 10
    FAILURE = 11
    LOST = 12
    LOADING = 13
    QUIET = 14
    UNCOMMITTED = 15
    UNKNOWN_KIND = 16
    POSITION_LOSS = 17
    MOVED = 18


def evidence_row(
    scope: Scope, kind: Evidence, content: Content | None, *, at: int | None = 0, name: str = "", seq: int = 0
) -> Row:
    """Return evidence as a row of ``group_evidence``.

    Args:
        scope: the group.
        kind: its tag.
        content: the evidence, fit for JSON; None where its name says all.
        at: its time, the first thing that rows of a kind are sorted by; those that have none come first.
        name: what they are sorted by next.
        seq: what they are sorted by last.
    """
    return TABLE, {
        "cluster": scope.cluster,
        "group_id": scope.group_id,
        "tag": int(kind),
        "at": at,
        "name": name,
        "seq": seq,
        "detail": "" if content is None else scope.encode(content),
    }


KINDS: Mapping[tuple[GroupType, GroupState], str] = {
    (group_type, state): f"{group_type}/{state}" for group_type in GroupType for state in GroupState
}
"""Every type and state that a group can have, and how evidence names it."""


def state_row(scope: Scope, group_type: GroupType, state: GroupState, *, at: int | None, seq: int) -> Row:
    """Return a state that a group came into, as a row of ``group_evidence``.

    Args:
        scope: the group.
        group_type: the group's type from then on.
        state: its state.
        at: when, in milliseconds; None before the group's first record with a time.
        seq: which of its states it is.
    """
    return evidence_row(scope, Evidence.STATE, None, at=at, name=KINDS[group_type, state], seq=seq)
