"""Files that DuckDB can't open by itself, through pyarrow's filesystems: what lies in an object store, odd names."""

from datetime import UTC, datetime
from typing import Any

from fsspec import AbstractFileSystem

from coordinator_replay.filesystem import open_filesystem

SCHEME = "arrow"
"""What stands before the path or URI of such a file."""

_UNCHANGED = datetime(2000, 1, 1, tzinfo=UTC)


class ArrowFiles(AbstractFileSystem):  # type: ignore[misc]
    """Files by path or URI, each after ``arrow://``. Files of a table are written once: they never change."""

    protocol = SCHEME

    def glob(self, path: str, **_options: Any) -> list[str]:
        """The file of that very name: nothing in it is a pattern."""
        return [path]

    def open(self, path: str, _mode: str = "rb", **_options: Any) -> Any:
        """A file to read from."""
        filesystem, place = self._place(path)
        return filesystem.open_input_file(place)

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        """How large a file is."""
        filesystem, place = self._place(path)
        return {"name": path, "size": filesystem.get_file_info(place).size, "type": "file"}

    def modified(self, _path: str) -> datetime:
        """When a file was changed: never."""
        return _UNCHANGED

    @staticmethod
    def _place(path: str) -> tuple[Any, str]:
        return open_filesystem(path.removeprefix(f"{SCHEME}://"))
