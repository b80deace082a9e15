"""A warehouse: a folder of Delta tables. The driver opens them, makes them, and commits files to them."""

import time
from collections.abc import Sequence

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from coordinator_replay.errors import WarehouseError
from coordinator_replay.filesystem import FAILURES, open_filesystem
from coordinator_replay.store.evolution import evolve
from coordinator_replay.store.layout import (
    BUCKETS_PROPERTY,
    STAGING,
    STATS_PROPERTY,
    partition_text,
    stats_columns,
)
from coordinator_replay.store.opening import check_place, delta_uri, open_table
from coordinator_replay.store.snapshot import Snapshot, TableFile
from coordinator_replay.store.writer import DataFile
from coordinator_replay.tables.definition import Table
from coordinator_replay.tables.definition import table as declared
from coordinator_replay.tables.migrations import SCHEMA_VERSION, SCHEMA_VERSION_PROPERTY


class Store:
    """The tables under one path or object-store URI.

    Args:
        uri: the folder in which each table is a folder of its own name.

    Raises:
        WarehouseError: no warehouse can be there.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/") or uri
        check_place(self.uri)

    def path(self, name: str) -> str:
        """Return the path of a table."""
        return f"{self.uri}/{name}"

    def staging(self, run_id: str) -> str:
        """Return the folder for a run's intermediate files.

        The run removes the folder at its end.
        """
        return f"{self.uri}/{STAGING}/{run_id}"

    def open(self, name: str, version: int | None = None) -> DeltaTable | None:
        """Return a table at its newest version or at a given version; None if it does not exist.

        Raises:
            WarehouseError: the folder can't be read as a Delta table, or another release has made the table.
        """
        return open_table(self.path(name), version)

    def snapshot(self, name: str) -> Snapshot | None:
        """Return a table at its newest version, with its files; None if the table does not exist.

        Raises:
            WarehouseError: the folder can't be read as a Delta table, or another release has made the table.
        """
        opened = self.open(name)
        return None if opened is None else Snapshot.of(name, self.path(name), opened)

    def create(self, name: str, buckets: int) -> Snapshot:
        """Create a table by its definition.

        An existing table gets the columns that are new in the definition.

        Args:
            name: name of a defined table.
            buckets: how many buckets the warehouse has.

        Raises:
            WarehouseError: the table's folder has other files, or a table of an older release that can't be used.
        """
        table, opened = declared(name), self.open(name)
        if opened is None:
            self._check_folder(name)
        try:
            if opened is not None:
                evolve(opened, table, self.path(name))
                return Snapshot.of(name, self.path(name), opened)
            made = DeltaTable.create(
                delta_uri(self.path(name)),
                table.arrow_schema(),
                partition_by=list(table.partitioned_by),
                description=table.about,
                configuration=_properties(table, buckets),
                raise_if_key_not_exists=False,
            )
        except (DeltaError, OSError, ValueError) as problem:
            raise WarehouseError(f"{self.path(name)}: table {name} can't be made: {problem}") from problem
        return Snapshot.of(name, self.path(name), made)

    def _check_folder(self, name: str) -> None:
        path = self.path(name)
        try:
            filesystem, folder = open_filesystem(path)
            there = filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        except FAILURES as problem:
            raise WarehouseError(f"{path}: can't be used as table {name}: {problem}") from problem
        if any(info.base_name != "_delta_log" for info in there):
            raise WarehouseError(f"{path}: can't be used as table {name}: the folder holds other files")

    @staticmethod
    def commit(
        snapshot: Snapshot,
        added: Sequence[DataFile],
        removed: Sequence[TableFile],
        info: dict[str, str],
        *,
        changes_data: bool = True,
    ) -> int:
        """Add files to a table and remove others, in one commit.

        Args:
            snapshot: the table as it was opened. If somebody has changed the table since, the commit is refused.
            added: files that were written into the table's folder.
            removed: files of the snapshot that the table loses.
            info: entries for Delta's commit information, such as the id of the run.
            changes_data: False if the commit only moves the same rows to other files.

        Returns:
            The table's version after the commit; the snapshot's version if there is nothing to commit.

        Raises:
            WarehouseError: the table was changed since the snapshot, or can't be written.
        """
        if not added and not removed:
            return snapshot.version
        table, now = declared(snapshot.table), int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [_add(file, snapshot.uri, now, changes_data) for file in added]
        actions += [RemoveAction(file.action_path, changes_data, now, file.size, _texts(file)) for file in removed]
        try:
            opened = DeltaTable(delta_uri(snapshot.uri), version=snapshot.version)
            opened.create_write_transaction(
                actions,
                mode="append",
                schema=table.arrow_schema(),
                partition_by=list(table.partitioned_by),
                commit_properties=CommitProperties(custom_metadata=info, max_commit_retries=0),
            )
        except (DeltaError, OSError, ValueError) as problem:
            raise WarehouseError(
                f"{snapshot.uri}: the table was changed by somebody else while this run was at work, or can't be "
                f"written ({problem}); run it again"
            ) from problem
        return snapshot.version + 1


def _properties(table: Table, buckets: int) -> dict[str, str]:
    return {
        SCHEMA_VERSION_PROPERTY: str(SCHEMA_VERSION),
        BUCKETS_PROPERTY: str(buckets),
        STATS_PROPERTY: stats_columns(table),
    }


def _add(file: DataFile, folder: str, now: int, changes_data: bool) -> AddAction:
    path = file.path.removeprefix(f"{folder}/")
    return AddAction(path, file.size, dict(file.partition), now, changes_data, file.stats)


def _texts(file: TableFile) -> dict[str, str | None]:
    return {name: partition_text(value) for name, value in file.partition_values().items()}
