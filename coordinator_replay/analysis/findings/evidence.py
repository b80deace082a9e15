"""Evidence: rows of plain data from which a group's findings and metrics are made. Each row has a kind.

The evidence of a group comes in the order of the kinds in ``Evidence``. Within a kind, rebalances are in order of time,
partitions in order of topic, and observations in order of finding. Because of this order, a rule can add rows up as
they come and need not keep them. Evidence from a group's own records is kept in the internal table ``group_evidence``.
Every run makes the evidence about offsets again from the tables of offsets.
"""

from collections.abc import Mapping
from enum import IntEnum

from coordinator_replay.analysis.findings.evidence_rows import Content
from coordinator_replay.analysis.rows import Row, Scope
from coordinator_replay.engine.model import GroupState, GroupType

TABLE = "group_evidence"


class Evidence(IntEnum):
    """Kinds of evidence about a group. The rules of findings get them in this order.

    Attributes:
        STATUS: the group at its last record.
        REBALANCE: one rebalance.
        LARGE_RECORD: a record near the topic's limit.
        OFFSETS: the sums of one partition's commits, and its past stalls and expiries.
        PENDING: a transaction whose commits waited long for its marker.
        EXPIRY: an offset that has expired, is past retention or is about to expire.
        OBSERVATION: an observation of a rule over the group's steps.
        UNREADABLE: records of a log partition that could not be decoded.
        GAP: a range of log offsets that no audit has read.
        REWIND: a burst of rewinds in one topic: commits of a lower offset than the partition's previous commit.
        STATE: the name of a state that the group entered. Only metrics use this kind.
        FAILURE: a step of the audit that failed on the group.
        LOST: a range of log offsets that a leader election has truncated.
        LOADING: a coordinator that loaded a log partition.
        QUIET: a long time in which a Stable group had no records but offset commits.
        UNKNOWN_KIND: records of a log partition whose kind this release does not know.
        UNCOMMITTED: a past time in which a partition had an owner and no commit yet.
        POSITION_LOSS: a burst of commits of negative offsets, in one topic.
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
        kind: kind of the evidence.
        content: the evidence as a dict; None if the evidence has only a name.
        at: time of the evidence. Rows of one kind are sorted by ``at``, then ``name``, then ``seq``. None comes first.
        name: the second sort key.
        seq: the third sort key.
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
"""Names of all types and states of groups in evidence."""


def state_row(scope: Scope, group_type: GroupType, state: GroupState, *, at: int | None, seq: int) -> Row:
    """Return a state that a group entered, as a row of ``group_evidence``.

    Args:
        scope: the group.
        group_type: type of the group while it has this state.
        state: the state that the group entered.
        at: time in milliseconds; None before the group's first record with a time.
        seq: number of the state among the group's states.
    """
    return evidence_row(scope, Evidence.STATE, None, at=at, name=KINDS[group_type, state], seq=seq)
