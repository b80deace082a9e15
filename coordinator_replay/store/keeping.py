"""The tables that may lose old rows (``PURGED_BY``), and the rule that keeps purged rows out of them.

A table may lose rows only if no later run derives rows from the table. Tables that later runs read must keep all rows:

- records: ``--full``, late dumps and rebuilt tables need them;
- the group timeline and ownership: the history of offsets names a commit's owner and the group's state;
- the history of offsets: a rule of findings asks whether a group has ever committed;
- the ledger: the next run learns from it which records are new.

The time before which rows were purged is a property of the table. A run leaves out rows that are older than this time
when it writes rows of the table, so no audit brings purged rows back. Questions about an earlier time are refused.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from coordinator_replay.store.snapshot import Snapshot, TableFile
from coordinator_replay.store.writer import Purge
from coordinator_replay.tables.definition import table
from coordinator_replay.tables.migrations import KEPT_SINCE_PROPERTY

PURGED_BY = {"rebalances": "completed_at", "member_timeline": "valid_to", "group_metrics": "bucket"}
"""The tables that may lose old rows, each with the column that has the time at which a row ended."""

_FINAL = "settled_at_offset"


def kept_since(properties: Mapping[str, str]) -> datetime | None:
    """Return the time before which a table's rows were purged; None if no rows were purged."""
    written = properties.get(KEPT_SINCE_PROPERTY)
    return None if written is None else datetime.fromisoformat(written).astimezone(UTC)


def purge_of(snapshot: Snapshot) -> Purge | None:
    """Return which rows a table has purged; None if the table has kept all rows.

    Args:
        snapshot: the table.
    """
    since = kept_since(snapshot.properties) if snapshot.table in PURGED_BY else None
    if since is None:
        return None
    names = table(snapshot.table).arrow_schema().names
    return Purge(PURGED_BY[snapshot.table], since, _FINAL if _FINAL in names else None)


def may_have_purged_rows(file: TableFile, purge: Purge) -> bool:
    """Return whether a file may have rows to purge, judged by its lowest values in Delta's log.

    Open rows are never purged, nor are rows that ended at ``purge.before`` or later.
    """
    lowest = file.lowest.get(purge.over)
    return not file.is_open and (lowest is None or lowest < purge.before)
