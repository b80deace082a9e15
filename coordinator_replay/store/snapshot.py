"""One version of a table: its files, with the partition values and the lowest and highest values in Delta's log."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import unquote

from deltalake import DeltaTable

from coordinator_replay.store.opening import properties_of


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of a table, with its facts in Delta's log.

    Attributes:
        table: the table's name.
        uri: the file, as a path or URI.
        action_path: the file's name in Delta's log: relative to the table, encoded like a URL's path.
        size: size in bytes.
        rows: number of the file's rows; None if the log does not say it.
        cluster: value of the partition column ``cluster``.
        bucket: value of the partition column ``bucket``; None for a table without buckets.
        is_open: value of the partition column ``is_open``; None for a table that does not separate open rows.
        lowest: a lower bound of the values in each column; columns without a known bound are left out.
        highest: an upper bound of the values in each column; columns without a known bound are left out.
    """

    table: str
    uri: str
    action_path: str
    size: int
    rows: int | None
    cluster: str
    bucket: int | None = None
    is_open: bool | None = None
    lowest: Mapping[str, Any] = field(default_factory=dict)
    highest: Mapping[str, Any] = field(default_factory=dict)

    def partition_values(self) -> dict[str, Any]:
        """Return the values of the table's partition columns, by column."""
        values = {"cluster": self.cluster, "bucket": self.bucket, "is_open": self.is_open}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table as of one version.

    Attributes:
        table: name of the table.
        uri: folder of the table.
        version: Delta's version.
        properties: the table's properties.
        every: all files of the table.
    """

    table: str
    uri: str
    version: int
    properties: Mapping[str, str]
    every: tuple[TableFile, ...]

    @classmethod
    def of(cls, name: str, uri: str, opened: DeltaTable) -> Self:
        """Return the snapshot of an opened table.

        Args:
            name: the table's name.
            uri: folder of the table.
            opened: the table at some version.
        """
        return cls(name, uri, opened.version(), properties_of(opened), tuple(_files_of(name, uri, opened)))

    def files(self, *, cluster: str | None = None) -> list[TableFile]:
        """Return the files with rows of a cluster; of all clusters if None."""
        return [file for file in self.every if cluster is None or file.cluster == cluster]

    def rows(self, cluster: str) -> int:
        """Return the number of rows of a cluster. A file whose number of rows is not in Delta's log counts as 0."""
        return sum(file.rows or 0 for file in self.files(cluster=cluster))


def _files_of(name: str, uri: str, opened: DeltaTable) -> Iterator[TableFile]:
    for action in opened.get_add_actions(flatten=True).to_struct_array().to_pylist():
        path = action["path"]
        yield TableFile(
            table=name,
            uri=unquote(path) if "://" in path else f"{uri}/{unquote(path)}",
            action_path=path,
            size=action["size_bytes"],
            rows=action.get("num_records"),
            cluster=action.get("partition.cluster"),
            bucket=action.get("partition.bucket"),
            is_open=action.get("partition.is_open"),
            lowest=_bounds(action, "min."),
            highest=_bounds(action, "max."),
        )


def _bounds(action: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the lower or upper bounds of a file in Delta's log, by column."""
    return {
        column.removeprefix(kind): bound
        for column, bound in action.items()
        if column.startswith(kind) and bound is not None
    }
