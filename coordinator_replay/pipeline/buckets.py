"""Whole groups in a few tasks, for Python that goes through one group after the other."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it


def by_group(rows: DataFrame, buckets: int, *order: str) -> DataFrame:
    """Spread groups over tasks by a hash of their ids, the rows of each task in order.

    Args:
        rows: with group_id.
        buckets: how many hash buckets, and tasks, there are.
        order: columns to sort by within a task, group_id first.
    """
    # The task is told, not left to another hash of the bucket, which would put several into one and none into others;
    # and its number keeps adaptive execution from merging tasks: it sees bytes, not what Python does with them.
    bucket = F.pmod(F.hash("group_id"), F.lit(buckets))
    return rows.repartitionById(buckets, bucket).sortWithinPartitions(*order)
