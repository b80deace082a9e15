"""The warehouse as Python people ask it: every command that asks, as a method.

A method imports the question that it asks: to load all of them takes as long as some answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator_replay.api import questions
from coordinator_replay.api.answer import Answer, SqlAnswer
from coordinator_replay.api.answers import Compared, Described, Expiring, Impacted, Owned, Reasons, Replayed
from coordinator_replay.api.page import Page, Pages, Trace
from coordinator_replay.engine.model import GroupType
from coordinator_replay.errors import UsageError, WarehouseError
from coordinator_replay.query.basis import Basis, basis_at, basis_from
from coordinator_replay.query.choices import SEVERITIES, STATUSES
from coordinator_replay.query.completeness import undecoded_note
from coordinator_replay.query.group_partitions import unaudited_note
from coordinator_replay.query.groups import (
    UNKNOWN,
    UNRECORDED_STATES,
    Group,
    groups_at,
    join_phase_at,
    lively_groups,
    unknown_states_note,
    unrecorded_states_note,
)
from coordinator_replay.query.join_phases import awaited_members
from coordinator_replay.query.removed import DeletedGroup, deleted_groups, removal_notes, removed_offsets
from coordinator_replay.query.tables import END, Coverage, Tables
from coordinator_replay.query.times import LogTime, is_run_id, parse_duration
from coordinator_replay.query.who import EVERYONE, Who, groups_at_time, groups_in_range
from coordinator_replay.simulation import door
from coordinator_replay.times import in_utc, moment_text
from coordinator_replay.zones import parse_zone

if TYPE_CHECKING:
    from coordinator_replay.query.consumers import TopicConsumer
    from coordinator_replay.query.diff import Side
    from coordinator_replay.query.findings import Finding
    from coordinator_replay.query.offset_changes import OffsetChange
    from coordinator_replay.query.offsets import CommittedOffset
    from coordinator_replay.query.rebalances import Rebalance
    from coordinator_replay.query.rollouts import Rollout
    from coordinator_replay.query.saved import SavedQuery
    from coordinator_replay.query.timeline import MemberInterval, TimelineEvent
    from coordinator_replay.report.metrics import Metrics

MOST_TRACED_GROUPS = 50
"""Groups in one trace; viewers show no more tracks than that in a useful way."""

Time = datetime | date | LogTime | str | int
"""A point in time: a datetime or a date (UTC where it has no zone), a text as the command line takes it, such as
``2026-11-20T02:13``, ``-6h`` or ``yesterday 08:34``, what such a text was read as, or epoch milliseconds."""

Duration = timedelta | str
"""A duration, or a text as the command line takes it, such as ``3d``."""


class Warehouse:
    """The tables that audits have written, ready to be asked. It reads them directly: no Spark, no JVM.

    Args:
        uri: a folder or an object-store URI under which each table is a folder of its own name.
        cluster: the cluster that questions are about; not needed where only one was audited into the warehouse.
        zone: the zone of times that are given as text and name none; UTC if not given.

    Every method may raise ``UsageError`` for a group, topic, time or word that the tables don't know, and
    ``WarehouseError`` where a table is missing or damaged; both say in one sentence what was found and what is wanted.

    Example:
        >>> from coordinator_replay import Warehouse
        >>> warehouse = Warehouse("/data/audit", cluster="prod")
        >>> warehouse.rebalances("payments", start="-6h").to_pandas()  # doctest: +SKIP
    """

    def __init__(self, uri: str | Path, cluster: str | None = None, *, zone: str | tzinfo = UTC) -> None:
        self._tables = Tables(str(uri), cluster, parse_zone(zone) if isinstance(zone, str) else zone)

    def __repr__(self) -> str:
        return f"Warehouse({self._tables.uri!r}, cluster={self.cluster!r})"

    def close(self) -> None:
        """Give back memory and files of the embedded engine; a later question opens it again."""
        self._tables.close()

    @property
    def cluster(self) -> str:
        """Return the cluster that questions are about."""
        return self._tables.cluster

    @property
    def clusters(self) -> tuple[str, ...]:
        """Return all clusters that were audited into this warehouse."""
        return self._tables.clusters

    @property
    def coverage(self) -> Coverage:
        """Return from when to when the tables know the cluster, and when the last audit ended."""
        return self._tables.coverage

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes on all answers so far, such as on rows of an early time that were purged."""
        return tuple(self._tables.notes)

    def groups(
        self,
        *,
        at: Time | None = None,
        types: Sequence[str] = (),
        states: Sequence[str] = (),
        who: Who = EVERYONE,
    ) -> Answer[Group]:
        """Return the groups there were, as ListGroups shows them.

        Args:
            at: the point in time; the end of the log if None.
            types: only groups of these types (``classic``, ``consumer``, ``share``, ``streams``); all if empty.
            states: only groups in these states, in Kafka's spelling and any case; all if empty. ``Unknown`` stands for
                those whose state the log does not prove.
            who: conditions on names, and on clients, hosts and topics at that time.
        """
        moment, note = self._moment(at)
        names = groups_at_time(self._tables, who, moment)
        of_types = [
            group for group in groups_at(self._tables, moment, types=types) if names is None or group.group_id in names
        ]
        wanted = {state.lower() for state in states}
        chosen = [group for group in of_types if not wanted or group.state.lower() in wanted]
        nothing = None if chosen else f"No group matches; cluster {self.cluster!r} is covered from {self.coverage}."
        notes = [nothing, unknown_states_note(of_types, states), unrecorded_states_note(chosen, states), note]
        return Answer(chosen, Group, notes=[*notes, unaudited_note(self._tables)], basis=self._at(moment))

    def deleted_groups(self, *, at: Time | None = None, types: Sequence[str] = ()) -> Answer[DeletedGroup]:
        """Return groups that existed once and no longer do: since when, and what took their offsets.

        Args:
            at: the point in time; the end of the log if None.
            types: only groups of these types; all if empty.
        """
        moment, note = self._moment(at)
        deleted = deleted_groups(self._tables, moment, types=types)
        if not self._tables.completeness.is_whole:
            # Of these it is not on record whether they were there again.
            unknown = {group.group_id for group in groups_at(self._tables, moment, states=[UNKNOWN])}
            deleted = [deletion for deletion in deleted if deletion.group_id not in unknown]
        notes = [self._no("deleted group", deleted), note]
        # What was deleted at any time before belongs to the answer, too.
        return Answer(deleted, DeletedGroup, notes=notes, basis=self._from())

    def describe(self, group: str, *, at: Time | None = None) -> Described:
        """Return a group and its members, as the broker's describe would have shown them.

        Args:
            group: the group.
            at: the point in time; the end of the log if None.
        """
        moment, note = self._moment(at)
        answer = questions.describe_at(self._tables, group, moment)
        inherited = questions.inherited_note(
            (member.member_id, member.is_client_inherited) for member in answer.members
        )
        phase = self._join_phase(group, moment) if answer.group.state in UNRECORDED_STATES else None
        departed = questions.last_departures_note(self._tables, group, moment)
        unread = questions.unexpiring_note(questions.unread_in(answer))
        notes = [
            questions.missing_records_note(answer.group),
            answer.not_ready,
            phase,
            departed,
            inherited,
            unread,
            note,
        ]
        return Described(answer, notes, self._at(moment, group))

    def _join_phase(self, group: str, at: datetime | None) -> str | None:
        """Return a broker log's facts on a rebalance that was going on."""
        phase = join_phase_at(self._tables, group, at)
        if phase is None:
            return None
        members = [member.member_id for member in questions.describe_at(self._tables, group, at).members]
        return phase.note(group, awaited_members(self._tables, group, phase, members, at))

    def offsets(
        self,
        group: str,
        *,
        at: Time | None = None,
        topics: Sequence[str] = (),
        require_stable: bool = False,
        end_offsets: str | Path | None = None,
    ) -> Answer[CommittedOffset]:
        """Return the committed offsets of a group at a point in time (KIP-88), of all partitions that have one.

        The notes say what expired or was deleted before, when and why, and which partitions have nothing but a
        pending transactional commit.

        Args:
            group: the group.
            at: the point in time; the end of the log if None.
            topics: only offsets of these topics, or of these partitions of them (``orders:0,1``); all if empty.
            require_stable: show partitions with a pending transactional commit as unstable, without an offset.
            end_offsets: a CSV or JSON-lines file of topic, partition, offset[, time], to compute the lag.
        """
        moment, note = self._moment(at)
        pending = questions.pending_commits(self._tables, group, moment)
        offsets = questions.offsets_at(
            self._tables, group, moment, topics=topics, require_stable=require_stable, pending=pending
        )
        if topics:
            known = questions.committed_topics(self._tables, group)
            topics = [questions.partitions_asked(text, known)[0] for text in topics]
        if end_offsets is not None:
            offsets = questions.with_lag(offsets, questions.read_end_offsets(Path(end_offsets), moment))
        unproven = sum(offset.is_proven is False for offset in offsets)
        aborted = (
            f"{unproven} of these may belong to aborted transactions: the input has no transaction markers."
            if unproven
            else None
        )
        basis = self._at(moment, group)
        nothing = None if offsets else self._no_offset(group, topics, basis)
        open_partitions = {(offset.topic, offset.partition) for offset in offsets if not offset.is_exact}
        removed = removal_notes(removed_offsets(self._tables, group, moment), topics, open_partitions)
        waiting = questions.pending_notes(pending, offsets, topics)
        negative = questions.negative_offsets_note(offsets)
        notes = [aborted, nothing, negative, questions.open_offsets_note(offsets), *removed, *waiting, note]
        return Answer(offsets, questions.CommittedOffset, notes=notes, basis=basis)

    def chosen_groups(
        self, typed: Sequence[str], *, at: Time | None = None, is_all: bool = False, who: Who = EVERYONE
    ) -> list[str]:
        """Return the groups at a point in time that names, patterns with ``*`` and conditions mean, by name.

        Args:
            typed: names and patterns.
            at: the point in time; the end of the log if None.
            is_all: all groups, in place of names.
            who: further conditions.
        """
        if not is_all and who.is_everyone and not any(map(questions.is_pattern, typed)):
            return list(dict.fromkeys(typed))
        moment, _ = self._moment(at)
        there = [group.group_id for group in groups_at(self._tables, moment)]
        names = groups_at_time(self._tables, who, moment)
        chosen = there if is_all or not typed else questions.named_groups(self._tables, typed, there)
        return [name for name in chosen if names is None or name in names]

    def offsets_of_groups(
        self, groups: Sequence[str], *, at: Time | None = None, **asked: Any
    ) -> Answer[CommittedOffset]:
        """Return the committed offsets of several groups at a point in time, see ``offsets``; notes name their group.

        Args:
            groups: the groups.
            at: the point in time; the end of the log if None.
            asked: further arguments of ``offsets``.
        """
        answers = {group: self.offsets(group, at=at, **asked) for group in groups}
        notes = [f"{group}: {note}" for group, answer in answers.items() for note in answer.notes]
        rows = [row for answer in answers.values() for row in answer]
        return Answer(rows, questions.CommittedOffset, notes=notes, basis=self._at(self._time(at)))

    def offset_history(
        self,
        group: str,
        topic: str,
        partition: int | None = None,
        *,
        start: Time | None = None,
        end: Time | None = None,
    ) -> Answer[OffsetChange]:
        """Return every committed offset of a topic or partition, from its commit to what ended it, in log order.

        Args:
            group: the group.
            topic: the topic.
            partition: only this one; all of the topic if None.
            start: offsets in force after this time; all if None.
            end: offsets committed before this time; all if None.
        """
        since = self._time(start)
        changes = questions.offset_changes(self._tables, group, topic, partition, since, self._end(end))
        notes = [self._no("committed offset", changes, group)]
        return Answer(changes, questions.OffsetChange, notes=notes, basis=self._from(since, group))

    def timeline(self, group: str, *, start: Time | None = None, end: Time | None = None) -> Answer[TimelineEvent]:
        """Return what happened to a group, in log order.

        Args:
            group: the group.
            start: from this time on; the start of the log if None.
            end: up to this time, not included; the end of the log if None.
        """
        since = self._time(start)
        events = questions.timeline_of(self._tables, group, since, self._end(end))
        notes = [self._no_event(group, events)]
        return Answer(events, questions.TimelineEvent, notes=notes, basis=self._from(since, group))

    def members(self, group: str, *, start: Time | None = None, end: Time | None = None) -> Answer[MemberInterval]:
        """Return how each member of a group was, interval by interval, in log order.

        Args:
            group: the group.
            start: intervals that end after this time; all if None.
            end: intervals that begin before this time; all if None.
        """
        since = self._time(start)
        intervals = questions.member_intervals_of(self._tables, group, since, self._end(end))
        inherited = questions.inherited_note(
            (interval.member_id, interval.is_client_inherited) for interval in intervals
        )
        notes = [inherited, self._no_event(group, intervals)]
        return Answer(intervals, questions.MemberInterval, notes=notes, basis=self._from(since, group))

    def rebalances(
        self,
        group: str | None = None,
        *,
        start: Time | None = None,
        end: Time | None = None,
        causes: Sequence[str] = (),
        last: int | None = None,
        who: Who = EVERYONE,
    ) -> Answer[Rebalance]:
        """Return when and why groups rebalanced, how sure that is, and what it cost.

        Args:
            group: only of this group; of all if None.
            start: those not over before this time.
            end: those that began before this time.
            causes: only of these causes, or that could also be of them (``matched_by`` says which); all if empty.
            last: only so many, the latest; all if None.
            who: conditions on groups: their names, and clients, hosts and topics in that time range.
        """
        since, until = self._time(start), self._end(end)
        names = groups_in_range(self._tables, who, since, until)
        found = questions.rebalances_of(self._tables, group, since, until, causes=causes)
        rebalances = _last([rebalance for rebalance in found if names is None or rebalance.group_id in names], last)
        notes = [_alternatives(rebalances, causes), self._no("rebalance", rebalances, group)]
        return Answer(rebalances, questions.Rebalance, notes=notes, basis=self._from(since, group))

    def why(
        self,
        group: str | None = None,
        *,
        at: Time | None = None,
        start: Time | None = None,
        end: Time | None = None,
        causes: Sequence[str] = (),
        last: int | None = None,
        who: Who = EVERYONE,
    ) -> Reasons:
        """Return why groups rebalanced: each cause with the evidence that it rests on.

        Args:
            group: only of this group; of all if None.
            at: only the rebalance under way at this time, or else the last one before it; both where a classic
                rebalance may have begun by then, since its beginning leaves no record.
            start: those not over before this time.
            end: those that began before this time.
            causes: only of these causes, or that could also be of them (``matched_by`` says which); all if empty.
            last: only so many, the latest; all if None.
            who: conditions on groups: their names, and clients, hosts and topics in that time range.

        Raises:
            UsageError: both a point in time and a time range are given.
        """
        self._check_either(at, start, end)
        moment, note = self._moment(at)
        since = self._time(start) if moment is None else moment
        if moment is None:
            names = groups_in_range(self._tables, who, since, self._end(end))
            found = questions.rebalances_of(self._tables, group, since, self._end(end), causes=causes)
            rebalances = _last([rebalance for rebalance in found if names is None or rebalance.group_id in names], last)
        else:
            names = groups_at_time(self._tables, who, moment)
            chosen = [group] if group is not None or names is None else sorted(names)
            found = [
                rebalance
                for name in chosen
                for rebalance in questions.rebalances_at(self._tables, name, moment, causes=causes)
            ]
            rebalances = [rebalance for rebalance in found if names is None or rebalance.group_id in names]
        held_up = (
            questions.hold_ups(self._tables, group) if any(rebalance.held_up_by for rebalance in rebalances) else {}
        )
        perhaps = None
        if moment is not None and group is not None and len(rebalances) > 1:
            perhaps = (
                f"At {moment_text(moment)} the rebalance to generation {rebalances[-1].epoch} may have begun already: "
                "the join phase of a classic group leaves no record."
            )
        # What goes on at the end of the log is the last thing that happened to a group.
        phase = None if group is None or end is not None else self._join_phase(group, moment)
        nearby = questions.nearby_note(self._tables, rebalances)
        absent = self._no("rebalance", rebalances, group)
        asked = (
            None
            if group is None or moment is not None
            else questions.resubscription_note(self._tables, group, since, self._end(end))
        )
        notes = [phase, perhaps, nearby, asked, _alternatives(rebalances, causes), absent, note]
        basis = self._from(since, group)
        summary = questions.summary_between(
            self._tables, rebalances, since, self._end(end), is_complete=basis.is_complete
        )
        return Reasons(rebalances, held_up, summary, notes, basis)

    def owner(
        self,
        group: str,
        topic: str,
        partition: int,
        *,
        at: Time | None = None,
        start: Time | None = None,
        end: Time | None = None,
    ) -> Owned:
        """Return which member of a group owned a partition: at a point in time, or all that did in a time range.

        Args:
            group: the group.
            topic: the topic's name or id.
            partition: the partition.
            at: the point in time; the end of the log if None.
            start: owners from this time on, in place of a point in time.
            end: owners up to this time, likewise.

        Raises:
            UsageError: both a point in time and a time range are given.
        """
        self._check_either(at, start, end)
        if start is not None or end is not None:
            return self._owners_between(group, topic, partition, start, end)
        moment, note = self._moment(at)
        owners = questions.owners_at(self._tables, group, topic, partition, moment)
        inherited = questions.inherited_note((owner.member_id, owner.is_client_inherited) for owner in owners.owners)
        return Owned(owners, [owners.hint, inherited, note], self._at(moment, group))

    def owned_partitions(self, group: str, topic: str, partition: int | None = None) -> tuple[str, tuple[int, ...]]:
        """A topic and its partitions, as people and Kafka's tools write them: ``orders``, ``orders-4``, ``orders:0,1``.

        Args:
            group: the group.
            topic: what was typed; a name or an id with all that the group owned if it names no partition.
            partition: the partition, where it stands beside the topic.

        Raises:
            UsageError: no partition is named, and the group never owned one of the topic.
        """
        owned = questions.owned_topics(self._tables, group)
        if partition is not None:
            return topic, (partition,)
        name, partitions = questions.partitions_asked(topic, owned)
        if partitions:
            return name, partitions
        if name not in owned:
            # The question of one partition says what the tables do know.
            return name, (0,)
        low, high = owned[name]
        return name, tuple(range(low, high + 1))

    def _owners_between(self, group: str, topic: str, partition: int, start: Time | None, end: Time | None) -> Owned:
        since = self._time(start)
        rows = questions.owners_between(self._tables, group, topic, partition, since, self._end(end))
        basis = self._from(since, group)
        is_exact = basis.is_complete and all(row.is_exact for row in rows)
        inherited = questions.inherited_note((row.member_id, row.is_client_inherited) for row in rows)
        owners = questions.Owners(owners=tuple(rows), before=None, after=None, is_exact=is_exact)
        return Owned(owners, [self._no("owner", rows, group), inherited], basis)

    @staticmethod
    def _check_either(at: Time | None, start: Time | None, end: Time | None) -> None:
        if at is not None and (start is not None or end is not None):
            raise UsageError("give either a point in time (at), or a time range (from and to)")

    def consumers(
        self, topic: str, *, start: Time | None = None, end: Time | None = None, who: Who = EVERYONE
    ) -> Answer[TopicConsumer]:
        """Return every group, client and host that read a topic: how, from when to when, and which partitions.

        Args:
            topic: the topic's name or id.
            start: members still there after this time, and commits from then on; all if None.
            end: members there before this time, and commits before it; all if None.
            who: conditions on names of groups, clients and hosts.
        """
        since, until = self._time(start), self._end(end)
        consumers = [
            consumer
            for consumer in questions.consumers_of(self._tables, topic, since, until)
            if who.has_name(consumer.group_id) and who.has_client(consumer.client_id, consumer.client_host)
        ]
        unnamed = questions.unnamed_topics_note(questions.unread_between(self._tables, since, until))
        notes = [self._no("consumer", consumers), unnamed, questions.NOT_IN_THE_LOG, unaudited_note(self._tables)]
        return Answer(consumers, questions.TopicConsumer, notes=notes, basis=self._from(since))

    def impact(self, *, start: Time | None = None, end: Time | None = None) -> Impacted:
        """Return what a time range cost over all groups: rebalances, partitions without owner, pauses of commits.

        Args:
            start: from this time on; the start of the log if None.
            end: up to this time, not included; the end of the log if None.
        """
        since = self._time(start)
        groups = questions.impact_of(self._tables, since, self._end(end))
        return Impacted(groups, [unaudited_note(self._tables), undecoded_note(self._tables)], self._from(since))

    def rollouts(
        self, group: str | None = None, *, start: Time | None = None, end: Time | None = None
    ) -> Answer[Rollout]:
        """Return restarts of members that follow each other, with their costs, the most expensive first.

        Args:
            group: only of this group.
            start: rollouts that ended then or later; all if None.
            end: rollouts that began before it; all if None.
        """
        since, until = self._time(start), self._end(end)
        rollouts = questions.rollouts_of(self._tables, since, until, group)
        notes = [self._no("rollout", rollouts), unaudited_note(self._tables), undecoded_note(self._tables)]
        return Answer(rollouts, questions.Rollout, notes=notes, basis=self._from(since))

    def diff(self, start: Time, end: Time | None = None) -> Compared:
        """Return what changed between two points in time, over all groups, and what lay between.

        Args:
            start: the first point in time, or the run id of an audit: the end of the log as that one had read it.
            end: the second one; the end of the log if None.

        Raises:
            UsageError: the second time lies before the first, or no audit has such a run id.
        """
        first, last = self._side(start, self._time), self._side(end, self._end)
        notes = [self._tables.check_moment(first.at), self._tables.check_moment(last.at)]
        if last.moment < first.moment:
            raise UsageError(
                f"{moment_text(last.moment)} lies before {moment_text(first.moment)}: give the earlier time first"
            )
        changes = questions.changes_between(first, last)
        until = self.coverage.last if last.at is None else last.at
        sides = f"Cluster {self.cluster}, {moment_text(first.at or self.coverage.last)} to {moment_text(until)}"
        return Compared(changes, sides, [_nothing_changed(changes), *notes], self._from(first.at))

    def diff_with(self, other: str, *, at: Time | None = None) -> Compared:
        """Return what is not the same in another cluster of this warehouse at a point in time.

        Args:
            other: the other cluster's name; its values are those after.
            at: the point in time; the end of each log if None.
        """
        moment = self._time(at)
        tables = Tables(self._tables.uri, other, self._tables.zone)
        # A cluster that the warehouse does not have is an error, not an empty one.
        tables.check_range(None, None)
        notes = [self._tables.check_moment(moment), tables.check_moment(moment)]
        changes = questions.changes_between(questions.Side(self._tables, moment), questions.Side(tables, moment))
        remarks = [str(basis_at(tables, moment or END)), _nothing_changed(changes), *notes]
        tables.close()
        when = "at the end of each log" if at is None else moment_text(moment or END)
        sides = f"Clusters {self.cluster} and {other}, {when}"
        return Compared(changes, sides, remarks, self._at(moment))

    def expired(
        self,
        group: str | None = None,
        *,
        statuses: Sequence[str] = (),
        within: Duration | None = None,
        until: Time | None = None,
        who: Who = EVERYONE,
    ) -> Expiring:
        """Return offsets that expired or are about to, the earliest first.

        Args:
            group: only of this group; of all if None.
            statuses: only these (``EXPIRED``, ``DUE``, ``EXPIRING``); all if empty.
            within: only offsets that are still there and expire so soon after the end of the log.
            until: only offsets that are still there and expire up to this time, in place of ``within``.
            who: conditions on groups: their names, and clients, hosts and topics at the end of the log.

        Raises:
            UsageError: both are given, or the time lies before the end of the log.
        """
        wanted = [_one_of(status.upper(), STATUSES, "status") for status in statuses]
        duration = parse_duration(within) if isinstance(within, str) else within
        if until is not None:
            duration = self._up_to(until, duration)
        names = groups_at_time(self._tables, who)
        found = questions.expired_offsets(self._tables, group, statuses=wanted, within=duration)
        offsets = [offset for offset in found if names is None or offset.group_id in names]
        limit = questions.looked_until(self._tables, duration)
        notes = [
            self._no("expired or expiring offset", offsets, group),
            questions.unexpiring_note(questions.unread_at_end(self._tables, group)),
        ]
        return Expiring(offsets, limit, is_chosen=duration is not None, notes=notes, basis=self._from(None, group))

    def _up_to(self, until: Time, within: timedelta | None) -> timedelta:
        """Return how long after the end of the log a time lies."""
        if within is not None:
            raise UsageError("give either within or until")
        moment, end = self._time(until), self._tables.coverage.last
        if moment is None or moment < end:
            raise UsageError(
                f"{moment_text(moment or end)} lies before the end of the log, {moment_text(end)}: it ends there"
            )
        return moment - end

    def findings(
        self,
        *,
        severity: str | None = None,
        rules: Sequence[str] = (),
        group: str | None = None,
        start: Time | None = None,
        end: Time | None = None,
        is_new: bool = False,
        since: Time | None = None,
        who: Who = EVERYONE,
    ) -> Answer[Finding]:
        """Return what an operator should look at, the most severe and latest first.

        Args:
            severity: only this severity (``error``, ``warning``, ``info``) and those above it.
            rules: only of these rules; of all if empty.
            group: only about this group.
            start: only those last seen at this time or later.
            end: only those first seen before this time.
            is_new: only those that no audit had stored before the last one that read new records.
            since: only those first stored by an audit that began at this time or later.
            who: conditions on groups: their names, and clients, hosts and topics in that time range. Findings about
                no group meet conditions on names to leave out only.
        """
        lowest = None if severity is None else _one_of(severity.lower(), SEVERITIES, "severity")
        first = self._time(start)
        findings = questions.findings_of(
            self._tables,
            severity=lowest,
            rules=rules,
            group=group,
            start=first,
            end=self._end(end),
            is_new=is_new,
            since=self._time(since),
        )
        names = groups_in_range(self._tables, who, first, self._end(end))
        is_about_all = not (who.hosts or who.clients or who.topics or who.names)
        findings = [
            finding
            for finding in findings
            if names is None or finding.group_id in names or (finding.group_id is None and is_about_all)
        ]
        unproven = sum(not finding.is_proven for finding in findings)
        note = (
            f"{unproven} of these rest on commits that may belong to aborted transactions: "
            "the input has no transaction markers."
        )
        absent = [rule for rule in rules if all(finding.rule != rule for finding in findings)]
        notes = [
            self._no("finding", findings, group),
            *questions.terms_of(self._tables, absent),
            note if unproven else None,
        ]
        return Answer(findings, questions.Finding, notes=notes, basis=self._from(first, group))

    def sql(
        self,
        statement: str | None = None,
        /,
        *,
        query: str | None = None,
        allow_files: bool = False,
        timeout: Duration | None = None,
        **parameters: object,
    ) -> SqlAnswer:
        """Return the answer to any question: SQL over all tables by name (DuckDB's), or a saved query.

        Args:
            statement: may hold ``$names``; ``$cluster`` is this warehouse's cluster. ``SHOW TABLES`` and ``DESCRIBE``
                show names, types and comments.
            query: the name of a saved query, in place of a statement.
            allow_files: let the statement read and write other files, attach databases and load extensions.
            timeout: the longest that it may take, as ``30s``; no limit if None.
            parameters: values for the statement's ``$names``, or of the saved query's parameters.

        Raises:
            UsageError: not exactly one of statement and query is given, the engine does not understand it, or it took
                longer than the timeout.
        """
        if (statement is None) == (query is None):
            raise UsageError("give either a statement or the name of a saved query")
        most = parse_duration(timeout) if isinstance(timeout, str) else timeout
        if statement is not None:
            columns, values = questions.run_sql(
                self._tables, statement, parameters, allow_files=allow_files, timeout=most
            )
            return SqlAnswer(columns, values, basis=self._basis_of_statement())
        if allow_files:
            raise UsageError("allow_files is for statements: a saved query reads the tables only")
        texts = {name: _text(value) for name, value in parameters.items() if value is not None}
        names, rows = questions.run_saved_query(self._tables, str(query), texts, most)
        nothing = (
            []
            if rows
            else [
                f"No rows; cluster {self.cluster!r} is covered from {self.coverage}.",
                questions.saved_terms(str(query), texts),
            ]
        )
        full_name = questions.saved_query(str(query)).name
        named = None if full_name == query else f"Saved query {full_name}."
        return SqlAnswer(names, rows, [named, *nothing, undecoded_note(self._tables)], self._from())

    def what_if(
        self,
        group: str,
        *alternatives: Mapping[str, str | int],
        start: Time | None = None,
        end: Time | None = None,
        without_restarts: bool = False,
        members: int | None = None,
        known: Mapping[str, str | int] | None = None,
    ) -> Replayed:
        """Return a group's life under other settings, simulated and compared with the recorded life.

        The first two rows are the recorded life and its own simulation; ``fidelity`` says how much they agree. No
        alternative follows where that is too little.

        Args:
            group: a classic or consumer group.
            alternatives: settings to try by Kafka's names, one mapping for each alternative; none tries
                ``without_restarts`` and ``members`` alone.
            start: from this time on; the group's first record if None.
            end: up to this time, not included; the end of its records if None.
            without_restarts: no restarts: a client that left and came back stays in the group, in every alternative.
            members: so many clients in every alternative.
            known: settings that the recorded life had and the log does not have, as ``heartbeat.interval.ms``.
        """
        tried = list(alternatives) or ([{}] if without_restarts or members is not None else [])
        since = self._time(start)
        replay = door.what_if(
            self._tables,
            group,
            [door.alternative_of(values, without_restarts=without_restarts, members=members) for values in tried],
            since,
            self._end(end),
            _texts(known),
        )
        return Replayed(replay, self._from(since, group))

    def what_if_all(
        self,
        alternative: Mapping[str, str | int],
        *,
        start: Time | None = None,
        end: Time | None = None,
        without_restarts: bool = False,
        members: int | None = None,
        known: Mapping[str, str | int] | None = None,
    ) -> Answer[door.Gain]:
        """Return every group's life replayed under other settings: the groups that would gain most come first.

        The first ten have the lowest and the highest values that are possible in ``ranges``; for others it is null.

        Args:
            alternative: settings to try by Kafka's names.
            start: from this time on; each group's first record if None.
            end: up to this time; the end of the log if None.
            without_restarts: no restarts: a client that left and came back stays in the group.
            members: so many clients in every group.
            known: settings that the recorded lives had and the log does not have.
        """
        since = self._time(start)
        gains, notes = door.what_if_all(
            self._tables,
            door.alternative_of(alternative, without_restarts=without_restarts, members=members),
            since,
            self._end(end),
            _texts(known),
        )
        return Answer(gains, door.Gain, notes=notes, basis=self._from(since))

    @staticmethod
    def what_if_settings() -> Answer[door.TriedSetting]:
        """Return the settings that ``what_if`` can try."""
        return Answer(door.tried_settings(), door.TriedSetting)

    @staticmethod
    def saved_queries() -> Answer[SavedQuery]:
        """The saved queries, their parameters and what they answer."""
        return Answer(questions.saved_queries().values(), questions.SavedQuery)

    def report(
        self,
        group: str | None = None,
        *,
        start: Time | None = None,
        end: Time | None = None,
        what_if: Sequence[Mapping[str, str | int]] = (),
        known: Mapping[str, str | int] | None = None,
        marks: Sequence[tuple[Time, str]] = (),
    ) -> Page:
        """Return the life of a group, or of all groups, as one page that needs no network.

        A notebook shows it in place; ``save`` writes its figures as a picture, too.

        Args:
            group: the group; all groups at a glance if None.
            start: from this time on; the start of the log if None.
            end: up to this time; the end of the log if None.
            what_if: settings to try, one mapping for each alternative, as ``what_if`` takes them: the page shows the
                group's recorded life and each of them, on one time axis.
            known: settings that the recorded life had and the log does not have; only with ``what_if``.
            marks: times to mark in all figures, each with a text, such as a deployment.

        Raises:
            UsageError: alternatives are given for all groups at once, or ``known`` without alternatives.
        """
        if what_if:
            return self._what_if_page(group, what_if, start, end, known, marks)
        if known:
            raise UsageError("known settings are for alternatives: give what to try, too")
        since, until, marked = self._time(start), self._end(end), self._marks(marks)
        if group is None:
            html, fleet = questions.fleet_page(self._tables, since, until, marked)
            facts = {"groups": len(fleet.lanes), "rebalances": fleet.rebalances}
            return Page(html, facts, basis=self._from(since), drawing=fleet.drawing)
        html, life = questions.group_page(self._tables, group, since, until, marked)
        facts = {"rebalances": len(life.rebalances), "commits": life.commit_count}
        drawing = partial(questions.life_drawing, self._tables, life, since, marked)
        return Page(html, facts, life.notes, self._from(since, group), drawing)

    def _marks(self, marks: Sequence[tuple[Time, str]]) -> tuple[questions.Mark, ...]:
        """Return times and texts as pages take them."""
        return tuple(questions.Mark(moment, text) for at, text in marks if (moment := self._time(at)) is not None)

    def _what_if_page(
        self,
        group: str | None,
        alternatives: Sequence[Mapping[str, str | int]],
        start: Time | None,
        end: Time | None,
        known: Mapping[str, str | int] | None,
        marks: Sequence[tuple[Time, str]],
    ) -> Page:
        """Return the recorded life of a group and alternatives."""
        if group is None:
            raise UsageError("give the group whose life is to be drawn under other settings")
        tried = [door.alternative_of(values) for values in alternatives]
        since = self._time(start)
        answer = door.what_if(self._tables, group, tried, since, self._end(end), _texts(known))
        facts = {"rebalances": answer.recorded.rebalances, "alternatives": len(answer.alternatives)}
        notes = (str(answer.fidelity), *answer.differences)
        marked = self._marks(marks)
        html = door.what_if_page(self._tables, answer, marked)
        drawing = partial(door.what_if_drawing, self._tables, answer, marked)
        return Page(html, facts, notes, self._from(since, group), drawing)

    def write_pages(
        self,
        folder: str | Path,
        *,
        start: Time | None = None,
        end: Time | None = None,
        marks: Sequence[tuple[Time, str]] = (),
    ) -> Pages:
        """Return the lives of all groups as linked pages in one folder: an overview, and a page for each group.

        Args:
            folder: where to; made if it does not exist.
            start: from this time on; the start of the log if None.
            end: up to this time; the end of the log if None.
            marks: times to mark in all figures, each with a text.

        Raises:
            UsageError: the folder can't be written.
        """
        since = self._time(start)
        made = questions.write_site(self._tables, Path(folder), since, self._end(end), self._marks(marks))
        facts = {"groups": len(made.lanes), "rebalances": made.rebalances}
        return Pages(Path(folder) / questions.INDEX, facts, tuple(made.notes), self._from(since))

    def trace(self, group: str | None = None, *, start: Time | None = None, end: Time | None = None) -> Trace:
        """Return the life of a group, or of the groups that most happened to, as a trace for Perfetto.

        Args:
            group: the group; those with most events, at most MOST_TRACED_GROUPS, if None.
            start: from this time on; the start of the log if None.
            end: up to this time; the end of the log if None.
        """
        since, until = self._time(start), self._end(end)
        names = lively_groups(self._tables, since, until) if group is None else [group]
        notes = []
        if len(names) > MOST_TRACED_GROUPS:
            notes = [
                f"{len(names)} groups existed in that time; the trace has the {MOST_TRACED_GROUPS} with most events."
            ]
        lives = questions.traces_of(self._tables, names[:MOST_TRACED_GROUPS], since, until)
        return Trace(lives, notes, self._from(since, group), self._tables.zone)

    def metrics(
        self,
        *,
        now: datetime | None = None,
        groups: str | None = None,
        limit: int | None = None,
        is_openmetrics: bool = False,
        who: Who = EVERYONE,
    ) -> Metrics:
        """Return the groups at the end of the log as metrics in Prometheus' text format.

        Args:
            now: the time from which the age of the log is counted; the current time if None.
            groups: regular expression that the whole name of a group matches to get series of its own; all if None.
            limit: how many groups get them at most, those with most rebalances first; all if None.
            is_openmetrics: OpenMetrics' format in place of Prometheus' own.
            who: conditions on groups; of others there are no series and no findings.
        """
        moment = now or datetime.now(UTC)
        names = groups_at_time(self._tables, who)
        return questions.metrics_of(
            self._tables, moment, groups=groups, limit=limit, is_openmetrics=is_openmetrics, names=names
        )

    def _time(self, moment: Time | None) -> datetime | None:
        """Return a point in time as the tables take it."""
        match moment:
            case None:
                return None
            case datetime():
                return in_utc(moment)
            case date():
                return datetime.combine(moment, time(), self._tables.zone).astimezone(UTC)
        return self._tables.resolve(moment if isinstance(moment, LogTime) else self._tables.read_time(str(moment)))

    def _side(self, moment: Time | None, read: Callable[[Time | None], datetime | None]) -> Side:
        """A point in time, or what an audit had read, as something to compare."""
        if isinstance(moment, str) and is_run_id(moment):
            return questions.side_of_run(self._tables, moment)
        return questions.Side(self._tables, read(moment))

    def _moment(self, at: Time | None) -> tuple[datetime | None, str | None]:
        """Return a point in time as the tables take it, and a note where it lies after the last record."""
        moment = self._time(at)
        return moment, self._tables.check_moment(moment)

    def _end(self, moment: Time | None) -> datetime | None:
        """Return the end of a time range; None if it is the end of the log, whose last record belongs to the range."""
        parsed = self._tables.read_time(moment) if isinstance(moment, str) else moment
        return None if isinstance(parsed, LogTime) and parsed.is_log_end else self._time(parsed)

    def _at(self, moment: datetime | None, group: str | None = None) -> Basis:
        """Return what an answer about a point in time stands on."""
        return basis_at(self._tables, moment or END, group=group)

    def _from(self, start: datetime | None = None, group: str | None = None) -> Basis:
        """Return what an answer about a time range stands on."""
        return basis_from(self._tables, start, group=group)

    def _basis_of_statement(self) -> Basis | None:
        """Return the basis of a statement's answer; None if it is about no single cluster, or a table is missing."""
        try:
            return self._from() if self.cluster in self._tables.clusters else None
        except (UsageError, WarehouseError):
            return None

    def _no_offset(self, group: str, topics: Sequence[str], basis: Basis) -> str:
        """Return what to say where no committed offset is shown."""
        if any(state.group_type == GroupType.SHARE for state in groups_at(self._tables, None, group=group)):
            return (
                f"{group!r} is a share group: its offsets are in __share_group_state, which is not in this log; "
                "describe shows what its members have."
            )
        if basis.is_complete:
            return f"Group {group!r} had no committed offset{_of(topics)} then."
        return f"No committed offset{_of(topics)} of group {group!r} at that time is on record."

    def _no(self, what: str, rows: Sequence[object], group: str | None = None) -> str | None:
        if rows:
            return None
        is_whole = self._tables.completeness.is_whole and undecoded_note(self._tables, group) is None
        return f"No {what}{'' if is_whole else ' on record'} matches; the tables cover {self.coverage}."

    def _no_event(self, group: str, rows: Sequence[object]) -> str | None:
        on_record = "" if self._tables.completeness.is_whole else " on record"
        return (
            None
            if rows
            else f"No events of group {group!r}{on_record} in this time range; the tables cover {self.coverage}."
        )


def _alternatives(rebalances: Sequence[Rebalance], causes: Sequence[str]) -> str | None:
    """Return a note on rebalances that have a cause asked for as an alternative only."""
    others = sum(rebalance.matched_by == "alternative" for rebalance in rebalances)
    if not others:
        return None
    asked = " or ".join(map(questions.cause_name, causes))
    return f"{others} of {len(rebalances)} have another cause and {asked} as an alternative: it could also be that."


def _nothing_changed(changes: Sequence[object]) -> str | None:
    return None if changes else "No difference on record."


def _last(rebalances: list[Rebalance], count: int | None) -> list[Rebalance]:
    """Return the last of some rebalances; all where no number is given."""
    return rebalances if count is None else rebalances[max(len(rebalances) - count, 0) :]


def _one_of(word: str, words: Sequence[str], what: str) -> str:
    if word not in words:
        raise UsageError(f"there is no {what} {word!r}: there are {', '.join(words)}")
    return word


def _text(value: Any) -> str:
    """Return a value of a saved query's parameter, as it would be typed."""
    return value.isoformat() if isinstance(value, date) else str(value)


def _texts(settings: Mapping[str, str | int] | None) -> dict[str, str]:
    """Return settings as they would be typed."""
    return {name: str(value) for name, value in (settings or {}).items()}


def _of(topics: Sequence[str]) -> str:
    return f" of {', '.join(topics)}" if topics else ""
