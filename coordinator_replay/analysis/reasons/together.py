"""Sentences about members; members of one client and host share a sentence if the same is true of them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coordinator_replay.analysis.reasons.history import Departed
from coordinator_replay.analysis.reasons.situation import called
from coordinator_replay.engine.model import Member
from coordinator_replay.listing import counted, listed

MOST_TOLD = 20
"""So many sentences about members are evidence at most; the rest of the members is counted."""

MOST_NAMED = 3
"""So many ids a sentence about several members names."""


class MemberFact(NamedTuple):
    """Evidence about one member.

    Attributes:
        predicate: what happened to it, as a sentence goes on after its name.
        reasons: further sentences.
        partner: another member, whom the sentence names next.
        ending: how the sentence goes on after the partner's name.
    """

    member: Member | Departed
    predicate: str
    reasons: tuple[str, ...] = ()
    partner: str = ""
    ending: str = ""


def together(facts: Iterable[MemberFact]) -> list[str]:
    """Return the sentences, of members of one client and host only one where they say the same."""
    alike: dict[tuple[object, ...], list[MemberFact]] = {}
    for fact in facts:
        alike.setdefault((*_client(fact.member), fact.predicate, fact.reasons, fact.ending), []).append(fact)
    groups = list(alike.values())
    sentences = [sentence for group in groups[:MOST_TOLD] for sentence in (_sentence(group), *group[0].reasons)]
    left_out = sum(map(len, groups[MOST_TOLD:]))
    if left_out:
        sentences.append(f"and {counted(left_out, 'more member')}: members_joined and members_left name all of them")
    return sentences


def _client(member: Member | Departed) -> tuple[str | None, ...]:
    """Return what members must have in common; a static member is known by itself."""
    identity = member if isinstance(member, Departed) else member.subscription_or_empty
    if member.instance_id is not None or identity.client_id is None:
        return None, member.member_id
    return identity.client_id, identity.client_host


def _sentence(group: Sequence[MemberFact]) -> str:
    first = group[0]
    if len(group) == 1:
        return f"{called(first.member)} {first.predicate}{first.partner}{first.ending}"
    client_id, host = _client(first.member)
    where = f" on {host.lstrip('/')}" if host else ""
    names = listed([fact.member.member_id for fact in group], MOST_NAMED)
    several = f"{counted(len(group), 'member')} of client {client_id}{where} ({names}) {_of_several(first.predicate)}"
    return f"{several}{len(group):,} others{_of_several(first.ending)}" if first.partner else several


def _of_several(words: str) -> str:
    """Return words about one member as they are about several.

    >>> _of_several("was removed"), _of_several("joined")
    ('were removed', 'joined')
    """
    for singular, plural in (("was ", "were "), ("has ", "have ")):
        if words.lstrip().startswith(singular):
            return words.replace(singular, plural, 1)
    return words
