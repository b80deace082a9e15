"""The only files that DuckDB can open when it runs statements of users: files of tables, read-only, and scratch space.

Both are file systems in Python, so this module decides which files a statement can open.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath
from tempfile import TemporaryFile
from threading import Lock
from typing import Any

from fsspec import AbstractFileSystem

from coordinator_replay.store.arrow_files import ArrowFiles, ReadHandle

TABLES = "tables"
"""The scheme of the names in ``TableFiles``."""

SCRATCH = "scratch"
"""The scheme of names in ``ScratchFiles``."""

_SPILLED = "duckdb_temp_"
"""Prefix of DuckDB's names for files with data that does not fit into memory."""


class TableFiles(ArrowFiles):
    """Files of tables, for reading.

    Statements can open a file only after ``name`` has given the file a name.
    """

    protocol = TABLES

    def __init__(self) -> None:
        super().__init__()
        self._uris: dict[str, str] = {}

    def name(self, uris: Iterable[str]) -> list[str]:
        """Give names to files. Return the names, by which DuckDB can open the files from now on."""
        return [self._name(uri) for uri in uris]

    def _name(self, uri: str) -> str:
        name = f"{TABLES}://{len(self._uris)}/{PurePosixPath(uri).name}"
        self._uris[name] = uri
        return name

    def glob(self, path: str, **_options: Any) -> list[str]:
        """Return the file that was given exactly this name.

        Raises:
            PermissionError: no file was given this name.
        """
        self.uri_of(path)
        return [path]

    def uri_of(self, path: str) -> str:
        """Return the real path or URI of the file that a statement opens as ``path``.

        Raises:
            PermissionError: ``path`` is not the name of a table's file.
        """
        if path not in self._uris:
            raise PermissionError(f"{path} is no file of a table")
        return self._uris[path]


class _ScratchFile:
    """A file that has no name on disk: it is gone once it is closed, even if the process is killed."""

    def __init__(self) -> None:
        self._file = TemporaryFile(buffering=0)  # noqa: SIM115 - closed by its file system
        self._lock = Lock()

    def read_at(self, nbytes: int, offset: int) -> bytes:
        with self._lock:
            self._file.seek(offset)
            return self._file.read(nbytes)

    def write_at(self, data: bytes, offset: int) -> None:
        with self._lock:
            self._file.seek(offset)
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]

    def size(self) -> int:
        with self._lock:
            return self._file.seek(0, 2)

    def close(self) -> None:
        """Do nothing: the file stays, because DuckDB may open it again."""

    def remove(self) -> None:
        self._file.close()


class _ScratchHandle(ReadHandle):
    """An open scratch file."""

    def __init__(self, file: _ScratchFile) -> None:
        super().__init__(file)
        self._scratch = file

    def write(self, data: bytes) -> int:
        """Write bytes at this thread's position, and return their number."""
        place = self.tell()
        self._scratch.write_at(data, place)
        self.seek(place + len(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: no other process reads the file."""


class ScratchFiles(AbstractFileSystem):  # type: ignore[misc]
    """Scratch space for data that does not fit into memory. Its files have names for DuckDB, but no names on disk."""

    protocol = SCRATCH
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[str, _ScratchFile] = {}

    def open(self, path: str, mode: str = "rb", **_options: Any) -> _ScratchHandle:
        """Open a file.

        If the mode is for writing, create the file.

        Raises:
            FileNotFoundError: there is no file of this name to read.
            PermissionError: this is not a name that DuckDB gives to a scratch file.
        """
        if not PurePosixPath(path).name.startswith(_SPILLED):
            raise PermissionError(f"{path} can't be opened: scratch space is the engine's own")
        if mode != "rb":
            self._files[path] = _ScratchFile()
        return _ScratchHandle(self._file(path))

    def _file(self, path: str) -> _ScratchFile:
        if path not in self._files:
            raise FileNotFoundError(f"{path} does not exist")
        return self._files[path]

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        """Return name, size and type of a file."""
        return {"name": path, "size": self._file(path).size(), "type": "file"}

    def isdir(self, _path: str) -> bool:
        """Return true, so that DuckDB makes no folders."""
        return True

    def ls(self, _path: str, _detail: bool = True, **_options: Any) -> list[Any]:
        """Return nothing: there are no files of other processes to remove."""
        return []

    def glob(self, path: str, **_options: Any) -> list[str]:
        """Refuse to list files: DuckDB knows the names of its scratch files.

        Raises:
            PermissionError: always.
        """
        raise PermissionError(f"{path} can't be listed: scratch space is the engine's own")

    def rm(self, path: str, **_options: Any) -> None:
        """Remove a file."""
        if path in self._files:
            self._files.pop(path).remove()

    def touch(self, _path: str, **_options: Any) -> None:
        """Do nothing. DuckDB calls this method to truncate a file, but the call does not have the new length."""

    def close(self) -> None:
        """Remove all files."""
        for path in list(self._files):
            self.rm(path)
