"""The decision whether a member that joined had been in the group before.

A static member is recognised by its instance id. A dynamic member gets a new member id each time it joins. Such a
member is recognised by client id and host, if it was removed at most RETURN_MS ago, or within its own timeout if that
is longer.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from coordinator_replay.analysis.reasons.facts import Evidence, Fact, FactKind, about
from coordinator_replay.analysis.reasons.history import Departed, Sign, chosen
from coordinator_replay.analysis.reasons.situation import Situation
from coordinator_replay.engine.model import GroupType, Member
from coordinator_replay.times import elapsed_ms

RETURN_MS = 300_000
"""Time after a removal within which a client counts as restarted. A longer timeout of the member extends this time."""


class Return(NamedTuple):
    """A return of a client: the member that joined, and the earlier member that had been removed.

    Attributes:
        is_same_instance: whether the instance id shows that both members are the same client.
        is_ambiguous: whether other members have the same client id and host.
        offset: log offset of the record with which the member joined.
    """

    member: Member
    departed: Departed
    is_same_instance: bool
    is_ambiguous: bool
    offset: int

    @property
    def is_same_process(self) -> bool:
        """Return whether the client joined again under its old member id.

        If so, the client's process kept running although the group had removed the member.
        """
        return self.member.member_id == self.departed.member_id

    @property
    def is_sure(self) -> bool:
        """Return whether the new member is certainly the same client, by its member id or its instance id."""
        return self.is_same_instance or self.is_same_process

    @property
    def silence_ms(self) -> int:
        """Return the time from the departed member's last sign of life to its removal; 0 for an unknown time."""
        return elapsed_ms(self.departed.seen_ms, self.departed.left_ms) or 0

    @property
    def is_downgrade(self) -> bool:
        """Return whether the client went back to the classic protocol.

        This is a rollback from KIP-848.
        """
        subscription = self.member.subscription_or_empty
        return subscription.uses_classic_protocol and not self.departed.uses_classic_protocol

    @property
    def is_upgrade(self) -> bool:
        """Return whether the client changed as in an upgrade.

        In an upgrade, the client goes from the classic protocol to KIP-848, uses another assignor than before, or sends
        a newer version of its metadata for the assignor. Return False for a client that went back to the classic
        protocol (``is_downgrade``).
        """
        subscription = self.member.subscription_or_empty
        old = self.departed
        if subscription.uses_classic_protocol is not old.uses_classic_protocol:
            return old.uses_classic_protocol
        protocol, version = chosen(subscription)
        if protocol is not None and old.protocol is not None and protocol != old.protocol:
            return True
        return version is not None and old.version is not None and version > old.version

    def facts(self, situation: Situation, *more: Fact) -> Evidence:
        """Return the evidence that the client came back.

        Args:
            situation: the rebalance in which the client joined.
            more: further facts about the return.
        """
        old = self.departed
        reason = FactKind.SAME_INSTANCE_ID if self.is_same_instance else FactKind.SAME_CLIENT
        if self.is_same_process:
            reason = FactKind.SAME_MEMBER_ID
        place, gone = situation.place(self.offset), situation.place(old.offset, old.partition)
        if situation.is_of_this_operation(old):
            is_classic = situation.group_type is GroupType.CLASSIC
            kind = FactKind.REMOVED_IN_GENERATION if is_classic else FactKind.REMOVED_IN_WRITE
            removed = self.fact(kind, since=gone)
        else:
            away_ms = elapsed_ms(old.left_ms, situation.started_ms)
            removed = self.fact(FactKind.REMOVED_EARLIER, since=gone, elapsed_ms=away_ms)
        return [(about(FactKind.JOINED, self.member, place=place), removed, self.fact(reason), *more)]

    def fact(self, kind: FactKind, **fields: Any) -> Fact:
        """Return a fact about the new member and the departed member of the same client."""
        return about(kind, self.member, others=(self.departed.member_id,), **fields)


@lru_cache(maxsize=1)
def returns(situation: Situation) -> tuple[list[Return], list[tuple[Member, int]]]:
    """Return the members that came back, and the new members.

    Each new member is paired with the log offset of its first record.

    The result is cached.
    """
    if not situation.joined:
        return [], []
    candidates = list(situation.departed)
    back: list[Return] = []
    new: list[tuple[Member, int]] = []
    for member, offset in situation.joined:
        past = _same_id(member, candidates) or _instance(member, candidates) or _client(situation, member, candidates)
        if past is None:
            new.append((member, offset))
            continue
        candidates.remove(past)
        same = past.instance_id is not None
        is_sure = same or past.member_id == member.member_id
        back.append(Return(member, past, same, not is_sure and _is_shared(situation, member, candidates), offset))
    return back, new


def _instance(member: Member, candidates: Sequence[Departed]) -> Departed | None:
    if member.instance_id is None:
        return None
    return next((candidate for candidate in reversed(candidates) if candidate.instance_id == member.instance_id), None)


def _same_id(member: Member, candidates: Sequence[Departed]) -> Departed | None:
    return next((candidate for candidate in reversed(candidates) if candidate.member_id == member.member_id), None)


def _client(situation: Situation, member: Member, candidates: Sequence[Departed]) -> Departed | None:
    if member.instance_id is not None:
        return None
    for candidate in reversed(candidates):
        away_ms = elapsed_ms(candidate.left_ms, situation.started_ms)
        is_recent = away_ms is not None and away_ms <= max(candidate.timeout_ms, RETURN_MS)
        if candidate.instance_id is None and is_recent and is_same_client(member, candidate):
            return candidate
    return None


def is_same_client(member: Member, other: Member | Departed) -> bool:
    """Return whether two members have the same client id and host. Return False if one is not on record."""
    subscription = member.subscription_or_empty
    if subscription.client_id is None or subscription.client_host is None:
        return False
    other_client = other if isinstance(other, Departed) else other.subscription_or_empty
    return (subscription.client_id, subscription.client_host) == (other_client.client_id, other_client.client_host)


def _is_shared(situation: Situation, member: Member, candidates: Sequence[Departed]) -> bool:
    """Return whether another member with the same client id and host may be the client that came back as ``member``.

    The other member is still in the group, or it was removed at most RETURN_MS ago.
    """
    there = [other for other in situation.before.values() if is_same_client(member, other)]
    left = {event.member_id for event in situation.left}
    is_there = any(other.member_id not in left and other.member_id != member.member_id for other in there)
    return is_there or any(
        is_same_client(member, candidate)
        for candidate in candidates
        if (elapsed_ms(candidate.left_ms, situation.started_ms) or 0) <= RETURN_MS
    )


def twin(situation: Situation, member: Member) -> Member | None:
    """Return another dynamic member with the same client id and host that stays in the group; None if there is none.

    A static member has no twin, because its instance id identifies it.
    """
    if member.instance_id is not None:
        return None
    left = {event.member_id for event in situation.left}
    return next(
        (
            other
            for other in situation.before.values()
            if other.instance_id is None
            and other.member_id not in left
            and other.member_id != member.member_id
            and is_same_client(member, other)
        ),
        None,
    )


def namesake(situation: Situation, member: Member) -> Departed | None:
    """Return the last dynamic member that was removed and had the client id and host of a new member.

    The new member may be the same client, even if the removal was long ago. Return None if there is no such removed
    member, or if the new member is static.
    """
    if member.instance_id is not None:
        return None
    past = (gone for gone in reversed(situation.departed) if gone.instance_id is None and is_same_client(member, gone))
    return next(past, None)


def has_twin(situation: Situation, removed: Member | None) -> bool:
    """Return whether another member of the group had the client id and host of a removed member."""
    return removed is not None and any(
        other.member_id != removed.member_id and is_same_client(removed, other) for other in situation.before.values()
    )


def successor(situation: Situation, removed: Member) -> tuple[Member, Sign] | None:
    """Return the new member of a client that had joined again before its old member, ``removed``, was removed.

    The second result is the record of this join. The new member has the same client id and host, joined after the old
    member's last sign of life, and reached a higher epoch than the old member. Return None if there is no such member,
    or if ``removed`` is static.
    """
    seen = situation.history.last_seen(removed.member_id)
    if seen is None or removed.instance_id is not None:
        return None
    left = {event.member_id for event in situation.left}
    for member_id, sign in sorted(situation.history.twins.items(), key=lambda item: item[1].order):
        member = situation.before.get(member_id)
        if member is None or member_id in left or sign.order <= seen.order or not is_same_client(removed, member):
            continue
        if _epoch(member) > _epoch(removed):
            return member, sign
    return None


def _epoch(member: Member) -> int:
    return member.current.epoch if member.current is not None else -1
