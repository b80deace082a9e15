"""The ledger (table ``audit_runs``): the records that each run read, and their counts.

A run commits its row of the ledger after all other tables. So a run with a row has finished.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from coordinator_replay.errors import CoordinatorReplayError
from coordinator_replay.io_metrics import StageMetrics
from coordinator_replay.log.dump_format import Format
from coordinator_replay.pipeline.read.extents import Extent
from coordinator_replay.pipeline.read.tally import Ranges, Tally
from coordinator_replay.secret_text import without_secrets
from coordinator_replay.store.scan import read_table
from coordinator_replay.store.snapshot import Snapshot
from coordinator_replay.store.versions import has_new_records
from coordinator_replay.times import milliseconds
from coordinator_replay.version import __version__

_GAP = ("log_partition", "from_offset", "to_offset")

_MOST_NAMED = 20
"""Largest number of groups that a run's notes name as not evaluated. Findings name all of them."""


@dataclass(slots=True, kw_only=True)
class Run:
    """A run in the ledger.

    For every finished run, ``records_read = records_decoded + records_quarantined + control_records +
    duplicates_dropped + already_audited``. The attributes are columns of ``audit_runs``.

    Attributes:
        settings: the options of the run.
        log_end: the latest timestamp of a record that this run or an earlier run read.
        positions: number of log offsets below ``to_offsets`` that have a record, by log partition that the run read.
        groups_failed: number of groups that could not be evaluated.
        lost_from: the first log offset that earlier runs have read and that an election has truncated, by log
            partition.
        broker_logs: brokers' logs that the run read, see the column.
        stages: data that each stage of the run read and wrote, see the column.
    """

    run_id: str
    cluster: str
    started_at: datetime
    inputs: Sequence[str]
    settings: Mapping[str, Any]
    finished_at: datetime | None = None
    status: str = "running"
    input_form: str | None = None
    from_offsets: dict[int, int] = field(default_factory=dict)
    to_offsets: dict[int, int] = field(default_factory=dict)
    records_read: int = 0
    records_decoded: int = 0
    records_quarantined: int = 0
    control_records: int = 0
    duplicates_dropped: int = 0
    already_audited: int = 0
    gaps: list[tuple[int, int, int]] = field(default_factory=list)
    table_versions: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    log_end: datetime | None = None
    positions: dict[int, int] = field(default_factory=dict)
    groups_failed: int = 0
    lost_from: dict[int, int] = field(default_factory=dict)
    broker_logs: list[Mapping[str, Any]] = field(default_factory=list)
    stages: list[Mapping[str, Any]] = field(default_factory=list)

    @staticmethod
    def begin(cluster: str, inputs: Sequence[str], settings: Mapping[str, Any], last_id: str = "") -> "Run":
        """Return a run that starts now.

        Args:
            cluster: the cluster of the run's dump.
            inputs: the inputs as the user named them.
            settings: options of the run.
            last_id: id of the newest finished run. The new run gets a higher id, even if this machine's clock is
                behind.
        """
        now = datetime.now(UTC)
        run_id = f"{now:%Y%m%dT%H%M%S.%f}Z"
        if run_id <= last_id:
            run_id = f"{last_id}+"
        return Run(run_id=run_id, cluster=cluster, started_at=now, inputs=inputs, settings=settings)

    def take_metrics(self, stage: StageMetrics) -> None:
        """Note what a stage has read and written."""
        self.stages.append({"name": stage.name, "tasks": stage.tasks, **asdict(stage.io)})

    def reach(self, tally: Tally) -> None:
        """Extend ``from_offsets`` and ``to_offsets`` so that they include the log offsets of the records in a tally."""
        for partition, count in tally.by_partition().items():
            if count.low is not None and count.high is not None:
                self.from_offsets[partition] = min(count.low, self.from_offsets.get(partition, count.low))
                self.to_offsets[partition] = max(count.high + 1, self.to_offsets.get(partition, 0))

    def cover(self, extents: Sequence[Extent], ends: Mapping[int, int]) -> None:
        """Extend ``from_offsets`` and ``to_offsets`` so that they include the parts of files that this run skipped.

        A run skips the parts that earlier runs have read.

        Args:
            extents: the log offsets that the run's files cover.
            ends: the log offset after the highest log offset that earlier runs have read, by log partition.
                ``to_offsets`` is not extended beyond it.
        """
        for extent in extents:
            if extent.skipped:
                partition = extent.log_partition
                passed = min(extent.last_offset + 1, ends[partition])
                self.to_offsets[partition] = max(passed, self.to_offsets.get(partition, 0))
        for extent in extents:
            partition, first = extent.log_partition, extent.first_offset
            if partition in self.to_offsets:
                self.from_offsets[partition] = min(first, self.from_offsets.get(partition, first))

    @property
    def has_new_records(self) -> bool:
        """Return whether the run read records that no earlier run had read."""
        return has_new_records(self.records_decoded, self.records_quarantined, self.control_records)

    def fail(self, groups: Sequence[str]) -> None:
        """Count groups that could not be evaluated. Add a note about each of the first groups."""
        for group_id in sorted(groups)[: max(_MOST_NAMED - self.groups_failed, 0)]:
            self.notes.append(f"group {group_id} could not be evaluated, see its finding group_not_evaluated")
        self.groups_failed += len(groups)

    def check(self) -> None:
        """Check that every record that was read is counted exactly once.

        Raises:
            CoordinatorReplayError: the sums differ; the run must not be trusted.
        """
        accounted = (
            self.records_decoded
            + self.records_quarantined
            + self.control_records
            + self.duplicates_dropped
            + self.already_audited
        )
        if accounted != self.records_read:
            raise CoordinatorReplayError(
                f"run {self.run_id} read {self.records_read} records but accounts for {accounted}; nothing of it "
                f"can be trusted: please report this with the ledger row"
            )

    def row(self) -> dict[str, Any]:
        """Return the run as a row of ``audit_runs``, times in milliseconds, maps as pairs."""
        values = {field.name: _as_written(getattr(self, field.name)) for field in fields(self)}
        return values | {
            "inputs": list(map(without_secrets, self.inputs)),
            "gaps": [dict(zip(_GAP, gap, strict=True)) for gap in self.gaps],
            "software_version": __version__,
            "settings": without_secrets(json.dumps(dict(self.settings), sort_keys=True)),
            "notes": list(map(without_secrets, self.notes)),
        }


def _as_written(value: Any) -> Any:
    if isinstance(value, datetime):
        return milliseconds(value)
    return list(value.items()) if isinstance(value, dict) else value


def finished_runs(ledger: Snapshot, cluster: str) -> list[Run]:
    """Return the finished runs of a cluster, newest first.

    The runs take little memory: each is only a few numbers.

    Args:
        ledger: table ``audit_runs``.
        cluster: name of the cluster.
    """
    rows = (
        row
        for batch in read_table(ledger.files(cluster=cluster), [field.name for field in fields(Run)])
        for row in batch.to_pylist(maps_as_pydicts="strict")
    )
    finished = [_finished(row, cluster) for row in rows if row["status"] == "done"]
    return sorted(finished, key=lambda run: run.run_id, reverse=True)


def _finished(row: Mapping[str, Any], cluster: str) -> Run:
    values = {name: value for name, value in row.items() if value is not None}
    gaps = [tuple(gap[name] for name in _GAP) for gap in values.get("gaps", ())]
    return Run(**{**values, "cluster": cluster, "gaps": gaps, "settings": json.loads(row["settings"])})


def audited_ranges(runs: Sequence[Run], form: str | None = None) -> dict[int, list[tuple[int, int]]]:
    """Return the log offsets that runs have read, without gaps and without log offsets that an election truncated.

    Args:
        runs: the runs, as ``finished_runs`` returns them, the newest first.
        form: the form of the dumps of the runs that count; None for all runs.

    Returns:
        Sorted ranges by log partition, as tuples of first log offset and end (not included).
    """
    ranges: dict[int, list[tuple[int, int]]] = {}
    for run in reversed(runs):
        ranges = below(ranges, run.lost_from)
        if form is not None and run.input_form != form:
            continue
        for partition, read in _read_by(run):
            ranges.setdefault(partition, []).append(read)
    return {partition: _joined(of_partition) for partition, of_partition in ranges.items()}


def _read_by(run: Run) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the ranges of log offsets that a run has read, without gaps.

    Yields:
        The log partition, and a tuple of the first log offset and the end (not included).
    """
    for partition, start in run.from_offsets.items():
        for _, gap_from, gap_to in sorted(gap for gap in run.gaps if gap[0] == partition):
            yield partition, (start, gap_from)
            start = gap_to
        yield partition, (start, run.to_offsets[partition])


def lost_ranges(runs: Sequence[Run]) -> Iterator[tuple[int, int, int]]:
    """Yield the ranges of log offsets that earlier runs read and that an election truncated.

    Each range is a tuple: log partition, first log offset, end (not included).

    Args:
        runs: the runs, as ``finished_runs`` returns them, the newest first.
    """
    ends: dict[int, int] = {}
    for run in reversed(runs):
        for partition, start in run.lost_from.items():
            if ends.get(partition, start) > start:
                yield partition, start, ends[partition]
            ends[partition] = start
        for partition, end in run.to_offsets.items():
            ends[partition] = max(end, ends.get(partition, end))


def below(ranges: Ranges, limits: Mapping[int, int]) -> dict[int, list[tuple[int, int]]]:
    """Return ranges of log offsets without the log offsets from a limit on.

    Args:
        ranges: the ranges by log partition, as tuples of first log offset and end (not included).
        limits: the first log offset to leave out, by log partition. Other log partitions stay unchanged.
    """
    return {
        partition: [
            (start, min(end, limits.get(partition, end)))
            for start, end in of_partition
            if start < limits.get(partition, end)
        ]
        for partition, of_partition in ranges.items()
    }


@dataclass(frozen=True)
class History:
    """Facts of earlier runs over a cluster.

    Attributes:
        runs: the finished runs, newest first.
        lost_from: the first log offset that an election has truncated after these runs, by log partition.
    """

    runs: Sequence[Run]
    lost_from: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def ranges(self) -> Ranges:
        """Return the ranges of log offsets that the runs have read, by log partition."""
        return below(audited_ranges(self.runs), self.lost_from)

    @cached_property
    def segment_ranges(self) -> Ranges:
        """Return the ranges of log offsets that the runs have read from segments, by log partition."""
        return below(audited_ranges(self.runs, Format.SEGMENTS), self.lost_from)

    @cached_property
    def positions(self) -> Mapping[int, int]:
        """Return the number of log offsets below ``ends`` that hold a record, by log partition."""
        return {partition: count for run in reversed(self.runs) for partition, count in run.positions.items()}

    @property
    def ends(self) -> dict[int, int]:
        """Return the log offset after the highest log offset that runs have read, by log partition."""
        return {partition: ranges[-1][1] for partition, ranges in self.ranges.items() if ranges}

    @property
    def settings(self) -> Mapping[str, Any]:
        """Return the options of the last run."""
        return self.runs[0].settings if self.runs else {}

    @property
    def log_end(self) -> datetime | None:
        """Return the latest timestamp of a record that any run has read."""
        return max((run.log_end for run in self.runs if run.log_end is not None), default=None)

    def is_behind(self) -> bool:
        """Return whether the last run had ``--records-only``, so that it wrote records and no derived rows."""
        return bool(self.settings.get("records_only"))


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge ranges that overlap or touch, and return all ranges.

    Args:
        ranges: sorted tuples of first log offset and end (not included).
    """
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        elif start < end:
            joined.append((start, end))
    return joined


def unread(earlier: Ranges, run: Run) -> list[tuple[int, int, int]]:
    """Return the ranges of log offsets that no run has read, although runs have read lower and higher log offsets.

    Each range is a tuple: log partition, first log offset, end (not included).

    Args:
        earlier: the log offsets that earlier runs have read, as ``audited_ranges`` returns them.
        run: this run, after its input was read.
    """
    read = {partition: list(ranges) for partition, ranges in earlier.items()}
    for partition, read_partition in _read_by(run):
        read.setdefault(partition, []).append(read_partition)
    return list(between(read))


def between(read: Mapping[int, Sequence[tuple[int, int]]]) -> Iterator[tuple[int, int, int]]:
    """Yield the ranges of log offsets that lie between other ranges of the same log partition.

    Args:
        read: the other ranges by log partition, as tuples of first log offset and end (not included).

    Yields:
        The ranges as tuples of log partition, first log offset, end (not included).
    """
    for partition, ranges in sorted(read.items()):
        reached = None
        for start, end in sorted(ranges):
            if reached is not None and start > reached:
                yield partition, reached, start
            reached = end if reached is None else max(reached, end)
