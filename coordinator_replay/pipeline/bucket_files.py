"""The files of one bucket while a run works on it: existing files, files to add, and files to remove."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from coordinator_replay.store.snapshot import TableFile
from coordinator_replay.store.writer import DataFile, FileWriter, Part, Purge, conform, staged_part, table_part
from coordinator_replay.tables.definition import table as declared


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The target of all rows of a run.

    Attributes:
        warehouse: path or URI of the warehouse.
        cluster: the cluster of the rows.
        folder: the folder for staged files.
        purges: the age from which old rows were deleted, by table. Rows of this age are not written again.
    """

    warehouse: str
    cluster: str
    folder: str
    purges: Mapping[str, Purge] = field(default_factory=dict)

    def part(self, table: str, bucket: int | None = None, is_open: bool | None = None) -> Part:
        """Return the folder and columns for rows of a table, given the values of the table's partition columns."""
        values = {"cluster": self.cluster, "bucket": bucket, "is_open": is_open}
        return table_part(declared(table), f"{self.warehouse}/{table}", values, self.purges.get(table))


class TableWriter:
    """A writer for one task: it writes rows of tables, and staged rows.

    Args:
        place: the folders for the rows.
        bucket: the bucket of the rows; None for tables without buckets.
    """

    def __init__(self, place: Place, bucket: int | None) -> None:
        self.place = place
        self.bucket = bucket
        self._writer = FileWriter()
        self._parts: dict[tuple[str, bool | None, int | None], Part] = {}

    def _part(self, table: str, is_open: bool | None, bucket: int | None) -> Part:
        key = (table, is_open, bucket)
        if key not in self._parts:
            self._parts[key] = self.place.part(table, bucket, is_open)
        return self._parts[key]

    def add(self, table: str, rows: pa.RecordBatch, *, is_open: bool | None = None, bucket: int | None = None) -> None:
        """Add rows to a table.

        Columns that the rows lack become null. Columns that the table lacks are left out.
        """
        if rows.num_rows:
            part = self._part(table, is_open, self.bucket if bucket is None else bucket)
            self._writer.add(part, conform(rows, part.schema))

    def add_rows(self, table: str, rows: Iterable[Mapping[str, Any]], *, is_open: bool | None = None) -> None:
        """Add rows of plain values to a table, with times in milliseconds."""
        self._writer.add_rows(self._part(table, is_open, self.bucket), rows)

    def stage(self, name: str, rows: pa.RecordBatch) -> None:
        """Add rows to the staged files called ``name``. These files exist only during the run."""
        if rows.num_rows:
            self._writer.add(self._staged(name, rows.schema), rows)

    def stage_rows(self, name: str, rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> None:
        """Add rows of plain values to the staged files called ``name``."""
        self._writer.add_rows(self._staged(name, schema), rows)

    def _staged(self, name: str, schema: pa.Schema) -> Part:
        return staged_part(name, f"{self.place.folder}/{name}", schema)

    def close(self) -> list[DataFile]:
        """Finish all files and return them.

        The field ``table`` of a staged file is None.
        """
        return self._writer.close()


@dataclass(slots=True)
class Changes:
    """Files to add to tables, and to remove from them."""

    added: list[DataFile] = field(default_factory=list)
    removed: list[TableFile] = field(default_factory=list)

    def rows(self, table: str) -> int:
        """Return the number of rows that a table gains; negative if the table loses rows."""
        added = sum(file.rows for file in self.added if file.table == table)
        return added - sum(file.rows or 0 for file in self.removed if file.table == table)

    def __add__(self, other: "Changes") -> "Changes":
        return Changes([*self.added, *other.added], [*self.removed, *other.removed])


@dataclass(slots=True)
class BucketFiles:
    """A bucket with its files and their changes.

    Each stage gets this object from the stage before.

    Attributes:
        bucket: number of the bucket.
        is_rebuild: whether the bucket's rows are derived from the first record on.
        existing: files that the tables have, by table.
        added: files to add.
        removed: files to remove.
        staged: files for later stages, by name.
    """

    bucket: int
    is_rebuild: bool
    existing: Mapping[str, tuple[TableFile, ...]]
    added: list[DataFile] = field(default_factory=list)
    removed: list[TableFile] = field(default_factory=list)
    staged: dict[str, list[DataFile]] = field(default_factory=dict)

    def take(self, files: Iterable[DataFile]) -> None:
        """Add the files of a writer to the staged files, or to the files that tables gain."""
        for file in files:
            if file.table is None:
                self.staged.setdefault(file.part, []).append(file)
            else:
                self.added.append(file)

    def old(self, table: str, is_open: bool | None = None) -> list[TableFile]:
        """Return files that the table had when the run began, including files that the run has removed.

        Args:
            table: name of the table.
            is_open: only files of open rows (True), or only files of closed rows (False); None for all files.
        """
        return [file for file in self.existing.get(table, ()) if is_open is None or file.is_open == is_open]

    def new(self, table: str) -> list[DataFile]:
        """Return the files that this run adds to a table."""
        return [file for file in self.added if file.table == table]

    def remove(self, table: str, is_open: bool | None = None) -> None:
        """Remove files that the table had when the run began, see ``old``."""
        removed = {file.uri for file in self.removed}
        self.removed += [file for file in self.old(table, is_open) if file.uri not in removed]

    def uris(self, table: str) -> list[str]:
        """Return all files of a table after the additions and removals so far."""
        removed = {file.uri for file in self.removed}
        kept = [file.uri for file in self.old(table) if file.uri not in removed]
        return [*kept, *(file.path for file in self.new(table))]
