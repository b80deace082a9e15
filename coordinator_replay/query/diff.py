"""Differences between two points in time of a cluster, or between two clusters at the same time.

The differences are about groups, members, owners and offsets. For two points in time, the rebalances and findings
between them also count as differences.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from coordinator_replay.answer_columns import column, row_with, select_list
from coordinator_replay.errors import UsageError
from coordinator_replay.listing import counted, partition_ranges
from coordinator_replay.query.absence import hiding_pending
from coordinator_replay.query.groups import Group, groups_at
from coordinator_replay.query.rebalances import TIMED_REBALANCES
from coordinator_replay.query.tables import AS_OF, END, MEMBERS_AS_OF, Tables

ADDED, REMOVED, CHANGED = "added", "removed", "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A difference between two times or two clusters, or an event between two times.

    Attributes:
        what: the thing that differs. ``group``: the group itself. ``type``, ``state``, ``protocol``, ``assignor``: a
            property of the group. ``member``: members of one client and host. ``subscription``: topics of a client.
            ``owner``, ``offset``: owner or committed offset of a partition. ``rebalance``, ``finding``: an event
            between the times.
        change: ``added``, ``removed`` or ``changed`` for most things. Other values:

            - offsets: ``advanced``, ``rewound``, ``not moved`` (although other partitions of the topic advanced), or
              ``changed`` (the topic may have been created again),
            - rebalances: ``between``,
            - findings: ``new`` (it began between the times), ``found`` (it was first seen between the times, but may
              have begun earlier), ``over`` (it ended between the times).
        name: name of the client, partition, cause or rule; None for a change of the group itself.
        before: the value at the first time; None if the thing did not exist.
        after: the value at the second time; None if the thing did not exist.
        number: the difference of two offsets or of two numbers of members, or the number of rebalances.
        is_exact: whether the log proves both values. If not, one of the values may have been different.
    """

    group_id: str | None = column("GROUP", 1, is_id=True)
    what: str = column("WHAT", 1)
    change: str = column("CHANGE", 1)
    name: str | None = column("NAME", 1, 12, is_id=True)
    before: str | None = column("BEFORE", 1, 8)
    after: str | None = column("AFTER", 1, 8)
    number: int | None = column("NUMBER", 2)
    is_exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCount:
    """All changes of one kind in a group.

    Attributes:
        count: number of changes.
        detail: a text. For a single change, it has the old and the new value. For several changes, it has the names of
            the things that changed. For a group that was added or removed, it describes the group.
    """

    group_id: str | None = column("GROUP", 1, is_id=True)
    what: str = column("WHAT", 1)
    change: str = column("CHANGE", 1)
    count: int = column("COUNT", 1)
    detail: str = column("DETAIL", 1, 20, good=60)
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: a cluster at a point in time.

    Attributes:
        warehouse: the tables of the cluster.
        at: the point in time; None for the end of the cluster's log.
        run: id of an audit, if the user asked for the end of the log at this audit; None if the user named no audit.
    """

    warehouse: Tables
    at: datetime | None = None
    run: str | None = None

    @property
    def moment(self) -> datetime:
        """Return the point in time as a parameter for SQL statements: ``END`` stands for the end of the log."""
        return END if self.at is None else self.at

    @property
    def exact_partitions(self) -> list[int]:
        """Return the log partitions whose groups are proven at the point in time: no missing record can matter."""
        partitions = self.warehouse.completeness.partitions
        return [number for number, partition in partitions.items() if partition.is_complete_at(self.moment)]


_CLIENT = "coalesce(instance_id, CASE WHEN NOT coalesce(is_client_inherited, false) THEN client_id END, member_id)"

_FACTS = f"""
    SELECT group_id, 'member' AS what, client || coalesce(CASE WHEN is_hosted THEN ' on ' || host END, '') AS name,
           count(*)::VARCHAR AS value, min(log_partition) AS log_partition,
           bool_and(coalesce(is_exact, false)) AS is_exact, NULL::VARCHAR AS topic_id, false AS is_negative
    FROM members_SIDE JOIN hosted USING (group_id, client) GROUP BY ALL
    UNION ALL
    SELECT group_id, 'subscription', client,
           list_aggregate(list_sort(list_distinct(list(coalesce(subscribed_topic_regex,
               array_to_string(list_sort(subscribed_topics), ', '))))), 'string_agg', '; '),
           min(log_partition), bool_and(coalesce(is_exact, false)), NULL, false
    FROM members_SIDE WHERE subscribed_topics IS NOT NULL OR subscribed_topic_regex IS NOT NULL GROUP BY ALL
    UNION ALL
    SELECT group_id, 'assignor', NULL, list_aggregate(list_sort(list_distinct(list(assignor))), 'string_agg', ', '),
           min(log_partition), bool_and(coalesce(is_exact, false)), NULL, false
    FROM members_SIDE WHERE assignor IS NOT NULL AND group_type <> 'classic' GROUP BY group_id
    UNION ALL
    SELECT owned.group_id, 'owner', coalesce(topic, topic_id) || '-' || partition,
           list_aggregate(list_sort(list_distinct(list(coalesce(client, owned.member_id)))), 'string_agg', ', '),
           min(owned.log_partition), bool_and(coalesce(owned.is_exact, false)), NULL, false
    FROM partition_ownership AS owned
    LEFT JOIN (SELECT group_id, member_id, client FROM members_SIDE) AS clients USING (group_id, member_id)
    WHERE owned.cluster = $cluster_SIDE AND (owned_from <= $at_SIDE OR owned_from IS NULL)
      AND (owned_to > $at_SIDE OR (owned_to IS NULL AND to_offset IS NULL))
    GROUP BY ALL
    UNION ALL
    -- A negative offset counts as no offset.
    SELECT group_id, 'offset', topic || '-' || partition,
           CASE WHEN committed_offset >= 0 THEN committed_offset::VARCHAR END, log_partition,
           coalesce(is_exact AND is_proven, false), topic_id, coalesce(committed_offset < 0, false)
    FROM offset_history
    WHERE cluster = $cluster_SIDE AND {AS_OF.replace("$at", "$at_SIDE")}
"""  # noqa: S608 - put together from constants

_MEMBERS = f"""
    SELECT *, {_CLIENT} AS client, CASE WHEN NOT coalesce(is_client_inherited, false) THEN client_host END AS host
    FROM member_timeline
    WHERE cluster = $cluster_SIDE AND {MEMBERS_AS_OF.replace("$at", "$at_SIDE")}
    QUALIFY row_number() OVER (PARTITION BY group_id, member_id ORDER BY from_offset DESC) = 1
"""  # noqa: S608 - as above


def _of(side: str, sql: str) -> str:
    return sql.replace("SIDE", side)


# If a side has no row, the thing may not have existed. The log proves this if two conditions are met. First, the log
# partition lacks no record at that time. Second, the group is exact; for an offset instead, no commit before the first
# one on record can be missing.
_IS_EXACT = """(coalesce({side}.is_exact, false) OR (
    list_contains($exact_{side}, coalesce({side}.log_partition, {other}.log_partition))
    AND CASE WHEN coalesce({side}.what, {other}.what) = 'offset' THEN {side}.group_id IS NULL
             AND ({other}.group_id, {other}.name) NOT IN (FROM begun_{side})
             ELSE NOT list_contains($open_{side}, coalesce({side}.group_id, {other}.group_id)) END
))"""

# Offsets whose first recorded commit may not be their first commit: there may have been an offset at the time.
_BEGUN = """
    SELECT group_id, topic || '-' || partition FROM offset_history
    WHERE cluster = $cluster_SIDE AND NOT $is_whole_SIDE AND valid_from > $at_SIDE
    GROUP BY group_id, topic, partition HAVING arg_min(coalesce(is_begin_open, true), valid_from)
"""

_CHANGES = f"""
    WITH members_before AS ({_of("before", _MEMBERS)}), members_after AS ({_of("after", _MEMBERS)}),
    hosted AS (
        -- If a client's host is not on record at one of the times, no change of the host is on record.
        SELECT group_id, client, count(*) = count(host) AS is_hosted
        FROM (SELECT group_id, client, host FROM members_before UNION ALL
              SELECT group_id, client, host FROM members_after)
        GROUP BY ALL
    ), before AS ({_of("before", _FACTS)}), after AS ({_of("after", _FACTS)}),
    begun_before AS ({_of("before", _BEGUN)}), begun_after AS ({_of("after", _BEGUN)}),
    pairs AS (
        SELECT coalesce(before.group_id, after.group_id) AS group_id, coalesce(before.what, after.what) AS what,
               coalesce(before.name, after.name) AS name, before.value AS old, after.value AS new,
               -- Offsets of two topics with one name can't be compared. Topic ids of two clusters always differ, so
               -- they tell nothing.
               before.what = 'offset' AND after.what = 'offset' AND $cluster_before = $cluster_after
               AND coalesce(after.topic_id <> before.topic_id OR (
                   before.topic_id IS NULL AND after.topic_id IS NOT NULL
                   AND try_cast(after.value AS HUGEINT) < try_cast(before.value AS HUGEINT)), false) AS is_other_topic,
               CASE WHEN coalesce(before.what, after.what) IN ('offset', 'member') AND is_other_topic IS NOT TRUE
                    THEN coalesce(after.value::HUGEINT, 0) - coalesce(before.value::HUGEINT, 0) END AS number,
               {_IS_EXACT.format(side="before", other="after")} AND {_IS_EXACT.format(side="after", other="before")}
               AS is_exact, coalesce(before.is_negative, true) AND coalesce(after.is_negative, true) AS is_nothing
        FROM before FULL JOIN after
        ON before.group_id = after.group_id AND before.what = after.what AND before.name IS NOT DISTINCT FROM after.name
    ), named AS (
        SELECT group_id, what,
               CASE WHEN old IS NULL THEN 'added' WHEN new IS NULL THEN 'removed'
                    WHEN is_other_topic THEN 'changed'
                    WHEN old = new THEN 'not moved' WHEN what <> 'offset' THEN 'changed'
                    WHEN number > 0 THEN 'advanced' ELSE 'rewound' END AS change,
               name, old AS before, new AS after,
               CASE WHEN old IS NOT NULL AND new IS NOT NULL THEN number END AS number,
               coalesce(is_exact, false) AS is_exact,
               count(*) FILTER (what = 'offset' AND number > 0 AND old IS NOT NULL)
                   OVER (PARTITION BY group_id, what, regexp_replace(name, '-[0-9]+$', '')) AS advanced
        FROM pairs WHERE NOT is_nothing
    )
    SELECT {select_list(Change)} FROM named
    WHERE change <> 'not moved' OR (what = 'offset' AND advanced > 0)
"""  # noqa: S608 - as above

_BETWEEN = f"""
    WITH between_them AS (
        SELECT group_id, 'rebalance' AS what, 'between' AS change, coalesce(cause, 'UNKNOWN') AS name,
               NULL AS before, NULL AS after, count(*) AS number, bool_and(coalesce(is_exact, false)) AS is_exact
        FROM {TIMED_REBALANCES}
        WHERE cluster = $cluster AND coalesce(in_progress_to > $start, is_in_progress)
          AND coalesce(coalesce(started_at, completed_at) <= $at, true)
        GROUP BY ALL
        UNION ALL
        -- If earlier records are missing, the finding may have begun before it was first seen: it is not new for sure.
        SELECT group_id, 'finding', CASE WHEN NOT is_new THEN 'over' WHEN is_begin_open THEN 'found' ELSE 'new' END,
               rule, NULL, message, NULL, NOT coalesce(CASE WHEN is_new THEN is_begin_open ELSE is_end_open END, false)
        FROM (
            SELECT *, coalesce(CASE WHEN $first_run IS NULL THEN first_seen > $start AND first_seen <= $at
                                    ELSE found_in_run > $first_run AND coalesce(found_in_run <= $last_run, true) END,
                               false) AS is_new
            FROM findings WHERE cluster = $cluster
        )
        WHERE is_new OR (first_seen <= $start AND ended_at > $start AND ended_at <= $at)
    )
    SELECT {select_list(Change)} FROM between_them
"""  # noqa: S608 - as above

_ORDER = ("group", "type", "state", "protocol", "assignor", "member", "subscription", "owner", "offset", "rebalance",
          "finding")  # fmt: skip


_RUNS = """
    SELECT log_end, log_end < (SELECT max(log_end) FROM audit_runs WHERE cluster = $cluster AND status = 'done')
    FROM audit_runs WHERE cluster = $cluster AND status = 'done' AND run_id = $run
"""


def side_of_run(warehouse: Tables, run: str) -> Side:
    """Return a side of a comparison: the cluster at the time of the last record that an audit read.

    Args:
        warehouse: the tables to read.
        run: id of the audit.

    Raises:
        UsageError: the cluster has no finished audit with this id.
    """
    ends = warehouse.rows(_RUNS, run=run)
    if not ends or ends[0][0] is None:
        raise UsageError(
            f"no audit of cluster {warehouse.cluster!r} that is done has the run id {run!r}: sql --query audit-runs "
            f"lists them"
        )
    log_end, is_earlier = ends[0]
    return Side(warehouse, log_end if is_earlier else None, run)


def changes_between(before: Side, after: Side) -> list[Change]:
    """Return the differences between two points in time, or between two clusters, sorted by group.

    For two points in time, the result also has the rebalances and findings between them.

    Args:
        before: the cluster at the first point in time, or the first cluster.
        after: the cluster at the second point in time, or the second cluster.
    """
    old, new = (groups_at(side.warehouse, side.at) for side in (before, after))
    asked = {
        "at": min(before.moment, after.moment),
        "cluster_before": before.warehouse.cluster,
        "cluster_after": after.warehouse.cluster,
        "at_before": before.moment,
        "at_after": after.moment,
        "is_whole_before": before.warehouse.completeness.is_whole,
        "is_whole_after": after.warehouse.completeness.is_whole,
        "exact_before": before.exact_partitions,
        "exact_after": after.exact_partitions,
        "open_before": [group.group_id for group in old if not group.is_exact],
        "open_after": [group.group_id for group in new if not group.is_exact],
    }
    changes = [*_groups(before, after, old, new), *before.warehouse.answers(Change, _CHANGES, **asked)]
    if before.warehouse.cluster == after.warehouse.cluster and before.moment < after.moment:
        # If the question names times instead of audits, only the times of findings show which findings are new.
        runs = {"first_run": before.run if after.run or after.at is None else None, "last_run": after.run}
        changes += before.warehouse.answers(Change, _BETWEEN, start=before.moment, at=after.moment, **runs)
    return sorted(
        changes, key=lambda change: (change.group_id or "", _ORDER.index(change.what), change.change, change.name or "")
    )


def _groups(before: Side, after: Side, old: Iterable[Group], new: Iterable[Group]) -> Iterable[Change]:
    """Yield a change for each group that only one side has, and for each group whose type, state or protocol differs.

    Args:
        before: the first of the two points in time or clusters.
        after: the second of the two points in time or clusters.
        old: groups of ``before``.
        new: groups of ``after``.
    """
    was, is_now = ({group.group_id: group for group in groups} for groups in (old, new))
    is_same = before.warehouse.cluster == after.warehouse.cluster
    proving = [_proves_absence(side, is_same=is_same) for side in (before, after)]
    for group_id in sorted({*was, *is_now}):
        yield from _group_changes(group_id, was.get(group_id), is_now.get(group_id), *proving)


def _proves_absence(side: Side, *, is_same: bool) -> Callable[[Group], bool]:
    """Return a function that tells whether a group certainly did not exist on one side of the comparison.

    Call the returned function only with groups that the list of the groups of ``side`` lacks.

    Args:
        side: one of the two clusters or points in time that are compared.
        is_same: whether two points in time of one cluster are compared.
    """
    # The list of groups includes all that may have existed. So if the cluster shows the group at another time, a list
    # without the group proves that it did not exist, unless the log may lack the group's only pending commit. Another
    # cluster proves this only if no record is missing.
    warehouse = side.warehouse
    if warehouse.completeness.is_whole:
        return lambda _: True
    if not is_same:
        return lambda _: False
    hiding = set() if side.at is None else hiding_pending(warehouse, warehouse.completeness.partitions, side.at)
    return lambda shown: shown.log_partition not in hiding


def _group_changes(
    group_id: str, old: Group | None, new: Group | None, *proving: Callable[[Group], bool]
) -> Iterable[Change]:
    shown = next(group for group in (old, new) if group is not None)
    is_exact = all(
        is_absent(shown) if group is None else group.is_exact
        for group, is_absent in zip((old, new), proving, strict=True)
    )
    change = ADDED if old is None else REMOVED if new is None else CHANGED
    compared = {"type": "group_type", "state": "state", "protocol": "protocol"}
    for what, name in compared.items() if change == CHANGED else (("group", "state"),):
        was, is_now = (None if row is None else getattr(row, name) for row in (old, new))
        if was != is_now:
            about = {"group_id": group_id, "what": what, "change": change, "is_exact": is_exact}
            yield row_with(Change, before=was, after=is_now, **about)


def counted_changes(changes: Sequence[Change]) -> list[ChangeCount]:
    """Count changes by group and kind, such as 3 members added. A group that was added or removed counts as one change.

    The counts are in the order of the first change of each kind.
    """
    folded: dict[tuple[str | None, str, str], list[Change]] = {}
    whole = {item.group_id: item.change for item in changes if item.what == "group"}
    for item in changes:
        kind = ("group", whole[item.group_id]) if item.group_id in whole else (item.what, item.change)
        folded.setdefault((item.group_id, *kind), []).append(item)
    return [
        ChangeCount(
            group_id=group_id,
            what=what,
            change=change,
            count=1 if what == "group" else _count(some),
            detail=_whole_group(some) if what == "group" else _detail(some),
            is_exact=all(change.is_exact for change in some),
        )
        for (group_id, what, change), some in folded.items()
    ]


def _count(changes: Sequence[Change]) -> int:
    return sum(change.number or 0 for change in changes) if changes[0].what == "rebalance" else len(changes)


_COUNTED = {
    "member": "member",
    "owner": "owned partition",
    "offset": "committed offset",
    "rebalance": "rebalance",
    "finding": "finding",
}
"""Kinds of changes that are counted in the single entry of an added or removed group, each with its word."""


def _whole_group(changes: Sequence[Change]) -> str:
    """Describe a group that only one side of the comparison has: its state, its topics, and how many members it has.

    Args:
        changes: all changes of this group.
    """
    by_kind: dict[str, list[Change]] = {}
    for change in changes:
        by_kind.setdefault(change.what, []).append(change)
    (group,) = by_kind["group"]
    topics = sorted({topic for change in by_kind.get("subscription", ()) for topic in _subscribed(change)})
    counts = [counted(_count(by_kind[kind]), word) for kind, word in _COUNTED.items() if kind in by_kind]
    return ", ".join([str(group.after or group.before), *counts, *(["reads " + ", ".join(topics)] if topics else [])])


def _subscribed(change: Change) -> Sequence[str]:
    """Return the topics, or the regular expressions, to which a client is or was subscribed."""
    return re.split("[,;] ", change.after or change.before or "")


def _detail(changes: Sequence[Change]) -> str:
    """Describe changes of the same kind in one text.

    A single change is described in full. Of several changes, the text has only the names, for offsets also the sum of
    their differences. For rebalances, the text has the number of rebalances of each cause.
    """
    first = changes[0]
    if first.what == "rebalance":
        return ", ".join(f"{change.name} {change.number:,}" for change in changes)
    if first.what == "finding":
        return first.after or "" if len(changes) == 1 else ", ".join(sorted({change.name or "" for change in changes}))
    if len(changes) == 1:
        return _only(first)
    moved = sum(change.number or 0 for change in changes)
    total = f"{moved:+,} in all: " if first.what == "offset" and moved else ""
    return total + _partitions(changes)


def _only(change: Change) -> str:
    """Return a text with the name of the thing that changed, its old value and its new value.

    If the thing was added, the text has no old value. If the thing was removed, the text has no new value.
    """
    value = f"{change.before} to {change.after}" if change.before and change.after else change.before or change.after
    if change.what == "member" or value is None:
        return str(change.name)
    return f"{change.name}: {value}" if change.name else value


def _partitions(changes: Sequence[Change]) -> str:
    """Return a text with the names of the things that changed, such as members. Partitions are shown as ranges.

    Args:
        changes: changes of the same kind, see ``Change.what``.
    """
    if changes[0].what not in ("owner", "offset"):
        return ", ".join(change.name or "" for change in changes)
    topics: dict[str, list[int]] = {}
    for change in changes:
        topic, _, partition = (change.name or "").rpartition("-")
        topics.setdefault(topic, []).append(int(partition))
    return "; ".join(f"{topic}:{partition_ranges(sorted(numbers))}" for topic, numbers in topics.items())
