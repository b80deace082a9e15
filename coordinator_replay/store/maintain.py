"""The command ``maintain``: undo killed runs, delete old rows, merge small files, and remove files not needed any more.

It uses the Delta library alone. So it works on every store and needs no JVM.
"""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from deltalake import CommitProperties
from deltalake.exceptions import DeltaError
from pyarrow import fs

from coordinator_replay.errors import UsageError, WarehouseError
from coordinator_replay.filesystem import FAILURES, open_filesystem
from coordinator_replay.store.beginning import begin
from coordinator_replay.store.compaction import groups_of_small, rewrite
from coordinator_replay.store.keeping import PURGED_BY, kept_since, may_have_purged_rows, purge_of
from coordinator_replay.store.layout import DEFAULT_BUCKETS, LEDGER, STAGING, UPKEEP_PROPERTY
from coordinator_replay.store.snapshot import Snapshot, TableFile
from coordinator_replay.store.warehouse import Store
from coordinator_replay.store.writer import DataFile
from coordinator_replay.tables.definition import table
from coordinator_replay.tables.migrations import KEPT_SINCE_PROPERTY

SAFE_RETENTION = timedelta(days=7)
"""Delta's own limit: somebody who opened an older version may still read files that left the table within this time."""

STAGING_KEPT = timedelta(days=1)
"""Intermediate files of this age or younger may belong to a running audit, because older releases take no lock."""

_TABLES_AT_ONCE = 2
_HOUR = timedelta(hours=1)
_NO_DATA = re.compile(r"/_delta_log/|/\.[^/]*$")
"""Files that are not data: Delta's log, and Hadoop's checksum files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """Options of the command ``maintain``, named as on the command line.

    Attributes:
        vacuum_after: how long to keep files that tables no longer reference.
        keep: how long to keep rows after their end; None to keep all rows.
        force: allow ``vacuum_after`` below SAFE_RETENTION.
    """

    warehouse: str
    vacuum_after: timedelta = timedelta(days=30)
    keep: timedelta | None = None
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Space that the folder of a table, or of intermediate files, takes.

    Attributes:
        files: number of files of the table's present version; 0 for intermediate files.
        size: total size of these files in bytes.
        stored_files: number of data files in the folder, including files of earlier versions.
        stored: total size of the stored files in bytes.
    """

    files: int
    size: int
    stored_files: int
    stored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Result of the command ``maintain`` for one table, or for the folder of intermediate files.

    Attributes:
        name: the table, or ``_staging``.
        rows_removed: number of old rows that were deleted.
        before: number and size of the files before the command.
        after: number and size of the files after the command.
    """

    name: str
    rows_removed: int
    before: Size
    after: Size


def check_upkeep(upkeep: Upkeep) -> None:
    """Check that the warehouse exists, and that no file will be removed that somebody may be reading.

    Raises:
        UsageError: files would be removed that somebody may be reading.
        WarehouseError: there is no warehouse.
    """
    if upkeep.vacuum_after < SAFE_RETENTION and not upkeep.force:
        raise UsageError(
            f"--vacuum-after must be {SAFE_RETENTION.days}d or longer, so that readers of an earlier version of a "
            f"table can finish; --force allows less, if nobody reads"
        )
    filesystem, path = open_filesystem(f"{Store(upkeep.warehouse).path(LEDGER)}/_delta_log")
    if filesystem.get_file_info(path).type != fs.FileType.Directory:
        raise WarehouseError(f"there is no warehouse at {upkeep.warehouse}: the ledger {LEDGER} is not there")


def _files(uri: str) -> list[fs.FileInfo]:
    """Return the data files under a folder; none if the folder does not exist."""
    filesystem, path = open_filesystem(uri)
    infos = filesystem.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    return [info for info in infos if info.type == fs.FileType.File and not _NO_DATA.search(info.path)]


def _size(folder: str, files: Sequence[TableFile] = ()) -> Size:
    """Return the space that a folder takes. ``files`` are the present files of the folder's table, if it has one."""
    stored, size = _files(folder), sum(file.size for file in files)
    return Size(files=len(files), size=size, stored_files=len(stored), stored=sum(info.size for info in stored))


class _Upkeep:
    """Maintenance of a warehouse: deletes old rows, compacts and vacuums tables, removes old intermediate files."""

    def __init__(self, upkeep: Upkeep, now: datetime) -> None:
        self.upkeep = upkeep
        self.now = now
        self.store = Store(upkeep.warehouse)

    def table(self, name: str) -> Kept:
        """Perform the command ``maintain`` on a table.

        Raises:
            WarehouseError: the table is damaged, or can't be written.
        """
        try:
            return self._table(name)
        except FAILURES as problem:
            raise WarehouseError(
                f"{self.store.path(name)}: upkeep stopped, what it finished is kept: {problem}"
            ) from problem

    def _table(self, name: str) -> Kept:
        snapshot = self.store.create(name, DEFAULT_BUCKETS)
        before = _size(snapshot.uri, snapshot.every)
        removed = self.purge(snapshot)
        self.compact(self.snapshot(name))
        self.vacuum(self.snapshot(name))
        snapshot = self.snapshot(name)
        return Kept(name=name, rows_removed=removed, before=before, after=_size(snapshot.uri, snapshot.every))

    def snapshot(self, name: str) -> Snapshot:
        snapshot = self.store.snapshot(name)
        if snapshot is None:
            raise WarehouseError(f"{self.store.path(name)}: the table is missing")
        return snapshot

    def purge(self, snapshot: Snapshot) -> int:
        """Delete the rows of a table that are older than ``--keep``. Return the number of deleted rows."""
        if self.upkeep.keep is None or snapshot.table not in PURGED_BY:
            return 0
        purged_before = kept_since(snapshot.properties)
        # Purged rows do not come back, even if a later run would keep rows for longer.
        since = max(filter(None, (purged_before, self.now - self.upkeep.keep)))
        if since != purged_before:
            # The property comes first: from now on nothing older is written, and questions about it are refused.
            self._set_property(snapshot.table, KEPT_SINCE_PROPERTY, since.isoformat())
            snapshot = self.snapshot(snapshot.table)
        purge = purge_of(snapshot)
        if purge is None:
            return 0
        added: list[DataFile] = []
        removed: list[TableFile] = []
        rows = 0
        for file in snapshot.every:
            if may_have_purged_rows(file, purge):
                kept = rewrite(table(snapshot.table), snapshot.uri, [file], purge)
                count = sum(file.rows for file in kept)
                if count != file.rows:
                    removed.append(file)
                    added += kept
                    rows += (file.rows or count) - count
        self.store.commit(snapshot, added, removed, {UPKEEP_PROPERTY: "rows purged"})
        return rows

    def _set_property(self, name: str, key: str, value: str) -> None:
        opened = self.store.open(name)
        if opened is not None:
            opened.alter.set_table_properties(
                {key: value},
                raise_if_not_exists=False,
                commit_properties=CommitProperties(custom_metadata={UPKEEP_PROPERTY: "properties"}),
            )

    def compact(self, snapshot: Snapshot) -> None:
        """Merge small files of a table into large ones."""
        added: list[DataFile] = []
        removed: list[TableFile] = []
        for small in groups_of_small(snapshot.every):
            added += rewrite(table(snapshot.table), snapshot.uri, small)
            removed += small
        self.store.commit(snapshot, added, removed, {UPKEEP_PROPERTY: "compacted"}, changes_data=False)

    def vacuum(self, snapshot: Snapshot) -> None:
        """Remove files that left the table long ago, and files that killed runs never committed."""
        stored = _files(snapshot.uri)
        limit = self.now - self.upkeep.vacuum_after
        if len(stored) <= len(snapshot.every) or all((info.mtime or limit) > limit for info in stored):
            return
        opened = self.store.open(snapshot.table)
        if opened is None:
            return
        try:
            opened.vacuum(
                retention_hours=int(self.upkeep.vacuum_after / _HOUR),
                dry_run=False,
                enforce_retention_duration=not self.upkeep.force,
                commit_properties=CommitProperties(custom_metadata={UPKEEP_PROPERTY: "vacuumed"}),
                full=True,
            )
            # A checkpoint once a week is enough to keep the log short for everybody who opens the table.
            opened.create_checkpoint()
            opened.cleanup_metadata()
        except (DeltaError, OSError, ValueError) as problem:
            raise WarehouseError(f"{snapshot.uri}: files that are not needed can't be removed: {problem}") from problem

    def sweep(self) -> Kept:
        """Remove the folders of dead runs under the staging folder.

        A run counts as dead if its folder got no new file within the last ``STAGING_KEPT``. Return the size of the
        staging folder before and after the removal.
        """
        root = self.store.path(STAGING)
        before = _size(root)
        newest: dict[str, datetime] = {}
        filesystem, path = open_filesystem(root)
        for info in filesystem.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True)):
            if info.mtime is not None:
                folder = info.path.removeprefix(path).strip("/").split("/")[0]
                newest[folder] = max(info.mtime, newest.get(folder, info.mtime))
        for folder, touched in newest.items():
            if self.now - touched > STAGING_KEPT:
                filesystem.delete_dir(f"{path}/{folder}")
        return Kept(name=STAGING, rows_removed=0, before=before, after=_size(root))


def run_maintain(
    upkeep: Upkeep,
    report: Callable[[str], None] = lambda _step: None,
    now: datetime | None = None,
) -> list[Kept]:
    """Perform the command ``maintain`` on a warehouse. The caller must hold the lock of the warehouse.

    Args:
        upkeep: the options.
        report: called with each step that begins.
        now: the time from which ages are counted; None for the current time.

    Returns:
        The result for each table, and at the end the result for intermediate files of dead runs.

    Raises:
        UsageError: with these options, files would be removed that somebody may be reading.
        WarehouseError: no warehouse exists at the path, another release has written it, or somebody else changed it.
    """
    check_upkeep(upkeep)
    work = _Upkeep(upkeep, now or datetime.now(UTC))
    begun = begin(work.store)
    report(f"compacting and cleaning {len(begun.versions)} tables")
    with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
        done = list(pool.map(work.table, begun.versions))
    report("removing files that killed runs left")
    return [*done, work.sweep()]
