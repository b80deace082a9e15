"""The functions that scripts call: for topics, for members, and to wait until a group is at rest."""

import re
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from lab.journal import Journal
from lab.member import SILENT, Member
from lab.recording import AskedCheckpoints, Checkpoints

_PATIENCE_SECONDS = 120.0
_LOOK_SECONDS = 0.25
_ASK_SECONDS = 3.0
_STEP_SECONDS = 0.8
"""Pause between two steps of a script, so that their rebalances do not merge."""

TRANSACTION_TIMEOUT_MS = 600_000
"""Longer than any run of the lab, so that an open transaction stays open."""


class LifeError(Exception):
    """A group did not reach the state that its script waits for."""


def _done(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(_PATIENCE_SECONDS)


class Life:
    """One group that follows a script.

    Attributes:
        group: id of the group. The names of its topics begin with the id.
        protocol: protocol of the members, ``classic`` or ``consumer``, unless the script gives another.
        members: the running members, by client id.
    """

    def __init__(
        self,
        group: str,
        protocol: str,
        bootstrap: str,
        journal: Journal,
        checkpoints: Checkpoints | AskedCheckpoints,
    ) -> None:
        """Begin a life. The broker does not know the group yet."""
        self.group = group
        self.protocol = protocol
        self.members: dict[str, Member] = {}
        self._bootstrap = bootstrap
        self._journal = journal
        self._checkpoints = checkpoints
        self._admin = AdminClient({"bootstrap.servers": bootstrap}, logger=SILENT)
        self._partitions: dict[str, int] = {}
        self._committed = 0
        self._producers: list[Producer] = []

    def note(self, action: str, **details: Any) -> None:
        """Write an action that is about to begin into the journal."""
        self._journal.note(self.group, action, **details)

    # Topics

    def topic(self, name: str, partitions: int) -> str:
        """Create a topic of this life, and return its full name."""
        topic = f"{self.group}.{name}"
        self._journal.note(None, "topic_created", topic=topic, partitions=partitions)
        _done(self._admin.create_topics([NewTopic(topic, num_partitions=partitions)]))
        self._partitions[topic] = partitions
        return topic

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Increase the number of partitions of a topic to ``partitions``."""
        self._journal.note(None, "partitions_increased", topic=topic, partitions=partitions)
        _done(self._admin.create_partitions([NewPartitions(topic, partitions)]))
        self._partitions[topic] = partitions

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        self.note("topic_deleted", topic=topic)
        _done(self._admin.delete_topics([topic]))
        del self._partitions[topic]

    # Members

    def start(self, name: str, *topics: str, action: str = "start", **settings: Any) -> Member:
        """Start a member.

        Args:
            name: client id of the member.
            topics: the topics to subscribe to.
            action: name of the action in the journal.
            settings: settings of librdkafka, with underscores for dots. ``protocol`` and ``instance`` are short names
                of ``group.protocol`` and ``group.instance.id``.
        """
        protocol = settings.pop("protocol", self.protocol)
        instance = settings.pop("instance", None)
        chosen: dict[str, Any] = {key.replace("_", "."): value for key, value in settings.items()}
        chosen |= {"client.id": name, "group.protocol": protocol}
        if instance is not None:
            chosen["group.instance.id"] = instance
        details = {"assignor": assignor} if (assignor := _assignor(chosen)) else {}
        self.note(action, member=name, instance=instance, protocol=protocol, topics=list(topics), **details)
        member = Member(self._bootstrap, self.group, topics, chosen)
        self.members[name] = member
        return member

    def close(self, *names: str) -> None:
        """Close members in order, all if none is named."""
        for name in names or tuple(self.members):
            self.note("close", member=name)
            self.members.pop(name).leave()

    def crash(self, name: str) -> None:
        """End a member without LeaveGroup."""
        self.note("crash", member=name)
        self.members.pop(name).crash()

    def restart(self, name: str, action: str = "restart", **settings: Any) -> None:
        """Close a member and start it again with the same subscription."""
        topics = self.members[name].topics
        self.close(name)
        self.start(name, *topics, action=action, **settings)

    def subscribe(self, name: str, *topics: str) -> None:
        """Change a member's subscription."""
        self.note("subscription_changed", member=name, topics=list(topics))
        self.members[name].subscribe(topics)

    def stall(self, name: str, seconds: float) -> None:
        """Let a member not poll for a while."""
        self.note("stall", member=name, ms=round(seconds * 1000))
        self.members[name].stall(seconds)

    # Coming to rest

    def settle(self) -> None:
        """Wait until the running members own all partitions and the broker calls the group Stable. Then commit offsets.

        Raises:
            LifeError: the group does not reach this state.
        """
        self._wait(self._is_settled, "settle")
        for member in self.members.values():
            self._committed += 10
            count = member.commit(self._committed)
            self.note("commit", member=member.name, offset=self._committed, count=count)
        self._rest()

    def settle_empty(self) -> None:
        """Wait until the broker calls the group Empty.

        Raises:
            LifeError: the group does not reach this state.
        """
        self._wait(lambda: self._state() == ConsumerGroupState.EMPTY, "become empty")
        self._rest()

    def pause(self, seconds: float) -> None:
        """Wait for a time that a script needs, such as the rest of a session."""
        time.sleep(seconds)

    def _rest(self) -> None:
        """Wait for the pause between two steps, and until the broker was asked about the group's state."""
        time.sleep(_STEP_SECONDS)
        self._checkpoints.wait(_PATIENCE_SECONDS)

    def _is_settled(self) -> bool:
        owned = [partition for member in self.members.values() for partition in member.owned]
        wanted = [topic for member in self.members.values() for topic in member.topics]
        expected = {
            (topic, partition)
            for topic, count in self._partitions.items()
            if any(re.match(name, topic) if name.startswith("^") else name == topic for name in wanted)
            for partition in range(count)
        }
        # Lists are compared, not sets, so that a partition with two owners is no rest.
        return sorted(owned) == sorted(expected) and self._state() == ConsumerGroupState.STABLE

    def _state(self) -> ConsumerGroupState | None:
        # All brokers are asked. The short timeout is for brokers that are down.
        listed = self._admin.list_consumer_groups(request_timeout=_ASK_SECONDS).result(_PATIENCE_SECONDS).valid
        return next((group.state for group in listed if group.group_id == self.group), None)

    def _wait(self, reached: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not reached():
            failed = {name: member.error for name, member in self.members.items() if member.error is not None}
            if failed or time.monotonic() > deadline:
                owned = {name: sorted(member.owned) for name, member in self.members.items()}
                raise LifeError(f"group {self.group} did not {what}: {self._state()}, {owned}, {failed}")
            time.sleep(_LOOK_SECONDS)

    # What administrators and producers do

    def reset_offsets(self, topic: str, offset: int) -> None:
        """Set all offsets of a topic, as an administrator does while no member runs."""
        self.note("offsets_reset", topic=topic, offset=offset)
        wanted = [TopicPartition(topic, partition, offset) for partition in range(self._partitions[topic])]
        _done(self._admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group, wanted)]))

    def delete_group(self) -> None:
        """Delete the group, as an administrator does while no member runs."""
        self.note("group_deleted")
        _done(self._admin.delete_consumer_groups([self.group]))

    def transact(self, member: str, offset: int, outcome: str) -> None:
        """Commit an offset for all partitions of a member, in a transaction of a new producer.

        Args:
            member: the member whose partitions and group metadata are used.
            offset: the offset.
            outcome: ``commit``, ``abort`` or ``open``.
        """
        settings = {"bootstrap.servers": self._bootstrap, "transactional.id": f"{self.group}-{len(self._producers)}"}
        producer = Producer({**settings, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}, logger=SILENT)
        self._producers.append(producer)
        producer.init_transactions(_PATIENCE_SECONDS)
        producer.begin_transaction()
        consumer = self.members[member]
        wanted = [TopicPartition(topic, partition, offset) for topic, partition in sorted(consumer.owned)]
        self.note("txn_offsets", member=member, outcome=outcome, offset=offset, count=len(wanted))
        metadata = consumer.ask(lambda running: running.consumer_group_metadata())
        producer.send_offsets_to_transaction(wanted, metadata, _PATIENCE_SECONDS)
        if outcome == "commit":
            producer.commit_transaction(_PATIENCE_SECONDS)
        elif outcome == "abort":
            producer.abort_transaction(_PATIENCE_SECONDS)

    def end(self) -> None:
        """End all running members without LeaveGroup, because the broker may be gone already."""
        for member in self.members.values():
            member.crash()
        self.members.clear()
        self._producers.clear()


def _assignor(settings: dict[str, Any]) -> str | None:
    name = settings.get("partition.assignment.strategy", settings.get("group.remote.assignor"))
    return None if name is None else str(name)
