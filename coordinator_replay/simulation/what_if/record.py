"""The recorded life of a group: its operations in order, and the settings that they show.

``operations_of`` turns a group's records into operations. ``recorded_settings`` infers timeouts and intervals from the
times of the operations, because most of these settings are not in the records.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from statistics import fmean
from typing import Any, NamedTuple

from coordinator_replay.analysis.reasons.topic_changes import CREATED, PARTITIONS_ADDED, DatedTopicChange, TopicChanges
from coordinator_replay.analysis.reasons.vocabulary import by_frequency
from coordinator_replay.engine.events import Event
from coordinator_replay.engine.model import GroupType, Member, MemberState, Record
from coordinator_replay.engine.replay import StateReplay
from coordinator_replay.errors import UsageError
from coordinator_replay.simulation.what_if.outcome import rows_of
from coordinator_replay.simulation.what_if.settings import STRATEGIES, Settings, changed


class RecordedOperation(NamedTuple):
    """One operation of the coordinator on the recorded group: what the records of one batch changed.

    Attributes:
        at_ms: the time at which the operation's records were written.
        before_ms: the time of the group's previous operation; None for the first operation.
        events: the events, at least one.
        join_done_ms: the end of the join phase; None if the operation is no new generation of a classic group.
    """

    at_ms: int
    before_ms: int | None
    events: Sequence[Event]
    join_done_ms: int | None

    @property
    def is_classic(self) -> bool:
        """Return whether the group was a classic group after the operation."""
        return self.events[-1].group_type is GroupType.CLASSIC

    @property
    def has_arrivals_or_departures(self) -> bool:
        """Return whether a member joined or left in the operation."""
        return any(str(event.kind) in ("MEMBER_JOINED", "MEMBER_LEFT") for event in self.events)

    def began_ms(self, heartbeat_ms: int, initial_delay_ms: int) -> int:
        """Return when the rebalance of this operation began. For a classic group, this is an estimate.

        Args:
            heartbeat_ms: heartbeat interval of the members.
            initial_delay_ms: ``group.initial.rebalance.delay.ms``.
        """
        # No record shows when the join phase of a classic group began. So an estimate of its length is subtracted from
        # its end. The length is one heartbeat interval, because members notice a rebalance at their next heartbeat. If
        # all members are new, the length is the initial delay, or two such delays for two members or more.
        if not self.is_classic or self.join_done_ms is None:
            return self.at_ms
        member_count = self.events[-1].member_count
        joined = sum(str(event.kind) == "MEMBER_JOINED" for event in self.events)
        if joined and joined == member_count:
            # Each member that joins during the wait makes the coordinator wait once more.
            phase_ms = initial_delay_ms if joined == 1 else 2 * initial_delay_ms
        elif member_count:
            phase_ms = heartbeat_ms
        else:
            phase_ms = 0
        earliest = self.before_ms + 1 if self.before_ms is not None else self.join_done_ms - phase_ms
        return max(self.join_done_ms - phase_ms, earliest)


def operations_of(group_id: str, records: Iterable[Record]) -> list[RecordedOperation]:
    """Return, in order, the operations on a group. Operations without events are left out.

    If the first records have no time, their operations get the time of the first record that has a time.

    Raises:
        UsageError: no record of the group carries a time.
    """
    records = list(records)
    first_ms = next((record.timestamp_ms for record in records if record.timestamp_ms is not None), None)
    if records and first_ms is None:
        raise UsageError(f"no record of group {group_id} carries a time: its life can't be simulated")
    replay = StateReplay(group_id)
    operations: list[RecordedOperation] = []
    for record in records:
        for events in replay.apply_in_operations(record):
            _append(operations, events, first_ms or 0)
    _append(operations, replay.finish(), first_ms or 0)
    return operations


def _append(operations: list[RecordedOperation], events: Sequence[Event], first_ms: int) -> None:
    if not events:
        return
    done = [event.changes["join_done_ms"] for event in events if event.changes.get("join_done_ms") is not None]
    before_ms = operations[-1].at_ms if operations else None
    at_ms = max(events[-1].timestamp_ms or 0, before_ms or first_ms)
    join_done = min(max(done[-1], before_ms or 0), at_ms) if done else None
    operations.append(RecordedOperation(at_ms, before_ms, events, join_done))


def assigned_partitions(operations: Sequence[RecordedOperation]) -> dict[str, list[DatedTopicChange]]:
    """Return the partition counts that the records prove for each topic, by the topic's name or id.

    A count follows from the highest partition number that was assigned. Each topic is assumed to be older than the
    group. If a later rebalance assigns a higher partition number, the partition is assumed to have been added at the
    start of this rebalance.
    """
    by_topic: dict[str, list[DatedTopicChange]] = {}
    for operation in operations:
        for member in _members(operation):
            for part in (member.current, member.target):
                for topic, numbers in ((part.assigned if part is not None else None) or {}).items():
                    changes = by_topic.setdefault(topic, [DatedTopicChange(0, CREATED, 0)])
                    count = max(numbers, default=-1) + 1
                    if not changes[-1].partition_count:
                        changes[-1] = DatedTopicChange(0, CREATED, count)
                    elif count > changes[-1].partition_count and changes[-1].at_ms == operation.began_ms(0, 0):
                        changes[-1] = changes[-1]._replace(partition_count=count)
                    elif count > changes[-1].partition_count:
                        changes.append(DatedTopicChange(operation.began_ms(0, 0), PARTITIONS_ADDED, count))
    return by_topic


def _members(operation: RecordedOperation) -> Iterable[Member]:
    for event in operation.events:
        if event.member is not None:
            yield event.member
        yield from event.members


@dataclass(frozen=True)
class Recorded:
    """Recorded facts of a group.

    Attributes:
        records: records of the group in log order, with decoded subscriptions and assignments. Offset commits are not
            needed.
        names: topic name by id.
        counts: last known partition count, by topic name.
        changes: the changes of each topic with their times, by topic name.
        audited: the group's rows of the table ``rebalances``; None to make such rows from ``records``.
        log_end_ms: time of the last record of the log, of any group; None if unknown.
        last_commits: time of each member's last commit, by member id, if known.
        moved: a clause such as ``its move to another log partition at …``, if earlier records of the asked time range
            are left out because the group moved; otherwise empty.
        lacks: sentences on what the log may lack of the group in the asked time range. With such a sentence, the
            numbers of the recorded life are lower bounds.
    """

    group_id: str
    records: Sequence[Record]
    names: Mapping[str, str]
    counts: Mapping[str, int]
    changes: TopicChanges
    audited: Sequence[dict[str, Any]] | None = None
    log_end_ms: int | None = None
    last_commits: Mapping[str, int] = field(default_factory=dict)
    moved: str = ""
    lacks: Sequence[str] = ()

    def nothing(self, what: str) -> UsageError:
        """Return an error that says what the group does not have.

        Args:
            what: what the group does not have, such as ``has no members on record``.
        """
        since = f" since {self.moved}; what-if covers no earlier time" if self.moved else ""
        return UsageError(f"group {self.group_id!r} {what}{since}")

    @cached_property
    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Return the group's rows, by table.

        The rows are made from the group's records. Only the rows of ``rebalances`` come from ``audited``, unless
        ``audited`` is None.
        """
        rows = rows_of(self.group_id, self.records, self.names, self.changes)
        if self.audited is not None:
            rows["rebalances"] = list(self.audited)
        return rows

    @cached_property
    def operations(self) -> list[RecordedOperation]:
        """Return the operations on the group, as its records show them."""
        return operations_of(self.group_id, self.records)


FEW = 4
"""Fewest measured times from which ``measured_heartbeat`` gives a result."""


def recorded_settings(
    operations: Sequence[RecordedOperation], rows: Mapping[str, Sequence[Mapping[str, Any]]], known: Mapping[str, str]
) -> tuple[Settings, list[str]]:
    """Return the settings of the recorded life, and sentences about values that are assumed.

    Args:
        operations: operations of the group under one protocol, at least one.
        rows: rows of the group by table.
        known: settings that the question gives, by Kafka's names. They replace measured settings.
    """
    protocol = "classic" if operations[0].is_classic else "consumer"
    named = {str(name) for row in rows.get("member_timeline", ()) if (name := row["assignor"]) is not None}
    strategy = _usual_strategy(operations)
    assignor = "range" if protocol == "consumer" and named == {"range"} else "uniform"
    heartbeat = measured_heartbeat(operations)
    delays = [row["metadata_delay_ms"] for row in rows.get("rebalances", ()) if row["metadata_delay_ms"] is not None]
    delay = measured_initial_delay(operations)
    settings = Settings(
        protocol=protocol,
        initial_delay_ms=delay,
        revoke_ms=measured_revocation(operations),
        strategy=strategy,
        assignor=assignor,
        heartbeat_ms=min(heartbeat, 5000 if protocol == "consumer" else 3000) if heartbeat is not None else None,
        session_ms=measured_session(operations) if protocol == "consumer" else None,
        metadata_ms=max(delays) if delays and protocol == "classic" else None,
    )
    settings = changed(settings, known)
    notes = []
    if "heartbeat.interval.ms" not in known:
        where = "Kafka's default" if settings.heartbeat_ms is None else "the most that the record allows"
        notes.append(f"heartbeat.interval.ms is not on record: {settings.heartbeat():,} ms is assumed, {where}.")
    if protocol == "consumer" and settings.session_ms is None:
        notes.append(
            f"The session timeout of a consumer group is not on record: {settings.consumer_session():,} ms is assumed."
        )
    if protocol == "classic" and settings.initial_delay_ms is None:
        notes.append(f"group.initial.rebalance.delay.ms is not on record: {settings.initial_delay():,} ms is assumed.")
    if settings.metadata_ms is None and protocol == "classic":
        notes.append(f"metadata.max.age.ms is not on record: {settings.metadata_age():,} ms is assumed.")
    notes.append("Consumers are simulated to take over partitions and to rejoin without a delay.")
    if protocol == "classic":
        notes.append("The join phases of classic rebalances are not on record; when they began is assumed.")
    return settings, notes


def measured_heartbeat(operations: Sequence[RecordedOperation]) -> int | None:
    """Estimate the heartbeat interval of a group in ms, from how soon members take part in a rebalance.

    Return None if too few operations show it.
    """
    # Members notice a rebalance at their next heartbeat. For a consumer group, the result is the longest time from a
    # new target assignment to a member's first step.
    # No record shows when the join phase of a classic group began. But the phase is shorter than the time from the
    # previous operation to the end of the phase. This time is measured for each generation in which members joined or
    # left. The result is half of the second-shortest time.
    if not operations:
        return None
    if operations[-1].is_classic:
        gaps = sorted(
            operation.join_done_ms - operation.before_ms
            for operation in operations
            if operation.join_done_ms is not None
            and operation.before_ms is not None
            and operation.has_arrivals_or_departures
            and operation.events[-1].member_count > 1
        )
        return max(gaps[1] // 2, 1) if len(gaps) >= FEW else None
    waits = []
    target_ms: int | None = None
    stepped: set[str | None] = set()
    for operation in operations:
        kinds = {str(event.kind) for event in operation.events}
        if target_ms is not None:
            for event in operation.events:
                if str(event.kind) in ("MEMBER_RECONCILING", "MEMBER_RECONCILED") and event.member_id not in stepped:
                    stepped.add(event.member_id)
                    waits.append(operation.at_ms - target_ms)
        # If a rebalance is complete with its target, the member's next record is no step towards this target.
        if "REBALANCE_COMPLETED" in kinds:
            target_ms = None
        elif "TARGET_ASSIGNED" in kinds:
            target_ms, stepped = operation.at_ms, {event.member_id for event in operation.events}
    return max(*waits, 1) if len(waits) >= FEW else None


def measured_session(operations: Sequence[RecordedOperation]) -> int | None:
    """Return the session timeout of a consumer group in ms, as measured from the group's records.

    The result is the shortest time between the heartbeat with which a static member leaves for a restart and the
    removal of this member. Return None if the records show no such removal.
    """
    away: dict[str | None, int] = {}
    sessions: list[int] = []
    for operation in operations:
        for event in operation.events:
            kind = str(event.kind)
            if kind == "MEMBER_AWAY":
                away[event.member_id] = operation.at_ms
            elif kind == "MEMBER_LEFT" and event.member_id in away:
                sessions.append(operation.at_ms - away[event.member_id])
            elif event.member_id in away:
                del away[event.member_id]
    return max(min(sessions), 1) if sessions else None


def _usual_strategy(operations: Sequence[RecordedOperation]) -> str:
    """Return the assignor that most generations of a classic group chose, among assignors that can be simulated.

    If there is none, return ``range``.
    """
    chosen = by_frequency(event.changes.get("protocol") for operation in operations for event in operation.events)
    return next((name for name in chosen if name in STRATEGIES), "range")


def measured_initial_delay(operations: Sequence[RecordedOperation]) -> int | None:
    """Return ``group.initial.rebalance.delay.ms``, as measured from the group metadata record of generation 0.

    The coordinator writes this record when the first member begins to join. The join phase then lasts for one delay, or
    for two if more members joined. Return None if there is no such record.
    """
    for before, next_operation in pairwise(operations):
        if (
            next_operation.is_classic
            and next_operation.join_done_ms is not None
            and before.events[-1].member_count == 0
        ):
            joined = sum(str(event.kind) == "MEMBER_JOINED" for event in next_operation.events)
            is_first = before.events[-1].epoch == 0 and joined == next_operation.events[-1].member_count
            if is_first and joined:
                return max(next_operation.join_done_ms - before.at_ms, 0) // (1 if joined == 1 else 2)
    return None


def measured_revocation(operations: Sequence[RecordedOperation]) -> int | None:
    """Return the mean time in ms that members of a consumer group took to give up partitions.

    Return None if the operations show no such time.
    """
    asked: dict[str | None, int] = {}
    times: list[int] = []
    for operation in operations:
        for event in operation.events:
            since = asked.pop(event.member_id, None) if event.member_id is not None else None
            current = event.member.current if event.member is not None else None
            if since is not None and str(event.kind) in ("MEMBER_RECONCILING", "MEMBER_RECONCILED"):
                times.append(operation.at_ms - since)
            if current is not None and current.state == MemberState.UNREVOKED_PARTITIONS:
                asked[event.member_id] = operation.at_ms
    return round(fmean(times)) if times else None
