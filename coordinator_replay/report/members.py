"""Labels and colours of a group's members.

The label of a member is its client id. When a client restarts, it becomes a new member with the same client id. Such
members are the client's *incarnations*. Each incarnation has another shade of the client's colour.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from coordinator_replay.listing import counted
from coordinator_replay.report.lanes import Lanes
from coordinator_replay.report.life import GroupLife
from coordinator_replay.report.wording import COLOURS, GAP_COLOUR, UNKNOWN_COLOUR, neutral, shade, shortened
from coordinator_replay.times import LATEST_MS

MOST_IN_LEGEND = 40
MOST_APART = 3
"""Largest number of members with the same client id and host that each have their own label."""

Key = tuple[str, str]
"""A name in a legend, and its colour."""


class MemberIdentities:
    """Labels and colours for the members of a group.

    A static member has one label and one colour, although each of its processes has another member id.

    Args:
        life: the recorded life of the group.
    """

    def __init__(self, life: GroupLife) -> None:
        identities: dict[str, str] = {}
        clients: dict[str, str] = {}
        self._hosts = {member.member_id: member.client_host or "" for member in life.members}
        replaced: set[str] = set()
        for member in life.members:
            identity = identities.setdefault(member.member_id, member.instance_id or member.member_id)
            if member.is_client_inherited:
                replaced.add(identity)
            elif member.client_id:
                clients.setdefault(identity, member.client_id)
        for identity in replaced:
            clients.pop(identity, None)
        for holding in life.holdings:
            identities.setdefault(holding.member_id, holding.instance_id or holding.member_id)
        self._identities: Mapping[str, str] = identities
        order = list(dict.fromkeys(identities.values()))
        self._clients = clients
        named = Counter(clients.values())
        self._colours = _colours(order, clients, _lifetimes(life, identities))
        self._labels = {identity: _label(identity, clients.get(identity), named) for identity in order}

    def label(self, member_id: str) -> str:
        """Return the label of a member: its client id.

        If several members share the client id, the label also has the end of the member id. If no client id is on
        record, the label is the instance id or the member id.
        """
        identity = self._identities.get(member_id)
        return neutral(shortened(member_id)) if identity is None else self._labels[identity]

    def labels(self, member_ids: Iterable[str], words: Mapping[str, str] = {}) -> list[str]:
        """Return the labels of members. Many members with the same client id and host share one label.

        Args:
            member_ids: ids of the members.
            words: texts to put behind the labels, by member id. Members with different texts don't share a label.
        """
        alike: dict[tuple[str, str, str], list[str]] = {}
        for member_id in member_ids:
            client = self._clients.get(self.identity(member_id), "")
            alike.setdefault((client, self._hosts.get(member_id, ""), words.get(member_id, "")), []).append(member_id)
        labels = []
        for (client, host, said), members in alike.items():
            several = f"{counted(len(members), 'member')} of {neutral(client)} on {neutral(host.lstrip('/'))}"
            names = [several] if client and len(members) > MOST_APART else map(self.label, members)
            labels += [f"{name}: {said}" if said else name for name in names]
        return labels

    def colour(self, member_id: str) -> str:
        """Return the colour of the bars that show what a member owned."""
        return self._colours.get(self._identities.get(member_id, ""), UNKNOWN_COLOUR)

    def identity(self, member_id: str) -> str:
        """Return the instance id of a static member, and the member id of a dynamic member."""
        return self._identities.get(member_id, member_id)

    @property
    def legend(self) -> Sequence[Key]:
        """Return the label and the colour of each member, in the order in which the members joined."""
        return [(self._labels[identity], colour) for identity, colour in self._colours.items()]


def shown_legend(keys: Sequence[Key], what: str, *, nobody: str) -> tuple[list[Key], str]:
    """Shorten a legend if it has too many entries, and add an entry for partitions without an owner.

    Args:
        keys: the entries of the legend: names with their colours.
        what: a word for the entries in the plural, such as ``members``.
        nobody: the text of the added entry.

    Returns:
        The entries of the shortened legend, and a text that says how many entries were left out. The text is empty if
        all entries are in the legend.
    """
    more = f"and {len(keys) - MOST_IN_LEGEND:,} more {what}" if len(keys) > MOST_IN_LEGEND else ""
    return [*keys[:MOST_IN_LEGEND], (nobody, GAP_COLOUR)], more


def _lifetimes(life: GroupLife, identities: Mapping[str, str]) -> Mapping[str, tuple[int, int]]:
    """Return the time at which each member first joined and the time at which it last left, by identity.

    The identity of a member is its instance id if it is static, else its member id. Times are milliseconds since 1970.
    A member that has not left gets ``LATEST_MS``.
    """
    lifetimes: dict[str, tuple[int, int]] = {}
    for member in life.members:
        since, until = member.from_ms or 0, LATEST_MS if member.to_ms is None else member.to_ms
        first, last = lifetimes.get(identities[member.member_id], (since, until))
        lifetimes[identities[member.member_id]] = min(first, since), max(last, until)
    return lifetimes


def _colours(
    order: Sequence[str], clients: Mapping[str, str], lifetimes: Mapping[str, tuple[int, int]]
) -> Mapping[str, str]:
    """Return the colour of each member, by identity: the instance id of a static member, else the member id.

    Members that used the same client id one after another get shades of one colour. Members that used it at the same
    time get different colours.

    Args:
        order: identities of the members, in the order of the result.
        clients: client ids by identity.
        lifetimes: by identity, the times at which the member first joined and last left.
    """
    colours: dict[str, str] = {}
    instances: dict[str, Lanes] = {}
    # For each instance of a client: its colour, and the number of its incarnations.
    places: dict[tuple[str, int], int] = {}
    incarnations: Counter[tuple[str, int]] = Counter()
    for identity in sorted(order, key=lambda name: lifetimes.get(name, (0, 0))):
        since, until = lifetimes.get(identity, (0, LATEST_MS))
        client = clients.get(identity, identity)
        instance = client, instances.setdefault(client, Lanes()).place(since, until)
        place = places.setdefault(instance, len(places))
        colours[identity] = shade(COLOURS[place % len(COLOURS)], incarnations[instance])
        incarnations[instance] += 1
    return {identity: colours[identity] for identity in order}


def _label(identity: str, client: str | None, named: Counter[str]) -> str:
    if client is None or client == identity:
        return neutral(shortened(identity))
    if named[client] == 1:
        return neutral(shortened(client))
    # Kafka's own member ids begin with the client id.
    own = identity.removeprefix(f"{client}-")
    return neutral(f"{shortened(client, 24)} …{own[-6:]}")
