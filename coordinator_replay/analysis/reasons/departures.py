"""Why a member was removed from its group.

The records of a leave, a session timeout and a rebalance timeout are the same: three tombstones, or a member less in
the next generation. Only time separates them.

A timeout needs its time: who was surely alive less than a session timeout before its removal has left. Who left
temporarily and did not come back, or did not revoke partitions for its rebalance timeout, was removed by the
coordinator. Commits of a member's partitions show that somebody worked on them; silence shows nothing where there was
nothing to read, so it counts only while others in the group went on committing. A client that is closed leaves before
it comes back: one that was back first, as another member, was killed. Where none of this holds, the cause is
LEAVE_OR_TIMEOUT, ``possible``, and the alternatives name both.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from coordinator_replay.analysis.reasons.arrivals import successor
from coordinator_replay.analysis.reasons.history import Sign
from coordinator_replay.analysis.reasons.situation import Situation, called, lasting, passed
from coordinator_replay.analysis.reasons.vocabulary import OPEN_QUESTION, Cause, Confidence
from coordinator_replay.engine.events import Event
from coordinator_replay.engine.model import AWAY_EPOCH, GroupType, Member
from coordinator_replay.times import elapsed_ms, time_text

DEFAULT_SESSION_MS = 45_000
"""Session timeout of members on the new protocol unless configured: it is not in the log."""

SHORTEST_SESSION_MS = 3_000
"""Nobody configures session timeouts shorter than this."""

TIMER_SLACK_MS = 1_000
"""A timer of the coordinator fires so soon after its time."""


class Departure(NamedTuple):
    """What one member's removal looks like.

    Attributes:
        back_as: the member as which its client had come back before the removal.
    """

    member_id: str
    cause: Cause
    confidence: Confidence
    evidence: tuple[str, ...]
    alternatives: tuple[Cause, ...] = ()
    back_as: str | None = None


@lru_cache(maxsize=1)
def departures(situation: Situation) -> Sequence[Departure]:
    """Each member that was removed, and why; several rows ask the same of one situation."""
    if not situation.left:
        return ()
    left = ((event, event.before or event.member) for event in situation.left)
    return [_departure(situation, event, member) for event, member in left if member is not None]


def _departure(situation: Situation, event: Event, member: Member) -> Departure:
    fact = f"{called(member)} was removed from the group {situation.at(event.offset, event.partition)}"
    for look in _LOOKS:
        departure = look(situation, member, fact)
        if departure is not None:
            return departure
    sign = situation.history.last_seen(member.member_id)
    timeout = _timeout(member)
    if sign is None:
        why = f"no record shows when it was last alive; {timeout}{OPEN_QUESTION}"
    else:
        why = f"{_alive(situation, sign)}; {timeout}{OPEN_QUESTION}"
    alternatives = (Cause.MEMBER_LEAVE, *_timeouts(situation, member))
    return Departure(member.member_id, Cause.LEAVE_OR_TIMEOUT, Confidence.POSSIBLE, (fact, why), alternatives)


def _removed_ms(situation: Situation) -> int | None:
    """The latest moment at which the member can have been removed."""
    return situation.started_ms if situation.group_type is GroupType.CLASSIC else situation.at_ms


def _alive(situation: Situation, sign: Sign) -> str:
    earlier = passed(sign.at_ms, _removed_ms(situation))
    return f"last record showing it alive: {earlier} earlier {situation.at(sign.offset, sign.partition)}"


def _timeout(member: Member) -> str:
    """Its session timeout as far as it is on record: only members on the classic protocol give one."""
    session = _session_ms(member)
    if session is not None:
        return f"session.timeout.ms {lasting(session)}"
    return f"its session timeout is not on record, by default {lasting(DEFAULT_SESSION_MS)}"


def _left_by(member: Member) -> str:
    """How a member leaves that did not time out."""
    if member.instance_id is None:
        return "it sent LeaveGroup"
    return (
        "an admin removed it, since static members (group.instance.id) don't send LeaveGroup on close unless "
        "CloseOptions ask for it"
    )


def _kept_partitions(situation: Situation, member: Member, fact: str) -> Departure | None:
    since = situation.unrevoked_since.get(member.member_id)
    timeout, kept_ms = member.subscription_or_empty.rebalance_timeout_ms, elapsed_ms(since, situation.at_ms)
    if since is None or kept_ms is None or timeout <= 0 or not timeout <= kept_ms <= timeout + TIMER_SLACK_MS:
        return None
    sentence = (
        f"it had not revoked its partitions since {time_text(since)}, for its rebalance timeout "
        f"(max.poll.interval.ms {lasting(timeout)})"
    )
    return Departure(
        member.member_id,
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
    return Departure(member.member_id, Cause.SESSION_TIMEOUT, Confidence.LIKELY, (fact, away), (Cause.MEMBER_LEAVE,))


def _had_no_time(situation: Situation, member: Member, fact: str) -> Departure | None:
    session, rebalance_ms = _session_ms(member), member.subscription_or_empty.rebalance_timeout_ms
    shortest, name = SHORTEST_SESSION_MS, "session.timeout.ms"
    if session is not None:
        shortest = session
        if 0 < rebalance_ms < session:
            shortest, name = rebalance_ms, "max.poll.interval.ms"
    sign = situation.history.last_seen(member.member_id)
    alive_ms = None if sign is None else elapsed_ms(sign.at_ms, _removed_ms(situation))
    if sign is None or alive_ms is None or alive_ms >= shortest:
        return None
    alive = _alive(situation, sign)
    if session is not None:
        why = f"{alive}, less than {name} ({lasting(shortest)}): {_left_by(member)}"
        return Departure(member.member_id, Cause.MEMBER_LEAVE, Confidence.CERTAIN, (fact, why))
    why = f"{alive}, less than any usual session timeout ({lasting(shortest)} and longer): {_left_by(member)}"
    return Departure(member.member_id, Cause.MEMBER_LEAVE, Confidence.LIKELY, (fact, why), (Cause.SESSION_TIMEOUT,))


def _committed_late(situation: Situation, member: Member, fact: str) -> Departure | None:
    if not situation.history.has_commits:
        return None
    commit = situation.history.last_commit(situation.history.partitions_of(member, situation.group_type))
    session = _session_ms(member) or SHORTEST_SESSION_MS
    committed_ms = None if commit is None else elapsed_ms(commit.at_ms, _removed_ms(situation))
    if commit is None or committed_ms is None or committed_ms >= session:
        return None
    why = (
        f"one of its partitions was committed {lasting(max(committed_ms, 0))} earlier "
        f"{situation.at(commit.offset, commit.partition)}, less than session.timeout.ms ({lasting(session)}): "
        f"{_left_by(member)}"
    )
    return Departure(member.member_id, Cause.MEMBER_LEAVE, Confidence.LIKELY, (fact, why), (Cause.SESSION_TIMEOUT,))


def _left_in_company(situation: Situation, member: Member, fact: str) -> Departure | None:
    if situation.group_type is GroupType.CLASSIC or len(situation.left) < 2:
        return None
    why = f"{len(situation.left)} members were removed at once: a timeout removes one, LeaveGroup can remove many"
    return Departure(member.member_id, Cause.MEMBER_LEAVE, Confidence.LIKELY, (fact, why), (Cause.SESSION_TIMEOUT,))


def _is_static(situation: Situation, member: Member, fact: str) -> Departure | None:
    if member.instance_id is None:
        return None
    why = f"static members (group.instance.id) don't send LeaveGroup on close ({_timeout(member)})"
    return Departure(member.member_id, Cause.SESSION_TIMEOUT, Confidence.LIKELY, (fact, why), (Cause.MEMBER_LEAVE,))


def _fell_silent(situation: Situation, member: Member, fact: str) -> Departure | None:
    if not situation.history.has_commits:
        return None
    session = _session_ms(member) or DEFAULT_SESSION_MS
    partitions = situation.history.partitions_of(member, situation.group_type)
    own, others = situation.history.last_commit(partitions), situation.history.last_commit(partitions, other=True)
    if own is None or others is None:
        return None
    # A commit from before the member was last seen says nothing of the time since: another one may have made it.
    alive = (own, situation.history.last_seen(member.member_id) or own)
    waits = [elapsed_ms(sign.at_ms, at) for sign in alive for at in (_removed_ms(situation), others.at_ms)]
    if any(wait is None or wait < session for wait in waits):
        return None
    why = (
        f"its partitions were last committed {passed(own.at_ms, _removed_ms(situation))} earlier "
        f"{situation.at(own.offset, own.partition)}, while other partitions of the group were "
        f"{situation.at(others.offset, others.partition)}; {_timeout(member)}"
    )
    return Departure(member.member_id, Cause.SESSION_TIMEOUT, Confidence.LIKELY, (fact, why), (Cause.MEMBER_LEAVE,))


def _was_back(situation: Situation, member: Member, fact: str) -> Departure | None:
    """A client that closes leaves before it comes back; one that is killed leaves its old member to the timeout."""
    back = successor(situation, member)
    if back is None:
        return None
    returned, sign = back
    silent_ms = elapsed_ms(sign.at_ms, _removed_ms(situation))
    if silent_ms is None or silent_ms < SHORTEST_SESSION_MS:
        return None
    why = (
        f"a client with its client.id and host was back {lasting(silent_ms)} earlier as {returned.member_id} "
        f"{situation.at(sign.offset, sign.partition)}, and no record since shows the removed member alive "
        f"({_timeout(member)}): a client that is closed sends LeaveGroup before it joins again"
    )
    return Departure(
        member.member_id,
        Cause.SESSION_TIMEOUT,
        Confidence.LIKELY,
        (fact, why),
        (Cause.MEMBER_LEAVE,),
        returned.member_id,
    )


def _timeouts(situation: Situation, member: Member) -> tuple[Cause, ...]:
    """Timeouts that could have ended the member."""
    if situation.group_type is GroupType.SHARE:
        return (Cause.SESSION_TIMEOUT,)
    timeout = member.subscription_or_empty.rebalance_timeout_ms
    # Where no rebalance with a time was before, it may have waited for any time.
    waited_ms = elapsed_ms(situation.history.rebalanced_ms, _removed_ms(situation))
    is_late = situation.group_type is GroupType.CLASSIC and timeout > 0 and (waited_ms is None or timeout <= waited_ms)
    return (Cause.SESSION_TIMEOUT, Cause.REBALANCE_TIMEOUT) if is_late else (Cause.SESSION_TIMEOUT,)


def _session_ms(member: Member) -> int | None:
    """Its session timeout, None where its record has none: only classic members give one."""
    session_ms = member.subscription_or_empty.session_timeout_ms
    return session_ms if session_ms is not None and session_ms > 0 else None


_LOOKS = (
    _kept_partitions,
    _stayed_away,
    _had_no_time,
    _committed_late,
    _left_in_company,
    _was_back,
    _is_static,
    _fell_silent,
)
"""In the order in which they are asked: the first that finds something decides."""

TIMEOUTS = (Cause.SESSION_TIMEOUT, Cause.REBALANCE_TIMEOUT)


def possible_timeouts(situation: Situation) -> tuple[Cause, ...]:
    """Timeouts that may have removed members in this operation."""
    named = {cause for one in departures(situation) for cause in (one.cause, *one.alternatives)}
    return tuple(cause for cause in TIMEOUTS if cause in named)
