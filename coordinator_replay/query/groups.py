"""The groups at a point in time, as ListGroups shows them.

The state of a group at a point in time is in the group's last row of ``group_timeline`` before this time. A group that
only stores offsets has no such row. It is a classic group in state Empty, as long as it has committed or pending
offsets.

The state is ``Unknown`` if the log does not prove the state. For example, the group's records may have been removed, or
the group may have existed before its first record.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from coordinator_replay.answer_columns import PYTHON, column
from coordinator_replay.engine.model import GroupState
from coordinator_replay.errors import UsageError
from coordinator_replay.listing import counted
from coordinator_replay.query.absence import KnownGroups, known_groups, missing_groups_note
from coordinator_replay.query.broker_logs.join_phases import JoinPhase, join_phases
from coordinator_replay.query.completeness import log_partitions_of
from coordinator_replay.query.group_partitions import unaudited_reason
from coordinator_replay.query.group_rows import GROUP_ROWS
from coordinator_replay.query.removed import deleted_groups
from coordinator_replay.query.similar import did_you_mean
from coordinator_replay.query.tables import AS_OF, END, Tables
from coordinator_replay.times import moment_text

DELETED, COMPLETE = "GROUP_DELETED", "RECORDS_COMPLETE"

UNKNOWN = "Unknown"
"""The state of a group if the log does not prove the state, and the type of a group that is not on record. Kafka uses
the same word."""

UNRECORDED_STATES = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)
"""States of a classic group that are never written: the group's record is written at the end of a rebalance."""

_LAST_EVENT = """
    SELECT group_id,
           arg_max(struct_pack(event, group_type, state := to_state, epoch, assignment_epoch, member_count,
                               since := epoch_us(log_timestamp), is_exact := coalesce(is_state_exact, false),
                               log_partition), seq) AS last
    FROM group_timeline
    WHERE cluster = $cluster AND coalesce(log_timestamp <= $at, true) {of_groups}
    GROUP BY group_id
"""

# Only a classic group's own record has its protocol type.
_PROTOCOL = """
    SELECT group_id, log_partition,
           arg_max(coalesce(json_extract_string(value_json, '$.protocolType'), ''), log_offset) AS protocol_type,
           arg_max(coalesce(json_extract_string(value_json, '$.protocol'), ''), log_offset) AS protocol
    FROM group_records
    WHERE cluster = $cluster AND kind = 'GroupMetadata' AND coalesce(log_timestamp <= $at, true) {of_groups}
    GROUP BY group_id, log_partition
"""

_WITH_OFFSETS = f"""
    SELECT group_id, min(log_partition) AS log_partition, bool_and(coalesce(is_exact, false)) AS is_exact FROM (
        SELECT group_id, log_partition, is_exact FROM offset_history WHERE cluster = $cluster AND {AS_OF} {{of_groups}}
        UNION ALL
        SELECT group_id, log_partition, is_exact FROM pending_offsets WHERE cluster = $cluster AND {AS_OF} {{of_groups}}
    ) GROUP BY group_id
"""  # noqa: S608 - put together from constants

_NO_HOLDERS = "SELECT NULL::VARCHAR AS group_id, NULL::INTEGER AS log_partition, true AS is_exact WHERE false"

LATER_ROWS = """
    SELECT group_id, log_partition, log_offset AS place, log_timestamp AS seen, true AS is_own,
           event = 'GROUP_DISCOVERED' AND NOT is_exact AS is_begin_open, NULL::TIMESTAMPTZ AS lost_at
    FROM group_timeline WHERE cluster = $cluster {of_groups}
    UNION ALL SELECT group_id, log_partition, coalesce(record_offset, from_offset), valid_from, false, false, NULL
    FROM offset_history WHERE cluster = $cluster {of_groups}
    UNION ALL SELECT group_id, log_partition, from_offset, valid_from, false, false, NULL
    FROM pending_offsets WHERE cluster = $cluster {of_groups}
    UNION ALL SELECT lost.group_id, log_partition, ends.place, ends.seen, false, false, lost_at
    FROM (
        SELECT group_id, log_partition, min(valid_to) AS lost_at FROM offset_history
        WHERE cluster = $cluster AND ended_by = 'RECORDS_MISSING' AND valid_to IS NOT NULL {of_groups}
        GROUP BY group_id, log_partition
    ) AS lost JOIN (
        SELECT group_id, log_offset AS place, log_timestamp AS seen FROM offset_commits
        WHERE cluster = $cluster AND is_tombstone {of_groups}
        UNION ALL SELECT DISTINCT group_id, NULL::BIGINT, 'infinity'::TIMESTAMPTZ FROM offset_history
        WHERE cluster = $cluster AND ended_by = 'RECORDS_MISSING' {of_groups}
    ) AS ends ON ends.group_id = lost.group_id
"""
"""Rows that matter for the time before them if the log is incomplete: a group may have existed before its first record
on record.

These are the rows of groups, of committed offsets and of pending commits. Tombstones of offsets are among them if the
end of an offset of the group is not on record: such a tombstone counts from ``lost_at`` on, which is null in all other
rows. Each such group also has a row without ``place``, at the end of time."""

# The first of these rows after the time asked about.
_LATER = f"""
    SELECT group_id, min(log_partition) AS log_partition, min(place) AS next_offset,
           min(place) FILTER (is_own) AS own_offset, min(place) FILTER (is_begin_open) AS begin_open_offset
    FROM ({LATER_ROWS}) WHERE seen > $at AND coalesce(lost_at <= $at, true) GROUP BY group_id
"""  # noqa: S608 - put together from constants

_NOTHING_LATER = """
    SELECT NULL::VARCHAR AS group_id, NULL::INTEGER AS log_partition, NULL::BIGINT AS next_offset,
           NULL::BIGINT AS own_offset, NULL::BIGINT AS begin_open_offset WHERE false
"""

_NO_PROOFS = """
    SELECT NULL::INTEGER AS log_partition, NULL::BIGINT AS proven_from, NULL::BIGINT AS proven_to WHERE false
"""

_PROOFS = """
    SELECT unnest($proven) AS log_partition, unnest($proven_from) AS proven_from, unnest($proven_to) AS proven_to
"""

_IS_UNPROVEN = """(proven_from IS NULL OR coalesce(
    {first} < proven_from AND NOT list_contains({known}, later.group_id) OR begin_open_offset < proven_to, false))"""

_GROUPS = f"""
    WITH timeline AS ({_LAST_EVENT}), protocols AS ({_PROTOCOL}), holders AS ({{holders}}), later AS ({{later}}),
    proofs AS ({{proofs}}),
    alive AS (
        SELECT group_id, last FROM timeline
        WHERE last.event <> '{DELETED}' AND coalesce(last.state, '') <> 'Dead' OR NOT last.is_exact
    ),
    deleted AS (SELECT group_id, last FROM timeline WHERE group_id NOT IN (SELECT group_id FROM alive)),
    -- Groups that are not on record at that time but may have existed. A group that was deleted before missing records
    -- may have stored offsets among them, even if its own keys are proven to be gone.
    open AS (
        SELECT later.group_id, log_partition FROM later LEFT JOIN proofs USING (log_partition)
        WHERE later.group_id NOT IN (SELECT group_id FROM timeline WHERE last.event <> '{COMPLETE}')
          AND {_IS_UNPROVEN.format(first="next_offset", known="$absent")}
    ),
    stored AS (
        SELECT holders.group_id, holders.log_partition, holders.is_exact,
               deleted.group_id IS NULL AND NOT {{is_whole}}
               AND {_IS_UNPROVEN.format(first="own_offset", known="$without_members")} AS is_open
        FROM holders LEFT JOIN proofs USING (log_partition)
        LEFT JOIN later ON later.group_id = holders.group_id
        LEFT JOIN deleted ON deleted.group_id = holders.group_id
    ),
    listed AS (
        SELECT coalesce(alive.group_id, stored.group_id, open.group_id) AS id, last,
               coalesce(last.log_partition, stored.log_partition, open.log_partition) AS log_partition,
               -- Empty and Dead say that no member was left. Records that are missing could say otherwise.
               CASE WHEN last IS NOT NULL AND (last.state = 'Dead' OR last.state = 'Empty' AND NOT last.is_exact)
                    THEN '{UNKNOWN}'
                    WHEN last IS NOT NULL THEN last.state
                    WHEN stored.group_id IS NULL OR stored.is_open THEN '{UNKNOWN}' ELSE 'Empty' END AS state,
               coalesce(last.is_exact, stored.is_exact AND NOT stored.is_open, false) AS is_exact
        FROM alive FULL JOIN stored ON stored.group_id = alive.group_id
        FULL JOIN open ON open.group_id = coalesce(alive.group_id, stored.group_id)
    )
    SELECT id,
           CASE WHEN last IS NOT NULL THEN coalesce(last.group_type, '{UNKNOWN}')
                WHEN is_unknown THEN '{UNKNOWN}' ELSE 'classic' END,
           CASE WHEN last IS NULL THEN CASE WHEN NOT is_unknown THEN '' END
                WHEN last.group_type = 'classic' THEN coalesce(protocol_type, '')
                ELSE last.group_type END,
           CASE WHEN last.group_type = 'classic' AND state = 'Stable' THEN nullif(protocol, '') END,
           state,
           CASE WHEN NOT is_unknown THEN last.epoch END, CASE WHEN NOT is_unknown THEN last.assignment_epoch END,
           CASE WHEN NOT is_unknown THEN coalesce(last.member_count, 0) END,
           make_timestamptz(last.since), is_exact AND NOT is_unknown, listed.log_partition
    FROM (SELECT *, state = '{UNKNOWN}' AS is_unknown FROM listed) AS listed
    LEFT JOIN protocols ON protocols.group_id = id AND protocols.log_partition = last.log_partition
    ORDER BY id
"""  # noqa: S608 - put together from constants

_GROUP_NAMES = f"SELECT DISTINCT group_id FROM {GROUP_ROWS} ORDER BY 1"  # noqa: S608 - put together from constants

_LIVELY = """
    SELECT group_id FROM group_timeline
    WHERE cluster = $cluster AND coalesce(log_timestamp >= $start, true) AND coalesce(log_timestamp < $end, true)
    GROUP BY group_id ORDER BY count(*) DESC, group_id
"""

_SEEN = """
    SELECT min(seen), max(seen) FROM (
        SELECT log_timestamp AS seen FROM group_timeline
        WHERE cluster = $cluster AND group_id = $group AND event NOT IN ('RECORDS_MISSING', 'RECORDS_COMPLETE')
        UNION ALL SELECT valid_from FROM offset_history WHERE cluster = $cluster AND group_id = $group
        UNION ALL SELECT valid_to FROM offset_history WHERE cluster = $cluster AND group_id = $group
        UNION ALL SELECT valid_from FROM pending_offsets WHERE cluster = $cluster AND group_id = $group
    )
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group at a point in time.

    Attributes:
        group_type: ``Unknown`` if the group is not on record at that time.
        protocol_type: ``consumer``, ``share``, ``streams``, or any name that the clients of a classic group chose.
            Empty for a group that only stores offsets. None if the group is not on record at that time.
        protocol: the assignor of a classic group; None if the group has chosen none. Also None for groups of all other
            types.
        state: the state in Kafka's spelling. ``Unknown`` if the records that decide the state are no longer in the log:
            the group may not even have existed.
        member_count: None if the state is not known.
        since: time of the group's last event; None for a group that only stores offsets. If a broker's log shows a
            rebalance in progress, the time at which the group came into its present state.
        is_exact: whether the log proves the whole row; False if missing records could say otherwise.
        log_partition: the partition of ``__consumer_offsets`` with the group's records.
    """

    group_id: str = column("GROUP", 1, is_id=True)
    group_type: str = column("TYPE", 1)
    protocol_type: str | None = column("PROTOCOL", 4, 8)
    protocol: str | None = column(only_with=PYTHON)
    state: str = column("STATE", 1)
    epoch: int | None = column("EPOCH", 3)
    assignment_epoch: int | None
    member_count: int | None = column("#MEMBERS", 2)
    since: datetime | None
    is_exact: bool
    log_partition: int | None


class LastState(NamedTuple):
    """State of a group at a point in time.

    Attributes:
        state: the state in Kafka's spelling; ``Dead`` if the group had been deleted.
        deletion: a sentence on the group's deletion, with the time if the time is on record; None if the group was not
            deleted.
    """

    group_id: str
    group_type: str
    state: str
    deletion: str | None = None


def unrecorded_states_note(groups: Sequence[Group], states: Sequence[str], *, has_logs: bool) -> str | None:
    """Return a note if a user asked for groups in a join phase or sync, and there are none. Otherwise return None.

    The note says that these states (``UNRECORDED_STATES``) leave no record, and are only in brokers' logs.

    Args:
        groups: the groups of the answer.
        states: the states that the user asked for, in upper or lower case.
        has_logs: whether brokers' logs were audited.
    """
    asked = {state.lower() for state in states} - {group.state.lower() for group in groups}
    unrecorded = [state for state in UNRECORDED_STATES if state.lower() in asked]
    if not unrecorded:
        return None
    logs = (
        "the brokers' logs that were audited show none"
        if has_logs
        else "brokers' logs (audit --broker-log) show such groups"
    )
    return (
        f"No group is recorded as {' or '.join(unrecorded)}: a classic group writes no record until its rebalance is "
        f"over. Until then, answers show the group in its last recorded state; {logs}. "
        "findings --rule silent_group and sql --query last-commits show "
        "which groups have been silent, and since when."
    )


def in_progress_note(groups: Sequence[Group], at: datetime | None) -> str | None:
    """Return a note that refers to the command ``describe`` for groups in a rebalance.

    Return None if no group is in a join phase or a sync.
    """
    preparing = [group.group_id for group in groups if group.state in UNRECORDED_STATES]
    if not preparing:
        return None
    when = "" if at is None else f" --at {moment_text(at)}"
    return (
        f"describe {shlex.quote(preparing[0])}{when} says since when the group is in that state, why, and for which "
        "members the coordinator may wait."
    )


def unknown_states_note(groups: Sequence[Group], states: Sequence[str]) -> str | None:
    """Return a note on groups that an answer leaves out, because their state is Unknown.

    The note is for a user who asked for groups in certain states. Return None if there are no such groups, or if the
    user asked for state Unknown or for no state.

    Args:
        groups: all groups at the point in time, with their states.
        states: the states that the user asked for, in upper or lower case.
    """
    asked = {state.lower() for state in states}
    if not asked or UNKNOWN.lower() in asked:
        return None
    count = sum(group.state == UNKNOWN for group in groups)
    if not count:
        return None
    groups_are = "1 more group is" if count == 1 else f"{count:,} more groups are"
    return f"{groups_are} in a state that is not on record: --state {UNKNOWN} shows {'it' if count == 1 else 'them'}."


def end_state_note(warehouse: Tables, group: str) -> str | None:
    """Return a note on a group at the end of the log: its state, its number of members, and the time of its last event.

    Return None if the tables don't show whether the group exists.
    """
    groups = _read_groups(warehouse, None, group, only_own=True) or groups_at(warehouse, group=group)
    if not groups:
        deletions = [gone.deletion for gone in deleted_groups(warehouse, group=group) if gone.deletion]
        return f"{_end_of_log(warehouse, group)}: {deletions[0]}." if deletions else None
    [found] = groups
    when = _end_of_log(warehouse, group, found.log_partition)
    if found.state == UNKNOWN:
        return f"{when}: the state is not on record."
    members = "" if found.member_count is None else f", {counted(found.member_count, 'member')}"
    since = "" if found.since is None else f"; last event at {moment_text(found.since)}"
    doubt = "" if found.is_exact else ", as far as records show"
    return f"{when}: {found.state}{members}{doubt}{since}."


def _end_of_log(warehouse: Tables, group: str, log_partition: int | None = None) -> str:
    """Return the words ``At the log's end``, or words for the end of the group's log partition if it ends earlier.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        log_partition: the group's log partition; None for the only log partition in which the group has records.
    """
    if log_partition is None:
        numbers = log_partitions_of(warehouse, group)
        log_partition = numbers[0] if len(numbers) == 1 else None
    partition = None if log_partition is None else warehouse.completeness.partitions.get(log_partition)
    if partition is None or partition.end_timestamp == warehouse.coverage.last:
        return "At the log's end"
    at = "" if partition.end_timestamp is None else f", {moment_text(partition.end_timestamp)}"
    return f"At the end of __consumer_offsets-{log_partition}{at}"


def groups_at(
    warehouse: Tables,
    at: datetime | None = None,
    *,
    group: str | None = None,
    types: Sequence[str] = (),
    states: Sequence[str] = (),
) -> list[Group]:
    """Return the groups that existed or may have existed at a point in time, sorted by name.

    Args:
        warehouse: the tables to read.
        at: the point in time; the end of the log if None.
        group: only this group; None for all groups.
        types: only groups of these types, in upper or lower case, and groups of unknown type; all if empty.
        states: only groups in these states, in upper or lower case; all if empty.
    """
    wanted_types = {UNKNOWN.lower(), *(name.lower() for name in types)}
    wanted_states = {name.lower() for name in states}
    return [
        state
        for state in _read_groups(warehouse, at, group)
        if (not types or state.group_type.lower() in wanted_types)
        and (not wanted_states or state.state.lower() in wanted_states)
    ]


def _read_groups(warehouse: Tables, at: datetime | None, group: str | None, *, only_own: bool = False) -> list[Group]:
    """Return the groups at a point in time, as records and lines of brokers' logs show them.

    The arguments are as for ``_recorded_groups``.
    """
    groups = _recorded_groups(warehouse, at, group, only_own=only_own)
    phases = _phases(warehouse, groups, at, group)
    return [
        group if (phase := phases.get(group.group_id)) is None else replace(group, state=phase.state, since=phase.since)
        for group in groups
    ]


def _recorded_groups(
    warehouse: Tables, at: datetime | None, group: str | None, *, only_own: bool = False
) -> list[Group]:
    """Return the groups at a point in time, as records show them. Lines of brokers' logs don't count.

    Args:
        warehouse: the tables to read.
        at: the point in time; the end of the log if None.
        group: only this group; None for all groups.
        only_own: leave out groups whose only records before this time are offset commits, and groups without any record
            before this time.
    """
    history = warehouse.completeness
    proven, proven_from, proven_to = history.proofs(at or END)
    is_plain = only_own or history.is_whole
    parts = {
        "{holders}": _NO_HOLDERS if only_own else _WITH_OFFSETS,
        "{later}": _NOTHING_LATER if is_plain else _LATER,
        "{proofs}": _NO_PROOFS if is_plain or not proven else _PROOFS,
        "{is_whole}": "true" if history.is_whole else "false",
    }
    sql = _GROUPS
    for name, part in parts.items():
        sql = sql.replace(name, part)
    asked = {"at": at or END, "group": group, "proven": proven, "proven_from": proven_from, "proven_to": proven_to}

    def found(known: KnownGroups) -> list[Group]:
        # A list without elements would have no type in DuckDB.
        names = {"absent": [None, *known.absent], "without_members": [None, *known.without_members]}
        return warehouse.answers(Group, sql, **asked, **names)

    groups = found(KnownGroups())
    # Only later records show that these groups may have existed, or may have had members.
    doubtful = {
        found_group.group_id: found_group.log_partition
        for found_group in groups
        if found_group.state == UNKNOWN and found_group.since is None
    }
    known = KnownGroups() if is_plain else known_groups(warehouse, doubtful, at or END)
    return found(known) if known.without_members else groups


def _phases(warehouse: Tables, groups: Sequence[Group], at: datetime | None, group: str | None) -> dict[str, JoinPhase]:
    recorded = {
        group.group_id: group.log_partition
        for group in groups
        if group.group_type == "classic" and group.epoch is not None
    }
    return join_phases(warehouse, recorded, at, group=group)


def join_phase_at(warehouse: Tables, group: str, at: datetime | None = None) -> JoinPhase | None:
    """Return the rebalance that was in progress in a classic group at a point in time.

    Return None if no broker's log shows such a rebalance.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        at: the point in time; the end of the log if None.
    """
    # Most warehouses have no broker's log. Then the group's records need not be read.
    if not warehouse.has_rows("broker_log"):
        return None
    return _phases(warehouse, _recorded_groups(warehouse, at, group, only_own=True), at, group).get(group)


def group_names(warehouse: Tables) -> list[str]:
    """Return the names of all groups of the cluster in the tables."""
    return [name for (name,) in warehouse.rows(_GROUP_NAMES)]


def lively_groups(warehouse: Tables, start: datetime | None = None, end: datetime | None = None) -> list[str]:
    """Return the names of groups with events in a time range. The groups with the most events come first.

    Args:
        warehouse: the tables to read.
        start: start of the time range, included; None for no lower bound.
        end: end of the time range, excluded; None for no upper bound.

    Raises:
        UsageError: the tables have no record of that time range.
    """
    warehouse.check_range(start, end)
    return [name for (name,) in warehouse.rows(_LIVELY, start=start, end=end)]


_PATTERN_HINT = "describe and offsets take a pattern in place of a group, other commands take it as --name"


def check_group(warehouse: Tables, group: str) -> None:
    """Check that the tables have a record of a group, from any time.

    Raises:
        UsageError: the tables have no record of the group. The message names groups with similar names.
    """
    if warehouse.rows(_GROUP_NAMES, group=group):
        return
    covered = warehouse.coverage
    if any(sign in group for sign in "*?["):
        raise UsageError(f"no group is called {group!r}: {_PATTERN_HINT}")
    similar = did_you_mean(group, group_names(warehouse))
    hint = f"; {similar}" if similar else "; groups lists the names"
    if (unaudited := unaudited_reason(warehouse, group)) is not None:
        raise UsageError(
            f"group {group!r} is not in this warehouse: {unaudited}; "
            f"cluster {warehouse.cluster!r} is covered from {covered}{hint}"
        )
    on_record = "" if warehouse.completeness.is_whole else " on record"
    raise UsageError(f"no group {group!r}{on_record} in cluster {warehouse.cluster!r}, covered from {covered}{hint}")


def outcomes_at(warehouse: Tables, at: datetime | None = None, *, group: str | None = None) -> dict[str, LastState]:
    """Return the state of each group at a point in time, by group. A deleted group has the state ``Dead``.

    Args:
        warehouse: the tables to read.
        at: the point in time; the end of the log if None.
        group: only this group; None for all groups.
    """
    alive = [
        LastState(present.group_id, present.group_type, present.state)
        for present in groups_at(warehouse, at, group=group)
    ]
    # Looking for deletions reads all offsets, which is needless if the one group exists.
    deleted = [
        LastState(state.group_id, state.group_type, str(GroupState.DEAD), state.deletion)
        for state in (deleted_groups(warehouse, at, group=group) if group is None or not alive else ())
    ]
    return {last.group_id: last for last in (*deleted, *alive)}


def is_group_exact(warehouse: Tables, group: str, at: datetime | None = None) -> bool:
    """Return whether the log proves a group's state at a point in time, or that the group did not exist."""
    groups = _recorded_groups(warehouse, at, group, only_own=True) or _recorded_groups(warehouse, at, group)
    return all(group.is_exact for group in groups)


def group_at(warehouse: Tables, group: str, at: datetime | None = None) -> Group:
    """Return a group in its state at a point in time.

    Raises:
        UsageError: the tables have no record of the group, or the group did not exist at that time.
    """
    # The timeline is small. All offsets are searched only for a group that is not in the timeline.
    groups = _read_groups(warehouse, at, group, only_own=True) or groups_at(warehouse, at, group=group)
    if groups:
        return groups[0]
    check_group(warehouse, group)
    first, last = warehouse.rows(_SEEN, group=group)[0]
    deletions = [deleted_group.deletion for deleted_group in deleted_groups(warehouse, at, group=group)]
    when = "at the end of the log" if at is None else f"at {moment_text(at)}"
    seen = ""
    if first and last:
        is_there = at is not None and _is_there(warehouse, group)
        until = "up to the end of the log" if is_there else f"to {moment_text(last)}"
        seen = f": it is on record from {moment_text(first)} {until}"
    end = f", and was {deletions[0]}" if deletions else ""
    note = missing_groups_note(warehouse, at, log_partitions_of(warehouse, group))
    raise UsageError(f"group {group!r} does not exist {when}{seen}{end}{'' if note is None else f'. {note}'}")


def _is_there(warehouse: Tables, group: str) -> bool:
    """Return whether a group exists at the end of the log, or may exist."""
    return bool(_read_groups(warehouse, None, group, only_own=True) or groups_at(warehouse, group=group))


def share_note(group: str) -> str:
    """Return a clause that says in which topic Kafka stores the offsets of a share group."""
    return f"{group!r} is a share group: its offsets are in __share_group_state, which is not in this log"
