"""The ledger: what each run read and what became of it, one row of ``audit_runs`` a run, written last."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from coordinator_replay import __version__
from coordinator_replay.errors import CoordinatorReplayError
from coordinator_replay.pipeline.data_files import DataFiles
from coordinator_replay.pipeline.settle import Extents
from coordinator_replay.pipeline.warehouse import Warehouse
from coordinator_replay.tables.definition import table

_NAME = "audit_runs"
_READ = (
    *("cluster", "run_id", "status", "input_form", "from_offsets", "to_offsets", "gaps"),
    *("table_versions", "settings"),
)


@dataclass(slots=True, kw_only=True)
class Run:
    """One run, as the ledger tells it.

    ``records_read = records_decoded + records_quarantined + control_records + duplicates_dropped + already_audited``
    holds for every run that is done.
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
    _lock: Lock = field(default_factory=Lock, repr=False)

    @staticmethod
    def begin(cluster: str, inputs: Sequence[str], settings: Mapping[str, Any]) -> "Run":
        """A run that starts now; ids rise with time."""
        now = datetime.now(UTC)
        return Run(run_id=f"{now:%Y%m%dT%H%M%S.%f}Z", cluster=cluster, started_at=now, inputs=inputs, settings=settings)

    def count_written(self, name: str, *, found: int, written: int) -> None:
        """Account for the records of one table: those written, and those that it held already."""
        with self._lock:
            self.already_audited += found - written
            if name == "quarantine":
                self.records_quarantined += written
            elif name == "control_records":
                self.control_records += written
            else:
                self.records_decoded += written

    def cover(self, extents: Extents, ends: Mapping[int, int]) -> None:
        """Let the offsets of the run go as far as its files do, with what was passed over as audited before.

        Args:
            extents: what its files cover.
            ends: where earlier runs ended, by log partition: behind that, only records that were read count.
        """
        for extent in extents.files:
            if extent.skipped:
                partition = extent.log_partition
                passed = min(extent.last_offset + 1, ends[partition])
                self.to_offsets[partition] = max(passed, self.to_offsets.get(partition, 0))
        for extent in extents.files:
            partition, first = extent.log_partition, extent.first_offset
            if partition in self.to_offsets:
                self.from_offsets[partition] = min(first, self.from_offsets.get(partition, first))

    def check(self) -> None:
        """Make sure that every record read is accounted for.

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
        """The run as a row of ``audit_runs``."""
        return {
            "run_id": self.run_id,
            "cluster": self.cluster,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "status": self.status,
            "inputs": list(self.inputs),
            "from_offsets": self.from_offsets,
            "to_offsets": self.to_offsets,
            "records_read": self.records_read,
            "records_decoded": self.records_decoded,
            "records_quarantined": self.records_quarantined,
            "control_records": self.control_records,
            "duplicates_dropped": self.duplicates_dropped,
            "already_audited": self.already_audited,
            "gaps": [
                {"log_partition": partition, "from_offset": start, "to_offset": end}
                for partition, start, end in self.gaps
            ],
            "table_versions": self.table_versions,
            "software_version": __version__,
            "settings": json.dumps(dict(self.settings), sort_keys=True),
            "notes": self.notes,
            "input_form": self.input_form,
        }


def write_run(spark: SparkSession, warehouse: Warehouse, run: Run) -> None:
    """Write a run's row: the last thing a run does."""
    if warehouse.takes_files(_NAME):
        files = DataFiles({_NAME: warehouse.own_part(_NAME)})
        told = {name: list(value.items()) if isinstance(value, dict) else value for name, value in run.row().items()}
        files.add(_NAME, pa.RecordBatch.from_pylist([told], schema=files.parts[_NAME].schema))
        warehouse.add_files(_NAME, files.close())
        return
    row = spark.createDataFrame([run.row()], table(_NAME).spark_ddl())
    warehouse.append(_NAME, row, run.run_id)


class Last(NamedTuple):
    """The newest run of a cluster that is done; empty where there is none."""

    run_id: str
    settings: Mapping[str, Any]
    table_versions: Mapping[str, int]


def _rows_of(path: str) -> list[dict[str, Any]]:
    """What a file of the ledger holds; null where an older release had no such column."""
    with pq.ParquetFile(path) as file:
        there = [name for name in _READ if name in file.schema_arrow.names]
        rows = file.read(columns=there).to_pylist(maps_as_pydicts="strict")
    return [dict.fromkeys(_READ) | row for row in rows]


def done_runs(warehouse: Warehouse, cluster: str) -> list[dict[str, Any]]:
    """The runs of a cluster that are done, the newest first: a row each, maps as dictionaries.

    Args:
        warehouse: holds the ledger.
        cluster: whose runs.
    """
    if warehouse.is_new(_NAME):
        return []
    held = warehouse.held(_NAME)
    if held is None:
        rows = [row.asDict(recursive=True) for row in warehouse.read(_NAME).select(*_READ).toLocalIterator()]
    else:
        rows = [row for file in held for row in _rows_of(file.path)]
    mine = [row for row in rows if row["cluster"] == cluster and row["status"] == "done"]
    return sorted(mine, key=lambda row: row["run_id"], reverse=True)


def last_run(runs: Sequence[Mapping[str, Any]]) -> Last:
    """The newest of some runs.

    Args:
        runs: from ``done_runs``.
    """
    if not runs:
        return Last("", {}, {})
    return Last(runs[0]["run_id"], json.loads(runs[0]["settings"]), runs[0]["table_versions"] or {})


def audited_ranges(runs: Iterable[Mapping[str, Any]], form: str | None = None) -> dict[int, list[tuple[int, int]]]:
    """Which offsets of each log partition runs have read: half-open ranges between their gaps, in order.

    A handful of numbers, whatever the size of the log and however many nights it was audited.

    Args:
        runs: from ``done_runs``.
        form: only runs over inputs of that form.
    """
    ranges: dict[int, list[tuple[int, int]]] = {}
    for run in runs:
        if form is not None and run["input_form"] != form:
            continue
        for partition, start in (run["from_offsets"] or {}).items():
            end = run["to_offsets"][partition]
            for gap in sorted(
                (gap for gap in run["gaps"] or [] if gap["log_partition"] == partition),
                key=lambda gap: (gap["from_offset"], gap["to_offset"]),
            ):
                ranges.setdefault(partition, []).append((start, gap["from_offset"]))
                start = gap["to_offset"]
            ranges.setdefault(partition, []).append((start, end))
    return {partition: _joined(of_partition) for partition, of_partition in ranges.items()}


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Half-open ranges in order, those that touch as one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        elif start < end:
            joined.append((start, end))
    return joined


def unread(earlier: Mapping[int, Sequence[tuple[int, int]]], run: Run) -> list[tuple[int, int, int]]:
    """Stretches between what earlier runs and this one have read that none of them has: log_partition, from, to.

    Args:
        earlier: from ``audited_ranges``.
        run: this run, its input read.
    """
    read = {partition: list(ranges) for partition, ranges in earlier.items()}
    for partition, start in run.from_offsets.items():
        for _, gap_from, gap_to in sorted(gap for gap in run.gaps if gap[0] == partition):
            read.setdefault(partition, []).append((start, gap_from))
            start = gap_to
        read.setdefault(partition, []).append((start, run.to_offsets[partition]))
    return list(between(read))


def between(read: Mapping[int, Sequence[tuple[int, int]]]) -> Iterator[tuple[int, int, int]]:
    """Stretches between ranges of offsets that lie in none of them: log_partition, from, to."""
    for partition, ranges in sorted(read.items()):
        reached = None
        for start, end in sorted(ranges):
            if reached is not None and start > reached:
                yield partition, reached, start
            reached = end if reached is None else max(reached, end)
