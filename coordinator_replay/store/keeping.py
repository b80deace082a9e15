"""How long our own history is kept: which tables may lose old rows, and how they stay lost.

Only tables that nothing is derived from may lose any. The moment before which rows were given up is a property of the
table: what is derived again later is held against it before it is written, and questions about the time before are
refused.
"""

from datetime import UTC, datetime

from coordinator_replay.store.snapshot import Snapshot
from coordinator_replay.store.writer import GivenUp
from coordinator_replay.tables.definition import table
from coordinator_replay.tables.migrations import KEPT_SINCE_PROPERTY

FORGETFUL = {"rebalances": "completed_at", "member_timeline": "valid_to", "group_metrics": "bucket"}
"""The tables that may lose old rows, each with the column that says when a row was over."""

_SETTLED = "settled_at_offset"


def given_up(snapshot: Snapshot) -> GivenUp | None:
    """Which rows a table has given up; None where it has kept all.

    Args:
        snapshot: the table.
    """
    written = snapshot.properties.get(KEPT_SINCE_PROPERTY)
    if written is None or snapshot.table not in FORGETFUL:
        return None
    since = datetime.fromisoformat(written).astimezone(UTC)
    names = table(snapshot.table).arrow_schema().names
    return GivenUp(FORGETFUL[snapshot.table], since, _SETTLED if _SETTLED in names else None)
