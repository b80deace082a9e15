"""The results of the decision table: the explanation of one row, and the reason of a rebalance."""

from collections.abc import Sequence
from typing import NamedTuple

from coordinator_replay.analysis.reasons.facts import Evidence, Sentence
from coordinator_replay.analysis.reasons.vocabulary import Cause, Confidence, JoinReason


class Explanation(NamedTuple):
    """Result of one row of the decision table.

    Attributes:
        confidence: how sure the cause is.
        evidence: the evidence for the cause.
        alternatives: causes that leave the same records.
        triggers: the members that caused the rebalance.
        topics: topics that changed, if a topic is the cause.
    """

    confidence: Confidence
    evidence: Evidence
    alternatives: Sequence[Cause] = ()
    triggers: Sequence[str] = ()
    topics: Sequence[str] = ()


class Reason(NamedTuple):
    """The reason of a rebalance.

    Attributes:
        alternatives: other possible causes.
        triggers: ids of the members that caused the rebalance.
        metadata_delay_ms: time from the change of topics to the rebalance that the change caused. None if ``cause`` has
            nothing to do with topics, or if the time is not on record.
        unseen: other causes that may have begun the rebalance but left no record.
    """

    cause: Cause
    join_reason: JoinReason
    confidence: Confidence
    evidence: tuple[Sentence, ...]
    alternatives: tuple[Cause, ...]
    triggers: tuple[str, ...]
    metadata_delay_ms: int | None
    unseen: tuple[Cause, ...] = ()
