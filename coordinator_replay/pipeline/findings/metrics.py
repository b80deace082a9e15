"""What the coordinator's own metrics would have shown, minute by minute: ``group_metrics``.

Of each minute in which something happened to a group come its counts, under the group's type and state at the end of
the minute, and where these have changed, one group less here and one more there. A group of which the log has offsets
only is a classic one, Empty from its first offset on; it ends with its last offset. All of it is columns: groups
that continue to commit have as many minutes as there are.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.findings.thresholds import MINUTE_MS
from coordinator_replay.engine.model import GroupState
from coordinator_replay.pipeline.bucket_files import Place, TableWriter
from coordinator_replay.pipeline.columns import NONE, Numbers, Sums, numbers_of
from coordinator_replay.pipeline.findings.commit_sums import MINUTES
from coordinator_replay.pipeline.findings.minute_states import NUMBERED, SIMPLE, MinuteStates
from coordinator_replay.store.scan import read_paths, read_table
from coordinator_replay.store.snapshot import TableFile
from coordinator_replay.store.writer import DataFile
from coordinator_replay.tables.definition import table

METRICS = "group_metrics"

COUNTERS = ("rebalance_count", "offset_commits", "expired_offsets", "deleted_offsets")

STEPS = pa.schema([(name, pa.int64()) for name in ("minute", "kind", "delta", *COUNTERS)])
"""What happened in a minute to groups of a kind: how many more or less of them there are, and counts. The minute is
NONE where no record has a time: before the first one that has a time."""

_DEAD = tuple(number for number, (_, state) in enumerate(NUMBERED, 1) if state is GroupState.DEAD)
_MINUTE_US = MINUTE_MS * 1000
_MOMENT = pa.timestamp("us", tz="UTC")


@dataclass(slots=True)
class Happened:
    """What happened to groups, one entry after the other: the place of the group's id, the minute, and what."""

    groups: list[int] = field(default_factory=list)
    minutes: list[int] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)

    def count(self, group: int, at_ms: int, counter: str) -> None:
        """Something of COUNTERS happened to a group."""
        self.groups.append(group)
        self.minutes.append(at_ms // MINUTE_MS)
        self.counters.append(counter)

    def steps(self, states: MinuteStates) -> dict[str, Numbers]:
        """All of it in the columns of STEPS."""
        groups, minutes = np.array(self.groups, np.int64), np.array(self.minutes, np.int64)
        what = np.array(self.counters, np.str_)
        counted = {name: (what == name).astype(np.int64) for name in COUNTERS}
        return {"minute": minutes, "kind": states.kinds_at(groups, minutes), **counted}


def _state_changes(states: MinuteStates) -> Iterator[dict[str, Numbers]]:
    """Groups that came into another state: one more there, one less where they were."""
    before = states.before()
    is_new = states.kinds != before
    yield {
        "minute": states.minutes,
        "kind": states.kinds,
        "delta": (is_new & ~np.isin(states.kinds, _DEAD)).astype(np.int64),
    }
    went = is_new & (before > 0)
    yield {
        "minute": states.minutes[went],
        "kind": before[went],
        "delta": -(~np.isin(before[went], _DEAD)).astype(np.int64),
    }


def _simple_lives(states: MinuteStates, begun: dict[int, int], ended: dict[int, int]) -> Iterator[dict[str, Numbers]]:
    """When groups that only have offsets began, and when those ended that have none any more."""
    with_states = set(np.unique(states.groups).tolist())
    simple = [group for group in begun if group not in with_states]
    ends = [ended[group] for group in simple if group in ended]
    for times, delta in (([begun[group] for group in simple], 1), (ends, -1)):
        minutes = np.floor_divide(np.array(times, np.int64), MINUTE_MS)
        yield {
            "minute": minutes,
            "kind": np.full(len(minutes), SIMPLE, np.int64),
            "delta": np.full(len(minutes), delta, np.int64),
        }


def _added_up(steps: list[dict[str, Numbers]]) -> dict[str, Numbers]:
    """One step for each minute and kind, sorted by kind and minute."""

    def every(name: str) -> Numbers:
        none = (np.zeros(len(one["minute"]), np.int64) for one in steps)
        joined: Numbers = np.concatenate([one.get(name, zeros) for one, zeros in zip(steps, none, strict=True)])
        return joined

    columns = {name: every(name) for name in STEPS.names}
    if not len(columns["minute"]):
        return columns
    sums = Sums([columns["kind"], columns["minute"]])
    keys = {name: sums.last(columns[name]) for name in ("minute", "kind")}
    return keys | {name: sums.sums(columns[name]) for name in ("delta", *COUNTERS)}


def minute_steps(
    states: MinuteStates, happened: Happened, *, begun: dict[int, int], ended: dict[int, int]
) -> pa.RecordBatch:
    """What happened to some groups, minute by minute.

    Args:
        states: of the groups.
        happened: what else happened to them.
        begun: when each one that commits first did, in milliseconds, by the place of its id.
        ended: when the last offset was removed of those that have none any more.

    Returns:
        rows in STEPS.
    """
    every = [happened.steps(states), *_state_changes(states), *_simple_lives(states, begun, ended)]
    columns = _added_up(every)
    return pa.RecordBatch.from_arrays([pa.array(columns[name]) for name in STEPS.names], schema=STEPS)


def _minute_rows(steps: dict[str, Numbers], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of table ``group_metrics``, kind by kind.

    A log is bounded by its records, while the time between two timestamps is not: the counts of the last minute in
    which the log has a record stay until the next one.
    """
    minutes = np.unique(steps["minute"][steps["minute"] != NONE])
    if not len(minutes):
        return
    for kind in np.unique(steps["kind"]).tolist():
        of_kind = steps["kind"] == kind
        # What happened before the first minute on record counts in it.
        at = np.searchsorted(minutes, steps["minute"][of_kind])
        filled = {name: np.zeros(len(minutes), np.int64) for name in ("delta", *COUNTERS)}
        for name, column in filled.items():
            np.add.at(column, at, steps[name][of_kind])
        groups = np.cumsum(filled["delta"])
        has_any = (groups > 0) | np.any([filled[name] > 0 for name in COUNTERS], axis=0)
        group_type, state = NUMBERED[kind - 1]
        counts = {"group_count": groups} | {name: filled[name] for name in COUNTERS}
        n = int(has_any.sum())
        columns: dict[str, Any] = {
            "bucket": pa.array(minutes[has_any] * _MINUTE_US).cast(pa.timestamp("us", tz="UTC")),
            "group_type": pa.repeat(str(group_type), n),
            "state": pa.repeat(str(state), n),
        } | {name: pa.array(numbers[has_any]) for name, numbers in counts.items()}
        yield pa.RecordBatch.from_arrays([columns[one.name].cast(one.type) for one in schema], schema=schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsShare:
    """What the metrics of a cluster are made of.

    Attributes:
        steps: files in STEPS.
        minutes: files of commits by minute, in MINUTES.
        earlier: files of ``group_metrics`` whose commits of minutes before ``since`` still count.
        since: the time from which on commits were added up again; None where all were.
        place: where rows go.
    """

    steps: Sequence[str]
    minutes: Sequence[str]
    earlier: Sequence[str]
    since: datetime | None
    place: Place


def _earlier(share: MetricsShare) -> Iterator[dict[str, Numbers]]:
    """Commits that were counted before: the states they went into are final, and all else is counted again."""
    if share.since is None:
        return
    kinds = {(str(group_type), str(state)): number for number, (group_type, state) in enumerate(NUMBERED, 1)}
    is_before = pc.field("bucket") < pa.scalar(share.since, _MOMENT)
    names = ["bucket", "group_type", "state", "offset_commits"]
    for batch in read_paths(share.earlier, names, is_before & (pc.field("offset_commits") > 0)):
        pairs = zip(*(batch.column(name).to_pylist() for name in ("group_type", "state")), strict=True)
        yield {
            "minute": np.floor_divide(numbers_of(batch.column("bucket").cast(_MOMENT)), _MINUTE_US),
            "kind": np.array([kinds[pair] for pair in pairs], np.int64),
            "offset_commits": numbers_of(batch.column("offset_commits")),
        }


@dataclass(frozen=True, slots=True)
class MetricsResult:
    """The metrics of a cluster: what was written, and its groups.

    Attributes:
        files: what was written.
        groups: how many groups exist at the end of the log, by type and state.
    """

    files: Sequence[DataFile]
    groups: Counter[tuple[str, str]]


def write_metrics(share: MetricsShare) -> MetricsResult:
    """Write rows of table ``group_metrics``: each minute in which the log has a record, for each type and state.

    Args:
        share: what they are made of.
    """
    steps = [
        {name: numbers_of(batch.column(name)) for name in STEPS.names} for batch in read_paths(share.steps, STEPS.names)
    ]
    for batch in read_paths(share.minutes, MINUTES.names):
        columns = {name: numbers_of(batch.column(name)) for name in MINUTES.names}
        steps.append({"minute": columns["minute"], "kind": columns["kind"], "offset_commits": columns["commits"]})
    steps += _earlier(share)
    writer = TableWriter(share.place, None)
    schema = table(METRICS).file_schema().remove_metadata()
    added = _added_up([one for one in steps if len(one["minute"])]) if steps else {}
    groups: Counter[tuple[str, str]] = Counter()
    if added and len(added["minute"]):
        for rows in _minute_rows(added, schema):
            writer.add(METRICS, rows)
        for kind in np.unique(added["kind"]).tolist():
            group_type, state = NUMBERED[kind - 1]
            groups[str(group_type), str(state)] = int(added["delta"][added["kind"] == kind].sum())
    return MetricsResult(writer.close(), +groups)


def last_groups(files: Iterable[TableFile]) -> Counter[tuple[str, str]]:
    """How many groups of each type and state the last minute of ``group_metrics`` has."""
    names = ["bucket", "group_type", "state", "group_count"]
    last, groups = None, Counter[tuple[str, str]]()
    for batch in read_table(files, names):
        for minute, group_type, state, count in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
            if last is None or minute > last:
                last, groups = minute, Counter()
            if minute == last:
                groups[group_type, state] += count
    return +groups
