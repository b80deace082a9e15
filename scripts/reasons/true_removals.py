"""Compares the facts about removed offsets with the events of a random life.

Each kind of fact that claims an event has a check. Facts about releases of Kafka, and facts that say what the records
do not show, need no check.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from coordinator_replay.analysis.expiring import DEFAULT_RETENTION_MS
from coordinator_replay.analysis.removal_facts import (
    DEFAULT_RETENTION,
    NAMED_TIME,
    OR_NAMED_TIME,
    RETENTION,
    RemovalFact,
)
from coordinator_replay.engine.model import Marker, Record
from coordinator_replay.pipeline.offsets.causes import TOPIC_DELETION_SPREAD_MS
from coordinator_replay.simulation.coordinator.truth import BatchWritten, TriggerKind
from scripts.world.consumers import Consumer
from scripts.world.life import Life

Fact = Mapping[str, Any]
Row = Mapping[str, Any]

_GROUPS = ("GroupMetadata", "ConsumerGroupMetadata")


class RemovalWitness:
    """The events of a life, with which the facts about its removed offsets are compared.

    Attributes:
        life: the life.
        others: other lives of the cluster, whose groups may have lost offsets of the same topics.
        retention_ms: the cluster's offsets.retention.minutes, in milliseconds.
        on_record: offsets of the tombstones whose commit is on record: those of all rows of the group.
        row: the row of ``removed_offsets`` whose facts are checked.
        batch: the batch with the row's tombstone. Its trigger removed the row's offset.
    """

    row: Row
    batch: BatchWritten

    def __init__(self, life: Life, others: Iterable[Life], retention_ms: int, on_record: frozenset[int]) -> None:
        self.life = life
        self.others = list(others)
        self.retention_ms = retention_ms
        self.on_record = on_record

    def false_facts(self, row: Row, batch: BatchWritten) -> Iterator[Fact]:
        """Yield the facts of a removed offset that are not true.

        Args:
            row: the row of ``removed_offsets``.
            batch: the batch with the row's tombstone.
        """
        self.row, self.batch = row, batch
        for fact in row["ended_facts"]:
            check = _CHECKS.get(RemovalFact(fact["kind"]))
            is_of_row = fact["partition"] is None or (fact["topic"], fact["partition"], fact["log_offset"]) == (
                row["topic"],
                row["partition"],
                row["to_offset"],
            )
            if not is_of_row or (check is not None and not check(self, fact)):
                yield fact

    @cached_property
    def records(self) -> dict[int, Record]:
        """Return records by offset."""
        return {record.offset: record for record in self.life.written if isinstance(record, Record)}

    @property
    def tombstone(self) -> Record:
        """Return the row's tombstone."""
        return self.records[self.row["to_offset"]]

    @property
    def now_ms(self) -> int:
        """Return the time of the row's tombstone."""
        return self.tombstone.timestamp_ms or 0

    @property
    def write(self) -> list[Record]:
        """Return the records with the time of the row's tombstone."""
        now_ms = self.now_ms
        return [record for record in self.records.values() if record.timestamp_ms == now_ms]

    @property
    def gone(self) -> list[Record]:
        """Return the tombstones with the time of the row's tombstone whose commit is on record."""
        return [record for record in self.write if record.offset in self.on_record]

    def commit(self, tombstone: Record) -> Mapping[str, Any] | None:
        """Return the value of the commit that a tombstone removed; None if there is none.

        A commit in a transaction counts from its marker on, if the marker committed it.
        """
        found: Mapping[str, Any] | None = None
        pending: dict[int, Mapping[str, Any]] = {}
        for written in self.life.written:
            if written.offset >= tombstone.offset:
                break
            if isinstance(written, Marker):
                value = pending.pop(written.producer_id, None)
                found = value if written.committed and value is not None else found
            elif written.kind == "OffsetCommit" and written.key == tombstone.key:
                if written.value is None:
                    found, pending = None, {}
                elif written.producer_id >= 0:
                    pending[written.producer_id] = written.value
                else:
                    found = written.value
        return found

    def has_open_transaction(self, tombstone: Record) -> bool:
        """Return whether a transaction on a tombstone's partition was open at the tombstone."""
        producers: set[int] = set()
        for written in self.life.written:
            if written.offset >= tombstone.offset:
                break
            if isinstance(written, Marker):
                producers.discard(written.producer_id)
            elif written.kind == "OffsetCommit" and written.key == tombstone.key and written.producer_id >= 0:
                producers.add(written.producer_id)
        return bool(producers)

    def empty_since_ms(self, until: int) -> int | None:
        """Return the time since which the classic group was Empty at a log offset; None if it was not."""
        value: Mapping[str, Any] | None = None
        for record in self.records.values():
            if record.offset >= until:
                break
            if record.kind in _GROUPS:
                value = record.value if record.kind == "GroupMetadata" else None
        return None if value is None or value["members"] else int(value["currentStateTimestamp"])

    def bases(self, tombstone: Record) -> tuple[int | None, int | None]:
        """Return the times from which retention of a removed offset may count: its commit, and the Empty state."""
        value = self.commit(tombstone)
        return None if value is None else int(value["commitTimestamp"]), self.empty_since_ms(tombstone.offset)

    def subscribed(self, topic: str) -> bool:
        """Return whether members in the records before the row's tombstone keep the offsets of a topic.

        These are members that subscribe to the topic, and members of groups with another protocol type.
        The topics are those of the member's last request before its record.
        """
        members: dict[str, int] = {}
        for record in self.records.values():
            if record.offset >= self.row["to_offset"]:
                break
            at_ms = record.timestamp_ms or 0
            if record.kind == "GroupMetadata":
                members = {member["memberId"]: at_ms for member in (record.value or {}).get("members", ())}
            elif record.kind == "ConsumerGroupMemberMetadata":
                members.pop(record.key["memberId"], None)
                members |= {record.key["memberId"]: at_ms} if record.value is not None else {}
        consumers = {self.life.owner_of[member_id]: at_ms for member_id, at_ms in members.items()}
        last: dict[Consumer, Sequence[str]] = {}
        for sent in self.life.sent:
            if sent.api in ("JoinGroup", "ConsumerGroupHeartbeat") and sent.at_ms <= consumers.get(sent.consumer, -1):
                last[sent.consumer] = sent.topics
        is_foreign = self.life.habits.protocol_type != "consumer" and bool(consumers)
        return is_foreign or any(topic in topics for topics in last.values())


def _limit(witness: RemovalWitness, fact: Fact) -> bool:
    """Return whether the fact names the cluster's retention, Kafka's default, or the time that the commit names."""
    limit = fact["limit"].removesuffix(OR_NAMED_TIME)
    known = {DEFAULT_RETENTION: DEFAULT_RETENTION_MS, RETENTION: witness.retention_ms}
    return limit == NAMED_TIME or fact["limit_ms"] == known.get(limit)


def _age(witness: RemovalWitness, fact: Fact) -> bool:
    """Return whether ``elapsed_ms`` is the time since the commit, or since the group became Empty."""
    return fact["elapsed_ms"] in {
        witness.now_ms - base for base in witness.bases(witness.tombstone) if base is not None
    }


def _is_past(witness: RemovalWitness, fact: Fact, tombstone: Record) -> bool:
    """Return whether a removed offset was past a retention since its commit, or since the group became Empty."""
    value = witness.commit(tombstone)
    if value is None:
        return True
    if (value.get("expireTimestamp") or -1) >= 0:
        return bool(value["expireTimestamp"] <= witness.now_ms)
    empty_ms = witness.empty_since_ms(tombstone.offset)
    return bool(witness.now_ms - (value["commitTimestamp"] if empty_ms is None else empty_ms) >= fact["limit_ms"])


def _all_past(witness: RemovalWitness, fact: Fact) -> bool:
    return _limit(witness, fact) and all(_is_past(witness, fact, tombstone) for tombstone in witness.gone)


def _some_not_past(witness: RemovalWitness, fact: Fact) -> bool:
    """Return whether an offset of the write was not past retention."""
    return any(not _is_past(witness, fact, record) for record in witness.gone)


def _spared(witness: RemovalWitness, fact: Fact) -> bool:
    """Return whether an offset of the write was not past retention, or was kept from expiring."""
    return _limit(witness, fact) and (
        _some_not_past(witness, fact)
        or any(
            witness.has_open_transaction(record) or witness.subscribed(record.key["topic"]) for record in witness.gone
        )
    )


def _others_not_past(witness: RemovalWitness, fact: Fact) -> bool:
    past = next(other for other in witness.row["ended_facts"] if other["kind"] == RemovalFact.PAST)
    return _spared(witness, past)


def _past(witness: RemovalWitness, fact: Fact) -> bool:
    elapsed_ms, limit_ms = fact["elapsed_ms"], fact["limit_ms"]
    return _limit(witness, fact) and _age(witness, fact) and elapsed_ms >= limit_ms


def _not_past(witness: RemovalWitness, fact: Fact) -> bool:
    return _limit(witness, fact) and _age(witness, fact) and fact["elapsed_ms"] < fact["limit_ms"]


def _before_named_time(witness: RemovalWitness, fact: Fact) -> bool:
    value = witness.commit(witness.tombstone)
    return value is not None and witness.now_ms < value["expireTimestamp"] and _age(witness, fact)


def _past_since_commit(witness: RemovalWitness, fact: Fact) -> bool:
    commit_ms, empty_ms = witness.bases(witness.tombstone)
    return (
        commit_ms is not None
        and fact["elapsed_ms"] == witness.now_ms - commit_ms >= fact["limit_ms"]
        and empty_ms is not None
        and witness.now_ms - empty_ms < fact["limit_ms"]
    )


def _group_tombstone(witness: RemovalWitness, fact: Fact) -> bool:
    return any(record.kind in _GROUPS and record.value is None for record in witness.write)


def _no_group_tombstone(witness: RemovalWitness, fact: Fact) -> bool:
    """Return whether the batch of the row's tombstone has no tombstone of the group."""
    batch = (witness.records[at] for at in range(witness.batch.first_offset, witness.batch.last_offset + 1))
    return not any(record.kind in _GROUPS and record.value is None for record in batch)


def _by_delete_or_topic(witness: RemovalWitness, fact: Fact) -> bool:
    return witness.batch.trigger.kind is TriggerKind.TOPICS or witness.batch.trigger.name == "OffsetDelete"


def _by_topic(witness: RemovalWitness, fact: Fact) -> bool:
    return witness.batch.trigger.kind is TriggerKind.TOPICS


def _several_groups(witness: RemovalWitness, fact: Fact) -> bool:
    """Return whether at least ``count`` groups lost offsets of the topic, with times that belong together."""
    lost = sorted(
        (record.timestamp_ms or 0, life.group)
        for life in (witness.life, *witness.others)
        for record in life.written
        if isinstance(record, Record) and record.kind == "OffsetCommit" and record.value is None
        if record.key["topic"] == fact["topic"]
    )
    groups: set[str] = set()
    before_ms, is_here = None, False
    for at_ms, group in lost:
        if before_ms is not None and at_ms - before_ms > TOPIC_DELETION_SPREAD_MS:
            if is_here:
                break
            groups = set()
        groups.add(group)
        before_ms, is_here = at_ms, is_here or at_ms == witness.now_ms
    return is_here and len(groups) >= fact["count"]


def _rebalanced(witness: RemovalWitness, fact: Fact) -> bool:
    """Return whether a generation was written ``elapsed_ms`` after the tombstone."""
    over_ms = witness.now_ms + fact["elapsed_ms"]
    return fact["elapsed_ms"] <= fact["limit_ms"] and any(
        record.kind == "GroupMetadata" and record.value is not None and record.timestamp_ms == over_ms
        for record in witness.records.values()
    )


_CHECKS: Mapping[RemovalFact, Callable[[RemovalWitness, Fact], bool]] = {
    RemovalFact.GROUP_TOMBSTONE: _group_tombstone,
    RemovalFact.NO_GROUP_TOMBSTONE: _no_group_tombstone,
    RemovalFact.NOT_PROVEN: _limit,
    RemovalFact.ALL_PAST: _all_past,
    RemovalFact.PROMPT: lambda witness, fact: fact["elapsed_ms"] <= fact["limit_ms"],
    RemovalFact.LATE: lambda witness, fact: fact["elapsed_ms"] > fact["limit_ms"],
    RemovalFact.SOME_NOT_PAST: _spared,
    RemovalFact.WITH_OTHERS: _spared,
    RemovalFact.PAST: _past,
    RemovalFact.OTHERS_NOT_PAST: _others_not_past,
    RemovalFact.NOT_PAST: _not_past,
    RemovalFact.NOT_PAST_NAMED_TIME: _before_named_time,
    RemovalFact.PAST_SINCE_COMMIT: _past_since_commit,
    RemovalFact.JUST_PAST: _past,
    RemovalFact.KEPT_BY_MEMBERS: lambda witness, fact: witness.subscribed(fact["topic"]),
    RemovalFact.TRANSACTION_OPEN: lambda witness, fact: witness.has_open_transaction(witness.tombstone),
    RemovalFact.SEVERAL_GROUPS: _several_groups,
    RemovalFact.DELETE_OR_TOPIC: _by_delete_or_topic,
    RemovalFact.TOPIC: _by_topic,
    RemovalFact.PERHAPS_REBALANCING: _rebalanced,
}
