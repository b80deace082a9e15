"""Upkeep of a warehouse: tables brought up to the release, old history given up, files compacted and removed."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from delta.tables import DeltaTable
from pyarrow import fs
from pyspark.sql import SparkSession

from coordinator_replay.errors import UsageError, WarehouseError
from coordinator_replay.log.dump import open_filesystem
from coordinator_replay.pipeline.evolution import bring_up, properties_of, set_property
from coordinator_replay.pipeline.keeping import FORGETFUL, is_over, kept_since
from coordinator_replay.pipeline.session import changed_settings
from coordinator_replay.pipeline.warehouse import STAGING, TABLES_AT_ONCE, Warehouse
from coordinator_replay.tables.definition import tables
from coordinator_replay.tables.migrations import KEPT_SINCE_PROPERTY, SCHEMA_VERSION, check_version, version_of

SAFE_RETENTION = timedelta(days=7)
"""Delta's own limit: files that left a table later than this may still be read by somebody who opened it before."""

STAGING_KEPT = timedelta(days=1)
"""Intermediate files younger than this may be those of a run that takes no lock: one of an older release."""

_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
"""A vacuum lists its table in so many tasks, 10,000 by default, however small the table."""
_LISTING_TASKS = 16
_HOUR = timedelta(hours=1)
_ASIDE = re.compile(r"/_delta_log/|/\.[^/]*$")
"""Files that are no data: Delta's log, checksums that Hadoop keeps beside each file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What is asked of upkeep; the names are those of the command line.

    Attributes:
        vacuum_after: remove files that left their table so long ago.
        keep: give up history that was over so long ago; None keeps all.
        force: allow ``vacuum_after`` below what is safe.
    """

    warehouse: str
    vacuum_after: timedelta = timedelta(days=30)
    keep: timedelta | None = None
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much something takes.

    Attributes:
        files: files that the table consists of now.
        size: their bytes.
        stored_files: data files in its folder, those of earlier versions among them.
        stored: their bytes.
    """

    files: int
    size: int
    stored_files: int
    stored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What was done to one table, or to the folder of intermediate files.

    Attributes:
        name: the table, or ``_staging``.
        from_version: the version of the contract that the table followed before.
        rows_removed: rows of history that were given up.
    """

    name: str
    from_version: int
    rows_removed: int
    before: Size
    after: Size


def check_upkeep(upkeep: Upkeep) -> None:
    """Make sure that what is asked can't harm anybody who reads at the same time.

    Raises:
        UsageError: files would be removed that somebody may be reading, or there is no warehouse.
    """
    if upkeep.vacuum_after < SAFE_RETENTION and not upkeep.force:
        raise UsageError(
            f"--vacuum-after must be {SAFE_RETENTION.days}d or longer, so that whoever reads an earlier version of a "
            f"table can finish; --force does it where nobody reads"
        )
    if not _there(upkeep.warehouse):
        raise WarehouseError(f"there is no warehouse at {upkeep.warehouse}: it holds none of the tables")


def stored_bytes(uri: str) -> int:
    """How large the files of a warehouse are, of its tables and others."""
    return sum(info.size for info in _files(uri))


def _there(uri: str) -> list[str]:
    """The tables that a warehouse has, by the folders of their logs: so that nothing needs Spark to be told."""
    filesystem, path = open_filesystem(uri)
    logs = {f"{path.rstrip('/')}/{name}/_delta_log": name for name in tables()}
    infos = filesystem.get_file_info(list(logs))
    return [logs[info.path] for info in infos if info.type == fs.FileType.Directory]


def _files(uri: str) -> list[fs.FileInfo]:
    """The data files under a folder; none where there is no folder."""
    filesystem, path = open_filesystem(uri)
    infos = filesystem.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    return [info for info in infos if info.type == fs.FileType.File and not _ASIDE.search(info.path)]


def _settings(*, force: bool) -> dict[str, str]:
    """What a session needs for vacuums: to be without Delta's own check of the limit, where that was asked for."""
    return {_LISTING: str(_LISTING_TASKS)} | ({_CHECK: "false"} if force else {})


class _Upkeep:
    """Upkeep of one warehouse."""

    def __init__(self, spark: SparkSession, upkeep: Upkeep, now: datetime) -> None:
        self.spark = spark
        self.upkeep = upkeep
        self.now = now
        self.warehouse = Warehouse(spark, upkeep.warehouse)

    def table(self, name: str) -> Kept:
        path = self.warehouse.path(name)
        before = self.size(name)
        from_version = bring_up(self.spark, path, tables()[name])
        removed = self.give_up(name)
        if before.files > 1 or removed:
            self.spark.sql(f"OPTIMIZE delta.`{path}`")
        if self.has_files_to_remove(name):
            DeltaTable.forPath(self.spark, path).vacuum(self.upkeep.vacuum_after / _HOUR)
        return Kept(name=name, from_version=from_version, rows_removed=removed, before=before, after=self.size(name))

    def has_files_to_remove(self, name: str) -> bool:
        """Whether a vacuum could find anything: what it costs has nothing to do with what it finds."""
        stored = _files(self.warehouse.path(name))
        limit = self.now - self.upkeep.vacuum_after
        return len(stored) > self.size(name).files and any((info.mtime or limit) <= limit for info in stored)

    def size(self, name: str) -> Size:
        detail = DeltaTable.forPath(self.spark, self.warehouse.path(name)).detail()
        now = detail.select("numFiles", "sizeInBytes").collect()[0]
        stored = _files(self.warehouse.path(name))
        return Size(
            files=now["numFiles"],
            size=now["sizeInBytes"],
            stored_files=len(stored),
            stored=sum(info.size for info in stored),
        )

    def give_up(self, name: str) -> int:
        """Delete rows of history that were over long ago; returns how many."""
        if self.upkeep.keep is None or name not in FORGETFUL:
            return 0
        path = self.warehouse.path(name)
        told = kept_since(properties_of(self.spark, path))
        # Rows that are gone do not come back because a later run would keep them for longer.
        since = max(filter(None, (told, self.now - self.upkeep.keep)))
        if since != told:
            # First: from now on nothing older is written, and questions about it are refused.
            set_property(self.spark, path, KEPT_SINCE_PROPERTY, since.isoformat())
        held = self.warehouse.read(name)
        over = is_over(name, held.columns, since)
        rows = held.where(over).count()
        if rows:
            DeltaTable.forPath(self.spark, path).delete(over)
        return rows

    def sweep(self) -> Kept:
        """Remove what runs that died have left between reading and writing."""
        root = f"{self.upkeep.warehouse.rstrip('/')}/{STAGING}"
        before = _files(root)
        newest: dict[str, datetime] = {}
        filesystem, path = open_filesystem(root)
        for info in filesystem.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True)):
            folder = info.path.removeprefix(path).strip("/").split("/")[0]
            newest[folder] = max(info.mtime or self.now, newest.get(folder, info.mtime or self.now))
        for folder, touched in newest.items():
            if self.now - touched > STAGING_KEPT:
                filesystem.delete_dir(f"{path}/{folder}")
        after = _files(root)
        return Kept(name=STAGING, from_version=SCHEMA_VERSION, rows_removed=0, before=_all(before), after=_all(after))


def _all(files: list[fs.FileInfo]) -> Size:
    """The size of files that belong to no table."""
    return Size(files=0, size=0, stored_files=len(files), stored=sum(info.size for info in files))


def run_maintain(
    spark: SparkSession,
    upkeep: Upkeep,
    report: Callable[[str], None] = lambda _step: None,
    now: datetime | None = None,
) -> list[Kept]:
    """Keep a warehouse in good order.

    Args:
        spark: a session that knows Delta.
        upkeep: what is asked.
        report: is told which step begins.
        now: what ages are counted from; the clock if None.

    Returns:
        What was done, table by table; intermediate files of dead runs last.

    Raises:
        UsageError: what is asked could harm readers.
        WarehouseError: there is no warehouse, or one of a newer release.
    """
    check_upkeep(upkeep)
    work = _Upkeep(spark, upkeep, now or datetime.now(UTC))
    there = _there(upkeep.warehouse)
    # All before any is touched.
    for name in there:
        path = work.warehouse.path(name)
        check_version(version_of(properties_of(spark, path)), path)
    report(f"compacting and cleaning {len(there)} tables")
    with (
        changed_settings(spark, _settings(force=upkeep.force)),
        ThreadPoolExecutor(TABLES_AT_ONCE) as pool,
    ):
        done = list(pool.map(work.table, there))
    report("removing what dead runs left")
    return [*done, work.sweep()]
