"""How long our own history is kept: which tables may lose old rows, and how they stay lost.

Only tables that nothing is derived from may lose any. The others are read again: all records by ``--full``, late dumps
and whatever is derived anew; timelines and ownership by the history of offsets, which names a commit's owner and the
group's state; the history of offsets by the rules of findings, one of which asks whether a group has ever committed;
the ledger by the next run, which learns there what is new. Without some of their rows, later audits would say
something else of what is kept.

The moment before which rows were given up is a property of the table. What is derived again later is held against it
before it is written, so no audit brings such rows back, and questions about the time before are refused.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from coordinator_replay.store.snapshot import Snapshot, TableFile
from coordinator_replay.store.writer import GivenUp
from coordinator_replay.tables.definition import table
from coordinator_replay.tables.migrations import KEPT_SINCE_PROPERTY

FORGETFUL = {"rebalances": "completed_at", "member_timeline": "valid_to", "group_metrics": "bucket"}
"""The tables that may lose old rows, each with the column that says when a row was over."""

_SETTLED = "settled_at_offset"


def kept_since(properties: Mapping[str, str]) -> datetime | None:
    """The moment before which a table's rows were given up; None where all are kept."""
    written = properties.get(KEPT_SINCE_PROPERTY)
    return None if written is None else datetime.fromisoformat(written).astimezone(UTC)


def given_up(snapshot: Snapshot) -> GivenUp | None:
    """Which rows a table has given up; None where it has kept all.

    Args:
        snapshot: the table.
    """
    since = kept_since(snapshot.properties) if snapshot.table in FORGETFUL else None
    if since is None:
        return None
    names = table(snapshot.table).arrow_schema().names
    return GivenUp(FORGETFUL[snapshot.table], since, _SETTLED if _SETTLED in names else None)


def may_hold_such(file: TableFile, gone: GivenUp) -> bool:
    """Whether a file may hold rows that were given up: an open row never is, and bounds tell of the others."""
    lowest = file.lowest.get(gone.over)
    return not file.is_open and (lowest is None or lowest < gone.before)
