"""Answers about the rebalances of all groups in a time range, and their costs."""

from datetime import datetime

from coordinator_replay.query.answers.answered import Answered
from coordinator_replay.query.basis import basis_from
from coordinator_replay.query.completeness import undecoded_note
from coordinator_replay.query.group_partitions import unaudited_note
from coordinator_replay.query.impact import Impact, impact_of, unseen_downtime_note
from coordinator_replay.query.tables import Tables


def impact(warehouse: Tables, start: datetime | None, end: datetime | None) -> Answered[Impact]:
    """Return the rebalances of all groups in a time range, with their costs. The arguments are as for ``impact_of``."""
    cost = impact_of(warehouse, start, end)
    notes = [unseen_downtime_note(cost.groups), unaudited_note(warehouse), undecoded_note(warehouse)]
    return Answered(content=cost, notes=notes, basis=basis_from(warehouse, start))
