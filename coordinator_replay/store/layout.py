"""Layout of a warehouse on disk: partition columns, and the bucket of a log partition.

A row's bucket is ``log_partition % buckets``, where the number of buckets is a property of the warehouse. All rows of a
group are in one bucket, because Kafka keeps all records of a group in one partition of ``__consumer_offsets``.

``is_open`` is true for rows that later records may still change. A run adds closed rows, and replaces the open rows of
a bucket.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Definitions need pyarrow, which most questions don't.
    from coordinator_replay.tables.definition import Table

LEDGER = "audit_runs"
"""The table that every run writes last. A folder with this table is a warehouse."""

STAGING = "_staging"
"""The folder for intermediate files of runs."""

BUCKETS_PROPERTY = "coordinatorReplay.buckets"
"""Table property with the warehouse's number of buckets. Every table has it, even if it is not divided by bucket."""

STATS_PROPERTY = "delta.dataSkippingStatsColumns"
"""Delta's own property: the columns with bounds (each file's lowest and highest value) in Delta's log. If such a column
lacks a bound, ``deltalake`` takes the bound for null, and a filter on the column finds no row. ``deltalake`` expects no
bounds of other columns."""

RUN_PROPERTY = "coordinatorReplay.run"
"""Key in a commit's information. Its value is the id of the run that made the commit."""

UPKEEP_PROPERTY = "coordinatorReplay.upkeep"
"""Key in a commit's information. Its value is the kind of upkeep. Audits can continue after such a commit."""

RESTORED_PROPERTY = "coordinatorReplay.restored"
"""Key in a commit's information. Its value is the version that the commit restored, to undo an unfinished run."""

DEFAULT_BUCKETS = 10
"""Number of buckets of a new warehouse on one machine."""

_CLUSTER_BUCKETS = 50

NO_BUCKET = -1
"""The bucket of rows without a log partition, such as a malformed line; only ``quarantine`` has such rows."""


def bucket_of(log_partition: int | None, buckets: int) -> int:
    """Return the bucket of a log partition; NO_BUCKET if the log partition is not known."""
    return NO_BUCKET if log_partition is None or log_partition < 0 else log_partition % buckets


def has_buckets(table: "Table") -> bool:
    """Return whether a table is partitioned by bucket."""
    return "bucket" in table.partitioned_by


def stats_columns(table: "Table") -> str:
    """Return the names of the columns whose lowest and highest values Delta's log has for each file.

    The names are separated by commas, as the table's property STATS_PROPERTY needs them.
    """
    return ",".join(name for name in table.bounded if name not in table.partitioned_by)


def partition_text(value: object) -> str | None:
    """Return a partition value in the text form of Delta's log; None for a null value."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def default_buckets(*, is_local: bool) -> int:
    """Return the number of buckets of a new warehouse.

    Args:
        is_local: whether all tasks run on one machine.
    """
    # The number does not depend on the cluster's cores, because a cluster with dynamic allocation has no executor yet.
    return DEFAULT_BUCKETS if is_local else _CLUSTER_BUCKETS
