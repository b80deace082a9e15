"""Rebalances of all groups in a time range, with their costs: partitions without an owner, and commit pauses.

The answer also names what the groups that rebalanced have in common, such as a host.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import exp, lgamma

from coordinator_replay.answer_columns import column, row_of, select_list
from coordinator_replay.listing import counted, listed
from coordinator_replay.query.completeness import undecoded_note
from coordinator_replay.query.group_moves import in_log_order
from coordinator_replay.query.rebalances import TIMED_REBALANCES, TOUCHES_RANGE
from coordinator_replay.query.tables import Tables
from coordinator_replay.times import LATEST, moment_text


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupImpact:
    """Costs of the rebalances of one group in a time range.

    Attributes:
        rebalances: number of rebalances that were in progress at some time in the range.
        causes: number of these rebalances, by cause.
        first_at: start of the first of these rebalances, or its end if its start is not on record.
        unowned_partitions: number of partitions that had no owner in a part of the range, although members of the group
            subscribed to the partition's topic.
        unowned_ms: how long these partitions had no owner in the range, in milliseconds, summed over partitions.
        stopped_at: the time at which the last member left, if the group has no members at the end of the range. Later
            times don't count in ``unowned_ms``.
        commit_pause_ms: the longest commit pause around one of these rebalances.
        is_pause_at_least: whether ``commit_pause_ms`` is a lower bound, because records are missing.
        is_at_least: whether the other numbers are lower bounds, because records are missing, or because a classic join
            phase leaves no record.
    """

    group_id: str = column("GROUP", 1, is_id=True)
    group_type: str | None = column("TYPE", 5)
    rebalances: int = column("REBALANCES", 1)
    causes: dict[str, int] = column("CAUSES", 1, 14)
    first_at: datetime | None = column("FIRST-AT", 2)
    unowned_partitions: int = column("UNOWNED", 3)
    unowned_ms: int = column("UNOWNED-MS", 1)
    stopped_at: datetime | None = column("STOPPED-AT", 4)
    is_at_least: bool = column(rank=2, bound="AT-LEAST")
    commit_pause_ms: int | None = column("COMMIT-PAUSE-MS", 2)
    is_pause_at_least: bool = column(rank=2, bound="PAUSE-AT-LEAST")

    @property
    def is_downtime_unseen(self) -> bool:
        """Return whether partitions may have been without an owner, although the log does not show it."""
        return self.is_at_least and not self.unowned_partitions and not self.unowned_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonTrait:
    """Something that groups have in common, such as the host of a member.

    It is more frequent among the groups that rebalanced or had partitions without an owner (the groups concerned) than
    among other groups. The difference is larger than chance explains.

    Attributes:
        trait: the kind of thing that the groups have in common.

            - ``host``, ``client``: the host or client of a member.
            - ``topic``: a topic that a member subscribes to or owns.
            - ``log partition``: the log partition of the group.
            - ``coordinator``: the coordinator of the group.
            - ``coordinator change``: a broker that became the coordinator of the group in the time range.
        value: the name of the host, topic and so on.
        concerned: number of groups concerned that have it in common.
        concerned_groups: number of all groups concerned.
        others: number of other groups that have it, too.
        other_groups: number of all other groups that had members in the time range.
    """

    trait: str = column("IN-COMMON", 1)
    value: str = column("VALUE", 1, 12, is_id=True)
    concerned: int = column("CONCERNED", 1)
    concerned_groups: int = column("OF", 1)
    others: int = column("OTHERS", 1)
    other_groups: int = column("OF", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """Rebalances of all groups in a time range, with their costs.

    Attributes:
        groups: the groups that rebalanced in the range or had partitions without an owner. The group whose partitions
            had no owner for the longest time comes first.
        group_count: number of groups that are in ``groups``, or had members in the range.
        traits: what many of ``groups`` have in common, such as the host of a member, but few other groups have.
        is_complete: whether the log has every record since the start of the range, and all could be decoded.
    """

    start: datetime
    end: datetime
    groups: tuple[GroupImpact, ...]
    group_count: int
    traits: tuple[CommonTrait, ...]
    is_complete: bool

    @property
    def causes(self) -> dict[str, int]:
        """Return the number of rebalances by cause, the most frequent cause first."""
        counts: Counter[str] = Counter()
        for group in self.groups:
            counts.update(group.causes)
        return dict(counts.most_common())

    @property
    def _last(self) -> datetime:
        """Return the end of the time range, rounded down to milliseconds."""
        # Records have times in whole milliseconds. A range up to the end of the log ends a microsecond after the last
        # record: it is rounded to the time of this record.
        return self.end.replace(microsecond=self.end.microsecond // 1000 * 1000)

    @property
    def sentences(self) -> list[str]:
        """Return sentences about the rebalances, the groups that lost all members, and partitions without an owner."""
        rebalances = sum(group.rebalances for group in self.groups)
        least = "" if self.is_complete else "at least "
        # Where records are missing, there may be more groups than are counted.
        is_open = least and len(self.groups) == self.group_count
        of_all = counted(self.group_count, "group")
        concerned = f"{least}{of_all if is_open else f'{len(self.groups):,} of {of_all}'} concerned"
        head = f"{moment_text(self.start)} to {moment_text(self._last)}: {concerned}"
        if not self.groups:
            return [f"{head}."]
        causes = ", ".join(f"{cause} {count:,}" for cause, count in self.causes.items())
        parts = [f"{head}, {least}{counted(rebalances, 'rebalance')}{f' ({causes})' if causes else ''}."]
        first = min((group for group in self.groups if group.first_at), key=_first_at, default=None)
        if first is not None:
            on_record = "" if self.is_complete else " on record"
            parts.append(f"The first{on_record}: {first.group_id}, begun by {moment_text(_first_at(first))}.")
        stopped = sum(group.stopped_at is not None for group in self.groups)
        if stopped:
            parts.append(f"{counted(stopped, 'group')} stopped: without a member at the end of that time.")
        return [*parts, self._downtime()]

    @property
    def unowned_partitions(self) -> int:
        """Return the number of partitions that had no owner in a part of the time range, summed over groups."""
        return sum(group.unowned_partitions for group in self.groups)

    @property
    def unowned_ms(self) -> int:
        """Return how long partitions had no owner, in milliseconds, summed over the partitions of all groups."""
        return sum(group.unowned_ms for group in self.groups)

    @property
    def is_at_least(self) -> bool:
        """Return whether ``unowned_partitions`` and ``unowned_ms`` are lower bounds, because records may be missing."""
        return not self.is_complete or any(group.is_at_least for group in self.groups)

    @property
    def is_pause_at_least(self) -> bool:
        """Return whether the longest commit pause may have been longer than the log shows."""
        return not self.is_complete or any(group.is_pause_at_least for group in self.groups)

    def _downtime(self) -> str:
        partitions, seconds = self.unowned_partitions, self.unowned_ms / 1000
        least = "at least " if self.is_at_least else ""
        paused = max((group for group in self.groups if group.commit_pause_ms), key=_pause, default=None)
        longest = "at least " if self.is_pause_at_least else "up to "
        commits = f"; commits paused for {longest}{_pause(paused):,} ms ({paused.group_id})" if paused else ""
        if partitions:
            owned = f"{least}{counted(partitions, 'partition')}, {seconds:,.1f} partition-seconds"
        else:
            owned = "no partition as far as records show" if self.is_at_least else "no partition"
        return f"Without owner: {owned}{commits}."


def unseen_downtime_note(groups: Sequence[GroupImpact]) -> str | None:
    """Return a note on groups whose partitions may have had no owner although the log does not show it.

    Return None if there are no such groups.
    """
    unseen = [group.group_id for group in groups if group.is_downtime_unseen]
    if not unseen:
        return None
    return (
        f"For {counted(len(unseen), 'group')} ({listed(unseen, 3)}) the log does not show whether partitions had no "
        "owner: the cost is unknown, not 0. The join phase of a classic group leaves no record."
    )


_SIGNIFICANT = 0.05
"""Highest probability with which an answer may have a trait by chance alone."""


def _first_at(group_impact: GroupImpact) -> datetime:
    return group_impact.first_at or LATEST


def _pause(group_impact: GroupImpact) -> int:
    return group_impact.commit_pause_ms or 0


_IN_RANGE = "coalesce({since} < $end, true) AND coalesce({until} > $start, {open} IS NULL)"

# A rebalance that is not over has no completed_offset.
_OFFSET_OR_LAST = "coalesce(completed_offset, 9223372036854775807)"

_GROUPS = f"""
    WITH touched AS (
        -- A group that was converted has the type of its last rebalance.
        SELECT group_id, count(*) AS rebalances,
               arg_max(group_type, {in_log_order("timed_rebalances", _OFFSET_OR_LAST)}) AS group_type,
               histogram(coalesce(cause, 'UNKNOWN')) AS causes,
               min(coalesce(started_at, completed_at)) AS first_at,
               max(commit_pause_ms) AS commit_pause_ms,
               bool_or(coalesce(is_pause_at_least, false)) AS is_pause_bound,
               bool_or(group_type = 'classic') AS is_classic,
               bool_or(NOT coalesce(is_exact, false)) AS is_inexact,
               any_value(log_partition) AS log_partition
        FROM {TIMED_REBALANCES}
        WHERE cluster = $cluster AND {TOUCHES_RANGE}
        GROUP BY group_id
    ), ends AS (
        -- A converted group has topic ids before its conversion and none after it: the name shows that the topic is the
        -- same.
        SELECT group_id, coalesce(topic, topic_id) AS topic, partition, owned_to, unowned,
               log_partition
        FROM partition_ownership WHERE cluster = $cluster AND owned_to < $end
    ), gaps AS (
        SELECT group_id, topic, partition, log_partition, unnest(unowned) AS gap FROM ends
    ), unowned AS (
        SELECT group_id, count(DISTINCT (topic, partition)) AS unowned_partitions,
               sum(epoch_ms(least(coalesce(gap.until, $end), $end)) - epoch_ms(greatest(gap.since, $start)))::BIGINT
                   AS unowned_ms,
               any_value(log_partition) AS log_partition
        FROM gaps WHERE gap.since < $end AND coalesce(gap.until > $start, true) GROUP BY group_id
    ), unknown AS (
        SELECT DISTINCT group_id, true AS is_unknown FROM ends WHERE unowned IS NULL AND owned_to >= $start
    ), stopped AS (
        SELECT group_id, max(valid_to) AS stopped_at FROM member_timeline
        WHERE cluster = $cluster AND coalesce(valid_from < $end, true)
        GROUP BY group_id HAVING bool_and(to_offset IS NOT NULL AND coalesce(valid_to <= $end, true))
           AND stopped_at >= $start
    ), proven AS (
        SELECT group_id FROM group_timeline WHERE cluster = $cluster AND coalesce(log_timestamp < $end, true)
        GROUP BY group_id HAVING coalesce(arg_max(is_state_exact, seq), false)
    ), types AS (
        SELECT group_id, arg_max(group_type, seq) AS group_type FROM group_timeline
        WHERE cluster = $cluster AND group_id IN (SELECT group_id FROM unowned) GROUP BY group_id
    ), impacts AS (
        SELECT group_id, coalesce(touched.group_type, types.group_type) AS group_type,
               coalesce(rebalances, 0) AS rebalances, coalesce(causes, MAP {{}}) AS causes, first_at, commit_pause_ms,
               coalesce(unowned_partitions, 0) AS unowned_partitions, coalesce(unowned_ms, 0) AS unowned_ms,
               CASE WHEN proven.group_id IS NOT NULL THEN stopped_at END AS stopped_at,
               -- Where records are missing, the log may lack rebalances, and with them their pauses.
               coalesce(is_pause_bound OR is_inexact, false)
               OR coalesce(list_contains($incomplete, coalesce(touched.log_partition, unowned.log_partition)), false)
               AS is_pause_at_least,
               is_pause_at_least OR coalesce(is_classic, false) OR coalesce(is_unknown, false) AS is_at_least
        FROM touched FULL JOIN unowned USING (group_id) LEFT JOIN types USING (group_id)
        LEFT JOIN unknown USING (group_id) LEFT JOIN stopped USING (group_id) LEFT JOIN proven USING (group_id)
    )
    SELECT {select_list(GroupImpact)} FROM impacts ORDER BY unowned_ms DESC, rebalances DESC, group_id
"""  # noqa: S608 - put together from constants

_PRESENT = f"""
    SELECT DISTINCT group_id FROM member_timeline
    WHERE cluster = $cluster AND {_IN_RANGE.format(since="valid_from", until="valid_to", open="to_offset")}
"""  # noqa: S608 - as above

_TRAITS = f"""
    WITH present AS (
        SELECT group_id, client_id, client_host, subscribed_topics, assigned, log_partition,
               coalesce(is_client_inherited, false) AS is_client_inherited
        FROM member_timeline
        WHERE cluster = $cluster AND {_IN_RANGE.format(since="valid_from", until="valid_to", open="to_offset")}
    ), changes AS (
        SELECT *, is_exact OR lag(leader_epoch) OVER (PARTITION BY log_partition ORDER BY leader_epoch) IS NOT NULL
                  AS is_known
        FROM coordinator_changes WHERE cluster = $cluster AND elected_at < $end AND broker IS DISTINCT FROM -1
    ), elected AS (
        SELECT log_partition, arg_max(broker, leader_epoch) FILTER (broker IS NOT NULL) AS broker,
               arg_max('leader epoch ' || leader_epoch || coalesce(' on broker ' || broker, ''), leader_epoch)
                   FILTER (is_known AND elected_at >= $start) AS change
        FROM changes GROUP BY log_partition
    ), every_change AS (
        SELECT log_partition, elected_at, is_exact,
               is_exact OR lag(leader_epoch) OVER (PARTITION BY log_partition ORDER BY leader_epoch) IS NOT NULL
                   AS is_known
        FROM coordinator_changes WHERE cluster = $cluster
    ), unchanged AS (
        -- If the time of an election is not exact, it took place at that time or before.
        SELECT log_partition FROM every_change GROUP BY log_partition
        HAVING NOT bool_or(coalesce(is_known AND elected_at >= $start AND (elected_at < $end OR NOT is_exact), false))
    ), traits AS (
        SELECT group_id, 'client' AS trait, client_id AS value FROM present WHERE NOT is_client_inherited
        UNION SELECT group_id, 'host', client_host FROM present WHERE NOT is_client_inherited
        UNION SELECT group_id, 'topic', unnest(subscribed_topics) FROM present
        UNION SELECT group_id, 'topic', unnest(assigned).topic FROM present
        UNION SELECT group_id, 'log partition', log_partition::VARCHAR
        FROM present ANTI JOIN unchanged USING (log_partition)
        UNION SELECT group_id, 'coordinator', 'broker ' || broker
        FROM present JOIN elected USING (log_partition) ANTI JOIN unchanged USING (log_partition)
        UNION SELECT group_id, 'coordinator change', change FROM present JOIN elected USING (log_partition)
    ), counts AS (
        SELECT trait, value, count(concerned.group_id) AS concerned, $concerned_groups AS concerned_groups,
               count(*) - count(concerned.group_id) AS others, $other_groups AS other_groups
        FROM traits LEFT JOIN (SELECT unnest($concerned) AS group_id) AS concerned USING (group_id)
        WHERE value IS NOT NULL GROUP BY trait, value
    )
    SELECT {select_list(CommonTrait)}, count(*) OVER () AS compared FROM counts
    WHERE concerned + others > 1
    QUALIFY concerned > 1 AND concerned * $other_groups > others * $concerned_groups
    ORDER BY concerned / $concerned_groups - others / greatest($other_groups, 1) DESC, concerned DESC, trait, value
"""  # noqa: S608 - as above


def impact_of(warehouse: Tables, start: datetime | None = None, end: datetime | None = None) -> Impact:
    """Return the rebalances of all groups in a time range, with their costs.

    Args:
        warehouse: the tables to read.
        start: start of the time range, included; None to begin at the start of the log.
        end: end of the time range, excluded; None to end after the last record of the log.

    Raises:
        UsageError: the tables have no record of that time range.
    """
    warehouse.check_range(start, end)
    asked = _bounds(warehouse, start, end)
    groups = warehouse.answers(GroupImpact, _GROUPS, **asked, incomplete=warehouse.completeness.incomplete_from(start))
    names = [group.group_id for group in groups]
    return Impact(
        **asked,
        groups=tuple(groups),
        group_count=_count(warehouse, names, asked),
        traits=traits_of(warehouse, names, start, end),
        is_complete=warehouse.completeness.since().has_all_from(start) and undecoded_note(warehouse) is None,
    )


def _bounds(warehouse: Tables, start: datetime | None, end: datetime | None) -> dict[str, datetime]:
    covered = warehouse.coverage
    # The last record belongs to a range without an end.
    last = covered.last + timedelta(microseconds=1)
    return {"start": max(start or covered.first, covered.first), "end": min(end or last, last)}


def _count(warehouse: Tables, names: Sequence[str], asked: dict[str, datetime]) -> int:
    """Return the number of groups that had members in the time range or are among ``names``."""
    return len({*names, *(group_id for (group_id,) in warehouse.rows(_PRESENT, **asked))})


def traits_of(
    warehouse: Tables, names: Sequence[str], start: datetime | None, end: datetime | None
) -> tuple[CommonTrait, ...]:
    """Return what is more frequent among some groups than among all other groups, such as the host of a member.

    The largest difference comes first. Return no rows for fewer than two groups, or if no other group had members in
    the time range.

    Args:
        warehouse: the tables to read.
        names: the groups to compare with all others.
        start: start of the time range, included; None to begin at the start of the log.
        end: end of the time range, excluded; None to end after the last record of the log.
    """
    if len(names) < 2:
        return ()
    asked = _bounds(warehouse, start, end)
    others = _count(warehouse, names, asked) - len(names)
    if not others:
        return ()
    counts = {"concerned": list(names), "concerned_groups": len(names), "other_groups": others}
    rows = [(row_of(CommonTrait, values), compared) for *values, compared in warehouse.rows(_TRAITS, **asked, **counts)]
    return tuple(trait for trait, compared in rows if _is_significant(trait, compared))


def _is_significant(trait: CommonTrait, compared: int) -> bool:
    """Return whether something is more frequent among the groups that rebalanced than chance explains.

    This is Fisher's exact test, one-sided, at a level of 5 %. The level is divided by the number of tests (Bonferroni).

    Args:
        trait: what groups have in common, such as a host, and how many groups have it.
        compared: number of tests.
    """
    groups, drawn = trait.concerned_groups + trait.other_groups, trait.concerned_groups
    having = trait.concerned + trait.others
    chance = sum(
        exp(_ways(having, both) + _ways(groups - having, drawn - both) - _ways(groups, drawn))
        for both in range(trait.concerned, min(having, drawn) + 1)
        if drawn - both <= groups - having
    )
    return chance * compared <= _SIGNIFICANT


def _ways(many: int, few: int) -> float:
    """Return the logarithm of the number of ways to choose ``few`` out of ``many`` items."""
    return lgamma(many + 1) - lgamma(few + 1) - lgamma(many - few + 1)
