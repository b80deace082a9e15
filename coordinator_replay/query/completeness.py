"""The log partitions of a group, and a note on records that could not be decoded."""

from coordinator_replay.query.group_rows import GROUP_ROWS
from coordinator_replay.query.tables import Tables

_UNDECODED = """
    SELECT count(*) FROM quarantine WHERE cluster = $cluster AND error_class <> 'UnknownRecordType' AND (
        CAST($group AS VARCHAR) IS NULL OR group_id = $group
        OR group_id IS NULL AND (
            log_partition IS NULL OR len($partitions) = 0 OR list_contains($partitions, log_partition)
        )
    )
"""


def undecoded_note(warehouse: Tables, group: str | None = None) -> str | None:
    """Return a note if records could not be decoded. Otherwise return None. Records of an unknown type don't count.

    Args:
        warehouse: the tables to read.
        group: only records that belong or may belong to this group; None for all groups.
    """
    [(count,)] = warehouse.rows(
        _UNDECODED, group=group, partitions=[] if group is None else log_partitions_of(warehouse, group)
    )
    if not count:
        return None
    records, what = ("1 record", "what it changed") if count == 1 else (f"{count:,} records", "what they changed")
    return (
        f"{records} could not be decoded: {what} is not on record, and rows may lack it or count it wrongly "
        "(saved query undecoded-records)."
    )


def log_partitions_of(warehouse: Tables, group: str) -> list[int]:
    """Return the log partitions in which a group has records; none if the tables have no record of the group."""
    sql = f"SELECT DISTINCT log_partition FROM {GROUP_ROWS}"  # noqa: S608 - put together from constants
    return [number for (number,) in warehouse.rows(sql, group=group)]
