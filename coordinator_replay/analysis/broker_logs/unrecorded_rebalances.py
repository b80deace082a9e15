"""Rebalances of classic groups that no record shows yet, in progress at the end of the brokers' logs.

A classic group writes no record until its rebalance is over. But lines of its coordinator after the group's last record
can show that a rebalance is in progress. Such a rebalance begins with a line "Preparing to rebalance group" that has
the generation of the last record, and no later line ends it. Lines don't count if a coordinator loaded the group's log
partition after them, because a loaded group is in the state of its last record.

No record confirms these lines, so no cause is certain and no row is exact.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from coordinator_replay.analysis.broker_logs.lines import SLACK_MS, GroupLogLine, cause_of, rejoin_cause
from coordinator_replay.analysis.broker_logs.words import MOST_LINES, line_fact, line_sentence, reasons_of
from coordinator_replay.analysis.reasons.facts import FACTS, fact_rows
from coordinator_replay.analysis.reasons.vocabulary import JOIN_REASONS, Cause, Confidence, JoinReason
from coordinator_replay.analysis.rebalances import rebalance_id
from coordinator_replay.analysis.rows import Scope
from coordinator_replay.engine.model import GroupType

ENDS = frozenset({"GROUP_EMPTY", "ASSIGNMENT_RECEIVED"})
"""Lines that end a rebalance, even if its record has not been read yet."""


class LastRecord(NamedTuple):
    """Facts of the last record of a classic group.

    Attributes:
        epoch: generation in the record.
        members: number of members in the record.
        at_ms: time of the record.
        log_partition: log partition of the record.
        log_offset: log offset of the record.
    """

    epoch: int
    members: int
    at_ms: int
    log_partition: int
    log_offset: int


def unrecorded_rebalance(
    scope: Scope, last: LastRecord, lines: Iterable[GroupLogLine], loaded_ms: int | None
) -> dict[str, Any] | None:
    """Return the rebalance that is in progress in a classic group, as a row of ``rebalances``.

    Return None if no rebalance is in progress.

    Args:
        scope: the group's cluster and name.
        last: the group's last record.
        lines: lines about the group on its log partition whose event is in ``BEGIN`` or ``ENDS``, sorted by time.
        loaded_ms: time at which a coordinator last loaded the log partition; None if no log has this time.
    """
    since_ms = max(last.at_ms - SLACK_MS, loaded_ms or 0)
    logged: list[GroupLogLine] = []
    for line in lines:
        if line.epoch is None or line.at_ms < since_ms:
            continue
        if line.event in ENDS:
            logged.clear()
        elif len(logged) < MOST_LINES and (line.epoch == last.epoch or (logged and line.epoch > last.epoch)):
            logged.append(line)
    if not logged:
        return None
    first = logged[0]
    cause = cause_of(first.reason) or Cause.UNKNOWN
    if cause is Cause.LEADER_REJOIN:
        cause = rejoin_cause(first.client_reason)
    is_open = cause in (Cause.UNKNOWN, Cause.LEADER_REJOIN)
    return {
        # The offset after the group's last record; the record that will end this rebalance comes later.
        "rebalance_id": rebalance_id(scope, last.log_partition, last.log_offset + 1),
        "cluster": scope.cluster,
        "group_id": scope.group_id,
        "group_type": str(GroupType.CLASSIC),
        "started_at": first.at_ms,
        "log_partition": last.log_partition,
        "cause": str(cause),
        "confidence": str(Confidence.POSSIBLE if is_open else Confidence.LIKELY),
        "join_reason": str(JOIN_REASONS.get(cause, JoinReason.UNKNOWN)),
        "evidence": [line_sentence(first)],
        FACTS: fact_rows([(line_fact(first),)]),
        "alternatives": [],
        "members_before": last.members,
        "is_exact": False,
        **reasons_of(logged),
    }
