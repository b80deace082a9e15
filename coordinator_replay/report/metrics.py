"""A cluster's groups as metrics in Prometheus' text format, for a collector that reads files.

All metrics are gauges, even counts, because a count may fall: a later audit may find another cause of a rebalance, and
``maintain --keep`` deletes old rebalances. A sample is left out if the log does not prove its value. Samples have no
timestamps, because the textfile collector accepts none. Instead, the age of the log is a metric.

Names and units: https://prometheus.io/docs/practices/naming/
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from coordinator_replay.analysis.coordinator_changes import NO_LEADER
from coordinator_replay.errors import UsageError
from coordinator_replay.query.coordinators import GIVEN_UP
from coordinator_replay.query.findings import runs_since
from coordinator_replay.query.groups import UNKNOWN, Group, groups_at
from coordinator_replay.query.saved import run_saved_query
from coordinator_replay.query.tables import Tables
from coordinator_replay.re2_patterns import compile_pattern
from coordinator_replay.safe_text import neutral

GROUP_LABEL, OLD_GROUP_LABEL = "group_id", "group"

_REBALANCES = """
    SELECT group_id, coalesce(cause, 'UNKNOWN'), count(*), sum(len(members_left)) FROM rebalances
    WHERE cluster = $cluster GROUP BY ALL ORDER BY ALL
"""

# Times that have not ended count up to the end of the log.
_UNOWNED = """
    SELECT group_id, sum(epoch_ms(coalesce(gap.until, $end)) - epoch_ms(gap.since)) / 1000
    FROM (SELECT group_id, unnest(unowned) AS gap FROM partition_ownership WHERE cluster = $cluster)
    GROUP BY group_id ORDER BY group_id
"""

_EXPIRED_OFFSETS = """
    SELECT group_id, status, count(*) FROM expired_offsets WHERE cluster = $cluster GROUP BY ALL ORDER BY ALL
"""

# The first election on record is no change. Nor is the end of a leader's time without a new leader on record.
_COORDINATOR_CHANGES = f"""
    SELECT log_partition, count(*) - 1 FROM coordinator_changes
    WHERE cluster = $cluster AND broker IS DISTINCT FROM {NO_LEADER} AND NOT ({GIVEN_UP})
    GROUP BY log_partition ORDER BY log_partition
"""  # noqa: S608 - put together from constants

_FINDINGS = """
    SELECT rule, severity,
           CASE WHEN list_contains($new, found_in_run) THEN CASE WHEN is_begin_open THEN 'found' ELSE 'new' END
                WHEN ended_at IS NULL THEN 'open' ELSE 'ended' END,
           count(*)
    FROM findings
    WHERE cluster = $cluster AND coalesce(group_id IS NULL OR list_contains($names::VARCHAR[], group_id), true)
    GROUP BY ALL ORDER BY ALL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Metrics of a cluster.

    Attributes:
        text: the metrics in the text format of Prometheus or OpenMetrics.
        registry: the same metrics as a registry of the library ``prometheus_client``.
        groups: number of groups with time series of their own.
        left_out: number of groups without time series, because the user limited the number of groups.
    """

    text: str
    registry: CollectorRegistry
    groups: int
    left_out: int


class _Gauges:
    """Prometheus gauges of one registry, all with a label for the cluster."""

    def __init__(self, cluster: str) -> None:
        self.registry = CollectorRegistry()
        self._cluster = cluster

    def add(
        self, name: str, about: str, samples: Sequence[tuple[Sequence[str], float | None]], labels: Sequence[str] = ()
    ) -> None:
        """Add a gauge with its samples.

        Args:
            name: name of the gauge.
            about: help text of the gauge.
            samples: for each sample, the values of the labels, and the value. A sample with the value None is left out.
            labels: names of the labels.
        """
        if GROUP_LABEL in labels:
            # The old name of the label stays for one release.
            place = list(labels).index(GROUP_LABEL)
            labels = [*labels, OLD_GROUP_LABEL]
            samples = [([*values, values[place]], number) for values, number in samples]
        gauge = Gauge(f"coordinator_replay_{name}", about, ["cluster", *labels], registry=self.registry)
        for values, number in samples:
            if number is not None:
                gauge.labels(*(neutral(str(value)) for value in (self._cluster, *values))).set(number)


def metrics_of(
    warehouse: Tables,
    now: datetime,
    *,
    groups: str | None = None,
    limit: int | None = None,
    is_openmetrics: bool = False,
    names: Collection[str] | None = None,
) -> Metrics:
    """Return metrics of a cluster at the end of its log.

    Args:
        warehouse: the tables to read.
        now: the time at which the age of the log is computed.
        groups: a regular expression (RE2). Only groups whose whole name matches get time series of their own. None for
            all groups.
        limit: largest number of groups with time series of their own; None for no limit. The groups with the most
            rebalances get them.
        is_openmetrics: whether to use the format of OpenMetrics instead of the format of Prometheus.
        names: leave out all other groups, and findings about them; None for all groups.

    Raises:
        UsageError: the regular expression is invalid, or the tables have no record of the cluster.
    """
    covered = warehouse.coverage
    gauges = _Gauges(warehouse.cluster)
    gauges.add("log_end_timestamp_seconds", "Time of the last record read.", [((), covered.last.timestamp())])
    gauges.add(
        "log_age_seconds",
        "Time from the last record read until these metrics were written.",
        [((), (now - covered.last).total_seconds())],
    )
    audited = None if covered.audited_at is None else covered.audited_at.timestamp()
    gauges.add("audit_end_timestamp_seconds", "When the last audit ended.", [((), audited)])
    whole = Counter(partition.is_whole for partition in warehouse.completeness.partitions.values())
    gauges.add(
        "log_partitions",
        "Partitions of __consumer_offsets. If complete is true, no record is missing that answers about the past need.",
        [((is_complete,), whole[is_complete == "true"]) for is_complete in ("true", "false")],
        ("complete",),
    )
    gauges.add(
        "coordinator_changes",
        "Elections of a leader of a partition of __consumer_offsets on record, after the first.",
        [((log_partition,), count) for log_partition, count in warehouse.rows(_COORDINATOR_CHANGES)],
        ("log_partition",),
    )
    findings = warehouse.rows(
        _FINDINGS,
        new=sorted(runs_since(warehouse, is_new=True) or ()),
        names=None if names is None else sorted(names),
    )
    gauges.add(
        "findings",
        "Findings by rule and state. new and found are of the last audit that read new records; the records of the "
        "beginning of found may be missing. open and ended are of earlier audits.",
        [(labels, count) for *labels, count in findings],
        ("rule", "severity", "state"),
    )
    everyone = [group for group in groups_at(warehouse) if names is None or group.group_id in names]
    states = Counter((group.group_type, _state(group)) for group in everyone)
    gauges.add("groups", "Groups by type and state.", sorted(states.items()), ("type", "state"))
    rebalances = warehouse.rows(_REBALANCES)
    wanted = _wanted(everyone, groups)
    chosen = _first(wanted, rebalances, limit)
    left_out = len(wanted) - len(chosen)
    gauges.add("groups_left_out", "Groups without series of their own, because of the limit.", [((), left_out)])
    _add_groups(gauges, warehouse, chosen, rebalances)
    generate: Callable[[CollectorRegistry], bytes] = generate_openmetrics if is_openmetrics else generate_latest
    written = generate(gauges.registry)
    return Metrics(text=written.decode(), registry=gauges.registry, groups=len(chosen), left_out=left_out)


def _wanted(groups: Sequence[Group], expression: str | None) -> list[Group]:
    if expression is None:
        return list(groups)
    try:
        pattern = compile_pattern(expression)
    except ValueError as problem:
        raise UsageError(f"{expression!r} is no regular expression: {problem}") from problem
    return [group for group in groups if pattern.fullmatch(group.group_id)]


def _first(groups: Sequence[Group], rebalances: Sequence[tuple[str, str, int, int]], limit: int | None) -> list[Group]:
    counts: Counter[str] = Counter()
    for name, _, count, _ in rebalances:
        counts[name] += count
    return sorted(groups, key=lambda group: (-counts[group.group_id], group.group_id))[:limit]


def _add_groups(
    gauges: _Gauges, warehouse: Tables, chosen: Sequence[Group], rebalances: Sequence[tuple[str, str, int, int]]
) -> None:
    names = {group.group_id for group in chosen}
    gauges.add(
        "group_state",
        "1 for the type and state that the group has.",
        [((group.group_id, group.group_type, _state(group)), 1) for group in chosen],
        (GROUP_LABEL, "type", "state"),
    )
    gauges.add(
        "group_epoch",
        "Generation of a classic group, group epoch of any other.",
        [((group.group_id,), group.epoch if group.is_exact else None) for group in chosen],
        (GROUP_LABEL,),
    )
    gauges.add(
        "group_members",
        "Members of the group.",
        [((group.group_id,), group.member_count if group.is_exact else None) for group in chosen],
        (GROUP_LABEL,),
    )
    gauges.add(
        "group_rebalances",
        "Rebalances on record, by cause.",
        [((name, cause), count) for name, cause, count, _ in rebalances if name in names],
        (GROUP_LABEL, "cause"),
    )
    gauges.add(
        "group_removed_members",
        "Members removed in rebalances on record, by the cause of the rebalance.",
        [((name, cause), removed) for name, cause, _, removed in rebalances if name in names and removed],
        (GROUP_LABEL, "cause"),
    )
    gauges.add(
        "group_unowned_partition_seconds",
        "Time on record without owner while members subscribed to the topic, summed over partitions.",
        [
            ((name,), seconds)
            for name, seconds in warehouse.rows(_UNOWNED, end=warehouse.coverage.last)
            if name in names
        ],
        (GROUP_LABEL,),
    )
    offsets = [(name, status, count) for name, status, count in warehouse.rows(_EXPIRED_OFFSETS) if name in names]
    gauges.add(
        "group_expired_offsets",
        "Committed offsets that expired, by their tombstones on record.",
        [((name,), count) for name, status, count in offsets if status == "EXPIRED"],
        (GROUP_LABEL,),
    )
    gauges.add(
        "group_expiring_offsets",
        "Committed offsets that are past retention and not removed yet (DUE) or expire within the horizon (EXPIRING).",
        [((name, status), count) for name, status, count in offsets if status != "EXPIRED"],
        (GROUP_LABEL, "status"),
    )
    gauges.add(
        "group_offsets_expire_timestamp_seconds",
        "When the first committed offset of the group that somebody still needs expires, or was to expire.",
        [((name,), at.timestamp()) for name, at in _first_expiries(warehouse) if name in names],
        (GROUP_LABEL,),
    )


_NEEDED = "expiring-offsets-still-needed"
"""Saved query that defines, also for metrics, which expiring offsets are still needed."""


def _first_expiries(warehouse: Tables) -> list[tuple[str, datetime]]:
    """Return for each group the earliest time at which an offset that is still needed will expire.

    The saved query ``expiring-offsets-still-needed`` finds these offsets. Groups without such an offset are left out.
    """
    names, rows = run_saved_query(warehouse, _NEEDED)
    group, expire_at = names.index("group_id"), names.index("expire_at")
    first: dict[str, datetime] = {}
    for row in rows:
        if row[expire_at] is not None:
            first[row[group]] = min(row[expire_at], first.get(row[group], row[expire_at]))
    return sorted(first.items())


def _state(group: Group) -> str:
    """Return the state of a group; ``UNKNOWN`` if the log does not prove the state."""
    return group.state if group.is_exact else UNKNOWN
