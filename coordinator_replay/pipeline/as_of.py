"""What held when something happened: joins that take the last fact before a row, without a range join."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it


def last_before(order: Sequence[str | Column], keys: Sequence[str], column: str) -> Column:
    """The last value of a column that is not null, up to this row."""
    window = Window.partitionBy(*keys).orderBy(*order)
    return F.last(column, ignorenulls=True).over(window.rowsBetween(Window.unboundedPreceding, Window.currentRow))


def as_of_join(
    rows: DataFrame, facts: DataFrame, *, keys: Sequence[str], at: str, fact_at: str, take: Sequence[str], into: str
) -> DataFrame:
    """Give each row the last fact of its key at or before its moment, as a struct; null where there is none.

    Args:
        rows: with ``keys`` and ``at``.
        facts: with ``keys``, ``fact_at`` and the columns to take.
        keys: what rows and facts share.
        at: where a row stands: an offset or a timestamp.
        fact_at: where a fact stands, in the same measure.
        take: columns of facts that become fields of the struct.
        into: name of the struct.
    """
    marked = rows.withColumn("is_row", F.lit(True))
    brought = facts.select(
        *keys, F.col(fact_at).alias(at), F.struct(*take).alias(into), F.lit(False).alias("is_row")
    ).where(F.col(at).isNotNull())
    return (
        marked.unionByName(brought, allowMissingColumns=True)
        .withColumn(into, last_before([at, "is_row"], keys, into))
        .where("is_row")
        .drop("is_row")
    )
