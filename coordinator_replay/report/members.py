"""Members by the names that people gave them: client ids, in a colour each."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coordinator_replay.query.life import GroupLife
from coordinator_replay.report.wording import COLOURS, UNKNOWN_COLOUR, neutral, shortened

MOST_IN_LEGEND = 40


class Owner(NamedTuple):
    """An entry of the legend."""

    label: str
    colour: str


class MemberIdentities:
    """The members of a life: a static member is the same one under every member id.

    A static member that was replaced in a classic group goes by its instance id: the client id on record is that of the
    process that joined first.

    Args:
        life: the group's.
    """

    def __init__(self, life: GroupLife) -> None:
        identities: dict[str, str] = {}
        clients: dict[str, str] = {}
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
        self._colours = {identity: COLOURS[place % len(COLOURS)] for place, identity in enumerate(order)}
        named = Counter(clients.values())
        self._labels = {identity: _label(identity, clients.get(identity), named) for identity in order}

    def label(self, member_id: str) -> str:
        """The client id; with the end of the member's own id where several members share it."""
        identity = self._identities.get(member_id)
        return neutral(shortened(member_id)) if identity is None else self._labels[identity]

    def colour(self, member_id: str) -> str:
        """The colour of everything that the member owned."""
        return self._colours.get(self._identities.get(member_id, ""), UNKNOWN_COLOUR)

    def identity(self, member_id: str) -> str:
        """The instance id of a static member, the member id of any other."""
        return self._identities.get(member_id, member_id)

    @property
    def legend(self) -> Sequence[Owner]:
        """The members in the order in which they came."""
        return [Owner(self._labels[identity], colour) for identity, colour in self._colours.items()]


def _label(identity: str, client: str | None, named: Counter[str]) -> str:
    if client is None or client == identity:
        return neutral(shortened(identity))
    if named[client] == 1:
        return neutral(shortened(client))
    # Kafka's own member ids begin with the client id.
    own = identity.removeprefix(f"{client}-")
    return neutral(f"{shortened(client, 24)} …{own[-6:]}")
