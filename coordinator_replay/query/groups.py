"""Which groups there were at a point in time, as ListGroups would have said.

A group's state at a point in time is that of the last row of its ``group_timeline`` up to then. A group that only
stores offsets has no record of its own: it is a classic group, Empty, without protocol type, for as long as it has
offsets, stored or pending (``GroupMetadataManager`` makes it so when it meets a commit of an unknown group).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from coordinator_replay.engine.model import GroupState
from coordinator_replay.errors import UsageError
from coordinator_replay.query.removed import deleted_groups
from coordinator_replay.query.warehouse import AS_OF, END, Warehouse, nearest, shown

DELETED = "GROUP_DELETED"

UNRECORDED_STATES = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)
"""States of a classic group that are never written: its record comes at the end of a rebalance."""

_LAST_EVENT = """
    SELECT group_id,
           arg_max(struct_pack(event, group_type, state := to_state, epoch, assignment_epoch, member_count,
                               since := epoch_us(log_timestamp), is_exact), seq) AS last
    FROM group_timeline
    WHERE cluster = $cluster AND coalesce(log_timestamp <= $at, true) {one_group}
    GROUP BY group_id
"""

# The type of a classic group stands in its own record only.
_PROTOCOL = """
    SELECT group_id,
           arg_max(coalesce(json_extract_string(value_json, '$.protocolType'), ''), log_offset) AS protocol_type,
           arg_max(coalesce(json_extract_string(value_json, '$.protocol'), ''), log_offset) AS protocol
    FROM group_records
    WHERE cluster = $cluster AND kind = 'GroupMetadata' AND coalesce(log_timestamp <= $at, true) {one_group}
    GROUP BY group_id
"""

_WITH_OFFSETS = f"""
    SELECT group_id FROM offset_history WHERE cluster = $cluster AND {AS_OF} {{one_group}}
    UNION SELECT group_id FROM pending_offsets WHERE cluster = $cluster AND {AS_OF} {{one_group}}
"""  # noqa: S608 - put together from constants

_NO_HOLDERS = "SELECT CAST(NULL AS VARCHAR) AS group_id WHERE false"

_GROUPS = f"""
    WITH timeline AS ({_LAST_EVENT}), protocols AS ({_PROTOCOL}), holders AS ({{holders}}),
    alive AS (SELECT group_id, last FROM timeline WHERE last.event <> '{DELETED}')
    SELECT coalesce(alive.group_id, holders.group_id) AS id,
           coalesce(last.group_type, 'classic') AS type,
           CASE WHEN last IS NULL THEN ''
                WHEN last.group_type = 'classic' THEN coalesce(protocol_type, '')
                ELSE last.group_type END,
           CASE WHEN last.group_type = 'classic' AND last.state = 'Stable' THEN nullif(protocol, '') END,
           coalesce(last.state, 'Empty') AS state,
           last.epoch, last.assignment_epoch, coalesce(last.member_count, 0), make_timestamptz(last.since),
           coalesce(last.is_exact, true)
    FROM alive FULL JOIN holders ON holders.group_id = alive.group_id
    LEFT JOIN protocols ON protocols.group_id = alive.group_id
    ORDER BY id
"""  # noqa: S608 - put together from constants

_KNOWN = """
    SELECT DISTINCT group_id FROM group_timeline WHERE cluster = $cluster {one_group}
    UNION SELECT DISTINCT group_id FROM offset_history WHERE cluster = $cluster {one_group}
    UNION SELECT DISTINCT group_id FROM pending_offsets WHERE cluster = $cluster {one_group}
    ORDER BY 1
"""

_LIVELY = """
    SELECT group_id FROM group_timeline
    WHERE cluster = $cluster AND coalesce(log_timestamp >= $start, true) AND coalesce(log_timestamp < $end, true)
    GROUP BY group_id ORDER BY count(*) DESC, group_id
"""

_SEEN = """
    SELECT min(seen), max(seen) FROM (
        SELECT log_timestamp AS seen FROM group_timeline WHERE cluster = $cluster AND group_id = $group
        UNION ALL SELECT valid_from FROM offset_history WHERE cluster = $cluster AND group_id = $group
        UNION ALL SELECT valid_to FROM offset_history WHERE cluster = $cluster AND group_id = $group
        UNION ALL SELECT valid_from FROM pending_offsets WHERE cluster = $cluster AND group_id = $group
    )
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group at a point in time.

    Attributes:
        protocol_type: ``consumer``, ``share``, ``streams``, what a classic group calls its own, or empty for a
            group that only holds offsets.
        protocol: the assignor chosen in a classic group; None where it has none, and for every other kind.
        state: in Kafka's spelling.
        since: when the last thing happened to it, None for a group that only holds offsets.
        is_exact: False where a gap in the log hides steps before the last event.
    """

    group_id: str
    group_type: str
    protocol_type: str
    protocol: str | None
    state: str
    epoch: int | None
    assignment_epoch: int | None
    member_count: int
    since: datetime | None
    is_exact: bool


class Outcome(NamedTuple):
    """What a group had come to by a point in time.

    Attributes:
        state: in Kafka's spelling; ``Dead`` where it had been deleted.
        deleted_at: when it was deleted; None where it was not, or the record of that has no time.
    """

    group_id: str
    group_type: str
    state: str
    deleted_at: datetime | None = None


def unrecorded_states_note(states: Sequence[str]) -> str | None:
    """What to say of a search for groups by states that no group is recorded in.

    Args:
        states: the states asked for, in any case.
    """
    asked = {state.lower() for state in states}
    unrecorded = [state for state in UNRECORDED_STATES if state.lower() in asked]
    if not unrecorded:
        return None
    return (
        f"No group is recorded as {' or '.join(unrecorded)}: a classic group writes no record until its rebalance is "
        "over, and until then shows the state before. findings --rule silent_group and sql --query last-commits tell "
        "which groups have been silent, and since when."
    )


def _one_group(sql: str, group: str | None) -> str:
    return sql.format(one_group="" if group is None else "AND group_id = $group")


def groups_at(
    warehouse: Warehouse,
    at: datetime | None = None,
    *,
    group: str | None = None,
    types: Sequence[str] = (),
    states: Sequence[str] = (),
) -> list[Group]:
    """The groups that existed at a point in time, by name.

    Args:
        warehouse: the tables.
        at: the point in time; the end of the log if None.
        group: only this one.
        types: only groups of these types, in any case; all if empty.
        states: only groups in these states, in any case; all if empty.
    """
    groups = _read_groups(warehouse, at, group, holders=_WITH_OFFSETS)
    wanted_types = {name.lower() for name in types}
    wanted_states = {name.lower() for name in states}
    return [
        found
        for found in groups
        if (not wanted_types or found.group_type.lower() in wanted_types)
        and (not wanted_states or found.state.lower() in wanted_states)
    ]


def _read_groups(warehouse: Warehouse, at: datetime | None, group: str | None, *, holders: str) -> list[Group]:
    """The groups that the timeline has alive, and those that ``holders`` tells of."""
    sql = _one_group(_GROUPS.replace("{holders}", holders), group)
    return [
        Group(
            group_id=row[0],
            group_type=row[1],
            protocol_type=row[2],
            protocol=row[3],
            state=row[4],
            epoch=row[5],
            assignment_epoch=row[6],
            member_count=row[7],
            since=row[8],
            is_exact=row[9],
        )
        for row in warehouse.rows(sql, at=at or END, group=group)
    ]


def known_groups(warehouse: Warehouse) -> list[str]:
    """Every group that the tables ever saw in the cluster."""
    return [name for (name,) in warehouse.rows(_one_group(_KNOWN, None))]


def lively_groups(warehouse: Warehouse, start: datetime | None = None, end: datetime | None = None) -> list[str]:
    """Groups that something happened to within a time range, those with most events first.

    Raises:
        UsageError: the tables know nothing of that time range.
    """
    warehouse.check_range(start, end)
    return [name for (name,) in warehouse.rows(_LIVELY, start=start, end=end)]


def check_group(warehouse: Warehouse, group: str) -> None:
    """Make sure that the tables know a group, at any time.

    Raises:
        UsageError: they don't; the message names the most similar ones.
    """
    if warehouse.rows(_one_group(_KNOWN, group), group=group):
        return
    covered = warehouse.coverage
    near = nearest(group, known_groups(warehouse))
    hint = f"; did you mean {near[0]!r}?" if near else ","
    raise UsageError(f"no group {group!r} in cluster {warehouse.cluster!r}, covered from {covered}{hint}".rstrip(","))


def outcomes_at(warehouse: Warehouse, at: datetime | None = None, *, group: str | None = None) -> dict[str, Outcome]:
    """What every group that ever was had come to by a point in time: its state then, or its deletion.

    Args:
        warehouse: the tables.
        at: the point in time; the end of the log if None.
        group: only this one.
    """
    alive = (Outcome(one.group_id, one.group_type, one.state) for one in groups_at(warehouse, at, group=group))
    deleted = (
        Outcome(one.group_id, one.group_type, str(GroupState.DEAD), one.deleted_at)
        for one in deleted_groups(warehouse, at, group=group)
    )
    return {one.group_id: one for one in (*deleted, *alive)}


def group_at(warehouse: Warehouse, group: str, at: datetime | None = None) -> Group:
    """A group as it was at a point in time.

    Raises:
        UsageError: the tables don't know the group, or it did not exist then.
    """
    # The timeline is small; only a group that is not in it needs the table of all offsets to be looked through.
    found = _read_groups(warehouse, at, group, holders=_NO_HOLDERS) or groups_at(warehouse, at, group=group)
    if found:
        return found[0]
    check_group(warehouse, group)
    first, last = warehouse.rows(_SEEN, group=group)[0]
    deletions = [one.deleted_at for one in deleted_groups(warehouse, at, group=group) if one.deleted_at is not None]
    when = "at the end of the log" if at is None else f"at {shown(at)}"
    seen = f": it is seen from {shown(first)} to {shown(last)}" if first and last else ""
    end = f", and was deleted at {shown(deletions[0])}" if deletions else ""
    raise UsageError(f"group {group!r} does not exist {when}{seen}{end}")
