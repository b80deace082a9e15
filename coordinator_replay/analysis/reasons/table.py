"""The decision table: every row in the order of its rank, and the reason it leads to.

All rows are evaluated. The first row whose footprint is found names the cause. If a lower row finds another cause that
is no part of the first cause (``ReasonRule.explains``), the lower cause becomes an alternative. Its evidence is added,
and the first cause is not certain.
"""

from collections.abc import Sequence
from functools import cache

from coordinator_replay.analysis.reasons.change_rules import CHANGE_RULES
from coordinator_replay.analysis.reasons.explanation import Reason
from coordinator_replay.analysis.reasons.facts import Fact, FactKind, Sentence
from coordinator_replay.analysis.reasons.known_faults import known_faults
from coordinator_replay.analysis.reasons.member_rules import MEMBER_RULES
from coordinator_replay.analysis.reasons.rule import ReasonRule
from coordinator_replay.analysis.reasons.situation import Situation
from coordinator_replay.analysis.reasons.topic_changes import between
from coordinator_replay.analysis.reasons.unseen import unseen_beginnings
from coordinator_replay.analysis.reasons.vocabulary import JOIN_REASONS, Cause, Confidence, JoinReason
from coordinator_replay.engine.events import EventKind
from coordinator_replay.engine.model import GroupType
from coordinator_replay.times import elapsed_ms

TABLE: Sequence[ReasonRule] = (*MEMBER_RULES.rules, *CHANGE_RULES.rules)
"""Every row, first rank first."""


PROVEN_ALONE = frozenset({Cause.GROUP_CREATED, Cause.GROUP_CONVERSION, Cause.UNKNOWN})
"""Causes that the operation's own records prove, even if earlier records are missing."""


@cache
def _rows(group_type: GroupType, *, is_quiet: bool) -> list[ReasonRule]:
    """Return the rows of the table of reasons that apply to a rebalance.

    Args:
        group_type: type of the group.
        is_quiet: whether no member joined, was removed or changed its subscription. Some rows apply only then.
    """
    return [rule for rule in TABLE if group_type in rule.types and (is_quiet or not rule.is_quiet)]


def reason_of(situation: Situation) -> Reason:
    """Return why a group rebalances."""
    is_quiet = not (situation.joined or situation.left or situation.resubscribed)
    rows = _rows(situation.group_type, is_quiet=is_quiet)
    findings = [(rule, finding) for rule in rows if (finding := rule.find(situation)) is not None]
    if not findings:
        return _unknown(situation, FactKind.NOTHING_ON_RECORD)
    rule, first = findings[0]
    cause = rule.cause
    if not situation.opening.is_exact and cause not in PROVEN_ALONE:
        return _unknown(situation, FactKind.CHANGE_MISSING)
    evidence, alternatives = list(first.evidence), list(first.alternatives)
    confidence = first.confidence
    for lower, other in findings[1:]:
        if lower.cause is not cause and lower.cause not in rule.explains:
            evidence.extend(other.evidence)
            confidence = _at_most(confidence, _beside(lower.cause, situation.group_type))
            # LEAVE_OR_TIMEOUT leaves a question open, and its alternatives are the possible answers.
            named = () if lower.cause is Cause.LEAVE_OR_TIMEOUT else (lower.cause,)
            alternatives.extend((*named, *other.alternatives))
    evidence.extend(_side_facts(situation, cause))
    evidence.extend(known_faults(situation))
    confidence = _limited(situation, confidence, evidence)
    is_conversion_open = cause is Cause.GROUP_CONVERSION and confidence is Confidence.POSSIBLE
    return Reason(
        cause,
        _join_reason(situation, cause),
        confidence,
        tuple(evidence),
        tuple(dict.fromkeys(alternative for alternative in alternatives if alternative is not cause)),
        tuple(first.triggers),
        _delay_ms(situation, first.topics) if cause is Cause.TOPIC_METADATA_CHANGE else None,
        () if cause in PROVEN_ALONE and not is_conversion_open else unseen_beginnings(situation, cause),
    )


def with_unseen_beginnings(reason: Reason) -> Reason:
    """Return a reason with more alternatives: the causes that leave no record (``Reason.unseen``).

    If there are such causes, the join phase may have begun with one of them, and not with the cause on record. So the
    confidence is at most ``likely``.
    """
    if not reason.unseen:
        return reason
    alternatives = dict.fromkeys((*reason.alternatives, *reason.unseen))
    return reason._replace(
        confidence=_at_most(reason.confidence, Confidence.LIKELY),
        alternatives=tuple(cause for cause in alternatives if cause is not reason.cause),
    )


def _unknown(situation: Situation, kind: FactKind) -> Reason:
    sentence = (Fact(kind, place=situation.place()),)
    return Reason(Cause.UNKNOWN, JoinReason.UNKNOWN, Confidence.POSSIBLE, (sentence,), (), (), None)


def with_unknown_departures(reason: Reason) -> Reason:
    """Return the reason of a rebalance if records about earlier removals may be missing.

    A member that joined may then be a client that came back. So the confidence is at most ``likely``. MEMBER_RESTART,
    CLIENT_UPGRADE and CLIENT_DOWNGRADE become alternatives, except the one that is the cause.
    """
    back = (Cause.MEMBER_RESTART, Cause.CLIENT_UPGRADE, Cause.CLIENT_DOWNGRADE)
    others = tuple(cause for cause in back if cause is not reason.cause)
    return reason._replace(
        confidence=_at_most(reason.confidence, Confidence.LIKELY),
        evidence=(*reason.evidence, (Fact(FactKind.DEPARTURES_MISSING),)),
        alternatives=tuple(dict.fromkeys((*reason.alternatives, *others))),
    )


def with_unknown_conversion(reason: Reason) -> Reason:
    """Return the reason of a rebalance if the record of a downgrade of the group may be missing.

    The confidence is then at most ``likely``, and GROUP_CONVERSION becomes an alternative. A reason stays as it is if
    its cause is proven by its own records.
    """
    if reason.cause in PROVEN_ALONE:
        return reason
    return reason._replace(
        confidence=_at_most(reason.confidence, Confidence.LIKELY),
        evidence=(*reason.evidence, (Fact(FactKind.CONVERSION_MISSING),)),
        alternatives=(*reason.alternatives, Cause.GROUP_CONVERSION),
    )


def _beside(other: Cause, group_type: GroupType) -> Confidence:
    """Return the highest possible confidence in a cause if records show another cause too.

    Args:
        other: the other cause.
        group_type: type of the group.
    """
    is_open = group_type is GroupType.CLASSIC and other is not Cause.REBALANCE_TIMEOUT
    return Confidence.POSSIBLE if is_open else Confidence.LIKELY


def _at_most(confidence: Confidence, most: Confidence) -> Confidence:
    order = list(Confidence)
    return max(confidence, most, key=order.index)


def _side_facts(situation: Situation, cause: Cause) -> list[Sentence]:
    """Return a sentence about a changed assignor; no sentence if the cause already says that the assignor changed."""
    if cause in (Cause.PROTOCOL_CHANGE, Cause.GROUP_CONVERSION):
        return []
    facts: list[Sentence] = []
    for event in situation.of_kind(EventKind.PROTOCOL_CHANGED):
        changed = event.changes.get("protocol") or event.changes.get("assignor") or ()
        if len(changed) == 2:
            old, new = (name or "the broker's default" for name in changed)
            place = situation.place(event.offset)
            facts.append((Fact(FactKind.ASSIGNOR_CHANGED_TOO, old=old, new=new, place=place),))
    return facts


def _limited(situation: Situation, confidence: Confidence, evidence: list[Sentence]) -> Confidence:
    """Limit the confidence to ``likely`` if records about the rebalance are missing, and say so in ``evidence``.

    Otherwise return the confidence unchanged.
    """
    opening = situation.opening
    if not opening.is_exact:
        evidence.append((Fact(FactKind.STEPS_MISSING),))
        confidence = _at_most(confidence, Confidence.LIKELY)
    attempts = opening.changes.get("attempts") or 1
    if attempts > 1:
        evidence.append((Fact(FactKind.GENERATIONS_MISSING, number=attempts - 1),))
        confidence = _at_most(confidence, Confidence.LIKELY)
    return confidence


def _join_reason(situation: Situation, cause: Cause) -> JoinReason:
    if cause is Cause.COOPERATIVE_FOLLOW_UP:
        return JoinReason(situation.history.join_reason)
    return JOIN_REASONS.get(cause, JoinReason.UNKNOWN)


def _delay_ms(situation: Situation, topics: Sequence[str]) -> int | None:
    """Return the time from the change of these topics to the rebalance that the change caused.

    Return None if no such change is on record.
    """
    changes = situation.changes_since(set(topics))
    if not changes and situation.group_type is GroupType.CLASSIC:
        changes = between(situation.topic_changes, topics, None, situation.started_ms)[-1:]
    return elapsed_ms(changes[0][1].at_ms, situation.started_ms) if changes else None
