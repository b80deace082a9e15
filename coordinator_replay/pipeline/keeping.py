"""How long our own history is kept: which tables may lose old rows, and how they stay lost.

Only tables that nothing is derived from may lose any. The others are read again: all records by ``--full``, late dumps
and whatever is derived anew; timelines and ownership by the history of offsets, which names a commit's owner and the
group's state; the history of offsets by the rules of findings, one of which asks whether a group has ever committed;
the ledger by the next run, which learns there what is new. Without some of their rows, later audits would say
something else of what is kept.

The moment before which rows were given up is a property of the table. What is derived again later is held against it
before it is written, so no audit brings such rows back, and questions about the time before are refused.
"""

from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.pipeline.data_files import GivenUp
from coordinator_replay.pipeline.evolution import properties_of
from coordinator_replay.tables.definition import table
from coordinator_replay.tables.migrations import KEPT_SINCE_PROPERTY

FORGETFUL = {"rebalances": "completed_at", "member_timeline": "valid_to", "group_metrics": "bucket"}
"""The tables that may lose old rows, each with the column that says when a row was over."""

_SETTLED = "settled_at_offset"


def is_over(name: str, columns: list[str], moment: datetime) -> Column:
    """Whether a row tells of something that was over before a moment, and that no record can change any more.

    Args:
        name: one of FORGETFUL.
        columns: those of the table.
        moment: rows that were over before it can go.
    """
    over = F.col(FORGETFUL[name]) < F.lit(moment)
    if _SETTLED in columns:
        over = over & F.col(_SETTLED).isNotNull()
    return F.coalesce(over, F.lit(False))


def kept_since(properties: dict[str, str]) -> datetime | None:
    """The moment before which a table's rows were given up; None where all are kept."""
    written = properties.get(KEPT_SINCE_PROPERTY)
    return None if written is None else datetime.fromisoformat(written).astimezone(UTC)


def given_up(spark: SparkSession, name: str, path: str) -> GivenUp | None:
    """Which rows a table has given up; None where it has kept all.

    Args:
        spark: the session.
        name: the table.
        path: where it lies.
    """
    since = kept_since(properties_of(spark, path)) if name in FORGETFUL else None
    if since is None:
        return None
    return GivenUp(FORGETFUL[name], since, _SETTLED if _SETTLED in table(name).arrow_schema().names else None)


def kept(rows: DataFrame, name: str, path: str) -> DataFrame:
    """Rows that a table may hold: without those that were given up.

    Args:
        rows: in the table's columns.
        name: the table.
        path: where it lies.
    """
    gone = given_up(rows.sparkSession, name, path)
    return rows if gone is None else rows.where(~is_over(name, rows.columns, gone.before))
