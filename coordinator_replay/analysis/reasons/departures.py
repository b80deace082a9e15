"""The decision why a member was removed from its group.

LeaveGroup, a session timeout and a rebalance timeout leave the same records: three tombstones, or a next generation
without the member. Only times tell them apart.

- A timeout needs time to expire. So a member has left if the time from its last sign of life to its removal is shorter
  than its session timeout and its rebalance timeout.
- The coordinator removes a static member that left temporarily and did not come back. It also removes a member that did
  not revoke partitions within its rebalance timeout.
- Commits of a member's partitions show that its consumer was working. Missing commits show nothing if there was nothing
  to read, so they count only while other members still committed. In a join phase, a commit speaks against its member:
  members that joined again wait and commit nothing, and a member that still commits did not join (``join_phase``).
- A client that is closed leaves before it comes back. So a client was killed if it was back, as another member, before
  its old member was removed.

If none of this decides, the cause is LEAVE_OR_TIMEOUT with confidence ``possible``, and the alternatives are named.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from coordinator_replay.analysis.reasons.arrivals import successor
from coordinator_replay.analysis.reasons.facts import DEFAULT_SESSION_MS, Evidence, Fact, FactKind, Timeouts, about
from coordinator_replay.analysis.reasons.history import Sign
from coordinator_replay.analysis.reasons.join_phase import (
    TIMER_SLACK_MS,
    could_expire,
    did_others_wait,
    has_no_time_to_join,
    rebalance_timeout_ms,
)
from coordinator_replay.analysis.reasons.situation import Situation
from coordinator_replay.analysis.reasons.vocabulary import Cause, Confidence
from coordinator_replay.engine.events import Event
from coordinator_replay.engine.model import AWAY_EPOCH, GroupType, Member
from coordinator_replay.times import elapsed_ms

TIMEOUTS = (Cause.SESSION_TIMEOUT, Cause.REBALANCE_TIMEOUT)

TOO_SOON_MS = 3_000
"""A removal sooner than this after a sign of life is likely no session timeout.

This time is used if the member's session timeout is not on record.
"""


class Departure(NamedTuple):
    """The removal of one member, with its cause.

    Attributes:
        evidence: evidence of what happened to the member.
        back_as: the new member of the same client, if the client had come back before the removal.
    """

    member: Member
    cause: Cause
    confidence: Confidence
    evidence: Evidence
    alternatives: tuple[Cause, ...] = ()
    back_as: str | None = None

    @property
    def member_id(self) -> str:
        """Return the member's id."""
        return self.member.member_id


@lru_cache(maxsize=1)
def departures(situation: Situation) -> Sequence[Departure]:
    """Return each removed member with the cause of its removal.

    The result is cached.
    """
    if not situation.left:
        return ()
    left = ((event, event.before or event.member) for event in situation.left)
    return [_departure(situation, event, member) for event, member in left if member is not None]


def _departure(situation: Situation, event: Event, member: Member) -> Departure:
    fact = about(FactKind.REMOVED, member, place=situation.place(event.offset, event.partition))
    for look in _LOOKS:
        departure = look(situation, member, fact)
        if departure is not None:
            named = (departure.cause, *departure.alternatives)
            if Cause.REBALANCE_TIMEOUT in named or _kept_ms(situation, member) is None:
                return departure
            return departure._replace(alternatives=(*departure.alternatives, Cause.REBALANCE_TIMEOUT))
    alternatives = (Cause.MEMBER_LEAVE, *_open_timeouts(situation, member))
    limits = about(FactKind.TIMEOUTS, member, timeouts=_limits(situation, member))
    why = (_alive(situation, member), limits, about(FactKind.UNDECIDED, member, causes=alternatives))
    return Departure(member, Cause.LEAVE_OR_TIMEOUT, Confidence.POSSIBLE, ((fact,), why), alternatives)


def _alive(situation: Situation, member: Member) -> Fact:
    """Return the fact about the last record that shows a member alive. Commits of its partitions count, too."""
    sign = situation.history.last_sign(member, situation.group_type)
    return about(FactKind.NEVER_SEEN, member) if sign is None else _since(FactKind.LAST_SEEN, situation, member, sign)


def _since(kind: FactKind, situation: Situation, member: Member, sign: Sign, **fields: Any) -> Fact:
    """Return a fact about a member and an earlier record, with the time from this record to the member's removal."""
    place, ago_ms = situation.place(sign.offset, sign.partition), elapsed_ms(sign.at_ms, situation.removed_ms)
    return about(kind, member, since=place, elapsed_ms=ago_ms, **fields)


def _limits(situation: Situation, member: Member) -> Timeouts:
    """Return a member's timeouts that are on record.

    A session timeout is on record only for the classic protocol.
    """
    return Timeouts(
        _session_ms(member),
        member.subscription_or_empty.uses_classic_protocol,
        rebalance_timeout_ms(situation, member),
        situation.group_type is GroupType.CLASSIC,
    )


def _left_by(member: Member, sure: Confidence) -> Fact:
    """Return the fact that a member left, as far as the log shows this.

    Args:
        member: the member.
        sure: CERTAIN if the member left for sure; otherwise the fact says that it likely left.
    """
    is_static = member.instance_id is not None
    if sure is Confidence.CERTAIN:
        return about(FactKind.REMOVED_BY_LEAVE_OF_STATIC if is_static else FactKind.REMOVED_BY_LEAVE, member)
    return about(FactKind.LIKELY_REMOVED_BY_ADMIN if is_static else FactKind.LIKELY_LEFT, member)


def _kept_partitions(situation: Situation, member: Member, fact: Fact) -> Departure | None:
    since, kept_ms = situation.unrevoked_since.get(member.member_id), _kept_ms(situation, member)
    timeout = member.subscription_or_empty.least_rebalance_ms
    if since is None or kept_ms is None or kept_ms > timeout + TIMER_SLACK_MS:
        return None
    kept = about(FactKind.KEPT_PARTITIONS, member, at_ms=since, elapsed_ms=kept_ms, limit_ms=timeout)
    return Departure(
        member,
        Cause.REBALANCE_TIMEOUT,
        Confidence.LIKELY,
        ((fact,), (kept,)),
        (Cause.MEMBER_LEAVE, Cause.SESSION_TIMEOUT),
    )


def _kept_ms(situation: Situation, member: Member) -> int | None:
    """Return how long a member kept partitions that it had to give up.

    Return None if it kept them for less than its rebalance timeout, or if the times are not on record.
    """
    kept_ms = elapsed_ms(situation.unrevoked_since.get(member.member_id), situation.at_ms)
    return kept_ms if kept_ms is not None and 0 < member.subscription_or_empty.least_rebalance_ms <= kept_ms else None


def _stayed_away(situation: Situation, member: Member, fact: Fact) -> Departure | None:
    sign = situation.history.last_seen(member.member_id)
    if member.current is None or member.current.epoch != AWAY_EPOCH or sign is None:
        return None
    away = _since(FactKind.STAYED_AWAY, situation, member, sign)
    return Departure(member, Cause.SESSION_TIMEOUT, Confidence.LIKELY, ((fact,), (away,)), (Cause.MEMBER_LEAVE,))


def _had_no_time(situation: Situation, member: Member, fact: Fact) -> Departure | None:
    sign = situation.history.last_seen(member.member_id)
    alive_ms = None if sign is None else elapsed_ms(sign.at_ms, situation.removed_ms)
    if sign is None or alive_ms is None:
        return None
    alive, limits = _alive(situation, member), _limits(situation, member)
    if _session_ms(member) is not None:
        if timeouts_of(situation, member):
            return None
        is_sure = situation.group_type is GroupType.CLASSIC
        sure = Confidence.CERTAIN if is_sure else Confidence.LIKELY
        if alive_ms < (limits.rebalance_ms or 0):
            compared = [about(FactKind.LESS_THAN_TIMEOUTS, member, timeouts=limits)]
        else:
            # The rebalance timeout passed, and its timer can't have removed the member. Or a record lacks the timeout.
            session = about(FactKind.LESS_THAN_SESSION_TIMEOUT, member)
            compared = [session, about(FactKind.TIMEOUTS, member, timeouts=limits)]
        why = (alive, *compared, _left_by(member, sure))
        return Departure(member, Cause.MEMBER_LEAVE, sure, ((fact,), why), () if is_sure else TIMEOUTS)
    if alive_ms >= TOO_SOON_MS:
        return None
    why = (alive, about(FactKind.LESS_THAN_MOST_TIMEOUTS, member, timeouts=limits), _left_by(member, Confidence.LIKELY))
    return Departure(member, Cause.MEMBER_LEAVE, Confidence.LIKELY, ((fact,), why), (Cause.SESSION_TIMEOUT,))


def _did_not_join(situation: Situation, member: Member, fact: Fact) -> Departure | None:
    """Return the removal of a dynamic member from a classic group, if a rebalance timeout may have removed it.

    This is possible if the member had not joined again when the join phase ended. Otherwise return None.

    Args:
        situation: the rebalance.
        member: the removed member.
        fact: the fact that the member was removed. It becomes the first fact of the evidence.
    """
    if situation.group_type is not GroupType.CLASSIC or member.instance_id is not None:
        return None
    timeouts = timeouts_of(situation, member)
    if Cause.REBALANCE_TIMEOUT not in timeouts:
        return None
    limits = _limits(situation, member)
    if has_no_time_to_join(situation) and situation.opening.member_count:
        why = about(FactKind.NO_TIME_TO_JOIN, member, timeouts=limits)
    else:
        own, others = _commits(situation, member)
        if not did_others_wait(situation, others) or own is None or others is None:
            return None
        if not _is_recent(situation, member, own) and Cause.SESSION_TIMEOUT in timeouts:
            return None
        why = _since(FactKind.OTHERS_WAITED, situation, member, others, timeouts=limits)
    alternatives = (Cause.MEMBER_LEAVE, *(cause for cause in timeouts if cause is not Cause.REBALANCE_TIMEOUT))
    # Either the end of the join phase removed the member and began no rebalance. Or the member had left, and the others
    # waited for another member.
    return Departure(member, Cause.REBALANCE_TIMEOUT, Confidence.POSSIBLE, ((fact,), (why,)), alternatives)


def _committed_late(situation: Situation, member: Member, fact: Fact) -> Departure | None:
    commit, others = _commits(situation, member)
    if commit is None or not _is_recent(situation, member, commit):
        return None
    timeouts = timeouts_of(situation, member)
    is_waited_for = situation.group_type is not GroupType.CLASSIC or did_others_wait(situation, others) is not False
    is_open = Cause.REBALANCE_TIMEOUT in timeouts and is_waited_for
    committed = _since(FactKind.COMMITTED, situation, member, commit, timeouts=_limits(situation, member))
    if is_open:
        alternatives = (Cause.MEMBER_LEAVE, *_open_timeouts(situation, member))
        question = about(FactKind.UNDECIDED, member, causes=alternatives)
        return Departure(
            member, Cause.LEAVE_OR_TIMEOUT, Confidence.POSSIBLE, ((fact,), (committed, question)), alternatives
        )
    is_known = _session_ms(member) is not None
    too_soon = FactKind.LESS_THAN_SESSION_TIMEOUT if is_known else FactKind.LESS_THAN_MOST_SESSION_TIMEOUTS
    why = (committed, about(too_soon, member), _left_by(member, Confidence.LIKELY))
    alternatives = _open_timeouts(situation, member)
    return Departure(member, Cause.MEMBER_LEAVE, Confidence.LIKELY, ((fact,), why), alternatives)


def _commits(situation: Situation, member: Member) -> tuple[Sign | None, Sign | None]:
    """Return the last commit of a member's partitions, and the last commit of the group's other partitions."""
    history = situation.history
    if not history.has_commits:
        return None, None
    partitions = history.partitions_of(member, situation.group_type)
    return history.last_commit(partitions), history.last_commit(partitions, other=True)


def _is_recent(situation: Situation, member: Member, commit: Sign) -> bool:
    """Return whether the time from a commit to the removal is shorter than the member's session timeout.

    If the session timeout is not on record, return whether this time is shorter than TOO_SOON_MS.
    """
    committed_ms = elapsed_ms(commit.at_ms, situation.removed_ms)
    return committed_ms is not None and committed_ms < (_session_ms(member) or TOO_SOON_MS)


def _left_in_company(situation: Situation, member: Member, fact: Fact) -> Departure | None:
    if situation.group_type is GroupType.CLASSIC or len(situation.left) < 2:
        return None
    why = about(FactKind.REMOVED_AT_ONCE, member, number=len(situation.left))
    return Departure(member, Cause.MEMBER_LEAVE, Confidence.LIKELY, ((fact,), (why,)), (Cause.SESSION_TIMEOUT,))


def _is_static(situation: Situation, member: Member, fact: Fact) -> Departure | None:
    timeouts = timeouts_of(situation, member)
    if member.instance_id is None or Cause.SESSION_TIMEOUT not in timeouts:
        return None
    why = about(FactKind.STATIC_SENDS_NO_LEAVE, member, timeouts=_limits(situation, member))
    alternatives = (Cause.MEMBER_LEAVE, *(cause for cause in timeouts if cause is not Cause.SESSION_TIMEOUT))
    return Departure(member, Cause.SESSION_TIMEOUT, Confidence.LIKELY, ((fact,), (why,)), alternatives)


def _fell_silent(situation: Situation, member: Member, fact: Fact) -> Departure | None:
    session = _session_ms(member) or DEFAULT_SESSION_MS
    own, others = _commits(situation, member)
    if own is None or others is None:
        return None
    # A commit before the member was last seen shows nothing about the time since then: another member may have made it.
    alive = (own, situation.history.last_seen(member.member_id) or own)
    waits = [elapsed_ms(sign.at_ms, at) for sign in alive for at in (situation.removed_ms, others.at_ms)]
    if any(wait is None or wait < session for wait in waits):
        return None
    place = situation.place(others.offset, others.partition)
    limits = _limits(situation, member)
    why = _since(FactKind.FELL_SILENT, situation, member, own, place=place, timeouts=limits)
    timeouts = timeouts_of(situation, member)
    alternatives = (Cause.MEMBER_LEAVE, *(cause for cause in timeouts if cause is not Cause.SESSION_TIMEOUT))
    # A consumer that works slowly, or has nothing to commit, is silent, too, and may have left.
    return Departure(member, Cause.SESSION_TIMEOUT, Confidence.POSSIBLE, ((fact,), (why,)), alternatives)


def _was_back(situation: Situation, member: Member, fact: Fact) -> Departure | None:
    """Return a session timeout as the cause of a member's removal, if its client had come back before the removal.

    Return None if the client had not come back. A killed client sends no LeaveGroup. So its old member stays until the
    session timeout, and the new member joins before.

    Args:
        situation: the rebalance.
        member: the removed member.
        fact: the first fact of the evidence.
    """
    back = successor(situation, member)
    if back is None:
        return None
    returned, sign = back
    silent_ms = elapsed_ms(sign.at_ms, situation.removed_ms)
    if silent_ms is None or silent_ms < TOO_SOON_MS:
        return None
    limits = _limits(situation, member)
    why = _since(FactKind.CLIENT_JOINED_BEFORE, situation, member, sign, others=(returned.member_id,), timeouts=limits)
    return Departure(
        member,
        Cause.SESSION_TIMEOUT,
        Confidence.LIKELY,
        ((fact,), (why,)),
        (Cause.MEMBER_LEAVE,),
        returned.member_id,
    )


def timeouts_of(situation: Situation, member: Member) -> tuple[Cause, ...]:
    """Return the timeouts that had enough time to expire before the member's removal."""
    sign, session = situation.history.last_seen(member.member_id), _session_ms(member)
    alive_ms = None if sign is None else elapsed_ms(sign.at_ms, situation.removed_ms)
    session_timed_out = session is None or alive_ms is None or alive_ms >= session
    causes = (Cause.SESSION_TIMEOUT,) if session_timed_out else ()
    return (*causes, Cause.REBALANCE_TIMEOUT) if could_expire(situation, member) else causes


def _open_timeouts(situation: Situation, member: Member) -> tuple[Cause, ...]:
    """Return the timeouts that may have removed a member."""
    timeouts = timeouts_of(situation, member)
    if situation.group_type is GroupType.CLASSIC:
        return timeouts
    has_kept = Cause.REBALANCE_TIMEOUT in timeouts or _kept_ms(situation, member) is not None
    return (Cause.SESSION_TIMEOUT, Cause.REBALANCE_TIMEOUT) if has_kept else (Cause.SESSION_TIMEOUT,)


def _session_ms(member: Member) -> int | None:
    """Return a member's session timeout.

    Return None if the member's record has none. Only records of classic members have a session timeout.
    """
    session_ms = member.subscription_or_empty.session_timeout_ms
    return session_ms if session_ms is not None and session_ms > 0 else None


_LOOKS = (
    _kept_partitions,
    _stayed_away,
    _had_no_time,
    _did_not_join,
    _committed_late,
    _left_in_company,
    _was_back,
    _is_static,
    _fell_silent,
)
"""Checks in the order in which they are made: the first check with a result decides."""


def possible_timeouts(situation: Situation) -> tuple[Cause, ...]:
    """Return the kinds of timeouts that may have removed members just before a rebalance."""
    named = {cause for departure in departures(situation) for cause in (departure.cause, *departure.alternatives)}
    return tuple(cause for cause in TIMEOUTS if cause in named)
