"""The decision why a member was removed from its group.

The records of a leave, a session timeout and a rebalance timeout are the same: three tombstones, or a member less in
the next generation. Only time separates them.

A timeout needs its time: a member that was surely alive less than a session timeout and less than a rebalance timeout
before its removal has left. A member that left temporarily and did not come back, or did not revoke partitions for
its rebalance timeout, was removed by the coordinator. Commits of a member's partitions show that somebody worked on
them. Silence shows nothing where there was nothing to read, so it counts only while others in the group went on
committing. In a join phase it is the reverse: members that joined again are silent, and one that goes on committing
did not join (``join_phase``). A client that is closed leaves before it comes back: one that was back first, as
another member, was killed. If none of this holds, the cause is LEAVE_OR_TIMEOUT, ``possible``, and the alternatives
name what it can be.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from coordinator_replay.analysis.reasons.arrivals import successor
from coordinator_replay.analysis.reasons.history import Sign
from coordinator_replay.analysis.reasons.join_phase import (
    TIMER_SLACK_MS,
    could_expire,
    did_others_wait,
    has_no_time_to_join,
    rebalance_timeout_words,
)
from coordinator_replay.analysis.reasons.situation import Situation, lasting, passed
from coordinator_replay.analysis.reasons.together import MemberFact
from coordinator_replay.analysis.reasons.vocabulary import Cause, Confidence, open_question
from coordinator_replay.engine.events import Event
from coordinator_replay.engine.model import AWAY_EPOCH, GroupType, Member
from coordinator_replay.times import elapsed_ms, time_text

DEFAULT_SESSION_MS = 45_000
"""Session timeout of members on the new protocol unless configured: it is not in the log."""

TOO_SOON_MS = 3_000
"""A removal so soon after a sign of life is likely no session timeout, where that timeout is not on record."""


class Departure(NamedTuple):
    """Signs of one member's removal.

    Attributes:
        evidence: what happened to the member, as a sentence goes on after its name, and why.
        back_as: the member as which its client had come back before the removal.
    """

    member: Member
    cause: Cause
    confidence: Confidence
    evidence: tuple[str, ...]
    alternatives: tuple[Cause, ...] = ()
    back_as: str | None = None

    @property
    def member_id(self) -> str:
        """Return the member's id."""
        return self.member.member_id

    @property
    def fact(self) -> MemberFact:
        """Return the evidence with the member that it is about."""
        return MemberFact(self.member, self.evidence[0], self.evidence[1:])


@lru_cache(maxsize=1)
def departures(situation: Situation) -> Sequence[Departure]:
    """Return each member that was removed, and why; several rows ask the same of one situation."""
    if not situation.left:
        return ()
    left = ((event, event.before or event.member) for event in situation.left)
    return [_departure(situation, event, member) for event, member in left if member is not None]


def _departure(situation: Situation, event: Event, member: Member) -> Departure:
    fact = f"was removed from the group {situation.at(event.offset, event.partition)}"
    for look in _LOOKS:
        departure = look(situation, member, fact)
        if departure is not None:
            return departure
    sign = situation.history.last_seen(member.member_id)
    alive = "no record shows when it was last alive" if sign is None else _alive(situation, sign)
    alternatives = (Cause.MEMBER_LEAVE, *_timeouts(situation, member))
    why = f"{alive}; {_timeout_words(situation, member)}{open_question(alternatives)}"
    return Departure(member, Cause.LEAVE_OR_TIMEOUT, Confidence.POSSIBLE, (fact, why), alternatives)


def _alive(situation: Situation, sign: Sign) -> str:
    earlier = passed(sign.at_ms, situation.removed_ms)
    return f"last record showing it alive: {earlier} earlier {situation.at(sign.offset, sign.partition)}"


def _timeout_words(situation: Situation, member: Member) -> str:
    """Return a member's timeouts as far as they are on record; only on the classic protocol a session timeout is."""
    session = _session_ms(member)
    words = (
        f"session.timeout.ms {lasting(session)}"
        if session is not None
        else f"its session timeout is not on record, by default {lasting(DEFAULT_SESSION_MS)}"
    )
    is_classic = member.subscription_or_empty.uses_classic_protocol
    return f"{words}, {rebalance_timeout_words(situation, member)}" if is_classic else words


def _left_by(member: Member) -> str:
    """Return how a member leaves that did not time out."""
    if member.instance_id is None:
        return "it sent LeaveGroup"
    return (
        "an admin removed it, since static members (group.instance.id) don't send LeaveGroup on close unless "
        "CloseOptions ask for it"
    )


def _kept_partitions(situation: Situation, member: Member, fact: str) -> Departure | None:
    since = situation.unrevoked_since.get(member.member_id)
    timeout, kept_ms = member.subscription_or_empty.least_rebalance_ms, elapsed_ms(since, situation.at_ms)
    if since is None or kept_ms is None or timeout <= 0 or not timeout <= kept_ms <= timeout + TIMER_SLACK_MS:
        return None
    sentence = (
        f"it had not revoked its partitions since {time_text(since)}, for its rebalance timeout "
        f"(max.poll.interval.ms {lasting(timeout)})"
    )
    return Departure(
        member,
        Cause.REBALANCE_TIMEOUT,
        Confidence.LIKELY,
        (fact, sentence),
        (Cause.MEMBER_LEAVE, Cause.SESSION_TIMEOUT),
    )


def _stayed_away(situation: Situation, member: Member, fact: str) -> Departure | None:
    sign = situation.history.last_seen(member.member_id)
    if member.current is None or member.current.epoch != AWAY_EPOCH or sign is None:
        return None
    away = (
        f"static member left temporarily (member epoch {AWAY_EPOCH}) {passed(sign.at_ms, situation.at_ms)} "
        f"earlier {situation.at(sign.offset, sign.partition)} and did not come back within its session timeout"
    )
    return Departure(member, Cause.SESSION_TIMEOUT, Confidence.LIKELY, (fact, away), (Cause.MEMBER_LEAVE,))


def _had_no_time(situation: Situation, member: Member, fact: str) -> Departure | None:
    sign = situation.history.last_seen(member.member_id)
    alive_ms = None if sign is None else elapsed_ms(sign.at_ms, situation.removed_ms)
    if sign is None or alive_ms is None:
        return None
    alive, timeouts = _alive(situation, sign), _timeout_words(situation, member)
    if _session_ms(member) is not None:
        if _timeouts(situation, member):
            return None
        why = f"{alive}, less than its timeouts ({timeouts}): {_left_by(member)}"
        return Departure(member, Cause.MEMBER_LEAVE, Confidence.CERTAIN, (fact, why))
    if alive_ms >= TOO_SOON_MS:
        return None
    why = f"{alive}, too soon for most timeouts ({timeouts}): {_left_by(member)}"
    return Departure(member, Cause.MEMBER_LEAVE, Confidence.LIKELY, (fact, why), (Cause.SESSION_TIMEOUT,))


def _did_not_join(situation: Situation, member: Member, fact: str) -> Departure | None:
    """Return a dynamic member that was not waiting when the join phase of a classic group ended."""
    if situation.group_type is not GroupType.CLASSIC or member.instance_id is not None:
        return None
    timeouts = _timeouts(situation, member)
    if Cause.REBALANCE_TIMEOUT not in timeouts:
        return None
    words = rebalance_timeout_words(situation, member)
    if has_no_time_to_join(situation) and situation.opening.member_count:
        why = f"members had no time to join again ({words})"
    else:
        own, others = _commits(situation, member)
        if not did_others_wait(situation, others) or own is None or others is None:
            return None
        if not _is_recent(situation, member, own) and Cause.SESSION_TIMEOUT in timeouts:
            return None
        why = (
            f"no other partition of the group was committed in the last {passed(others.at_ms, situation.removed_ms)} "
            f"{situation.at(others.offset, others.partition)}, as if their owners waited for it to join again: {words}"
        )
    alternatives = (Cause.MEMBER_LEAVE, *(cause for cause in timeouts if cause is not Cause.REBALANCE_TIMEOUT))
    return Departure(member, Cause.REBALANCE_TIMEOUT, Confidence.LIKELY, (fact, why), alternatives)


def _committed_late(situation: Situation, member: Member, fact: str) -> Departure | None:
    commit, others = _commits(situation, member)
    if commit is None or not _is_recent(situation, member, commit):
        return None
    timeouts = _timeouts(situation, member)
    is_open = Cause.REBALANCE_TIMEOUT in timeouts and did_others_wait(situation, others) is not False
    committed = (
        f"one of its partitions was committed {passed(commit.at_ms, situation.removed_ms)} earlier "
        f"{situation.at(commit.offset, commit.partition)} ({_timeout_words(situation, member)})"
    )
    if is_open:
        alternatives = (Cause.MEMBER_LEAVE, *timeouts)
        why = f"{committed}{open_question(alternatives)}"
        return Departure(member, Cause.LEAVE_OR_TIMEOUT, Confidence.POSSIBLE, (fact, why), alternatives)
    too_soon = "too soon for most session timeouts" if _session_ms(member) is None else "less than its session timeout"
    why = f"{committed}, {too_soon}: {_left_by(member)}"
    return Departure(member, Cause.MEMBER_LEAVE, Confidence.LIKELY, (fact, why), timeouts)


def _commits(situation: Situation, member: Member) -> tuple[Sign | None, Sign | None]:
    """Return the last commit of a member's partitions, and the last one of the group's other partitions."""
    history = situation.history
    if not history.has_commits:
        return None, None
    partitions = history.partitions_of(member, situation.group_type)
    return history.last_commit(partitions), history.last_commit(partitions, other=True)


def _is_recent(situation: Situation, member: Member, commit: Sign) -> bool:
    """Return whether a commit is younger than the member's session timeout, or too young for most of them."""
    committed_ms = elapsed_ms(commit.at_ms, situation.removed_ms)
    return committed_ms is not None and committed_ms < (_session_ms(member) or TOO_SOON_MS)


def _left_in_company(situation: Situation, member: Member, fact: str) -> Departure | None:
    if situation.group_type is GroupType.CLASSIC or len(situation.left) < 2:
        return None
    why = f"{len(situation.left)} members were removed at once: a timeout removes one, LeaveGroup can remove many"
    return Departure(member, Cause.MEMBER_LEAVE, Confidence.LIKELY, (fact, why), (Cause.SESSION_TIMEOUT,))


def _is_static(situation: Situation, member: Member, fact: str) -> Departure | None:
    timeouts = _timeouts(situation, member)
    if member.instance_id is None or Cause.SESSION_TIMEOUT not in timeouts:
        return None
    words = _timeout_words(situation, member)
    why = f"static members (group.instance.id) don't send LeaveGroup on close ({words})"
    alternatives = (Cause.MEMBER_LEAVE, *(cause for cause in timeouts if cause is not Cause.SESSION_TIMEOUT))
    return Departure(member, Cause.SESSION_TIMEOUT, Confidence.LIKELY, (fact, why), alternatives)


def _fell_silent(situation: Situation, member: Member, fact: str) -> Departure | None:
    session = _session_ms(member) or DEFAULT_SESSION_MS
    own, others = _commits(situation, member)
    if own is None or others is None:
        return None
    # A commit from before the member was last seen says nothing of the time since: another one may have made it.
    alive = (own, situation.history.last_seen(member.member_id) or own)
    waits = [elapsed_ms(sign.at_ms, at) for sign in alive for at in (situation.removed_ms, others.at_ms)]
    if any(wait is None or wait < session for wait in waits):
        return None
    why = (
        f"its partitions were last committed {passed(own.at_ms, situation.removed_ms)} earlier "
        f"{situation.at(own.offset, own.partition)}, while other partitions of the group were "
        f"{situation.at(others.offset, others.partition)}; {_timeout_words(situation, member)}"
    )
    timeouts = _timeouts(situation, member)
    alternatives = (Cause.MEMBER_LEAVE, *(cause for cause in timeouts if cause is not Cause.SESSION_TIMEOUT))
    return Departure(member, Cause.SESSION_TIMEOUT, Confidence.LIKELY, (fact, why), alternatives)


def _was_back(situation: Situation, member: Member, fact: str) -> Departure | None:
    """Return a session timeout if the member's client was back, as another member, before the removal.

    A client that closes leaves the group before it comes back. A client that is killed leaves its member to the
    timeout.
    """
    back = successor(situation, member)
    if back is None:
        return None
    returned, sign = back
    silent_ms = elapsed_ms(sign.at_ms, situation.removed_ms)
    if silent_ms is None or silent_ms < TOO_SOON_MS:
        return None
    why = (
        f"a client with its client.id and host was back {lasting(silent_ms)} earlier as {returned.member_id} "
        f"{situation.at(sign.offset, sign.partition)}, and no record since shows the removed member alive "
        f"({_timeout_words(situation, member)}): a client that is closed sends LeaveGroup before it joins again"
    )
    return Departure(
        member,
        Cause.SESSION_TIMEOUT,
        Confidence.LIKELY,
        (fact, why),
        (Cause.MEMBER_LEAVE,),
        returned.member_id,
    )


def _timeouts(situation: Situation, member: Member) -> tuple[Cause, ...]:
    """Return the timeouts for which there was time enough to remove the member."""
    sign, session = situation.history.last_seen(member.member_id), _session_ms(member)
    alive_ms = None if sign is None else elapsed_ms(sign.at_ms, situation.removed_ms)
    session_timed_out = session is None or alive_ms is None or alive_ms >= session
    causes = (Cause.SESSION_TIMEOUT,) if session_timed_out else ()
    return (*causes, Cause.REBALANCE_TIMEOUT) if could_expire(situation, member) else causes


def _session_ms(member: Member) -> int | None:
    """Return its session timeout, None where its record has none: only classic members give one."""
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
"""In the order in which they are asked: the first that finds something decides."""

TIMEOUTS = (Cause.SESSION_TIMEOUT, Cause.REBALANCE_TIMEOUT)


def possible_timeouts(situation: Situation) -> tuple[Cause, ...]:
    """Return timeouts that may have removed members in this operation."""
    named = {cause for departure in departures(situation) for cause in (departure.cause, *departure.alternatives)}
    return tuple(cause for cause in TIMEOUTS if cause in named)
