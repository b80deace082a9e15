"""What the coordinator's own metrics would have shown, minute by minute: ``group_metrics``.

Of each minute in which something happened to a group come its counts, under the group's type and state at the end of
the minute, and where these have changed, one group less here and one more there. A group of which the log has offsets
only is a classic one, Empty from its first offset on; it is gone when its last offset is. All of it is columns: groups
that go on committing have as many minutes as there are.
"""

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.analysis.findings.evidence import KINDS, Evidence
from coordinator_replay.engine.model import GroupState, GroupType

COUNTERS = ("rebalance_count", "offset_commits", "expired_offsets", "deleted_offsets")

_MINUTE_MS = 60_000
_NUMBERED = tuple(KINDS)
_STRUCTS = (f"STRUCT('{group_type}' AS group_type, '{state}' AS state)" for group_type, state in _NUMBERED)
_KINDS = f"ARRAY({', '.join(_STRUCTS)})"
_NAMES = f"ARRAY({', '.join(map(repr, KINDS.values()))})"
SIMPLE = _NUMBERED.index((GroupType.CLASSIC, GroupState.EMPTY)) + 1
"""The kind of a group that only has offsets. A kind is the number of a type and a state among KINDS, from 1 on: Spark
adds up and sorts by numbers alone far faster than by texts."""

_DEAD = tuple(number for number, (_, state) in enumerate(_NUMBERED, 1) if state is GroupState.DEAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What tells about groups by the minute, of one cluster.

    Attributes:
        commits: minute, kind and commits: those into groups of a kind, from ``sum_groups``.
        begun: group_id, and first_at: when it first committed, in milliseconds.
        kinds: from ``group_kinds``.
        evidence: rows of ``group_evidence``.
        causes: what each tombstone was, from ``tombstone_causes``.
        held: group_id of each offset that holds at the end of the log.
        earlier: rows of ``group_metrics`` that tell of the commits before; None where ``commits`` are all.
    """

    commits: DataFrame
    kinds: DataFrame
    begun: DataFrame
    evidence: DataFrame
    causes: DataFrame
    held: DataFrame
    earlier: DataFrame | None = None


def _counted(rows: DataFrame, minute: str, **columns: str) -> DataFrame:
    """Rows as what happened in a minute: the group's new kind, if it has one, and counts."""
    shape = {"kind": "CAST(NULL AS INT)", **dict.fromkeys(COUNTERS, "0L"), **columns}
    return rows.selectExpr("group_id", f"{minute} AS minute", *(f"{sql} AS {name}" for name, sql in shape.items()))


def group_kinds(evidence: DataFrame) -> DataFrame:
    """What each group was at the end of each minute in which that changed: group_id, minute and kind.

    Args:
        evidence: rows of ``group_evidence`` of one cluster.
    """
    states = evidence.where(F.col("tag") == int(Evidence.STATE))
    number = f"CAST(NULLIF(ARRAY_POSITION({_NAMES}, name), 0) AS INT)"
    minute = F.floor(F.col("at") / _MINUTE_MS).alias("minute")
    kind = F.max_by(F.expr(number), F.struct("at", "seq")).alias("kind")
    return states.groupBy("group_id", minute).agg(kind).where("kind IS NOT NULL")


def _rebalances(evidence: DataFrame) -> DataFrame:
    """When a rebalance was over."""
    told = evidence.where((F.col("tag") == int(Evidence.HAPPENING)) & (F.col("name") == "rebalance"))
    over = told.where(F.get_json_object("told", "$.is_over") == "true")
    return _counted(over, f"FLOOR(at / {_MINUTE_MS})", rebalance_count="1L")


def _happened(told: Told) -> list[DataFrame]:
    ended = _counted(
        told.causes.where("tombstone_at IS NOT NULL"),
        f"FLOOR(UNIX_MILLIS(tombstone_at) / {_MINUTE_MS})",
        expired_offsets="IF(ended_by = 'EXPIRED', 1L, 0L)",
        deleted_offsets="IF(ended_by = 'EXPIRED', 0L, 1L)",
    )
    return [
        _counted(told.kinds, "minute", kind="kind"),
        _rebalances(told.evidence),
        ended,
    ]


def _changes(told: Told) -> DataFrame:
    """What else happened in each minute, and where a group came and went: minute, kind, delta and COUNTERS."""
    happened = reduce(DataFrame.unionByName, _happened(told))
    # What happens in a minute counts under the state at its end.
    in_time = Window.partitionBy("group_id").orderBy(F.col("minute"), F.col("kind").asc_nulls_last())
    until = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = in_time.rowsBetween(Window.unboundedPreceding, -1)
    standing = happened.withColumn("now", F.last("kind", ignorenulls=True).over(until)).withColumn(
        "before", F.last("kind", ignorenulls=True).over(before)
    )
    counters = ", ".join(f"{name} AS {name}" for name in COUNTERS)
    nothing = ", ".join(f"0L AS {name}" for name in COUNTERS)
    is_new = "kind IS NOT NULL AND NOT (kind <=> before)"
    here = f"STRUCT(COALESCE(now, {SIMPLE}) AS kind, 0 AS delta, {counters})"
    gone = f"STRUCT(before AS kind, IF(before IN {_DEAD}, 0, -1) AS delta, {nothing})"
    come = f"STRUCT(kind AS kind, IF(kind IN {_DEAD}, 0, 1) AS delta, {nothing})"
    steps = standing.selectExpr("minute", f"INLINE(IF({is_new}, ARRAY({here}, {gone}, {come}), ARRAY({here})))")
    return steps.where("kind IS NOT NULL")


def _simple_lives(told: Told) -> DataFrame:
    """When groups that only have offsets came, and when those went that hold none any more."""
    begun = told.begun.select("group_id", F.floor(F.col("first_at") / _MINUTE_MS).alias("minute"))
    simple = begun.join(told.kinds.select("group_id").distinct(), "group_id", "left_anti")
    last = F.floor(F.unix_millis(F.max("tombstone_at")) / _MINUTE_MS)
    gone = told.causes.groupBy("group_id").agg(last.alias("ended")).where("ended IS NOT NULL")
    gone = gone.join(told.held.select("group_id").distinct(), "group_id", "left_anti")
    steps = "STRUCT(minute, 1 AS delta)", "IF(ended IS NULL, NULL, STRUCT(ended AS minute, -1 AS delta))"
    counted = simple.join(gone, "group_id", "left").selectExpr(
        f"INLINE(FILTER(ARRAY({', '.join(steps)}), step -> step IS NOT NULL))"
    )
    return counted.selectExpr("minute", f"{SIMPLE} AS kind", "delta", *(f"0L AS {name}" for name in COUNTERS))


def _commits(commits: DataFrame) -> DataFrame:
    """Commits of each minute by what their groups were at its end."""
    counters = {**dict.fromkeys(COUNTERS, "0L"), "offset_commits": "commits"}
    return commits.selectExpr("minute", "kind", "0 AS delta", *(f"{sql} AS {name}" for name, sql in counters.items()))


def _earlier_commits(metrics: DataFrame) -> DataFrame:
    """Commits that were counted before: the states they went into are final, and all else is counted again."""
    number = f"CAST(ARRAY_POSITION({_KINDS}, STRUCT(group_type, state)) AS INT)"
    counters = {**dict.fromkeys(COUNTERS, "0L"), "offset_commits": "offset_commits"}
    minute = f"FLOOR(UNIX_MILLIS(bucket) / {_MINUTE_MS}) AS minute"
    counted = (f"{sql} AS {name}" for name, sql in counters.items())
    return metrics.where("offset_commits > 0").selectExpr(minute, f"{number} AS kind", "0 AS delta", *counted)


def minute_sums(told: Told) -> DataFrame:
    """What the minutes of all groups come to: minute, group_type, state, delta (groups more or less), and COUNTERS.

    Args:
        told: what tells about groups by the minute.
    """
    sums = (F.sum(name).alias(name) for name in ("delta", *COUNTERS))
    parts = [_changes(told), _commits(told.commits), _simple_lives(told)]
    if told.earlier is not None:
        parts.append(_earlier_commits(told.earlier))
    summed = reduce(DataFrame.unionByName, parts).groupBy("minute", "kind").agg(*sums)
    return summed.withColumn("named", F.expr(f"ELEMENT_AT({_KINDS}, kind)")).select(
        "minute", "named.group_type", "named.state", "delta", *COUNTERS
    )


def group_metrics(sums: DataFrame, cluster: str) -> DataFrame:
    """Rows of table ``group_metrics``: each minute in which the log has a record, for each type and state.

    A log is bounded by its records, while the time between two timestamps is not: what held in the last such minute
    holds until the next.

    Args:
        sums: from ``minute_sums``, kept as files: it is looked at three times.
        cluster: the cluster's name.
    """
    kind = ("group_type", "state")
    grid = sums.select("minute").distinct().crossJoin(sums.select(*kind).distinct())
    in_time = Window.partitionBy(*kind).orderBy("minute").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    counters = {name: F.coalesce(name, F.lit(0)) for name in COUNTERS}
    filled = grid.join(sums, ["minute", *kind], "left").withColumn("group_count", F.sum("delta").over(in_time))
    happened = reduce(lambda one, other: one + other, counters.values())
    return filled.where((F.col("group_count") > 0) | (happened > 0)).select(
        F.lit(cluster).alias("cluster"),
        F.timestamp_millis(F.col("minute") * _MINUTE_MS).alias("bucket"),
        *kind,
        F.coalesce("group_count", F.lit(0)).alias("group_count"),
        *(column.alias(name) for name, column in counters.items()),
    )
