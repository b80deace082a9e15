"""The class ``Warehouse`` for Python users, with a method for each command that asks a question.

A method imports the code for its question only when it is called, because importing the code for all questions takes as
long as some answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from coordinator_replay.api import questions
from coordinator_replay.api.answer import Answer, SqlAnswer
from coordinator_replay.api.answers import Compared, Described, Expiring, Impacted, Owned, Reasons, Replayed
from coordinator_replay.api.moments import Duration, Moments, Time
from coordinator_replay.api.page import Page, Pages, Trace
from coordinator_replay.errors import UsageError
from coordinator_replay.query.basis import Basis, basis_from
from coordinator_replay.query.tables import Coverage, Tables
from coordinator_replay.query.times import parse_duration
from coordinator_replay.query.who import EVERYONE, Who, groups_at_time
from coordinator_replay.simulation import door
from coordinator_replay.zones import parse_zone

if TYPE_CHECKING:
    from coordinator_replay.query.answers.answered import Answered, Rows
    from coordinator_replay.query.answers.diff import Comparison
    from coordinator_replay.query.consumers import TopicConsumer
    from coordinator_replay.query.findings import Finding
    from coordinator_replay.query.groups import Group
    from coordinator_replay.query.offset_changes import OffsetChange
    from coordinator_replay.query.offsets import CommittedOffset
    from coordinator_replay.query.rebalances import Rebalance
    from coordinator_replay.query.removed import DeletedGroup
    from coordinator_replay.query.rollouts import Rollout
    from coordinator_replay.query.saved import SavedQuery
    from coordinator_replay.query.timeline import MemberInterval, TimelineEvent
    from coordinator_replay.report.metrics import Metrics

MOST_TRACED_GROUPS = 50
"""Largest number of groups in one trace; viewers can't usefully show more tracks."""

T = TypeVar("T")


class Warehouse:
    """The tables of a warehouse, with questions as methods. The tables are read directly, without Spark or a JVM.

    Args:
        uri: a folder or an object-store URI under which each table is a folder of its own name.
        cluster: the cluster that questions are about; not needed if the warehouse has only one.
        zone: the time zone of texts that name a time without a zone; UTC by default.

    Every method may raise ``UsageError`` for a group, topic, time or word that the tables don't know, and
    ``WarehouseError`` if a table is missing or damaged. Both messages are one sentence: what was found, and what is
    expected.

    Example:
        >>> from coordinator_replay import Warehouse
        >>> warehouse = Warehouse("/data/audit", cluster="prod")
        >>> warehouse.rebalances("payments", start="-6h").to_pandas()  # doctest: +SKIP
    """

    def __init__(self, uri: str | Path, cluster: str | None = None, *, zone: str | tzinfo = UTC) -> None:
        self._tables = Tables(str(uri), cluster, parse_zone(zone) if isinstance(zone, str) else zone)
        self._times = Moments(self._tables)

    def __repr__(self) -> str:
        return f"Warehouse({self._tables.uri!r}, cluster={self.cluster!r})"

    def close(self) -> None:
        """Release memory and files of the embedded engine.

        A later question opens the engine again.
        """
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
        """Return the time range that the tables cover, and the end of the last audit."""
        return self._tables.coverage

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes on all answers so far, for example that early rows were purged."""
        return tuple(self._tables.notes)

    def groups(
        self,
        *,
        at: Time | None = None,
        types: Sequence[str] = (),
        states: Sequence[str] = (),
        who: Who = EVERYONE,
    ) -> Answer[Group]:
        """Return the groups at a point in time, as ListGroups shows them.

        Args:
            at: the point in time; None for the end of the log.
            types: only groups of these types (``classic``, ``consumer``, ``share``, ``streams``); all if empty.
            states: only groups in these states, in Kafka's spelling, in upper or lower case; all if empty. ``Unknown``
                means groups whose state the log does not prove.
            who: conditions on names, and on clients, hosts and topics at that time.
        """
        return self._rows(questions.groups(self._tables, self._times.at(at), types=types, states=states, who=who))

    def deleted_groups(self, *, at: Time | None = None, types: Sequence[str] = ()) -> Answer[DeletedGroup]:
        """Return groups that existed earlier and were deleted, with the time and the cause of their deletion.

        Args:
            at: the point in time; the end of the log if None.
            types: only groups of these types; all if empty.
        """
        return self._rows(questions.deleted_groups(self._tables, self._times.at(at), types=types))

    def describe(self, group: str, *, at: Time | None = None) -> Described:
        """Return a group and its members, as the broker's describe would have shown them.

        Args:
            group: id of the group.
            at: the point in time; the end of the log if None.
        """
        answer = questions.describe(self._tables, group, self._times.at(at))
        return Described(answer.content, answer.notes, answer.basis, answer.of_members, answer.of_alone)

    def offsets(
        self,
        group: str,
        *,
        at: Time | None = None,
        topics: Sequence[str] = (),
        require_stable: bool = False,
        end_offsets: str | Path | None = None,
        before_removal: bool = False,
    ) -> Answer[CommittedOffset]:
        """Return all committed offsets of a group at a point in time, as OffsetFetch does (KIP-88).

        The notes name offsets that had expired or been deleted by that time, with the time and the reason. They also
        name partitions that have only a pending transactional commit.

        Args:
            group: id of the group.
            at: the point in time; the end of the log if None.
            topics: only offsets of these topics. ``orders:0,1`` names single partitions of a topic. Empty for all
                topics.
            require_stable: show partitions with a pending transactional commit as unstable, without an offset.
            end_offsets: a CSV or JSON-lines file of topic, partition, offset[, time], to compute the lag.
            before_removal: return instead, for each partition, the offset that was removed last by that time: the
                offset before the deletion of the group, or before the offset expired.
        """
        answer = questions.offsets(
            self._tables,
            group,
            self._times.at(at),
            topics=topics,
            require_stable=require_stable,
            end_offsets=end_offsets,
            before_removal=before_removal,
        )
        return self._rows(answer)

    def chosen_groups(
        self, typed: Sequence[str], *, at: Time | None = None, is_all: bool = False, who: Who = EVERYONE
    ) -> list[str]:
        """Return the names of the groups that a user chose by names, by patterns with ``*`` or by conditions.

        Patterns and conditions choose from the groups at a point in time; the result is sorted. If the user gave only
        names, return these in their order, without a check that the groups exist.

        Args:
            typed: names and patterns; if empty, the conditions alone choose.
            at: the point in time; the end of the log if None.
            is_all: choose from all groups, and ignore ``typed``.
            who: conditions that the groups must meet, too.
        """
        return questions.chosen_groups(self._tables, typed, self._times.at(at), is_all=is_all, who=who)

    def offsets_of_groups(
        self, groups: Sequence[str], *, at: Time | None = None, **asked: Any
    ) -> Answer[CommittedOffset]:
        """Return the committed offsets of several groups at a point in time, see ``offsets``.

        Each note names its group.

        Args:
            groups: ids of the groups.
            at: the point in time; the end of the log if None.
            asked: further arguments of ``offsets``.
        """
        return self._rows(questions.offsets_of_groups(self._tables, groups, self._times.at(at), **asked))

    def offset_history(
        self,
        group: str,
        topic: str,
        partition: int | None = None,
        *,
        start: Time | None = None,
        end: Time | None = None,
    ) -> Answer[OffsetChange]:
        """Return every committed offset of a topic or partition, with the time range in which it was in force.

        Rows are in log order.

        Args:
            group: id of the group.
            topic: name of the topic.
            partition: only this partition; None for all partitions of the topic.
            start: leave out offsets that were no longer in force at this time; None leaves out none.
            end: leave out offsets that were committed at this time or later; None leaves out none.
        """
        since, until = self._times.at(start), self._times.end(end)
        return self._rows(questions.offset_history(self._tables, group, topic, partition, since, until))

    def timeline(self, group: str, *, start: Time | None = None, end: Time | None = None) -> Answer[TimelineEvent]:
        """Return the events of a group, in log order.

        Args:
            group: id of the group.
            start: begin of the time range, included; None begins at the start of the log.
            end: end of the time range, excluded; None ends after the last record of the log.
        """
        return self._rows(questions.timeline(self._tables, group, self._times.at(start), self._times.end(end)))

    def members(self, group: str, *, start: Time | None = None, end: Time | None = None) -> Answer[MemberInterval]:
        """Return the states of a group's members, interval by interval, in log order.

        Args:
            group: id of the group.
            start: leave out intervals that had ended by this time; None leaves out none.
            end: leave out intervals that begin at this time or later; None leaves out none.
        """
        return self._rows(questions.members(self._tables, group, self._times.at(start), self._times.end(end)))

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
        """Return the rebalances of groups, with causes, confidence and costs.

        Args:
            group: only rebalances of this group; None for all groups.
            start: leave out rebalances that were over before this time; None leaves out none.
            end: leave out rebalances that began at this time or later; None leaves out none.
            causes: only rebalances with one of these causes, as cause or as alternative (``matched_by`` says which of
                the two); empty for all rebalances.
            last: number of rebalances to return, the latest ones; None returns all.
            who: conditions on groups: on their names, and on their clients, hosts and topics from ``start`` to ``end``.
        """
        since, until = self._times.at(start), self._times.end(end)
        return self._rows(questions.rebalances(self._tables, group, since, until, causes=causes, last=last, who=who))

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
        """Return rebalances with their causes and the evidence for each cause.

        Args:
            group: only rebalances of this group; None for all groups.
            at: only the rebalances in progress at this time. If none was in progress, the last rebalance before this
                time. The next rebalance is returned, too, if it may have begun by this time: the beginning of a classic
                rebalance leaves no record.
            start: leave out rebalances that were over before this time; None leaves out none.
            end: leave out rebalances that began at this time or later; None leaves out none.
            causes: only rebalances with one of these causes, as cause or as alternative (``matched_by`` says which of
                the two); empty for all rebalances.
            last: number of rebalances to return, the latest ones; None returns all.
            who: conditions on groups: on their names, and on their clients, hosts and topics at ``at``, or from
                ``start`` to ``end``.

        Raises:
            UsageError: both a point in time and a time range are given.
        """
        self._check_either(at, start, end)
        moment = self._times.at(at)
        if moment is None:
            since, until = self._times.at(start), self._times.end(end)
            answer = questions.why(self._tables, group, since, until, causes=causes, last=last, who=who)
        else:
            answer = questions.why_at(self._tables, group, moment, causes=causes, who=who)
        reasons = answer.content
        return Reasons(reasons.rebalances, reasons.hold_ups, reasons.summary, answer.notes, answer.basis)

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
        """Return the owners of a partition in a group, at a point in time or in a time range.

        A share group can have several owners at once.

        Args:
            group: id of the group.
            topic: the topic's name or id.
            partition: number of the partition.
            at: the point in time; the end of the log if None.
            start: begin of a time range, in place of a point in time. Every ownership that touches the range is
                returned.
            end: end of this time range, excluded; None ends after the last record of the log.

        Raises:
            UsageError: both a point in time and a time range are given.
        """
        self._check_either(at, start, end)
        if start is None and end is None:
            answer = questions.owner(self._tables, group, topic, partition, self._times.at(at))
        else:
            since, until = self._times.at(start), self._times.end(end)
            answer = questions.owners_in_range(self._tables, group, topic, partition, since, until)
        return Owned(answer.content, answer.notes, answer.basis)

    def owned_partitions(self, group: str, topic: str, partition: int | None = None) -> tuple[str, tuple[int, ...]]:
        """Return the topic and the partitions that a text like ``orders``, ``orders-4`` or ``orders:0,1`` names.

        Args:
            group: id of the group.
            topic: the text that the user typed. If it names only a topic or its id, the result has the partitions of
                the topic from the lowest to the highest that the group owned. If the group owned none, the result has
                partition 0, and ``owner`` raises an error that explains this.
            partition: the partition, if the user gave it separately; then the text is only the topic.
        """
        return questions.owned_partitions(self._tables, group, topic, partition)

    @staticmethod
    def _check_either(at: Time | None, start: Time | None, end: Time | None) -> None:
        if at is not None and (start is not None or end is not None):
            raise UsageError("give either a point in time (at), or a time range (from and to)")

    def consumers(
        self, topic: str, *, start: Time | None = None, end: Time | None = None, who: Who = EVERYONE
    ) -> Answer[TopicConsumer]:
        """Return every group, client and host that read a topic, with the evidence, the times and the partitions.

        Args:
            topic: the topic's name or id.
            start: leave out members that had left by this time, and commits before it; None leaves out none.
            end: leave out members that joined at this time or later, and commits from this time on; None leaves out
                none.
            who: conditions on names of groups, clients and hosts.
        """
        return self._rows(
            questions.consumers(self._tables, topic, self._times.at(start), self._times.end(end), who=who)
        )

    def impact(self, *, start: Time | None = None, end: Time | None = None) -> Impacted:
        """Return the costs of a time range over all groups.

        The costs are rebalances, partitions without an owner, and pauses of commits.

        Args:
            start: begin of the time range, included; None begins at the start of the log.
            end: end of the time range, excluded; None ends after the last record of the log.
        """
        answer = questions.impact(self._tables, self._times.at(start), self._times.end(end))
        return Impacted(answer.content, answer.notes, answer.basis)

    def rollouts(
        self, group: str | None = None, *, start: Time | None = None, end: Time | None = None
    ) -> Answer[Rollout]:
        """Return rollouts with their costs, the most expensive first.

        A rollout is a series of restarts of a group's members in quick succession.

        Args:
            group: only rollouts of this group; None for all groups.
            start: leave out rollouts that ended before this time; None leaves out none.
            end: leave out rollouts that began at this time or later; None leaves out none.
        """
        return self._rows(questions.rollouts(self._tables, group, self._times.at(start), self._times.end(end)))

    def diff(self, start: Time, end: Time | None = None) -> Compared:
        """Return the differences of all groups between two points in time, with rebalances and findings in between.

        Args:
            start: the first point in time, or the run id of an audit. A run id means the time of the latest record
                that the audit had read.
            end: the second point in time, or a run id; None for the end of the log.

        Raises:
            UsageError: the second time lies before the first, or no audit has such a run id. Also if rows were purged,
                and the log now begins after the latest record that the audit had read.
        """
        return self._compared(questions.diff(self._times.side(start), self._times.last_side(end)))

    def diff_with(self, other: str, *, at: Time | None = None) -> Compared:
        """Return the differences between this cluster and another cluster of the warehouse at a point in time.

        Args:
            other: the other cluster's name; its values are in the columns ``after``.
            at: the point in time; None for the end of each cluster's log.
        """
        return self._compared(questions.diff_with(self._tables, other, self._times.at(at)))

    def _compared(self, answer: Answered[Comparison]) -> Compared:
        content = answer.content
        return Compared(
            content.changes,
            content.sides,
            answer.notes,
            answer.basis,
            between=content.between,
            zone=self._tables.zone,
        )

    def expired(
        self,
        group: str | None = None,
        *,
        statuses: Sequence[str] = (),
        within: Duration | None = None,
        until: Time | None = None,
        who: Who = EVERYONE,
    ) -> Expiring:
        """Return offsets that expired or are about to expire, the earliest first.

        Args:
            group: only offsets of this group; None for all groups.
            statuses: only offsets with one of these statuses (``EXPIRED``, ``DUE``, ``EXPIRING``); empty for all
                statuses.
            within: only offsets in force that expire within this duration after the end of the log.
            until: only offsets in force that expire up to this time, in place of ``within``.
            who: conditions on groups: on their names, and on their clients, hosts and topics at the end of the log.

        Raises:
            UsageError: both ``within`` and ``until`` are given, or ``until`` lies before the end of the log.
        """
        answer = questions.expired(
            self._tables,
            group,
            statuses=statuses,
            within=parse_duration(within) if isinstance(within, str) else within,
            until=self._times.at(self._times.with_whole_day(until)),
            who=who,
        )
        return Expiring(answer.content.offsets, answer.content.looked_until, answer.notes, answer.basis)

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
        """Return findings that an operator should look at, the most severe first.

        Findings of the same severity are sorted by the time they were last seen, the latest first.

        Args:
            severity: only findings of this severity (``error``, ``warning``, ``info``) or a more severe one.
            rules: only findings of these rules; empty for all rules.
            group: only findings about this group.
            start: only findings last seen at this time or later.
            end: only findings first seen before this time.
            is_new: only findings first stored by the last audit that read new records, or by a later audit.
            since: only findings first stored by an audit that began at this time or later.
            who: conditions on groups: on their names, and on their clients, hosts and topics from ``start`` to ``end``.
                Findings about no group are left out if any condition but ``excluded`` is given.
        """
        answer = questions.findings(
            self._tables,
            self._times.at(start),
            self._times.end(end),
            severity=severity,
            rules=rules,
            group=group,
            is_new=is_new,
            since=self._times.at(since),
            who=who,
        )
        return self._rows(answer)

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
        """Return the answer of a statement over all tables, in DuckDB's SQL, or of a saved query.

        Args:
            statement: the SQL, which may have ``$names``; ``$cluster`` is this warehouse's cluster. ``SHOW TABLES`` and
                ``DESCRIBE`` show names, types and comments.
            query: the name of a saved query, in place of a statement.
            allow_files: let the statement read and write other files, attach databases and load extensions.
            timeout: the longest time that the statement may take, such as ``30s``; None for no limit.
            parameters: values for the statement's ``$names``, or for the parameters of the saved query.

        Raises:
            UsageError: statement and query are both given or both missing, ``allow_files`` is given with a query,
                DuckDB does not understand the statement, or the statement took longer than the timeout.
        """
        if (statement is None) == (query is None):
            raise UsageError("give either a statement or the name of a saved query")
        most = parse_duration(timeout) if isinstance(timeout, str) else timeout
        if statement is not None:
            answer = questions.sql(self._tables, statement, parameters, allow_files=allow_files, timeout=most)
        elif allow_files:
            raise UsageError("allow_files is for statements: a saved query reads the tables only")
        else:
            values = {name: _text(value) for name, value in parameters.items() if value is not None}
            answer = questions.saved(self._tables, str(query), values, timeout=most)
        return SqlAnswer(answer.content.columns, answer.content.rows, answer.notes, answer.basis)

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

        The first two rows are the recorded life and its simulation; ``fidelity`` says how much they agree. If they
        agree too little, no alternative follows.

        Args:
            group: a classic or consumer group.
            alternatives: settings to try, under Kafka's names; one mapping for each alternative. If there is no
                mapping, ``without_restarts`` and ``members`` make a single alternative.
            start: begin of the time range, included; None begins at the group's first record.
            end: end of the time range, excluded; None ends after the group's last record.
            without_restarts: simulate every alternative without restarts: a client that left and came back stays in the
                group.
            members: the number of clients in every alternative.
            known: settings of the recorded life that are not in the log, such as ``heartbeat.interval.ms``.
        """
        tried = list(alternatives) or ([{}] if without_restarts or members is not None else [])
        since = self._times.at(start)
        replay = door.what_if(
            self._tables,
            group,
            [door.alternative_of(values, without_restarts=without_restarts, members=members) for values in tried],
            since,
            self._times.end(end),
            known,
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
        """Return every group's life replayed under other settings.

        The groups in which the alternative spares the most interruptions come first. The column ``ranges`` has the
        lowest and the highest value of each prediction. Only the first ten groups have ranges; for all others the
        column is null.

        Args:
            alternative: settings to try, under Kafka's names.
            start: begin of the time range, included; None begins at each group's first record.
            end: end of the time range, excluded; None ends after the last record of the log.
            without_restarts: simulate without restarts: a client that left and came back stays in the group.
            members: the number of clients in every group.
            known: settings of the recorded lives that are not in the log.
        """
        since = self._times.at(start)
        gains, notes = door.what_if_all(
            self._tables,
            door.alternative_of(alternative, without_restarts=without_restarts, members=members),
            since,
            self._times.end(end),
            known,
        )
        return Answer(gains, door.Gain, notes=notes, basis=self._from(since))

    @staticmethod
    def what_if_settings() -> Answer[door.TriedSetting]:
        """Return the settings that ``what_if`` can try."""
        return Answer(door.tried_settings(), door.TriedSetting)

    @staticmethod
    def saved_queries() -> Answer[SavedQuery]:
        """Return the saved queries, with their parameters and the questions that they answer."""
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

        A notebook shows the page in place. ``Page.save`` writes the page, or the figures of the page as a picture.

        Args:
            group: the group; None for an overview of all groups.
            start: begin of the time range, included; None begins at the start of the log.
            end: end of the time range, excluded; None ends after the last record of the log.
            what_if: settings to try, one mapping for each alternative, see ``what_if``. The page shows the group's
                recorded life and each alternative on one time axis.
            known: settings of the recorded life that are not in the log; only with ``what_if``.
            marks: times to mark in all figures, each with a text, such as a deployment.

        Raises:
            UsageError: alternatives are given for all groups at once, or ``known`` without alternatives.
        """
        if what_if:
            return self._what_if_page(group, what_if, start, end, known, marks)
        if known:
            raise UsageError("known settings are for alternatives: give what to try, too")
        since, until, marked = self._times.at(start), self._times.end(end), self._marks(marks)
        if group is None:
            html, fleet = questions.fleet_page(self._tables, since, until, marked)
            facts = {"groups": fleet.group_count, "rebalances": fleet.rebalances}
            return Page(html, facts, basis=self._from(since), drawing=fleet.drawing)
        html, life = questions.group_page(self._tables, group, since, until, marked)
        facts = {"rebalances": len(life.rebalances), "commits": life.commit_count}
        drawing = partial(questions.life_drawing, self._tables, life, since, marked)
        return Page(html, facts, life.notes, self._from(since, group), drawing)

    def _marks(self, marks: Sequence[tuple[Time, str]]) -> tuple[questions.Mark, ...]:
        """Convert times and their texts to marks of a page."""
        return tuple(questions.Mark(moment, text) for at, text in marks if (moment := self._times.at(at)) is not None)

    def _what_if_page(
        self,
        group: str | None,
        alternatives: Sequence[Mapping[str, str | int]],
        start: Time | None,
        end: Time | None,
        known: Mapping[str, str | int] | None,
        marks: Sequence[tuple[Time, str]],
    ) -> Page:
        """Return a page that shows the recorded life of a group and each alternative on one time axis.

        Raises:
            UsageError: no group is given.
        """
        if group is None:
            raise UsageError("give the group whose life is to be drawn under other settings")
        tried = [door.alternative_of(values) for values in alternatives]
        since = self._times.at(start)
        answer = door.what_if(self._tables, group, tried, since, self._times.end(end), known)
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
        """Write linked pages about groups into a folder: an overview, and a page for each group with news.

        A group has news if a rebalance or a finding of the group is on record in the time range.

        Args:
            folder: target folder; it is made if it does not exist.
            start: begin of the time range, included; None begins at the start of the log.
            end: end of the time range, excluded; None ends after the last record of the log.
            marks: times to mark in all figures, each with a text.

        Raises:
            UsageError: the folder can't be written.
        """
        since = self._times.at(start)
        made = questions.write_site(self._tables, Path(folder), since, self._times.end(end), self._marks(marks))
        facts = {"groups": made.group_count, "rebalances": made.rebalances}
        return Pages(Path(folder) / questions.INDEX, facts, tuple(made.notes), self._from(since))

    def trace(self, group: str | None = None, *, start: Time | None = None, end: Time | None = None) -> Trace:
        """Return the life of a group, or of the groups with most events, as a trace for Perfetto.

        Args:
            group: the group; None for the groups with most events, at most MOST_TRACED_GROUPS.
            start: begin of the time range, included; None begins at the start of the log.
            end: end of the time range, excluded; None ends after the last record of the log.
        """
        since, until = self._times.at(start), self._times.end(end)
        names = questions.lively_groups(self._tables, since, until) if group is None else [group]
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
            now: the time at which the age of the log is computed; None for the current time.
            groups: a regular expression. A group gets series of its own if the whole name matches. None for all groups.
            limit: largest number of groups with series of their own; None for no limit. If there are more groups, those
                with the most rebalances have series.
            is_openmetrics: whether to use OpenMetrics' format in place of Prometheus' own.
            who: conditions on groups; other groups have no series and no findings.
        """
        moment = now or datetime.now(UTC)
        names = groups_at_time(self._tables, who)
        return questions.metrics_of(
            self._tables, moment, groups=groups, limit=limit, is_openmetrics=is_openmetrics, names=names
        )

    @staticmethod
    def _rows(answer: Rows[T]) -> Answer[T]:
        return Answer(answer.content, answer.row_type, notes=answer.notes, basis=answer.basis)

    def _from(self, start: datetime | None = None, group: str | None = None) -> Basis:
        """Return the basis of an answer about a time range."""
        return basis_from(self._tables, start, group=group)


def _text(value: Any) -> str:
    """Return a value of a saved query's parameter in the form that a user types."""
    return value.isoformat() if isinstance(value, date) else str(value)
