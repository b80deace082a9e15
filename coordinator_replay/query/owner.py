"""Owners of a partition at a point in time or in a time range, as the coordinator's records show them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from coordinator_replay.answer_columns import LAST, column, select_list
from coordinator_replay.errors import UsageError
from coordinator_replay.listing import counted
from coordinator_replay.query.completeness import log_partitions_of
from coordinator_replay.query.groups import check_group, is_group_exact
from coordinator_replay.query.removed import RECORDS_MISSING
from coordinator_replay.query.similar import did_you_mean
from coordinator_replay.query.tables import END, MEMBERS_AS_OF, Tables
from coordinator_replay.times import EPOCH, moment_text

_TOPICS = """
    SELECT coalesce(topic, topic_id), min(partition), max(partition) FROM partition_ownership
    WHERE cluster = $cluster AND group_id = $group GROUP BY 1 ORDER BY 1
"""

_WAS_ALWAYS_EXACT = """
    SELECT coalesce(bool_and(coalesce(is_state_exact, false)), true) FROM group_timeline
    WHERE cluster = $cluster AND group_id = $group
"""

# Ordered by log offset: times may go back after an election, because brokers' clocks differ.
_WAS_EXACT_BETWEEN = """
    WITH steps AS (
        SELECT log_offset AS since, lead(log_offset) OVER in_order AS until, is_state_exact,
               coalesce(max(log_timestamp) OVER in_order <= $at, true) AS is_past
        FROM group_timeline WHERE cluster = $cluster AND group_id = $group WINDOW in_order AS (ORDER BY seq)
    )
    SELECT coalesce(bool_and(coalesce(is_state_exact, false)), true)
    FROM steps CROSS JOIN (SELECT coalesce(max(since) FILTER (is_past), -1) AS place FROM steps) AS moment
    WHERE coalesce(until > coalesce($start, place), true) AND since < coalesce($end, place + 1)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """A row of ``partition_ownership``: one member's ownership of a partition.

    The fields that are not described here are columns of this table (see ``schemas/tables/partition_ownership.json``).

    Attributes:
        client_id: client id of the member at the point in time that the user asks about; None if the member was not in
            the group. If the user asks about a time range, the last client id of the member.
        client_host: host of the member at the same time as ``client_id``.
        is_client_inherited: whether client id and host may belong to an earlier process of this static member.
        is_exact: whether the log proves that the member owned the partition at the point in time. If this is not the
            owner at the point in time, whether the log proves the whole ownership.
        is_begin_open: whether the member may have owned the partition before ``owned_from``, because records before
            ``owned_from`` are missing.
        rebalance_id: the rebalance in which the ownership ended; None if the ownership has not ended, or ended without
            a rebalance.
        is_owner: False if the partition had no known owner at the point in time, and this is the last ownership before
            the point in time or the first ownership after it.
        from_offset: log offset of the record that began the ownership.
        to_offset: log offset of the record that ended the ownership; None if the ownership has not ended. ``owned_to``
            may be None for an ownership that ended, if no record has the time.
    """

    group_id: str = column("GROUP", LAST, is_id=True)
    topic: str | None = column("TOPIC", 3, is_id=True)
    topic_id: str | None
    partition: int = column("PARTITION", 1)
    client_id: str | None = column("CLIENT-ID", 1, 8, is_id=True)
    client_host: str | None = column("HOST", 2, 8, is_id=True)
    instance_id: str | None = column("GROUP-INSTANCE-ID", 1, 8, is_id=True)
    member_id: str = column("CONSUMER-ID", 4, 10, is_id=True, sql="owned.member_id")
    is_client_inherited: bool = column(sql="coalesce(is_client_inherited, false)")
    owned_from: datetime | None = column("FROM", 1)
    owned_to: datetime | None = column("TO", 1)
    released_by: str | None = column("RELEASED-BY", 4)
    unowned_ms: int | None = column("UNOWNED-MS", 5)
    rebalance_id: str | None
    is_exact: bool = column(sql="coalesce(owned.is_exact, false)")
    is_begin_open: bool = column(rank=2, bound="MAYBE-EARLIER", sql="coalesce(owned.is_begin_open, true)")
    from_offset: int | None = column(sql="owned.from_offset")
    to_offset: int | None = column(sql="owned.to_offset")
    is_owner: bool = column(default=True)

    @property
    def over_at(self) -> datetime | None:
        """Return the time at which the ownership ended. Return None if the ownership has not ended.

        If the ownership ended at an unknown time, return ``EPOCH``.
        """
        return EPOCH if self.owned_to is None and self.to_offset is not None else self.owned_to

    @property
    def unowned_text(self) -> int | str | None:
        """Return how long the partition had no owner after this ownership: milliseconds, or the text "no members".

        The text "no members" is for a partition that had no owner because the group had no members. Such times don't
        count in ``unowned_ms``.
        """
        return "no members" if self.released_by == "GROUP_EMPTIED" and self.unowned_ms == 0 else self.unowned_ms


_INTERVALS = """
    WITH owned AS (
        SELECT * FROM partition_ownership
        WHERE cluster = $cluster AND group_id = $group AND partition = $partition
          AND (topic = $topic OR topic_id = $topic)
    ), hosts AS (
        SELECT member_id, client_id, client_host, is_client_inherited FROM member_timeline
        WHERE cluster = $cluster AND group_id = $group AND {members}
        QUALIFY row_number() OVER (PARTITION BY member_id ORDER BY from_offset DESC) = 1
    )
    SELECT {columns}
    FROM owned LEFT JOIN hosts ON hosts.member_id = owned.member_id
    WHERE {owned}
    ORDER BY owned_from NULLS FIRST, owned.from_offset, owned.member_id
"""
_AT = _INTERVALS.format(columns=select_list(Ownership), members=MEMBERS_AS_OF, owned="true")
_BETWEEN = _INTERVALS.format(
    columns=select_list(Ownership),
    members="true",
    owned="coalesce(owned_from < $end, true) AND coalesce(owned_to > $start, to_offset IS NULL OR $start IS NULL)",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """Owners of a partition at a point in time.

    Attributes:
        owners: the owners; several in share groups, or if the log shows two owners at once. Empty if nobody owned the
            partition or no owner is on record.
        before: the last ownership that ended before the point in time, or at it; None if there is none.
        after: the first ownership that began after the point in time; None if there is none.
        is_exact: whether the log proves that the partition had these owners and no others.
        is_before_exact: if there is no owner, whether the log proves that there was none since ``before`` ended.
        is_after_exact: if there is no owner, whether the log proves that there was none until ``after`` began.
        handovers: if the user asked about a time range, a text that says how long the partition had no owner between
            two owners; None for a point in time.
    """

    owners: tuple[Ownership, ...]
    before: Ownership | None
    after: Ownership | None
    is_exact: bool
    is_before_exact: bool = True
    is_after_exact: bool = True
    handovers: str | None = None

    @property
    def neighbours(self) -> tuple[Ownership, ...]:
        """Return ``before`` and ``after`` if the partition has no owner, each only if it is not None.

        Return an empty tuple if the partition has an owner.
        """
        if self.owners:
            return ()
        return tuple(
            replace(ownership, is_owner=False) for ownership in (self.before, self.after) if ownership is not None
        )

    @property
    def hint(self) -> str | None:
        """Return a note about a partition without an owner, or with owners that the log does not prove.

        Return None if the partition has owners that the log proves.
        """
        if self.owners:
            return self._doubt()
        sentences = [
            "No member owned it at that time." if self.is_exact else "Who owned it at that time is not on record."
        ]
        if self.before is not None:
            sentences.append(
                f"The last owner{_on_record(self.is_before_exact)} was {self.before.member_id}, "
                f"until {_until(self.before)}."
            )
        if self.after is not None and self.after.owned_from is not None:
            sentences.append(
                f"The next one{_on_record(self.is_after_exact)} is {self.after.member_id}, "
                f"from {moment_text(self.after.owned_from)}{' at the latest' if self.after.is_begin_open else ''}."
            )
        return " ".join(sentences)

    def _doubt(self) -> str | None:
        """Return a note that the partition may have had owners that are not on record. Otherwise return None."""
        sentences = (
            [] if self.is_exact else ["Records of that time are missing from the log: others may have owned it."]
        )
        sentences += [
            f"{owner.member_id} may have owned it before {moment_text(owner.owned_from)}: "
            "what was before is not on record."
            for owner in self.owners
            if owner.is_begin_open and owner.owned_from is not None
        ]
        return " ".join(sentences) or None


def _on_record(is_exact: bool) -> str:
    return "" if is_exact else " on record"


def _until(ownership: Ownership) -> str:
    when = "an unknown time" if ownership.owned_to is None else moment_text(ownership.owned_to)
    if ownership.released_by == RECORDS_MISSING:
        return f"{when} at least: from then on records of the group are missing"
    return f"{when} ({ownership.released_by})" if ownership.released_by else when


def owned_topics(warehouse: Tables, group: str) -> dict[str, tuple[int, int]]:
    """Return, for each topic, the lowest and the highest number of a partition that the group owned.

    The key is the topic's name, or the topic's id if the name is unknown.
    """
    return {name: (low, high) for name, low, high in warehouse.rows(_TOPICS, group=group)}


def _check_partition(warehouse: Tables, group: str, topic: str, partition: int) -> None:
    """Raise an error that says that the group never owned a partition, or that no owner of it is on record.

    The message also says which partitions the group owned.
    """
    check_group(warehouse, group)
    owned = owned_topics(warehouse, group)
    is_whole = warehouse.completeness.since(log_partitions_of(warehouse, group)).is_whole
    if not is_whole or not warehouse.rows(_WAS_ALWAYS_EXACT, group=group)[0][0]:
        choices = ", ".join(f"{name}:{low}-{high}" for name, (low, high) in owned.items()) or "no partition"
        raise UsageError(
            f"no owner of {topic}-{partition} in group {group!r} is on record, and its log is not complete; the tables "
            f"have owners of {choices}"
        )
    if topic in owned:
        low, high = owned[topic]
        raise UsageError(
            f"group {group!r} never owned partition {partition} of {topic!r}; the tables have {low} to {high}"
        )
    hint = did_you_mean(topic, list(owned), f"it owned {', '.join(map(repr, owned)) or 'no partition at all'}")
    raise UsageError(f"group {group!r} never owned a partition of {topic!r}: {hint}")


def owners_at(warehouse: Tables, group: str, topic: str, partition: int, at: datetime | None = None) -> Owners:
    """Return the owners of a partition at a point in time.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        topic: the topic's name or id.
        partition: number of the partition.
        at: the point in time; the end of the log if None.

    Raises:
        UsageError: the tables have no record of the group, or the group never owned the partition.
    """
    moment = at or END
    asked = {"group": group, "topic": topic, "partition": partition, "at": moment}
    intervals = warehouse.answers(Ownership, _AT, **asked)
    if not intervals:
        _check_partition(warehouse, group, topic, partition)
    ended, current, later = _by_time(intervals, moment)
    is_exact = is_group_exact(warehouse, group, at)
    before = max(ended, key=lambda ownership: (ownership.over_at or moment, ownership.to_offset or 0), default=None)
    after = later[0] if later else None
    owners = [replace(ownership, is_exact=is_exact) for ownership in current]
    found = Owners(owners=tuple(owners), is_exact=is_exact, before=before, after=after)
    if owners:
        return found
    return replace(
        found,
        is_before_exact=before is None
        or (before.is_exact and _was_exact(warehouse, group, moment, since=before.to_offset)),
        is_after_exact=after is None or _was_exact(warehouse, group, moment, until=after.from_offset),
    )


def _by_time(
    intervals: Iterable[Ownership], moment: datetime
) -> tuple[list[Ownership], list[Ownership], list[Ownership]]:
    """Divide ownerships into three lists: ended before a point in time, current at this time, and begun later."""
    ended: list[Ownership] = []
    current: list[Ownership] = []
    later: list[Ownership] = []
    for interval in intervals:
        over_at = interval.over_at
        if over_at is not None and over_at <= moment:
            ended.append(interval)
        elif interval.owned_from is not None and interval.owned_from > moment:
            later.append(interval)
        else:
            current.append(interval)
    return ended, current, later


def _was_exact(
    warehouse: Tables, group: str, at: datetime, *, since: int | None = None, until: int | None = None
) -> bool:
    """Return whether the log proves which members a group had from one place in the log to another.

    One place is the point in time ``at``. The other place is a log offset: either ``since`` or ``until``.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        at: the point in time.
        since: log offset of the first place; None if ``at`` is the first place.
        until: log offset of the last place; None if ``at`` is the last place.
    """
    return bool(warehouse.rows(_WAS_EXACT_BETWEEN, group=group, at=at, start=since, end=until)[0][0])


def owners_between(
    warehouse: Tables, group: str, topic: str, partition: int, start: datetime | None, end: datetime | None
) -> list[Ownership]:
    """Return all ownerships of a partition in a time range, sorted by the time at which they began.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        topic: the topic's name or id.
        partition: number of the partition.
        start: leave out ownerships that were over by this time; None for no lower bound.
        end: leave out ownerships that began at this time or later; None for no upper bound.

    Raises:
        UsageError: the tables have no record of the group or of the time range, or the group never owned the partition.
    """
    warehouse.check_range(start, end)
    asked = {"group": group, "topic": topic, "partition": partition, "start": start, "end": end}
    owners = warehouse.answers(Ownership, _BETWEEN, **asked)
    if not owners and not warehouse.answers(Ownership, _BETWEEN, **{**asked, "start": None, "end": None}):
        _check_partition(warehouse, group, topic, partition)
    return owners


_IS_SHARED = """
    SELECT 1 FROM group_timeline WHERE cluster = $cluster AND group_id = $group AND group_type = 'share' LIMIT 1
"""


def is_shared(warehouse: Tables, group: str) -> bool:
    """Return whether a group is or was a share group, in which several members own a partition at a time."""
    return bool(warehouse.rows(_IS_SHARED, group=group))


def handovers_note(owners: Sequence[Ownership], *, is_shared: bool) -> str | None:
    """Return sentences that say how long partitions had no owner between two owners.

    The sentences also say whether two members owned a partition at the same time. Return None for a share group, or if
    no partition had a second owner.

    Args:
        owners: ownerships of one or several partitions of a topic. The ownerships of each partition are sorted by the
            time at which they began.
        is_shared: whether the group is a share group, in which two members may own a partition at a time.
    """
    by_partition: dict[int, list[Ownership]] = {}
    for ownership in owners:
        by_partition.setdefault(ownership.partition, []).append(ownership)
    pairs = [pair for own in by_partition.values() for pair in pairwise(own)]
    if is_shared or not pairs:
        return None
    overlaps = sum(map(_overlaps, by_partition.values()))
    gaps = [first.unowned_ms for first, second in pairs if first.unowned_ms is not None]
    unknown = sum(first.unowned_ms is None and not _is_overlap(first, second) for first, second in pairs)
    idle_ms = sum(map(_idle_ms, pairs))
    least = "at least " if unknown else ""
    sentences = [
        f"Without an owner between two owners: {least}{sum(gaps):,} ms in all, {max(gaps):,} ms at the longest."
        if any(gaps)
        else "How long partitions had no owner between two owners is not on record."
        if unknown
        else "No time without an owner between two owners is on record while the group had members."
        if idle_ms
        else "No time without an owner between two owners is on record."
    ]
    if not any(gaps) and not unknown:
        sentences.append("Pauses within a rebalance are not in it: rebalances shows how long each took.")
    if idle_ms:
        sentences.append(
            f"After its last member had left, the group owned nothing for {idle_ms:,} ms, which UNOWNED-MS does not "
            "count."
        )
    if unknown and any(gaps):
        sentences.append(f"For {counted(unknown, 'handover')} (no UNOWNED-MS) the log does not show how long.")
    if overlaps:
        times = counted(overlaps, "time")
        sentences.append(f"{times} two members owned a partition at once: sql --query two-owners shows them.")
    else:
        on_record = "" if all(ownership.is_exact for ownership in owners) else " on record"
        sentences.append(f"No two members{on_record} owned a partition at once, by the coordinator's records.")
    return " ".join(sentences)


def _idle_ms(pair: tuple[Ownership, Ownership]) -> int:
    """Return how long a partition had no owner because the group had no members, in milliseconds.

    Args:
        pair: two successive ownerships of the partition. The time between them is returned. Return 0 if the group had
            members at this time.
    """
    first, second = pair
    if first.unowned_ms != 0 or first.owned_to is None or second.owned_from is None:
        return 0
    return max(0, round((second.owned_from - first.owned_to).total_seconds() * 1000))


def _overlaps(owners: Iterable[Ownership]) -> int:
    """Return the number of pairs of members that certainly owned the partition at the same time.

    Args:
        owners: ownerships of one partition, in the order in which they began.
    """
    found, present = 0, list[Ownership]()
    for owner in owners:
        # A member may keep a partition while several others have it, one after the other.
        present = [earlier for earlier in present if not _is_over_at(earlier, owner)]
        found += sum(_is_overlap(earlier, owner) for earlier in present)
        present.append(owner)
    return found


def _is_over_at(first: Ownership, second: Ownership) -> bool:
    """Return whether the ownership ``first`` had ended when the ownership ``second`` began."""
    if first.owned_to is not None and second.owned_from is not None:
        return first.owned_to <= second.owned_from
    return first.to_offset is not None and second.from_offset is not None and first.to_offset <= second.from_offset


def _is_overlap(first: Ownership, second: Ownership) -> bool:
    """Return whether two members certainly owned a partition at the same time.

    Args:
        first: the ownership that began first.
        second: an ownership by another member, or by the same member.
    """
    if first.member_id == second.member_id or not (first.is_exact and second.is_exact):
        return False
    if first.owned_to is not None and second.owned_from is not None:
        return first.owned_to > second.owned_from
    return first.to_offset is None or (second.from_offset is not None and first.to_offset > second.from_offset)
