"""Writing of the table ``coordinator_changes``. The rules of its rows are in ``analysis.coordinator_changes``."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.dataset as ds

from coordinator_replay.analysis.coordinator_changes import (
    COLUMNS,
    EVENTS,
    CoordinatorChange,
    CoordinatorLine,
    LeaderChange,
    coordinator_changes,
    row_of,
)
from coordinator_replay.columns import plain_rows
from coordinator_replay.pipeline.broker_logs.read import TABLE as LINES
from coordinator_replay.pipeline.bucket_files import Changes, TableWriter
from coordinator_replay.pipeline.job import Job
from coordinator_replay.pipeline.ledger import Run
from coordinator_replay.pipeline.read.tally import Tally
from coordinator_replay.store.scan import read_paths, read_table
from coordinator_replay.times import milliseconds

TABLE = "coordinator_changes"

_LINE_COLUMNS = ("log_partition", "epoch", "logged_at", "event", "broker", "duration_ms")


def write_coordinator_changes(
    job: Job,
    run: Run,
    tally: Tally,
    elections: Iterable[LeaderChange],
    changes: Changes,
    log_partitions: Sequence[str],
) -> tuple[Changes, Sequence[CoordinatorChange]]:
    """Compute the rows of ``coordinator_changes`` again, and write them if they changed.

    Args:
        job: the job of the run.
        run: the run, after its input was read.
        tally: counts of the records that the run read, with the first record of each leader epoch.
        elections: elections in the cluster metadata that the run was given.
        changes: files that the run adds to and removes from other tables.
        log_partitions: files of table ``log_partitions``, including the files of this run.

    Returns:
        The changed files of the table, and its rows.
    """
    files = job.files(TABLE)
    earlier = [row for batch in read_table(files, COLUMNS) for row in map(_change, plain_rows(batch))]
    batches = {key: (offset, None if at is None else milliseconds(at)) for key, (offset, at) in tally.epochs.items()}
    lines = _lines(job.uris(LINES, changes))
    rows = coordinator_changes(earlier, batches, elections, lines, run.lost_from, _ends_ms(log_partitions))
    if rows == earlier:
        return Changes(), rows
    writer = TableWriter(job.place, None)
    writer.add_rows(TABLE, [row_of(row) for row in rows])
    return Changes(writer.close(), files), rows


def _change(row: dict[str, object]) -> CoordinatorChange:
    return CoordinatorChange(**{**row, "sources": tuple(row["sources"])})  # type: ignore[arg-type]


def _ends_ms(uris: Sequence[str]) -> dict[int, int]:
    """Return the latest time of a record, in milliseconds, by log partition."""
    rows = (row for batch in read_paths(uris, ("log_partition", "end_timestamp")) for row in plain_rows(batch))
    return {row["log_partition"]: row["end_timestamp"] for row in rows if row["end_timestamp"] is not None}


def _lines(uris: Sequence[str]) -> Iterator[CoordinatorLine]:
    where = ds.field("event").isin(pa.array(sorted(EVENTS)))
    where &= ds.field("log_partition").is_valid() & ds.field("epoch").is_valid() & ds.field("broker").is_valid()
    for batch in read_paths(uris, _LINE_COLUMNS, where):
        for row in plain_rows(batch):
            yield CoordinatorLine(*(row[name] for name in _LINE_COLUMNS))
