"""The job of a run: the values that its steps work with, such as the options and the opened warehouse.

``begin_job`` opens the warehouse. ``Job.commit`` commits the files of the run.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyarrow import fs

from coordinator_replay.errors import UsageError
from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.pipeline.bucket_files import Changes, Place, TableWriter
from coordinator_replay.pipeline.ledger import History, Run, finished_runs
from coordinator_replay.pipeline.log_partitions import TABLE as PARTITIONS
from coordinator_replay.pipeline.options import Options
from coordinator_replay.pipeline.plan import BUCKET_TABLES
from coordinator_replay.pipeline.read.look_up import earlier_logs
from coordinator_replay.pipeline.reading import Earlier
from coordinator_replay.pipeline.stage import Stages
from coordinator_replay.store.beginning import begin
from coordinator_replay.store.compaction import upkeep_note
from coordinator_replay.store.keeping import purge_of
from coordinator_replay.store.layout import BUCKETS_PROPERTY, LEDGER, RUN_PROPERTY, default_buckets
from coordinator_replay.store.scan import read_table
from coordinator_replay.store.snapshot import Snapshot, TableFile
from coordinator_replay.store.warehouse import Store
from coordinator_replay.tables.definition import tables

_TABLES_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Job:
    """Values that the steps of a run work with.

    Attributes:
        stages: runs the stages.
        options: the options of the run.
        store: the warehouse.
        snapshots: the state of each of the warehouse's tables at the beginning of the run, by table.
        buckets: number of buckets.
        place: the folders for the rows that are written.
    """

    stages: Stages
    options: Options
    store: Store
    snapshots: dict[str, Snapshot]
    buckets: int
    place: Place

    def files(self, table: str) -> list[TableFile]:
        """Return the cluster's files of a table."""
        return self.snapshots[table].files(cluster=self.options.cluster)

    def uris(self, table: str, changes: Changes) -> list[str]:
        """Return the cluster's files of a table after the run's changes so far."""
        removed = {file.uri for file in changes.removed}
        kept = [file.uri for file in self.files(table) if file.uri not in removed]
        return [*kept, *(file.path for file in changes.added if file.table == table)]

    def upkeep_note(self, changes: Changes) -> str | None:
        """Return a note that tells the user to run ``maintain``; None if it is not needed.

        Return None for an audit with ``--follow``, which does this work itself.
        """
        if self.options.follow is not None:
            return None
        removed = {file.uri for file in changes.removed}
        kept = (file for snapshot in self.snapshots.values() for file in snapshot.every if file.uri not in removed)
        return upkeep_note(kept, changes.added)

    def bucket_files(self) -> list[TableFile]:
        """Return the cluster's files of all tables that have buckets."""
        return [file for name in BUCKET_TABLES for file in self.files(name)]

    def earlier(self) -> Earlier:
        """Return the facts about the log that earlier runs have stored."""
        files = self.files(PARTITIONS)
        rows = [row for batch in read_table(files, ["log_partition", "complete_ranges"]) for row in batch.to_pylist()]
        return Earlier(
            history=History(finished_runs(self.snapshots[LEDGER], self.options.cluster)),
            logs=earlier_logs(files),
            complete={
                row["log_partition"]: [(span["from_offset"], span["to_offset"]) for span in row["complete_ranges"]]
                for row in rows
            },
            tables=self.bucket_files(),
            is_read_again=self.options.full,
        )

    def commit(self, run: Run, changes: Changes) -> None:
        """Commit the files of all tables.

        The ledger is committed last.
        """
        names = [name for name in tables() if name != LEDGER]

        def one(name: str) -> int:
            added = [file for file in changes.added if file.table == name]
            removed = [file for file in changes.removed if file.table == name]
            return self.store.commit(self.snapshots[name], added, removed, {RUN_PROPERTY: run.run_id})

        with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
            run.table_versions = dict(zip(names, pool.map(one, names), strict=True))
        run.table_versions[LEDGER] = self.snapshots[LEDGER].version + 1
        run.finished_at = datetime.now(UTC)
        run.status = "done"
        writer = TableWriter(self.place, None)
        writer.add_rows(LEDGER, [run.row()])
        self.store.commit(self.snapshots[LEDGER], writer.close(), [], {RUN_PROPERTY: run.run_id})

    def clean_up(self) -> None:
        """Remove staged files, and the folder of the warehouse if it is empty."""
        filesystem, path = open_filesystem(self.place.folder)
        if filesystem.get_file_info(path).type == fs.FileType.Directory:
            filesystem.delete_dir(path)
        if "://" not in self.store.uri:
            # A plan must not leave a folder if there was no warehouse.
            for folder in (Path(self.place.folder).parent, Path(self.store.uri)):
                with suppress(OSError):
                    folder.rmdir()


def begin_job(stages: Stages, options: Options, *, is_plan: bool = False) -> tuple[Job, Run]:
    """Open the warehouse for a run, and return the job and the run.

    Also undo the changes of a killed run, and create missing tables.

    Args:
        stages: runs the stages.
        options: the options of the run.
        is_plan: change nothing, and only read the warehouse as the last finished run left it.

    Raises:
        UsageError: the options ask for another number of buckets than the warehouse has.
        WarehouseError: the warehouse can't be used.
    """
    store = Store(options.warehouse)
    ledger = store.snapshot(LEDGER)
    buckets = _buckets(ledger, options, is_local=stages.is_local)
    begun = begin(store, except_derived=options.full, undoes=not is_plan)
    run = Run.begin(options.cluster, options.inputs, options.settings(), begun.last.run_id)
    run.notes += [f"restored {name}: an earlier run had not finished" for name in begun.undone]

    def snapshot(name: str) -> Snapshot:
        if not is_plan:
            return store.create(name, buckets)
        opened = store.open(name, begun.versions[name]) if name in begun.versions else None
        uri = store.path(name)
        return Snapshot(name, uri, -1, {}, ()) if opened is None else Snapshot.of(name, uri, opened)

    with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
        snapshots = dict(zip(tables(), pool.map(snapshot, tables()), strict=True))
    purges = {name: purge for name, snapshot in snapshots.items() if (purge := purge_of(snapshot)) is not None}
    place = Place(warehouse=store.uri, cluster=options.cluster, folder=store.staging(run.run_id), purges=purges)
    return Job(stages.observed_by(run.take_metrics), options, store, snapshots, buckets, place), run


def _buckets(ledger: Snapshot | None, options: Options, *, is_local: bool) -> int:
    """Return the number of buckets of a warehouse.

    Args:
        ledger: the warehouse's ledger; None if the warehouse is new.
        options: the options of the run.
        is_local: whether all tasks run on one machine.

    Raises:
        UsageError: the options ask for another number than the warehouse has.
    """
    if ledger is None:
        return options.buckets or default_buckets(is_local=is_local)
    buckets = int(ledger.properties[BUCKETS_PROPERTY])
    if options.buckets not in (None, buckets):
        raise UsageError(
            f"the warehouse {options.warehouse} has {buckets} buckets, and --buckets {options.buckets} asks for "
            "another number. Only a new warehouse can have another: leave the option out, or name a new warehouse"
        )
    return buckets
