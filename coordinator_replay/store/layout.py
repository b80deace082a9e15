"""How the rows of a warehouse lie on disk: partition columns, and the bucket of a log partition.

Kafka keeps all records of a group in one partition of ``__consumer_offsets``, so the log partition is the unit of
work and of layout. A row's bucket is ``log_partition % buckets``, where the number of buckets is a property of the
warehouse. Rows that later records may still change are ``is_open``; a run adds closed rows and exchanges the open
ones of a bucket.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Definitions ask for pyarrow, which most questions do without.
    from coordinator_replay.tables.definition import Table

LEDGER = "audit_runs"
"""The table that every run writes last: where it is, there is a warehouse."""

STAGING = "_staging"
"""The folder of what runs keep for themselves."""

BUCKETS_PROPERTY = "coordinatorReplay.buckets"
"""Table property that holds the number of buckets; every table of a warehouse that has buckets carries it."""

STATS_PROPERTY = "delta.dataSkippingStatsColumns"
"""Delta's own property: the columns whose bounds each file has. ``deltalake`` takes every bound that a file lacks for
null, and its dataset then finds no row by a filter on that column; of other columns it expects none."""

RUN_PROPERTY = "coordinatorReplay.run"
"""Which run made a commit, in the commit's own information."""

UPKEEP_PROPERTY = "coordinatorReplay.upkeep"
"""What upkeep did by a commit, in the commit's own information: after it the table counts as before."""

RESTORED_PROPERTY = "coordinatorReplay.restored"
"""The version that a commit went back to when it undid an unfinished run, in the commit's own information."""

DEFAULT_BUCKETS = 10
"""Buckets of a new warehouse on one machine."""

_CLUSTER_BUCKETS = 50

NO_BUCKET = -1
"""The bucket of what has no log partition, such as a malformed line: only ``quarantine`` holds such rows."""


def bucket_of(log_partition: int | None, buckets: int) -> int:
    """Return the bucket of a log partition; NO_BUCKET where it is not known."""
    return NO_BUCKET if log_partition is None or log_partition < 0 else log_partition % buckets


def has_buckets(table: "Table") -> bool:
    """Return whether a table's rows lie by bucket."""
    return "bucket" in table.partitioned_by


def stats_columns(table: "Table") -> str:
    """Return the columns of a table that have bounds, as Delta's property names them."""
    return ",".join(name for name in table.bounded if name not in table.partitioned_by)


def partition_text(value: object) -> str | None:
    """Return a partition value as Delta's log writes it."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def default_buckets(*, is_local: bool) -> int:
    """Return the buckets of a new warehouse.

    A cluster that grows with the work has no executor when this is asked, so the number does not follow from its cores.

    Args:
        is_local: whether all tasks run on one machine.
    """
    return DEFAULT_BUCKETS if is_local else _CLUSTER_BUCKETS
