"""Compares the facts of evidence with the events of a random life.

Each kind of fact that claims an event has a check. Facts that only compare records need no check: they are read from
the same records, and ``test_facts`` checks their places. Facts that say "may" need no check, either.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from coordinator_replay.analysis.reasons.facts import FactKind
from coordinator_replay.engine.model import Record
from coordinator_replay.simulation.coordinator.truth import BatchWritten, MemberRemoved, TriggerKind
from scripts.world.consumers import AWAY_EPOCH, ClassicConsumer, Consumer
from scripts.world.life import Life, Sent

Fact = Mapping[str, Any]
Row = Mapping[str, Any]


class Witness:
    """A life's events, with which facts are compared.

    Attributes:
        life: the life.
        row: the row of the rebalance whose facts are checked.
    """

    def __init__(self, life: Life) -> None:
        self.life = life
        self.row: Row = {}

    def false_facts(self, row: Row) -> Iterator[Fact]:
        """Yield the facts of a rebalance that are not true."""
        self.row = row
        for fact in row["facts"]:
            check = _CHECKS.get(FactKind(fact["kind"]))
            if check is not None and not check(self, fact):
                yield fact

    @cached_property
    def records(self) -> dict[int, Record]:
        """Return records by offset."""
        return {record.offset: record for record in self.life.written if isinstance(record, Record)}

    @cached_property
    def removals(self) -> dict[str, list[MemberRemoved]]:
        """Return the removals of each member."""
        found: dict[str, list[MemberRemoved]] = {}
        for event in self.life.truth:
            if isinstance(event, MemberRemoved):
                found.setdefault(event.member_id, []).append(event)
        return found

    @cached_property
    def requests(self) -> dict[str, list[Sent]]:
        """Return the requests by member id. A first JoinGroup has no member id, so its key is an empty text."""
        found: dict[str, list[Sent]] = {}
        for sent in self.life.sent:
            found.setdefault(sent.member_id, []).append(sent)
        return found

    @cached_property
    def generations(self) -> list[int]:
        """Return the offsets of records of classic generations."""
        return [record.offset for record in self.records.values() if record.kind == "GroupMetadata" and record.value]

    @cached_property
    def deletions(self) -> list[int]:
        """Return the offsets of tombstones of the classic group."""
        return [
            record.offset for record in self.records.values() if record.kind == "GroupMetadata" and not record.value
        ]

    def at_ms(self, offset: int) -> int:
        """Return the time of a record."""
        return self.records[offset].timestamp_ms or 0

    def removal(self, member_id: str, offset: int) -> MemberRemoved | None:
        """Return the last removal of a member up to a record."""
        before = [event for event in self.removals.get(member_id, ()) if event.at_ms <= self.at_ms(offset)]
        return before[-1] if before else None

    def ids_of(self, member_id: str) -> set[str]:
        """Return all member ids that a static member had. A dynamic member has one id.

        The coordinator of a classic group begins a static member's ids with the instance id.
        """
        consumer = self.consumer(member_id)
        instance_id = consumer.instance_id if consumer is not None else None
        if consumer is None or instance_id is None:
            return {member_id}
        return {member_id, *consumer.had, *(other for other in self.removals if other.startswith(f"{instance_id}-"))}

    def removal_here(self, member_id: str) -> MemberRemoved | None:
        """Return a member's removal if the facts of the row show it."""
        shown = (
            fact for fact in self.row["facts"] if fact["kind"] == FactKind.REMOVED and member_id in fact["members"]
        )
        offset = next((fact["log_offset"] for fact in shown), None)
        return None if offset is None else self.removal(member_id, offset)

    def consumer(self, member_id: str) -> Consumer | None:
        """Return the consumer of a member."""
        return self.life.owner_of.get(member_id)

    def sent_by(self, member_id: str) -> Iterator[Sent]:
        """Yield the requests of a member, and the requests in which its consumer asked for a member id."""
        consumer = self.consumer(member_id)
        yield from self.requests.get(member_id, ())
        yield from (sent for sent in self.requests.get("", ()) if sent.consumer is consumer)

    def has_joined(self, member_id: str, after_ms: int, until_ms: int) -> bool:
        """Return whether a member sent a JoinGroup in a time range."""
        return any(sent.api == "JoinGroup" and after_ms <= sent.at_ms <= until_ms for sent in self.sent_by(member_id))


def _each(check: Callable[[Witness, Fact, str], bool]) -> Callable[[Witness, Fact], bool]:
    """Return a check of a fact that requires the given check to be true for every member of the fact."""
    return lambda witness, fact: all(check(witness, fact, member_id) for member_id in fact["members"])


def _joined(witness: Witness, fact: Fact, member_id: str) -> bool:
    """Return whether the member sent a request to join before the record was written."""
    at_ms, joins = witness.at_ms(fact["log_offset"]), ("JoinGroup", "ConsumerGroupHeartbeat")
    return any(sent.api in joins and sent.at_ms <= at_ms for sent in witness.sent_by(member_id))


def _removed(witness: Witness, fact: Fact, member_id: str) -> bool:
    """Return whether the coordinator removed the member since the record of the previous generation.

    A static member may have got another member id in between, which no record shows.
    """
    removals = (witness.removal(other, fact["log_offset"]) for other in witness.ids_of(member_id))
    removal = max(filter(None, removals), key=lambda event: event.end_offset, default=None)
    if removal is None:
        return False
    place = bisect_right(witness.generations, fact["log_offset"] - 1)
    before = witness.generations[place - 1] if place else 0
    is_classic = fact["log_offset"] in witness.generations
    return not is_classic or removal.end_offset > before


def _last_seen(witness: Witness, fact: Fact, member_id: str) -> bool:
    """Return whether the member had sent a request by ``since_offset``; for a classic generation, a JoinGroup to it."""
    since, removal = fact["since_offset"], witness.removal_here(member_id)
    if removal is None or fact["elapsed_ms"] is None:
        return True
    record = witness.records[since]
    if record.kind != "GroupMetadata" or not record.value:
        return any(sent.at_ms <= witness.at_ms(since) for sent in witness.sent_by(member_id))
    place = bisect_right(witness.generations, since - 1)
    before_ms = witness.at_ms(witness.generations[place - 1]) if place else 0
    return witness.has_joined(member_id, before_ms, witness.at_ms(since))


def _by_request(witness: Witness, fact: Fact, member_id: str) -> bool:
    """Return whether no timeout removed the member."""
    removal = witness.removal_here(member_id)
    return removal is None or removal.trigger.kind is not TriggerKind.TIMER


def _session(witness: Witness, fact: Fact, member_id: str) -> bool:
    consumer = witness.consumer(member_id)
    return fact["session_timeout_ms"] is None or (
        consumer is not None and fact["session_timeout_ms"] == consumer.session_ms
    )


def _stayed_away(witness: Witness, fact: Fact, member_id: str) -> bool:
    """Return whether the member's last request said that it leaves for a restart."""
    since_ms = witness.at_ms(fact["since_offset"])
    removal = witness.removal_here(member_id)
    sent = [sent for sent in witness.requests.get(member_id, ()) if sent.at_ms <= since_ms]
    until_ms = removal.at_ms if removal is not None else since_ms
    later = [sent for sent in witness.requests.get(member_id, ()) if since_ms < sent.at_ms < until_ms]
    return bool(sent) and sent[-1].body.get("memberEpoch") == AWAY_EPOCH and not later


def _last_commit(witness: Witness, fact: Fact, member_id: str) -> bool:
    """Return whether the partition of the commit was not committed again before the removal."""
    removal, commit = witness.removal_here(member_id), witness.records[fact["since_offset"]]
    return removal is None or not any(
        record.key == commit.key and record.value is not None
        for record in witness.records.values()
        if record.offset > commit.offset and (record.timestamp_ms or 0) < removal.at_ms
    )


def _same_process(witness: Witness, fact: Fact, member_id: str) -> bool:
    return all(witness.consumer(other) is witness.consumer(member_id) for other in fact["others"])


def _same_instance(witness: Witness, fact: Fact, member_id: str) -> bool:
    consumers = map(witness.consumer, (member_id, *fact["others"]))
    return len({consumer.instance_id if consumer is not None else "" for consumer in consumers}) == 1


def _removed_at_once(witness: Witness, fact: Fact, member_id: str) -> bool:
    removal = witness.removal_here(member_id)
    at_once = [
        other
        for removals in witness.removals.values()
        for other in removals
        if removal is not None and other.trigger == removal.trigger and other.at_ms == removal.at_ms
    ]
    return removal is None or len(at_once) == fact["count"]


def _removed_later(witness: Witness, fact: Fact, member_id: str) -> bool:
    removal = witness.removal(member_id, fact["log_offset"])
    return removal is not None and removal.at_ms >= (witness.row["began_by"] or 0)


def _on_classic(witness: Witness, fact: Fact, member_id: str) -> bool:
    return isinstance(witness.consumer(member_id), ClassicConsumer)


def _on_consumer(witness: Witness, fact: Fact, member_id: str) -> bool:
    return not _on_classic(witness, fact, member_id)


def _no_assignment(witness: Witness, fact: Fact, member_id: str) -> bool:
    """Return whether a SyncGroup of the leader did not name the member."""
    generation = witness.row["epoch"]
    named = [
        {entry["memberId"] for entry in sent.body["assignments"]}
        for sent in witness.life.sent
        if sent.api == "SyncGroup" and sent.body["generationId"] == generation and sent.body["assignments"]
    ]
    return not named or any(member_id not in members for members in named)


def _none_between(witness: Witness, fact: Fact) -> bool:
    """Return whether none of the fact's ``count`` generations before the row's generation was written."""
    epoch, place = witness.row["epoch"], bisect_right(witness.generations, _end(witness.row))
    since = max((offset for offset in witness.deletions if offset < _end(witness.row)), default=-1)
    offsets = [offset for offset in witness.generations[:place][-3:] if offset > since]
    written = {(witness.records[offset].value or {})["generation"] for offset in offsets}
    return not written & set(range(epoch - fact["count"], epoch))


def _end(row: Row) -> int:
    return int(row["completed_offset"] or 0)


def _converted(witness: Witness, fact: Fact) -> bool:
    """Return whether the record's batch removed the records of the old type."""
    batch = next(
        event
        for event in witness.life.truth
        if isinstance(event, BatchWritten) and event.first_offset <= fact["log_offset"] <= event.last_offset
    )
    removed = {
        record.kind
        for at in range(batch.first_offset, batch.last_offset + 1)
        if (record := witness.records[at]).value is None
    }
    return ("GroupMetadata" if fact["old"] == "classic" else "ConsumerGroupMetadata") in removed


_CHECKS: Mapping[FactKind, Callable[[Witness, Fact], bool]] = {
    FactKind.CONVERTED: _converted,
    FactKind.TYPE_CHANGED: lambda witness, fact: not _converted(witness, fact),
    FactKind.JOINED: _each(_joined),
    FactKind.JOINED_AS_WELL: _each(_joined),
    FactKind.REMOVED: _each(_removed),
    FactKind.LAST_SEEN: _each(_last_seen),
    FactKind.REMOVED_BY_LEAVE: _each(_by_request),
    FactKind.REMOVED_BY_LEAVE_OF_STATIC: _each(_by_request),
    FactKind.TIMEOUTS: _each(_session),
    FactKind.STAYED_AWAY: _each(_stayed_away),
    FactKind.OTHERS_WAITED: _each(_last_commit),
    FactKind.FELL_SILENT: _each(_last_commit),
    FactKind.CAME_BACK: _each(_same_process),
    FactKind.SAME_MEMBER_ID: _each(_same_process),
    FactKind.SAME_INSTANCE_ID: _each(_same_instance),
    FactKind.REPLACED: _each(_same_instance),
    FactKind.NEW_MEMBER_ID: _each(_same_instance),
    FactKind.REMOVED_AT_ONCE: _each(_removed_at_once),
    FactKind.REMOVED_LATER: _each(_removed_later),
    FactKind.TO_CLASSIC_PROTOCOL: _each(_on_classic),
    FactKind.TO_CONSUMER_PROTOCOL: _each(_on_consumer),
    FactKind.NO_ASSIGNMENT: _each(_no_assignment),
    FactKind.GENERATIONS_MISSING: _none_between,
}
