"""Members of random scripts: they send what a client would send, and react to the answers."""

import base64
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Body = dict[str, Any]
Parts = dict[str, list[int]]
"""Partitions by topic, or by topic id."""

MEMBER_ID_REQUIRED = 79
NO_LONGER_KNOWN = (25, 82)
"""UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID: the member comes back as a new one."""


class Conversation(Protocol):
    """Takes commands, hands every response to the one who asked for it."""

    def request(
        self,
        api: str,
        group: str | None = None,
        body: Body | None = None,
        *,
        version: int | None = None,
        client: Body | None = None,
        responder: Callable[[Body], None] | None = None,
    ) -> Body | None:
        """Send a request; the response where it comes at once."""

    def waits(self, member: object) -> bool:
        """Whether a request of the member is not answered yet."""


@dataclass
class ModernMember:
    """A member of the consumer protocol."""

    conversation: Conversation
    group: str
    member_id: str
    topics: list[str] | None = None
    regex: str | None = None
    instance_id: str | None = None
    rack: str | None = None
    assignor: str | None = None
    rebalance_ms: int = 60_000
    epoch: int = 0
    owned: Parts = field(default_factory=dict)
    target: Parts = field(default_factory=dict)
    error: int = 0

    def beat(self, body: Mapping[str, Any]) -> None:
        """Send a heartbeat of these fields."""
        client = {"id": f"client-{self.member_id}", "host": "10.0.0.1"}
        self.conversation.request(
            "ConsumerGroupHeartbeat",
            self.group,
            {"memberId": self.member_id, **body},
            client=client,
            responder=self._answered,
        )

    def join(self) -> None:
        """Join with nothing."""
        self.target, self.owned = {}, {}
        self.beat(self._all_fields(0))

    def poll(self, epoch: int | None = None) -> None:
        """Say nothing new."""
        self.beat({"memberEpoch": self.epoch if epoch is None else epoch, **self._instance()})

    def acknowledge(self) -> None:
        """Own what was assigned last, and say so."""
        self.owned = dict(self.target)
        self.own(self.owned)

    def own(self, parts: Parts, epoch: int | None = None) -> None:
        """Say what is owned."""
        known = self.epoch if epoch is None else epoch
        self.beat({"memberEpoch": known, "topicPartitions": _by_id(parts), **self._instance()})

    def resend(self) -> None:
        """Send every field again."""
        self.beat(self._all_fields(self.epoch))

    def leave(self, epoch: int = -1) -> None:
        """Leave for good, or with -2 for a restart."""
        self.beat({"memberEpoch": epoch, **self._instance()})

    def _answered(self, response: Body) -> None:
        self.error = response.get("errorCode") or 0
        if response.get("errorCode") != 0:
            return
        self.epoch = response["memberEpoch"]
        if response.get("assignment") is not None:
            topics = response["assignment"]["topicPartitions"]
            self.target = {topic["topicId"]: list(topic["partitions"]) for topic in topics}

    def _instance(self) -> Body:
        return {} if self.instance_id is None else {"instanceId": self.instance_id}

    def _all_fields(self, epoch: int) -> Body:
        optional = {
            "instanceId": self.instance_id,
            "rackId": self.rack,
            "serverAssignor": self.assignor,
            "subscribedTopicNames": self.topics,
            "subscribedTopicRegex": self.regex,
        }
        return {
            "memberEpoch": epoch,
            "rebalanceTimeoutMs": self.rebalance_ms,
            "topicPartitions": _by_id(self.owned),
            **{name: value for name, value in optional.items() if value is not None},
        }


@dataclass
class ClassicMember:
    """A member of the classic protocol; ``stage`` is new, joined or synced."""

    conversation: Conversation
    group: str
    client_id: str
    topics: list[str]
    instance_id: str | None
    protocols: list[str]
    session_ms: int
    rebalance_ms: int
    rack: str | None
    protocol_type: str
    version: int | None
    stage: str = "new"
    member_id: str = ""
    generation: int = -1
    protocol: str | None = None
    leader: str = ""
    members: list[str] = field(default_factory=list)
    owned: Parts = field(default_factory=dict)
    join_error: int | None = None
    """Of the last answer to a JoinGroup; None where none has come yet."""
    sync_error: int | None = None

    def send_join(self, **fields: Any) -> None:
        """Send JoinGroup."""
        body = {
            "sessionTimeoutMs": self.session_ms,
            "rebalanceTimeoutMs": self.rebalance_ms,
            "memberId": self.member_id,
            "protocolType": self.protocol_type,
            "protocols": [{"name": name, "metadata": self._metadata()} for name in self.protocols],
            **self._instance(),
            **fields,
        }
        self._send("JoinGroup", body, self._joined, version=self.version)

    def join(self) -> None:
        """Join, the second time with the id that the coordinator gives where it wants that."""
        self.join_error = None
        self.send_join()
        if self.join_error == MEMBER_ID_REQUIRED:
            self.send_join()

    def sync(self, assignment: Mapping[str, Parts] | None = None, **fields: Any) -> None:
        """Send SyncGroup; a leader has an assignment."""
        self.sync_error = None
        assignments = [
            {"memberId": member_id, "assignment": assignment_blob(parts)}
            for member_id, parts in (assignment or {}).items()
        ]
        body = {
            "generationId": self.generation,
            "memberId": self.member_id,
            "protocolType": self.protocol_type,
            "protocolName": self.protocol,
            "assignments": assignments,
            **self._instance(),
            **fields,
        }
        self._send("SyncGroup", body, self._synced)

    def beat(self, generation: int | None = None) -> int | None:
        """Send a heartbeat; the error of the answer."""
        known = self.generation if generation is None else generation
        body = {"generationId": known, "memberId": self.member_id, **self._instance()}
        answer = self._send("Heartbeat", body)
        return None if answer is None else answer.get("errorCode")

    def leave(self) -> None:
        """Leave the group."""
        member = {"memberId": self.member_id, "groupInstanceId": self.instance_id, "reason": "bye"}
        self._send("LeaveGroup", {"members": [member]})

    def start_again(self, error: int = 0) -> None:
        """Begin anew after an error."""
        if error in NO_LONGER_KNOWN:
            self.member_id = ""
        self.stage, self.join_error, self.sync_error = "new", None, None

    def _send(
        self, api: str, body: Body, responder: Callable[[Body], None] | None = None, version: int | None = None
    ) -> Body | None:
        client = {"id": self.client_id, "host": "10.0.0.2"}
        return self.conversation.request(api, self.group, body, version=version, client=client, responder=responder)

    def _joined(self, response: Body) -> None:
        self.join_error = response.get("errorCode") or 0
        self.member_id = response.get("memberId") or self.member_id
        if self.join_error == 0 and "generationId" in response:
            self.generation, self.leader = response["generationId"], response["leader"]
            self.members = [member["memberId"] for member in response["members"]]
            self.protocol = response["protocolName"]

    def _synced(self, response: Body) -> None:
        self.sync_error = response.get("errorCode") or 0
        if self.sync_error == 0 and "assignment" in response:
            self.owned = read_assignment(response["assignment"])

    def _instance(self) -> Body:
        return {} if self.instance_id is None else {"groupInstanceId": self.instance_id}

    def _metadata(self) -> str:
        is_sticky = not {"sticky", "cooperative-sticky"}.isdisjoint(self.protocols)
        owned = self.owned if is_sticky else {}
        return subscription_blob(self.topics, owned, self.generation if self.owned else -1, self.rack)


Member = ModernMember | ClassicMember


def subscription_blob(topics: Sequence[str], owned: Parts, generation: int, rack: str | None) -> str:
    """A ConsumerProtocolSubscription of version 3, written without the code that is tested."""
    data = struct.pack(">hi", 3, len(topics)) + b"".join(map(_text, topics)) + struct.pack(">i", -1)
    data += _parts(owned) + struct.pack(">i", generation)
    return base64.b64encode(data + (struct.pack(">h", -1) if rack is None else _text(rack))).decode()


def assignment_blob(parts: Parts) -> str:
    """A ConsumerProtocolAssignment of version 3."""
    return base64.b64encode(struct.pack(">h", 3) + _parts(parts) + struct.pack(">i", -1)).decode()


def read_assignment(blob: str) -> Parts:
    """The partitions of a ConsumerProtocolAssignment."""
    data, at = base64.b64decode(blob), 6
    parts: Parts = {}
    if len(data) < at:
        return parts
    for _ in range(struct.unpack_from(">i", data, 2)[0]):
        (length,) = struct.unpack_from(">h", data, at)
        topic, at = data[at + 2 : at + 2 + length].decode(), at + 2 + length
        (count,) = struct.unpack_from(">i", data, at)
        parts[topic], at = list(struct.unpack_from(f">{count}i", data, at + 4)), at + 4 + 4 * count
    return parts


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _parts(parts: Parts) -> bytes:
    topics = [
        _text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers) for topic, numbers in parts.items()
    ]
    return struct.pack(">i", len(parts)) + b"".join(topics)


def _by_id(parts: Parts) -> list[Body]:
    return [{"topicId": topic_id, "partitions": numbers} for topic_id, numbers in parts.items() if numbers]
