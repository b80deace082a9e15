"""Facts that a rebalance shows about an earlier rebalance: why a member was removed, and which client had joined.

If a client's return shows that the client had exceeded max.poll.interval.ms, this was why its member was removed. A
client that was killed and started again joins while its old member is still in the group. The records show only later
that this client came back: when the old member is removed after its session timeout.
"""

from typing import NamedTuple

from coordinator_replay.analysis.reasons.arrivals import Return, returns, twin
from coordinator_replay.analysis.reasons.departures import departures
from coordinator_replay.analysis.reasons.explanation import Reason
from coordinator_replay.analysis.reasons.facts import FactKind, Sentence, about
from coordinator_replay.analysis.reasons.history import Sign
from coordinator_replay.analysis.reasons.member_rules import has_polled_late, poll_timeout_rejoin
from coordinator_replay.analysis.reasons.situation import Situation
from coordinator_replay.analysis.reasons.vocabulary import JOIN_REASONS, Cause, Confidence, JoinReason
from coordinator_replay.engine.model import GroupType
from coordinator_replay.times import elapsed_ms

HINDSIGHT_MS = 3_600_000
"""Time after a rebalance in which later rebalances may show more about the reason of this rebalance."""

_DEPARTURES = frozenset({Cause.LEAVE_OR_TIMEOUT, Cause.SESSION_TIMEOUT, Cause.MEMBER_LEAVE})


class Revision(NamedTuple):
    """Facts of a rebalance that change the reason of an earlier rebalance.

    Attributes:
        member_id: the member that was removed or joined in the earlier rebalance.
        has_joined: whether the member had joined; if not, it was removed.
        cause: cause of the join or of the removal.
        confidence: how sure ``cause`` is.
        sentence: the evidence for ``cause``.
    """

    member_id: str
    has_joined: bool
    cause: Cause
    confidence: Confidence
    sentence: Sentence


def revisions(situation: Situation) -> list[Revision]:
    """Return the facts that the present rebalance shows about earlier rebalances."""
    changed = []
    rejoined = poll_timeout_rejoin(situation) if situation.joined else None
    if rejoined is not None:
        for back in returns(situation)[0]:
            if has_polled_late(back) and not situation.is_of_this_operation(back.departed):
                gone, sure = back.departed, rejoined.confidence
                changed.append(
                    Revision(gone.member_id, False, Cause.POLL_TIMEOUT_REJOIN, sure, _came_back(situation, back))
                )
    removed_at = {event.member_id: event.offset for event in situation.left}
    for departure in departures(situation):
        if departure.back_as is not None:
            place = situation.place(removed_at[departure.member_id])
            removed = (about(FactKind.REMOVED_LATER, departure.member, place=place),)
            changed.append(Revision(departure.back_as, True, Cause.MEMBER_RESTART, departure.confidence, removed))
    return changed


def _came_back(situation: Situation, back: Return) -> Sentence:
    gap_ms = elapsed_ms(back.departed.left_ms, situation.started_ms)
    place, others = situation.place(back.offset), (back.member.member_id,)
    kind = FactKind.CAME_BACK if back.is_sure else FactKind.CLIENT_JOINED_LATER
    return (
        about(kind, back.departed, others=others, place=place, elapsed_ms=gap_ms),
        about(FactKind.MAY_HAVE_POLLED_LATE, back.departed, limit_ms=back.departed.rebalance_ms),
    )


def revised(reason: Reason, revision: Revision) -> Reason:
    """Return the reason of the earlier rebalance, given the new facts.

    Keep a certain cause. If other members may also have caused the rebalance, keep the cause and add the new cause to
    the alternatives. Otherwise replace the cause.
    """
    if reason.confidence is Confidence.CERTAIN or reason.cause is revision.cause:
        return reason
    is_open = reason.cause is Cause.MEMBER_JOIN if revision.has_joined else reason.cause in _DEPARTURES
    evidence = (*map(decided, reason.evidence), revision.sentence)
    if not is_open or reason.triggers != (revision.member_id,):
        alternatives = dict.fromkeys((*reason.alternatives, revision.cause))
        return reason._replace(evidence=(*reason.evidence, revision.sentence), alternatives=tuple(alternatives))
    others = [reason.cause, *reason.alternatives] if reason.cause is not Cause.LEAVE_OR_TIMEOUT else reason.alternatives
    return reason._replace(
        cause=revision.cause,
        join_reason=JOIN_REASONS.get(revision.cause, JoinReason.UNKNOWN),
        confidence=max(revision.confidence, Confidence.LIKELY, key=list(Confidence).index),
        evidence=evidence,
        alternatives=tuple(dict.fromkeys(cause for cause in others if cause is not revision.cause)),
    )


def decided(sentence: Sentence) -> Sentence:
    """Return a sentence of evidence without its UNDECIDED facts.

    An UNDECIDED fact says that the log does not show which of several causes is the right one.
    """
    return tuple(fact for fact in sentence if fact.kind is not FactKind.UNDECIDED)


def is_open(situation: Situation) -> bool:
    """Return whether a later rebalance may show more about why the present rebalance began."""
    return any(departure.confidence is not Confidence.CERTAIN for departure in departures(situation)) or bool(
        twins(situation)
    )


def twins(situation: Situation) -> dict[str, Sign]:
    """Return members that joined while another member had the same client id and host, each with its record.

    Return an empty dict for a classic group.
    """
    if situation.group_type is GroupType.CLASSIC:
        return {}
    return {
        member.member_id: Sign(situation.at_ms, situation.opening.partition, offset)
        for member, offset in returns(situation)[1]
        if twin(situation, member) is not None
    }


def returned_by(situation: Situation) -> set[str]:
    """Return the ids of members whose clients are known to have come back.

    For a client that came back before its old member was removed, return the ids of both members.
    """
    member_ids = {back.departed.member_id for back in returns(situation)[0]}
    for departure in departures(situation):
        if departure.back_as is not None:
            member_ids.update((departure.member_id, departure.back_as))
    return member_ids
