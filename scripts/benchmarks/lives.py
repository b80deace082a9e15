"""Records of groups that live: members come and go, epochs rise, partitions move; as a coordinator writes them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from coordinator_replay.records.scalar import encode_key, encode_value

Pair = tuple[bytes, bytes | None]

_BEGIN_MS = 1_795_000_000_000
_MOST_MEMBERS = 8
_CLASSIC_SHARE = 3
"""One group in so many is a classic one."""
_SUBSCRIPTION = "AAMAAAABAAtzaG9wLm9yZGVycwAAAAAAAAAA/////wAA"
_ASSIGNMENT = "AAAAAAABAAtzaG9wLm9yZGVycwAAAAEAAAAAAAAAAA=="


@dataclass
class _Group:
    """A group as its coordinator knows it."""

    name: str
    topic_id: str
    partitions: int
    wanted: int
    is_classic: bool
    epoch: int = 0
    born: int = 0
    members: list[str] = field(default_factory=list)
    owned: dict[str, list[int]] = field(default_factory=dict)

    def next_change(self) -> Iterator[Pair]:
        """A member comes while some are wanted; after that the oldest one goes, and the next time another comes."""
        comes = len(self.members) < self.wanted
        who = f"consumer-{self.name}-{self.born:06d}" if comes else self.members[0]
        self.epoch += 1
        if comes:
            self.members.append(who)
            self.born += 1
        else:
            self.members.pop(0)
        return self._classic() if self.is_classic else self._modern(who, comes=comes)

    def _classic(self) -> Iterator[Pair]:
        one = {"groupInstanceId": None, "clientId": "c", "clientHost": "/10.0.0.9", "rebalanceTimeout": 300_000}
        one |= {"sessionTimeout": 45_000, "subscription": _SUBSCRIPTION, "assignment": _ASSIGNMENT}
        members = [{"memberId": member, **one} for member in self.members]
        value = {
            "protocolType": "consumer",
            "generation": self.epoch,
            "protocol": "range" if members else None,
            "leader": self.members[0] if members else None,
            "currentStateTimestamp": _BEGIN_MS,
            "members": members,
        }
        yield encode_key("GroupMetadata", {"group": self.name}), encode_value("GroupMetadata", 3, value)

    def _modern(self, who: str, *, comes: bool) -> Iterator[Pair]:
        if not comes:
            yield self._member("CurrentMemberAssignment", who, None)
            yield self._member("TargetAssignmentMember", who, None)
            yield self._member("MemberMetadata", who, None)
            self.owned.pop(who)
        else:
            yield self._member("MemberMetadata", who, self._about())
        yield self._whole("Metadata", {"epoch": self.epoch, "metadataHash": len(self.members) + 1})
        target = {
            member: list(range(place, self.partitions, len(self.members))) for place, member in enumerate(self.members)
        }
        changed = [member for member in self.members if self.owned.get(member) != target[member]]
        for member in changed:
            yield self._member("TargetAssignmentMember", member, {"topicPartitions": self._named(target[member])})
        yield self._whole("TargetAssignmentMetadata", {"assignmentEpoch": self.epoch})
        for member in self.members:
            value = {"memberEpoch": self.epoch, "previousMemberEpoch": self.epoch - 1, "state": 0}
            value |= {"assignedPartitions": self._named(target[member]), "partitionsPendingRevocation": []}
            yield self._member("CurrentMemberAssignment", member, value)
        self.owned = target

    def _named(self, partitions: Sequence[int]) -> list[dict[str, Any]]:
        return [{"topicId": self.topic_id, "partitions": list(partitions)}] if partitions else []

    def _about(self) -> dict[str, Any]:
        about = {"instanceId": None, "rackId": None, "clientId": f"client-{self.name}", "clientHost": "/10.0.0.9"}
        about |= {"subscribedTopicNames": ["orders"], "subscribedTopicRegex": "", "serverAssignor": None}
        return {**about, "rebalanceTimeoutMs": 300_000, "classicMemberMetadata": None}

    def _member(self, kind: str, member: str, value: Mapping[str, Any] | None) -> Pair:
        name = f"ConsumerGroup{kind}"
        key = encode_key(name, {"groupId": self.name, "memberId": member})
        return key, None if value is None else encode_value(name, 0, value)

    def _whole(self, kind: str, value: Mapping[str, Any]) -> Pair:
        name = f"ConsumerGroup{kind}"
        return encode_key(name, {"groupId": self.name}), encode_value(name, 0, value)


class Lives:
    """The lives of some groups, one rebalance of one group after the other.

    Args:
        rng: decides which group is next, and how large each is.
        names: the groups.
        topics: each group's topic id and number of partitions.
        chances: how often each is next.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        names: Sequence[str],
        topics: Sequence[tuple[str, int]],
        chances: npt.NDArray[np.float64],
    ) -> None:
        sizes = rng.integers(1, _MOST_MEMBERS + 1, len(names))
        self.rng = rng
        self.chances = chances
        self.groups = [
            _Group(name, topic_id, partitions, int(size), number % _CLASSIC_SHARE == 0)
            for number, (name, (topic_id, partitions), size) in enumerate(zip(names, topics, sizes, strict=True))
        ]
        self._stream = self._records()

    def _records(self) -> Iterator[Pair]:
        while True:
            for number in self.rng.choice(len(self.groups), 1000, p=self.chances):
                yield from self.groups[number].next_change()

    def take(self, count: int) -> list[Pair]:
        """The next records."""
        return list(islice(self._stream, count))
