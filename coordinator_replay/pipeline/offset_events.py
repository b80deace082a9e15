"""Everything that tells about committed offsets, brought together: one shuffle by group, sorted, for one pass.

A group can hold half of all commits, so its topics and partitions are spread over several tasks, and what is known of
the group as a whole, which is little beside its commits, goes to each of them.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from coordinator_replay.log.schema import ControlType
from coordinator_replay.pipeline.commit_intervals import LATEST, Event
from coordinator_replay.pipeline.transactions import commits_with_markers, waits_for_marker

SPREAD = 8
"""Over how many tasks one group is spread at most."""

_MOMENT = pa.timestamp("us", tz="UTC")
EVENTS = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("log_partition", pa.int32()),
        ("kind", pa.int8()),
        ("at_offset", pa.int64()),
        ("at_timestamp", _MOMENT),
        ("log_offset", pa.int64()),
        ("log_timestamp", _MOMENT),
        ("missing_before", pa.int64()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("committed_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_timestamp", _MOMENT),
        ("expire_timestamp", _MOMENT),
        ("name", pa.string()),
        ("group_state", pa.string()),
        ("spared_topics", pa.list_(pa.string())),
        ("previous_offset", pa.int64()),
    ]
)
"""A row is one ``Event``. Where an event takes effect is at_offset and at_timestamp, which for a transactional commit
are its marker's; log_offset and log_timestamp are its record's own. ``name`` is the owner, the state or the rule; a
rule's base is in commit_timestamp, the end of an ownership in expire_timestamp. ``previous_offset`` is for the pass
itself: what it remembers of a commit that it carries to the next batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The tables that tell about offsets, of one cluster.

    Attributes:
        commits: ``offset_commits``.
        markers: ``control_records``.
        rules: ``expiry_rules``; None takes every group for one without records.
        ownership: ``partition_ownership``; None leaves owners null.
        timeline: ``group_timeline``; None leaves the groups' states null.
        held: rows of ``offset_history`` for the offsets that hold when the commits begin; None where nothing does.
        waiting: the commits that wait for a marker then, from ``waiting_commits``; None likewise.
    """

    commits: DataFrame
    markers: DataFrame
    rules: DataFrame | None = None
    ownership: DataFrame | None = None
    timeline: DataFrame | None = None
    held: DataFrame | None = None
    waiting: DataFrame | None = None


def offset_events(sources: Sources, until: datetime | None = None) -> DataFrame:
    """All events in the columns of EVENTS, those of a key in order within one task.

    Args:
        sources: where they come from.
        until: leave out what happened after this moment; None for nothing.
    """
    spark = sources.commits.sparkSession
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    spread = min(SPREAD, tasks)
    place = F.pmod(F.hash("topic", "partition"), F.lit(spread))
    everywhere = F.explode(F.sequence(F.lit(0), F.lit(spread - 1)))
    of_partitions = [_plain(sources.commits), *_others(sources), *_of_partitions(sources)]
    parts = [*((part, place) for part in of_partitions), *((part, everywhere) for part in _of_groups(sources))]
    events = reduce(DataFrame.unionByName, (part.withColumn("place", where) for part, where in parts))
    if until is not None:
        events = events.where(F.coalesce(F.col("at_timestamp") <= F.lit(until), F.lit(True)))
    task = F.pmod(F.hash("group_id") + F.col("place"), F.lit(tasks))
    # The task is told, not left to another hash; and its number keeps adaptive execution from merging tasks.
    in_order = events.repartitionById(tasks, task).sortWithinPartitions(
        "group_id", "topic", "partition", "log_partition", "first", "second"
    )
    return in_order.select(*EVENTS.names)


def other_events(sources: Sources) -> DataFrame:
    """Events of commits that are not plain: in the columns of EVENTS and two to sort by, in no order."""
    return reduce(DataFrame.unionByName, _others(sources))


def context_events(sources: Sources) -> DataFrame | None:
    """What is known of groups and their partitions, in the same columns; None where nothing is given."""
    parts = [*_of_partitions(sources), *_of_groups(sources)]
    return reduce(DataFrame.unionByName, parts) if parts else None


def _others(sources: Sources) -> list[DataFrame]:
    return [_transactional(sources), *([] if sources.held is None else [_held(sources.held)])]


def _of_partitions(sources: Sources) -> list[DataFrame]:
    return [] if sources.ownership is None else [_owners(sources.ownership)]


def _of_groups(sources: Sources) -> list[DataFrame]:
    told = [] if sources.timeline is None else [_states(sources.timeline)]
    return told if sources.rules is None else [*told, _rules(sources.rules)]


_TYPES = {"timestamp[us, tz=UTC]": "timestamp", "int8": "tinyint", "int16": "smallint", "int32": "int"}
_TYPES |= {"int64": "bigint", "list<item: string>": "array<string>"}


def _shaped(rows: DataFrame, first: str, second: str, **columns: str) -> DataFrame:
    """Rows in the columns of EVENTS, null where nothing is given, and two to sort by within a key.

    In SQL, since each step of an expression in Python is a call to the JVM, and these are hundreds.
    """
    shape = [
        f"CAST({columns.get(field.name, 'NULL')} AS {_TYPES.get(str(field.type), field.type)}) AS {field.name}"
        for field in EVENTS
    ]
    return rows.selectExpr(*shape, f"CAST({first} AS BIGINT) AS first", f"CAST({second} AS BIGINT) AS second")


_COMMIT = (
    *("group_id", "topic", "partition", "log_partition", "log_offset", "log_timestamp", "missing_before"),
    *("producer_id", "producer_epoch", "committed_offset", "leader_epoch", "metadata"),
    *("commit_timestamp", "expire_timestamp"),
)


def _commits(rows: DataFrame, kind: str, at_offset: str, at_timestamp: str, **more: str) -> DataFrame:
    own = {name: name for name in _COMMIT}
    effect = {"kind": kind, "at_offset": at_offset, "at_timestamp": at_timestamp}
    return _shaped(rows, at_offset, "log_offset", **effect, **own, **more)


def _plain(commits: DataFrame) -> DataFrame:
    """Commits that hold from their record on, and tombstones."""
    kind = f"IF(is_tombstone, {int(Event.TOMBSTONE)}, {int(Event.PLAIN)})"
    return _commits(commits.where(~waits_for_marker()), kind, "log_offset", "log_timestamp")


def _held(history: DataFrame) -> DataFrame:
    """Offsets that hold when the commits begin, with what was told of each when it was committed."""
    producer = "CASE WHEN is_transactional THEN 0 WHEN NOT is_transactional THEN -1 END"
    same = ("group_id", "topic", "partition", "log_partition", "committed_offset", "leader_epoch", "metadata")
    also = ("commit_timestamp", "expire_timestamp", "group_state", "previous_offset")
    return _shaped(
        history,
        "from_offset",
        "record_offset",
        kind=str(int(Event.HELD)),
        at_offset="from_offset",
        at_timestamp="valid_from",
        log_offset="record_offset",
        log_timestamp="valid_from",
        producer_id=producer,
        name="owner_member_id",
        **{name: name for name in (*same, *also)},
    )


def _transactional(sources: Sources) -> DataFrame:
    """Two events for each commit that waits for a marker: its record, and the marker if there is one."""
    waiting = commits_with_markers(sources.commits, sources.markers, sources.waiting)
    opened_at = f"NAMED_STRUCT('kind', {int(Event.OPENED)}, 'offset', log_offset, 'timestamp', log_timestamp)"
    kind = f"IF(marker.type = '{ControlType.COMMIT.value}', {int(Event.COMMITTED)}, {int(Event.ABORTED)})"
    ended = f"NAMED_STRUCT('kind', {kind}, 'offset', marker.offset, 'timestamp', marker.timestamp)"
    told: dict[str, str] = {}
    if sources.waiting is not None:
        since = f"NAMED_STRUCT('kind', {int(Event.WAITING)}, 'offset', log_offset, 'timestamp', pending_since)"
        opened_at = f"IF(COALESCE(is_waiting, FALSE), {since}, {opened_at})"
        told = {"name": "owner_member_id", "group_state": "group_state"}
    steps = f"EXPLODE(IF(marker IS NULL, ARRAY({opened_at}), ARRAY({opened_at}, {ended}))) AS step"
    stepped = waiting.selectExpr(*_COMMIT, *told.values(), steps)
    return _commits(stepped, "step.kind", "step.offset", "step.timestamp", **told)


def _owners(ownership: DataFrame) -> DataFrame:
    """Who owned a partition from a moment on, and until when."""
    return _shaped(
        ownership.where("topic IS NOT NULL AND owned_from IS NOT NULL"),
        "UNIX_MICROS(owned_from)",
        f"COALESCE(UNIX_MICROS(owned_to), {LATEST}L)",
        kind=str(int(Event.OWNER)),
        group_id="group_id",
        topic="topic",
        partition="partition",
        at_timestamp="owned_from",
        expire_timestamp="owned_to",
        log_offset="-1",
        name="member_id",
    )


def _states(timeline: DataFrame) -> DataFrame:
    """Each change of a group's state, and the state it begins with."""
    changes = "(NOT (from_state <=> to_state) OR seq = 0) AND to_state IS NOT NULL AND log_timestamp IS NOT NULL"
    return _shaped(
        timeline.where(changes),
        "UNIX_MICROS(log_timestamp)",
        "seq",
        kind=str(int(Event.STATE)),
        group_id="group_id",
        at_timestamp="log_timestamp",
        log_offset="log_offset",
        name="to_state",
    )


def _rules(rules: DataFrame) -> DataFrame:
    """Each change of how a group's offsets expire."""
    return _shaped(
        rules,
        "log_offset",
        "0",
        kind=f"IF(is_group_tombstone, {int(Event.GROUP_TOMBSTONE)}, {int(Event.RULE)})",
        group_id="group_id",
        log_partition="log_partition",
        at_offset="log_offset",
        at_timestamp="log_timestamp",
        name="rule",
        group_state="group_state",
        commit_timestamp="base_timestamp",
        spared_topics="spared_topics",
    )
