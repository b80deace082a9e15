"""Records of groups over time, as a coordinator writes them: members come and go, epochs rise, partitions move."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from coordinator_replay.records.kinds import blob
from coordinator_replay.records.plain import encode_blob, encode_key, encode_value

Pair = tuple[bytes, bytes | None]

Operation = list[Pair]
"""Records that the coordinator appends at once."""

_MOST_MEMBERS = 8
_CLASSIC_SHARE = 3
"""One in this number of groups is a classic group."""
_CHANGES_A_TURN = 50
"""Number of changes of the groups in ``Lives.groups`` between two console groups."""
_STABLE, _UNREVOKED, _UNRELEASED = 0, 1, 2


_METADATA_HASH = 7919
"""The same hash always, because topics of the benchmark never change."""


def _blob(name: str, **fields: Any) -> str:
    """Return the bytes that clients of classic groups put into their group's records, in base64."""
    return base64.b64encode(encode_blob(blob(name), 0, {**fields, "userData": None})).decode()


@dataclass
class _Group:
    """A group as its coordinator knows it."""

    name: str
    topic: str
    topic_id: str
    partitions: int
    wanted: int
    is_classic: bool
    epoch: int = 0
    born: int = 0
    owned: dict[str, list[int]] = field(default_factory=dict)
    """Partitions of each member, the oldest member first."""

    def next_change(self) -> Iterator[Operation]:
        """Change the group's members, and return the operations of this change.

        If there are fewer members than wanted, a member joins. Otherwise the oldest member leaves.
        """
        before = dict(self.owned)
        comes = len(before) < self.wanted
        who = f"consumer-{self.name}-{self.born:06d}" if comes else next(iter(before))
        self.epoch += 1
        if comes:
            self.born += 1
            members = [*before, who]
        else:
            members = [member for member in before if member != who]
        self.owned = self._spread(members)
        return iter([[self._classic()]]) if self.is_classic else self._modern(who, before, comes=comes)

    def end(self) -> Operation:
        """Return the tombstones of a group that is Empty and has no offsets."""
        if self.is_classic:
            return [(encode_key("GroupMetadata", {"group": self.name}), None)]
        return [self._whole(part, None) for part in ("TargetAssignmentMetadata", "Metadata")]

    def _spread(self, members: Sequence[str]) -> dict[str, list[int]]:
        """Return partitions spread evenly over members. Each member keeps as many of its partitions as it can."""
        last = len(members) - 1
        shares = {member: (self.partitions + last - place) // len(members) for place, member in enumerate(members)}
        kept = {member: self.owned.get(member, [])[:share] for member, share in shares.items()}
        free = iter(sorted(set(range(self.partitions)).difference(*kept.values())))
        return {
            member: sorted([*kept[member], *islice(free, share - len(kept[member]))])
            for member, share in shares.items()
        }

    def _classic(self) -> Pair:
        one = {"groupInstanceId": None, "clientId": "c", "clientHost": "/10.0.0.9", "rebalanceTimeout": 300_000}
        one |= {"sessionTimeout": 45_000, "subscription": _blob("ConsumerProtocolSubscription", topics=[self.topic])}
        assigned = {
            member: [{"topic": self.topic, "partitions": partitions}] if partitions else []
            for member, partitions in self.owned.items()
        }
        members = [
            {"memberId": member, **one, "assignment": _blob("ConsumerProtocolAssignment", assignedPartitions=given)}
            for member, given in assigned.items()
        ]
        value = {
            "protocolType": "consumer",
            "generation": self.epoch,
            "protocol": "range" if members else None,
            "leader": next(iter(self.owned), None),
            # The time of the state change is not known here. Records get their times when they are put into a log.
            "currentStateTimestamp": -1,
            "members": members,
        }
        return encode_key("GroupMetadata", {"group": self.name}), encode_value("GroupMetadata", 3, value)

    def _modern(self, who: str, before: Mapping[str, list[int]], *, comes: bool) -> Iterator[Operation]:
        """Yield the operations of a rebalance: members give up partitions before others take them."""
        new = self.owned
        old = {member: before.get(member, []) for member in new}
        kept = {member: [one for one in old[member] if one in partitions] for member, partitions in new.items()}
        lost = {member: [one for one in old[member] if one not in kept[member]] for member in new}
        gains = [member for member, partitions in new.items() if kept[member] != partitions]
        epoch = self._whole("Metadata", {"epoch": self.epoch, "metadataHash": _METADATA_HASH})
        if comes:
            joined = self._current(who, self.epoch, _UNRELEASED if who in gains else _STABLE, [])
            yield [self._member("MemberMetadata", who, self._about()), epoch, *self._targets(old), joined]
        else:
            parts = ("CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata")
            yield [*(self._member(part, who, None) for part in parts), epoch]
            yield self._targets(old)
        for member in filter(lost.__getitem__, new):
            yield [self._current(member, self.epoch - 1, _UNREVOKED, kept[member], lost[member])]
        for member in filter(before.__contains__, new):
            yield [self._current(member, self.epoch, _UNRELEASED if member in gains else _STABLE, kept[member])]
        for member in gains:
            yield [self._current(member, self.epoch, _STABLE, new[member])]

    def _targets(self, old: Mapping[str, list[int]]) -> Operation:
        changed = (member for member, partitions in self.owned.items() if old[member] != partitions)
        targets = (
            self._member("TargetAssignmentMember", member, {"topicPartitions": self._named(self.owned[member])})
            for member in changed
        )
        return [*targets, self._whole("TargetAssignmentMetadata", {"assignmentEpoch": self.epoch})]

    def _current(
        self, member: str, epoch: int, state: int, assigned: Sequence[int], pending: Sequence[int] = ()
    ) -> Pair:
        value = {"memberEpoch": epoch, "previousMemberEpoch": self.epoch - 1, "state": state}
        value |= {"assignedPartitions": self._named(assigned), "partitionsPendingRevocation": self._named(pending)}
        return self._member("CurrentMemberAssignment", member, value)

    def _named(self, partitions: Sequence[int]) -> list[dict[str, Any]]:
        return [{"topicId": self.topic_id, "partitions": list(partitions)}] if partitions else []

    def _about(self) -> dict[str, Any]:
        about = {"instanceId": None, "rackId": None, "clientId": f"client-{self.name}", "clientHost": "/10.0.0.9"}
        about |= {"subscribedTopicNames": [self.topic], "subscribedTopicRegex": "", "serverAssignor": None}
        return {**about, "rebalanceTimeoutMs": 300_000, "classicMemberMetadata": None}

    def _member(self, kind: str, member: str, value: Mapping[str, Any] | None) -> Pair:
        name = f"ConsumerGroup{kind}"
        key = encode_key(name, {"groupId": self.name, "memberId": member})
        return key, None if value is None else encode_value(name, 0, value)

    def _whole(self, kind: str, value: Mapping[str, Any] | None) -> Pair:
        name = f"ConsumerGroup{kind}"
        return encode_key(name, {"groupId": self.name}), None if value is None else encode_value(name, 0, value)


class Topic(NamedTuple):
    """A topic that a group reads."""

    name: str
    topic_id: str
    partitions: int


class Lives:
    """The lives of some groups, one rebalance of one group after the other.

    Args:
        rng: source of random numbers, for the size of each group and the order of changes.
        names: names of the groups.
        topics: the topic that each group reads.
        chances: for each group, the probability that the next change is a change of this group.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        names: Sequence[str],
        topics: Sequence[Topic],
        chances: npt.NDArray[np.float64],
    ) -> None:
        sizes = rng.integers(1, _MOST_MEMBERS + 1, len(names))
        self.rng = rng
        self.chances = chances
        self.groups = [
            _Group(name, *topic, int(size), number % _CLASSIC_SHARE == 0)
            for number, (name, topic, size) in enumerate(zip(names, topics, sizes, strict=True))
        ]
        self._stream = self._operations()

    def _operations(self) -> Iterator[Operation]:
        for turn in count():
            for number in self.rng.choice(len(self.groups), _CHANGES_A_TURN, p=self.chances):
                yield from self.groups[number].next_change()
            yield from self._console_group(turn)

    def _console_group(self, turn: int) -> Iterator[Operation]:
        """Yield the operations of a group like a console consumer's.

        The group commits nothing, and is deleted after its only member has left.
        """
        first = self.groups[turn % len(self.groups)]
        name = f"console-consumer-{self.groups[0].name}-{turn:05d}"
        group = _Group(name, first.topic, first.topic_id, first.partitions, 1, turn % _CLASSIC_SHARE == 0)
        yield from group.next_change()
        yield from group.next_change()
        yield group.end()

    def take(self, records: int) -> list[Operation]:
        """Return the next operations, with at least this number of records in all."""
        taken: list[Operation] = []
        while records > 0:
            taken.append(next(self._stream))
            records -= len(taken[-1])
        return taken
