"""Retention of our own history: the tables that may lose old rows, and how purged rows stay away.

A table may lose rows only if nothing is derived from it. The others are read again:

- records: by ``--full``, by late dumps, and by whatever is rebuilt;
- timelines and ownership: by the history of offsets, which names a commit's owner and the group's state;
- the history of offsets: by the rules of findings; one rule asks whether a group has ever committed;
- the ledger: by the next run, which learns from it which records are new.

Without some of their rows, later audits would derive different rows from the rest.

The time before which rows were purged is a property of the table. Rows that are derived again later are compared with
this time before they are written, so no audit brings purged rows back. Questions about the time before it are
refused.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from coordinator_replay.store.snapshot import Snapshot, TableFile
from coordinator_replay.store.writer import Purge
from coordinator_replay.tables.definition import table
from coordinator_replay.tables.migrations import KEPT_SINCE_PROPERTY

PURGED_BY = {"rebalances": "completed_at", "member_timeline": "valid_to", "group_metrics": "bucket"}
"""The tables that may lose old rows, each with the column that has the end of a row."""

_FINAL = "settled_at_offset"


def kept_since(properties: Mapping[str, str]) -> datetime | None:
    """Return the time before which a table's rows were purged; None if all are kept."""
    written = properties.get(KEPT_SINCE_PROPERTY)
    return None if written is None else datetime.fromisoformat(written).astimezone(UTC)


def purge_of(snapshot: Snapshot) -> Purge | None:
    """Return the condition of the rows that a table has purged; None if the table has kept all rows.

    Args:
        snapshot: the table.
    """
    since = kept_since(snapshot.properties) if snapshot.table in PURGED_BY else None
    if since is None:
        return None
    names = table(snapshot.table).arrow_schema().names
    return Purge(PURGED_BY[snapshot.table], since, _FINAL if _FINAL in names else None)


def may_have_purged_rows(file: TableFile, purge: Purge) -> bool:
    """Return whether a file may have rows to purge.

    Open rows and rows that ended later stay.
    """
    lowest = file.lowest.get(purge.over)
    return not file.is_open and (lowest is None or lowest < purge.before)
