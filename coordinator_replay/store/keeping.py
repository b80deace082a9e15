"""The tables from which ``maintain --keep`` deletes old rows (``PURGED_BY``).

All other tables keep their rows, because later runs read them. The time before which rows were deleted is a property of
the table. An audit does not write rows that are older than this time. Questions about an earlier time are refused.
"""

# Why other tables keep their rows:
# - records: ``--full``, late dumps and rebuilt tables need them.
# - the group timeline and ownership: the history of offsets names a commit's owner and the group's state.
# - the history of offsets: a rule of findings asks whether a group has ever committed.
# - the ledger: the next run learns from it which records are new.

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
    """Return the time before which rows of a table were deleted; None if no rows were deleted.

    Args:
        properties: the properties of the table.
    """
    written = properties.get(KEPT_SINCE_PROPERTY)
    return None if written is None else datetime.fromisoformat(written).astimezone(UTC)


def purge_of(snapshot: Snapshot) -> Purge | None:
    """Return which old rows were deleted from a table; None if the table has kept all rows.

    Args:
        snapshot: the version of the table.
    """
    since = kept_since(snapshot.properties) if snapshot.table in PURGED_BY else None
    if since is None:
        return None
    names = table(snapshot.table).arrow_schema().names
    return Purge(PURGED_BY[snapshot.table], since, _FINAL if _FINAL in names else None)


def may_have_purged_rows(file: TableFile, purge: Purge) -> bool:
    """Return whether a file of a table may have rows that are old enough to delete.

    Return False for a file with open rows. Also return False if the file's lowest time in Delta's log is
    ``purge.before`` or later.
    """
    lowest = file.lowest.get(purge.over)
    return not file.is_open and (lowest is None or lowest < purge.before)
