"""Evidence about several members. Similar sentences about members with the same client id and host are merged."""

from collections.abc import Iterable, Sequence

from coordinator_replay.analysis.reasons.facts import Evidence, Fact, FactKind, Sentence

MOST_TOLD = 20
"""Largest number of groups of members that share sentences; the members of further groups are only counted."""

OF_RETURNS = frozenset(
    {
        FactKind.REMOVED_IN_GENERATION,
        FactKind.REMOVED_IN_WRITE,
        FactKind.REMOVED_EARLIER,
        FactKind.SAME_MEMBER_ID,
        FactKind.SAME_INSTANCE_ID,
        FactKind.SAME_CLIENT,
        FactKind.SILENT_WHEN_REMOVED,
    }
)
"""Kinds of facts that name an earlier member, in ``others``, for each member."""


def together(of_members: Iterable[Evidence]) -> list[Sentence]:
    """Return the evidence about several members, with fewer sentences.

    Merge the sentences of members with the same client id and host, if these sentences differ only in the names of the
    members. Never merge the sentences of a static member. After MOST_TOLD groups of members, add one sentence with the
    number of the remaining members.

    Args:
        of_members: the evidence about each member. The first fact of each evidence names the member and its client.
    """
    every = list(of_members)
    # Most often one member is removed, and nothing is to be merged.
    if len(every) == 1:
        return list(every[0])
    alike: dict[tuple[object, ...], list[Evidence]] = {}
    for evidence in every:
        shape = tuple(tuple(map(_shape, sentence)) for sentence in evidence)
        alike.setdefault((*_client(evidence[0][0]), shape), []).append(evidence)
    groups = list(alike.values())
    told = [
        tuple(map(_merged, zip(*same, strict=True)))
        for group in groups[:MOST_TOLD]
        for same in zip(*group, strict=True)
    ]
    left_out = sum(map(len, groups[MOST_TOLD:]))
    if left_out:
        told.append((Fact(FactKind.MORE_MEMBERS, number=left_out),))
    return told


def _shape(fact: Fact) -> Fact:
    """Return a fact without its members and its client."""
    others = () if fact.kind in OF_RETURNS else fact.others
    return fact._replace(members=(), client=None, others=others)


def _merged(facts: Sequence[Fact]) -> Fact:
    """Return one fact made from facts that differ only in their members and clients."""
    first = facts[0]
    if len(facts) == 1:
        return first
    members = tuple(member_id for fact in facts for member_id in fact.members)
    if first.kind not in OF_RETURNS:
        return first._replace(members=members)
    return first._replace(members=members, others=tuple(other for fact in facts for other in fact.others))


def _client(fact: Fact) -> tuple[str | None, ...]:
    """Return the values that members must have in common if their sentences are to be merged.

    For a static member, return its member id, so that its sentences are never merged.
    """
    client = fact.client
    if client is None or client.instance_id is not None or client.client_id is None:
        return None, *fact.members
    return client.client_id, client.host
