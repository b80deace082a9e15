"""Answers about the costs of rollouts."""

from datetime import datetime

from coordinator_replay.query.answers.answered import Rows, nothing_note
from coordinator_replay.query.basis import basis_from
from coordinator_replay.query.completeness import undecoded_note
from coordinator_replay.query.group_partitions import unaudited_note
from coordinator_replay.query.rollouts import COUNTED, Rollout, rollouts_of
from coordinator_replay.query.tables import Tables


def rollouts(warehouse: Tables, group: str | None, start: datetime | None, end: datetime | None) -> Rows[Rollout]:
    """Return rollouts with their costs, the most expensive first.

    A rollout is a series of restarts of members in quick succession.

    Args:
        warehouse: the tables to read.
        group: only rollouts of this group; None for all groups.
        start: leave out rollouts that ended before this time; None for no lower bound.
        end: leave out rollouts that began at this time or later; None for no upper bound.
    """
    found = rollouts_of(warehouse, start, end, group)
    counted = COUNTED if found else None
    notes = [counted, nothing_note(warehouse, "rollout", found), unaudited_note(warehouse), undecoded_note(warehouse)]
    return Rows(content=found, row_type=Rollout, notes=notes, basis=basis_from(warehouse, start))
