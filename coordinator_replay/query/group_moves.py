"""Moves of groups to another log partition, after the number of partitions of ``__consumer_offsets`` was raised.

After a move, the coordinator uses only the group's records in the new log partition.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from coordinator_replay.completeness.past import shown_second
from coordinator_replay.listing import counted

MOVES = """
    SELECT group_id, number, log_partition, to_log_partition, moved_at, overlaps_until FROM group_moves
    WHERE cluster = $cluster ORDER BY group_id, number
"""
"""SQL for the moves of all groups of a cluster as rows of ``GroupMove``, by group, oldest first."""

COUNTS = """NOT EXISTS (
        SELECT 1 FROM group_moves
        WHERE group_moves.cluster = records.cluster AND group_moves.group_id = records.group_id
          AND group_moves.log_partition = records.log_partition AND records.log_offset >= group_moves.end_offset
    )"""
"""SQL condition on a record in the table with the alias ``records``: the record was written before its group moved away
from the record's log partition."""


def in_log_order(rows: str, offset: str = "from_offset") -> str:
    """Return an SQL expression for ORDER BY that sorts the rows of a group in log order.

    If the group moved from one log partition to another, the rows of the old log partition come first. Rows of the same
    log partition are sorted by log offset.

    Args:
        rows: alias of a table with the columns ``cluster``, ``group_id`` and ``log_partition``.
        offset: the column with log offsets, or an expression.
    """
    return f"""(coalesce((
        SELECT max(number) FROM group_moves
        WHERE group_moves.cluster = {rows}.cluster AND group_moves.group_id = {rows}.group_id
          AND group_moves.to_log_partition = {rows}.log_partition
    ), 0), {offset})"""  # noqa: S608 - put together from constants


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMove:
    """A move of a group to another log partition.

    Attributes:
        number: number of the move among the group's moves, from 1 on.
        log_partition: the old log partition.
        to_log_partition: the new log partition.
        moved_at: the time of the group's first record in the new log partition; None if no record has a time.
        overlaps_until: the time up to which both log partitions got records of the group. The group's state is unproven
            until this time. None if there is no such time.
    """

    group_id: str
    number: int
    log_partition: int
    to_log_partition: int
    moved_at: datetime | None
    overlaps_until: datetime | None

    def __str__(self) -> str:
        """Return a clause such as ``moved from log partition 3 to 17``."""
        when = "" if self.moved_at is None else f" at {shown_second(self.moved_at)}"
        until = ""
        if self.overlaps_until is not None:
            until = f"; its state is unproven until {shown_second(self.overlaps_until, is_rounded_up=True)}"
        return f"moved from log partition {self.log_partition} to {self.to_log_partition}{when}{until}"

    def is_open_at(self, at: datetime) -> bool:
        """Return whether the group's state at a point in time is unproven because of the move.

        The state is unproven while both log partitions, the old and the new, get records of the group.
        """
        return self.overlaps_until is not None and (self.moved_at is None or self.moved_at <= at <= self.overlaps_until)


Moves = Mapping[str, Sequence[GroupMove]]
"""The moves of a cluster's groups, by group, oldest first."""


def by_group(moves: Iterable[GroupMove]) -> Moves:
    """Return the moves by group. The moves of a group keep their order."""
    groups: dict[str, list[GroupMove]] = {}
    for move in moves:
        groups.setdefault(move.group_id, []).append(move)
    return groups


def moves_of(moves: Moves, group: str | None = None) -> Sequence[GroupMove]:
    """Return the moves of a group, oldest first.

    If ``group`` is None, return the moves of all groups.
    """
    if group is not None:
        return moves.get(group, [])
    return [move for of_group in moves.values() for move in of_group]


def numbers_of(moves: Sequence[GroupMove]) -> dict[int, int]:
    """Return the serial number of a group's move to each log partition, by log partition.

    If the group moved to a log partition twice, return the number of the later move.
    """
    return {move.to_log_partition: move.number for move in moves}


def partition_at(moves: Sequence[GroupMove], at: datetime | None, otherwise: int) -> int:
    """Return the number of the log partition that a group was in at a point in time.

    Args:
        moves: the group's moves from one log partition to another, oldest first.
        at: the point in time; None for a time before all moves.
        otherwise: the log partition to return if ``moves`` is empty.
    """
    if not moves:
        return otherwise
    done = [move for move in moves if at is not None and (move.moved_at is None or move.moved_at <= at)]
    return done[-1].to_log_partition if done else moves[0].log_partition


def moves_line(moves: Moves, group: str | None) -> str:
    """Return a clause that says which groups moved to another log partition. Return an empty text if no group moved.

    Args:
        moves: the moves of all groups.
        group: the group that the answer is about; None if it is about all groups.
    """
    why = "the partition count of __consumer_offsets was raised, or the files are of two clusters"
    own = [] if group is None else moves_of(moves, group)
    if own:
        return f"; {'; '.join(map(str, own))}: {why}"
    others = f"{counted(len(moves), 'group' if group is None else 'other group')} moved to another log partition"
    return f"; {others}: {why} (finding group_moved)" if moves else ""
