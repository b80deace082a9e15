"""The true causes of the rebalances of a random life, from the messages of its simulated coordinator."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from coordinator_replay.analysis.reasons.vocabulary import Cause
from coordinator_replay.engine.model import Record
from coordinator_replay.records.blobs import BlobError, read_assignment, subscribed_topics
from coordinator_replay.simulation.coordinator import BatchWritten, EpochBumped, RebalanceStarted
from coordinator_replay.simulation.coordinator.classic.join import REQUIRES_MEMBER_ID_SINCE
from coordinator_replay.simulation.coordinator.truth import TriggerKind
from scripts.world.consumers import LEFT_BY_POLL_TIMEOUT, ClassicConsumer
from scripts.world.life import Life, Sender

FIRST_EPOCH = 2
"""Epoch of a consumer group's first member since Kafka 4.2."""

_MEMBER = re.compile(r"(?:Adding new member|Updating metadata for member|Leader) (?P<id>\S+) ")
"""The member that a coordinator's reason names."""

_LEFT = re.compile(r"explicit `LeaveGroup` request for \((?P<ids>.*)\) members")
"""The members of a classic group that a coordinator's reason names."""


class TrueCause(NamedTuple):
    """A request or timer that began a rebalance, as a cause.

    Attributes:
        truth: the cause; None if nothing set the rebalance off.
        accepted: causes that count as right: the true cause, and causes that mean the same.
        why: Kafka's own reason.
        member_id: the member of a classic group that joined, or joined again.
        beside: causes that count as the truth among a row's alternatives, but not as the row's cause.
    """

    truth: Cause | None
    accepted: frozenset[Cause]
    why: str
    member_id: str | None = None
    beside: frozenset[Cause] = frozenset()

    def accepting(self, *causes: Cause) -> "TrueCause":
        """Return a copy with more causes that count as right."""
        return self._replace(accepted=self.accepted | set(causes))


class Found(NamedTuple):
    """The causes of the rebalance that led to a generation or epoch. The first trigger comes first."""

    at_ms: int
    causes: list[TrueCause]


Truths = dict[tuple[str, int], list[Found]]
"""Causes of rebalances, by protocol and generation or epoch. A group that was deleted can have an epoch again."""


def true_causes(life: Life) -> Truths:
    """Return the causes of each rebalance."""
    records = {record.offset: record for record in life.written if isinstance(record, Record)}
    found: Truths = defaultdict(list)
    phases, epochs = _Phases(found, _pending(life)), _Epochs(found)
    for number, event in enumerate(life.truth):
        if isinstance(event, RebalanceStarted):
            phases.started(event, life.senders.get(number))
        elif isinstance(event, EpochBumped):
            epochs.raised(event, life.senders.get(number))
        elif isinstance(event, BatchWritten):
            batch = [records[at] for at in range(event.first_offset, event.last_offset + 1) if at in records]
            epochs.written(batch, event.at_ms)
            phases.written(batch, event.at_ms)
    return found


def _pending(life: Life) -> frozenset[str]:
    """Return the member ids that were given out and never used to join (KIP-394)."""
    joined = {sent.member_id for sent in life.sent if sent.api == "JoinGroup"}
    return frozenset(
        member_id
        for member_id, consumer in life.owner_of.items()
        if isinstance(consumer, ClassicConsumer)
        if consumer.instance_id is None and consumer.join_version >= REQUIRES_MEMBER_ID_SINCE
        if member_id not in joined
    )


class _Phases:
    """The join phases of a classic group.

    Attributes:
        found: what set off each generation.
        pending: member ids that were given out and never used to join.
        waiting: what set off the phases since the last recorded generation.
        last: the value of the last recorded generation's record.
    """

    def __init__(self, found: Truths, pending: frozenset[str]) -> None:
        self.found, self.pending = found, pending
        self.waiting: list[TrueCause] = []
        self.last: Mapping[str, Any] = {"members": []}

    def started(self, event: RebalanceStarted, sender: Sender | None) -> None:
        """Note that a phase began."""
        member, left = _MEMBER.match(event.reason), _LEFT.match(event.reason)
        cause = _cause(event, sender)._replace(member_id=member["id"] if member is not None else None)
        if left is not None and self.pending.issuperset(left["ids"].split(", ")):
            # A client that got a member id and never joined came and left.
            cause = cause._replace(beside=frozenset({Cause.MEMBER_JOIN}))
        self.waiting.append(cause)

    def written(self, batch: Sequence[Record], at_ms: int) -> None:
        """Note the generations of a batch."""
        for record in batch:
            if record.kind != "GroupMetadata" or not record.value:
                continue
            self.last, before = record.value, self.last
            # The record of a group that was just created has no generation yet.
            if record.value["generation"] and self.waiting:
                are_other = _have_topics_changed(before, record.value)
                causes = [
                    cause.accepting(*_without_trace(cause, record.value, have_topics_changed=are_other))
                    for cause in self.waiting
                ]
                self.found["classic", record.value["generation"]].append(Found(at_ms, causes))
                # The trigger that converts a group back also sets off the rebalance that follows.
                self.waiting = list(self.waiting) if len(batch) > 1 else []


def _without_trace(cause: TrueCause, generation: Mapping[str, Any], *, have_topics_changed: bool) -> Iterator[Cause]:
    """Yield causes that also count as right, because the record of the generation does not show the true cause.

    If a member joined and is not in the record, another member's join counts. If a member joined again because of
    topics, and the topics on record are the same, a rejoin without a change counts.
    """
    is_gone = cause.member_id not in {None, *(member["memberId"] for member in generation["members"])}
    if is_gone and cause.why.startswith("Adding new member"):
        yield Cause.MEMBER_JOIN
    is_unseen = is_gone if cause.truth is Cause.SUBSCRIPTION_CHANGE else not have_topics_changed
    if is_unseen and cause.truth in (Cause.SUBSCRIPTION_CHANGE, Cause.TOPIC_METADATA_CHANGE):
        yield Cause.LEADER_REJOIN


def _covered(generation: Mapping[str, Any]) -> dict[str, int]:
    """Return the topics that a recorded generation assigns, with the highest partition of each."""
    highest: dict[str, int] = {}
    for member in generation["members"]:
        try:
            partitions = read_assignment(member["assignment"]).partitions
        except BlobError:
            return {}
        for topic, numbers in partitions:
            highest[topic] = max((highest.get(topic, -1), *numbers))
    return highest


def _read(generation: Mapping[str, Any]) -> set[str]:
    """Return the topics that members of a recorded generation subscribe to."""
    read: set[str] = set()
    for member in generation["members"]:
        with suppress(BlobError):
            read |= subscribed_topics(member["subscription"])
    return read


def _have_topics_changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether the assigned partitions show that topics grew, came or went.

    Only topics that both generations subscribe to count.
    """
    old, new = _covered(before), _covered(after)
    return any(
        (topic in old) is not (topic in new) or new.get(topic, -1) > old.get(topic, -1)
        for topic in _read(before) & _read(after)
    )


class _Epochs:
    """The epochs of a consumer group.

    Attributes:
        found: the causes of each epoch.
        pending: the causes of the epochs in the batch that is written next.
        converted_ms: when the group was converted.
        last: the last epoch.
    """

    def __init__(self, found: Truths) -> None:
        self.found = found
        self.pending: dict[int, TrueCause] = {}
        self.converted_ms, self.last = -1, 0

    def raised(self, event: EpochBumped, sender: Sender | None) -> None:
        """Note a new epoch. An epoch right after another one is not the first of a group, even if its number is low."""
        cause = _cause(event, sender)
        if cause.truth is Cause.GROUP_CREATED and event.epoch == self.last + 1:
            cause = _arrival(event.reason, sender, is_first=False)
        if cause.truth is Cause.GROUP_CONVERSION:
            self.converted_ms = event.at_ms
        elif event.trigger.kind is TriggerKind.JOB and self.converted_ms == event.at_ms:
            # The heartbeat that converted the group asked for its expression to be resolved.
            cause = cause.accepting(Cause.GROUP_CONVERSION)
        self.pending[event.epoch], self.last = cause, event.epoch

    def written(self, batch: Sequence[Record], at_ms: int) -> None:
        """Note the epochs of a batch. A batch that converts a group has two epochs, with all causes for each."""
        if not self.pending:
            return
        causes = [self.pending[epoch] for epoch in sorted(self.pending)]
        records = (record for record in batch if record.kind == "ConsumerGroupMetadata" and record.value)
        for epoch in {max(self.pending), *(record.value["epoch"] for record in records if record.value)}:
            self.found["consumer", epoch].append(Found(at_ms, causes))
        self.pending = {}


def _cause(event: RebalanceStarted | EpochBumped, sender: Sender | None) -> TrueCause:
    why, trigger = event.reason, event.trigger
    if "Downgrade group" in why or "Converted the" in why:
        conversion = _known(Cause.GROUP_CONVERSION, why)
        # The return of the member that converts a group back may also raise the group epoch.
        others = _return(why).accepted if "re-joins" in why else frozenset[Cause]()
        if "Converted the empty" in why:
            others |= {Cause.GROUP_CREATED}
        return conversion._replace(accepted=conversion.accepted | others)
    if "on heartbeat expiration" in why or "session expired" in why:
        return _known(Cause.SESSION_TIMEOUT, why)
    if "pending sync request" in why or "fenced from the group" in why:
        return _known(Cause.REBALANCE_TIMEOUT, why)
    if "explicit `LeaveGroup`" in why or "left the consumer group" in why:
        is_late = sender is not None and sender.ended == LEFT_BY_POLL_TIMEOUT
        extra = {Cause.POLL_TIMEOUT_REJOIN} if is_late else set()
        return _known(Cause.MEMBER_LEAVE, why, *extra, Cause.MEMBER_RESTART)
    if "Adding new member" in why or "joins the consumer group" in why:
        is_first = event.generation == 0 if isinstance(event, RebalanceStarted) else event.epoch <= FIRST_EPOCH
        return _arrival(why, sender, is_first=is_first)
    if "static member" in why.lower():
        return _return(why)
    if trigger.kind is TriggerKind.JOB:
        # Expressions are resolved if a member joined or changed its expression, or if topics changed.
        is_first = isinstance(event, EpochBumped) and event.epoch <= FIRST_EPOCH
        joined = _arrival(why, sender, is_first=is_first).accepted
        return _known(Cause.TOPIC_METADATA_CHANGE, why, Cause.SUBSCRIPTION_CHANGE, *joined)
    if isinstance(event, EpochBumped):
        is_subscription = "updated its subscribed" in why
        return _known(Cause.SUBSCRIPTION_CHANGE if is_subscription else Cause.TOPIC_METADATA_CHANGE, why)
    return _rejoin(why, sender)


def _known(cause: Cause, why: str, *others: Cause) -> TrueCause:
    return TrueCause(cause, frozenset({cause, *others}), why)


def _arrival(why: str, sender: Sender | None, *, is_first: bool) -> TrueCause:
    if is_first:
        return _known(Cause.GROUP_CREATED, why)
    if sender is None or not sender.has_been_member:
        migrated = {Cause.CLIENT_UPGRADE, Cause.CLIENT_DOWNGRADE, Cause.MEMBER_RESTART}
        is_migrated = sender is not None and sender.ended == "migrated"
        return _known(Cause.MEMBER_JOIN, why, *(migrated if is_migrated else ()))
    # The log shows a dynamic member by client.id and host. If these are others, the member looks new.
    others = {Cause.MEMBER_JOIN} if sender.is_elsewhere else set[Cause]()
    if sender.ended == LEFT_BY_POLL_TIMEOUT:
        return _known(Cause.POLL_TIMEOUT_REJOIN, why, *_return(why).accepted, *others)
    back = _return(why)
    return back._replace(accepted=back.accepted | others)


def _return(why: str) -> TrueCause:
    changed = {Cause.CLIENT_UPGRADE, Cause.CLIENT_DOWNGRADE, Cause.PROTOCOL_CHANGE}
    if "updated its subscribed" in why:
        changed.add(Cause.SUBSCRIPTION_CHANGE)
    if "metadata hash" in why:
        changed.add(Cause.TOPIC_METADATA_CHANGE)
    return _known(Cause.MEMBER_RESTART, why, *changed)


def _rejoin(why: str, sender: Sender | None) -> TrueCause:
    says = (sender.says if sender is not None else None) or ""
    if "cached metadata" in says:
        return _known(Cause.TOPIC_METADATA_CHANGE, why)
    if "need to revoke" in says:
        return _known(Cause.COOPERATIVE_FOLLOW_UP, why)
    if "subscription has changed" in says:
        return _known(Cause.SUBSCRIPTION_CHANGE, why)
    return _known(Cause.LEADER_REJOIN, why)
