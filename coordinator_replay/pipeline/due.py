"""When an offset's time is up, in columns."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.analysis.expiration import Rule
from coordinator_replay.times import LATEST_MS, moment_of_ms


def expire_at(retention_ms: int) -> Column:
    """When an offset's retention is over; needs ``rule`` and ``base_timestamp``.

    Null where no rule lets it expire, and where the time can't be shown.
    """
    explicit = F.col("rule") == F.lit(str(Rule.EXPLICIT_EXPIRE_TIMESTAMP))
    at = F.when(explicit, F.col("expire_timestamp")).otherwise(later(F.col("base_timestamp"), retention_ms))
    return F.when(at <= F.lit(moment_of_ms(LATEST_MS)), at)


def later(moment: Column, milliseconds: int) -> Column:
    """A timestamp so much later."""
    return F.timestamp_micros(F.unix_micros(moment) + F.lit(milliseconds * 1000).cast("bigint"))


def milliseconds_between(earlier: Column, moment: Column) -> Column:
    """How much time passed from one timestamp to another."""
    return F.floor((F.unix_micros(moment) - F.unix_micros(earlier)) / 1000).cast("bigint")
