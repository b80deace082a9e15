"""Questions of the commands in the section *What happened* of ``coordinator-replay --help``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coordinator_replay.api import questions
from coordinator_replay.api.answer import Answer
from coordinator_replay.api.answers import Described, Owned, Reasons
from coordinator_replay.api.moments import Time
from coordinator_replay.api.tables_and_times import TablesAndTimes
from coordinator_replay.errors import UsageError
from coordinator_replay.query.who import EVERYONE, Who

if TYPE_CHECKING:
    from coordinator_replay.query.findings import Finding
    from coordinator_replay.query.groups import Group
    from coordinator_replay.query.rebalances import Rebalance
    from coordinator_replay.query.removed import DeletedGroup
    from coordinator_replay.query.timeline import MemberInterval, TimelineEvent


class WhatHappened(TablesAndTimes):
    """Questions about groups, members, rebalances, owners and findings."""

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

    def chosen_groups(
        self, typed: Sequence[str], *, at: Time | None = None, is_all: bool = False, who: Who = EVERYONE
    ) -> list[str]:
        """Return the names of the groups that a user chose by names, by patterns with ``*`` or by conditions.

        Patterns and conditions choose from the groups at a point in time; the result is sorted. If the user gave only
        names, return the names in their order, without a check that the groups exist.

        Args:
            typed: names and patterns; if empty, the conditions alone choose.
            at: the point in time; the end of the log if None.
            is_all: choose from all groups, and ignore ``typed``.
            who: conditions that the groups must meet, too.
        """
        return questions.chosen_groups(self._tables, typed, self._times.at(at), is_all=is_all, who=who)

    def describe(self, group: str, *, at: Time | None = None) -> Described:
        """Return a group and its members, as Kafka's admin client would have described them.

        Args:
            group: id of the group.
            at: the point in time; the end of the log if None.
        """
        answer = questions.describe(self._tables, group, self._times.at(at))
        return Described(answer.content, answer.notes, answer.basis, answer.of_members, answer.of_alone)

    def timeline(self, group: str, *, start: Time | None = None, end: Time | None = None) -> Answer[TimelineEvent]:
        """Return the events of a group, in log order.

        Args:
            group: id of the group.
            start: start of the time range, included; None to begin at the start of the log.
            end: end of the time range, excluded; None to end after the last record of the log.
        """
        return self._rows(questions.timeline(self._tables, group, self._times.at(start), self._times.end(end)))

    def members(self, group: str, *, start: Time | None = None, end: Time | None = None) -> Answer[MemberInterval]:
        """Return the states of a group's members, interval by interval, in log order.

        Args:
            group: id of the group.
            start: leave out intervals that had ended by this time; None for no lower bound.
            end: leave out intervals that begin at this time or later; None for no upper bound.
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
            start: leave out rebalances that were over before this time; None for no lower bound.
            end: leave out rebalances that began at this time or later; None for no upper bound.
            causes: only rebalances with one of these causes, as cause or as alternative (``matched_by`` says which of
                the two); empty for all rebalances.
            last: number of rebalances to return, the latest ones; None to return all.
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
            start: leave out rebalances that were over before this time; None for no lower bound.
            end: leave out rebalances that began at this time or later; None for no upper bound.
            causes: only rebalances with one of these causes, as cause or as alternative (``matched_by`` says which of
                the two); empty for all rebalances.
            last: number of rebalances to return, the latest ones; None to return all.
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
            start: start of a time range, in place of a point in time. Every ownership that touches the range is
                returned.
            end: end of this time range, excluded; None to end after the last record of the log.

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
            topic: the text that the user typed. If the text names no partition, the result has all partitions between
                the lowest and the highest one that the group owned. If the group owned none, the result has partition
                0.
            partition: the partition, if the user gave it separately; then the text is only the topic.
        """
        return questions.owned_partitions(self._tables, group, topic, partition)

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
            is_new: only findings first stored by the last audit that read new records, or since then.
            since: only findings first stored by an audit that began at this time or later.
            who: conditions on groups: on their names, and on their clients, hosts and topics from ``start`` to ``end``.
                Findings that are not about a group are left out if any condition but ``excluded`` is given.
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

    @staticmethod
    def _check_either(at: Time | None, start: Time | None, end: Time | None) -> None:
        if at is not None and (start is not None or end is not None):
            raise UsageError("give either a point in time (at), or a time range (from and to)")
