"""Files that DuckDB opens through Python, only for reading.

DuckDB has no file system that only reads: a statement that may read a file may also write it. A file system in Python
can refuse to write. It also opens files that DuckDB can't open: files of object stores, and files whose names look like
patterns.
"""

from datetime import UTC, datetime
from pathlib import Path
from threading import Lock, get_ident
from typing import Any, Protocol

from fsspec import AbstractFileSystem

from coordinator_replay.store.local_paths import local_path

SCHEME = "arrow"
"""The scheme before the path or URI of a file that DuckDB opens through Python."""

_UNCHANGED = datetime(2000, 1, 1, tzinfo=UTC)


class _Readable(Protocol):
    """Methods of an open file that several threads may read at the same time. pyarrow's files have these methods."""

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Return the bytes at an offset of the file."""

    def close(self) -> None:
        """Close the file."""


class _LocalFile:
    """An open file on this machine."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("rb", buffering=0)  # noqa: SIM115 - DuckDB closes it
        self._lock = Lock()

    def read_at(self, nbytes: int, offset: int) -> bytes:
        with self._lock:
            self._file.seek(offset)
            return self._file.read(nbytes)

    def close(self) -> None:
        self._file.close()


def _elsewhere(uri: str) -> tuple[Any, str]:
    """Return pyarrow's filesystem for a file that is not on this machine, and the file's path in this filesystem."""
    # Files of this machine need no pyarrow, whose import takes longer than many answers.
    from coordinator_replay.filesystem import open_filesystem

    return open_filesystem(uri)


class ReadHandle:
    """An open file with the calls that DuckDB makes: seek to a position, then read there.

    Threads of DuckDB may share a handle, and another thread may seek in between. So each thread has its own position.
    """

    def __init__(self, file: _Readable) -> None:
        self._file = file
        self._places: dict[int, int] = {}

    def seek(self, place: int) -> None:
        """Set this thread's position in the file."""
        self._places[get_ident()] = place

    def tell(self) -> int:
        """Return this thread's position in the file."""
        return self._places.get(get_ident(), 0)

    def read(self, count: int) -> bytes:
        """Read bytes at this thread's position, and move the position to the end of these bytes.

        Near the end of the file, return fewer bytes than ``count``.
        """
        place = self.tell()
        found = self._file.read_at(count, place)
        self.seek(place + len(found))
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ArrowFiles(AbstractFileSystem):  # type: ignore[misc]
    """A read-only file system for DuckDB. A file's name is ``arrow://`` followed by its path or URI."""

    protocol = SCHEME
    cachable = False

    def glob(self, path: str, **_options: Any) -> list[str]:
        """Return a list with only the given name. Characters such as ``*`` in the name have no special meaning."""
        return [path]

    def open(self, path: str, mode: str = "rb", **_options: Any) -> ReadHandle:
        """Open a file.

        Raises:
            PermissionError: the mode is not for reading.
        """
        if mode != "rb":
            raise PermissionError(f"{path} can be read, not written")
        uri = self.uri_of(path)
        own = local_path(uri)
        if own is not None:
            return ReadHandle(_LocalFile(own))
        filesystem, place = _elsewhere(uri)
        return ReadHandle(filesystem.open_input_file(place))

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        """Return name, size and type of a file."""
        uri = self.uri_of(path)
        own = local_path(uri)
        if own is not None:
            return {"name": path, "size": Path(own).stat().st_size, "type": "file"}
        filesystem, place = _elsewhere(uri)
        return {"name": path, "size": filesystem.get_file_info(place).size, "type": "file"}

    def modified(self, _path: str) -> datetime:
        """Return the same time for all files: files of a table are written once and never change."""
        return _UNCHANGED

    def uri_of(self, path: str) -> str:
        """Return the path or URI of a file, given its name in DuckDB."""
        return path.removeprefix(f"{SCHEME}://")
