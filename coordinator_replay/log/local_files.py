"""Files below a folder of this machine, each once: however links lead to it, and whatever else lies there.

A folder that somebody sent may hold links that lead back into it, by which each file has endlessly many paths, and
pipes or devices, which never end.
"""

import os
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from coordinator_replay.errors import InputError


class LocalFile(NamedTuple):
    """A file that was found.

    Attributes:
        path: as it was come by, from the folder on.
        size: in bytes.
        is_regular: False for a pipe, a socket or a device, which is not to be opened.
    """

    path: str
    size: int
    is_regular: bool


def _status(path: str) -> os.stat_result | None:
    """What lies at a path; None for nothing, or a link that leads nowhere or in a circle."""
    try:
        return Path(path).stat()
    except OSError:
        return None


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as problem:
        raise InputError(f"{folder}: can't be read: {problem.strerror}") from problem


def files_below(path: str) -> Iterator[LocalFile]:
    """A file, or every file below a folder; none of them twice.

    Paths without links come first, so that a file that has one is not known by another.

    Raises:
        InputError: there is nothing, or a folder can't be read.
    """
    status = _status(path)
    if status is None:
        raise InputError(f"{path}: no such file or folder")
    if not stat.S_ISDIR(status.st_mode):
        yield LocalFile(path, status.st_size, stat.S_ISREG(status.st_mode))
        return
    folders, linked = deque([path]), deque[str]()
    seen: set[str] = set()
    while folders or linked:
        found = folders.popleft() if folders else linked.popleft()
        real = os.path.realpath(found)
        if real in seen:
            continue
        seen.add(real)
        status = _status(found)
        if status is None:
            continue
        if not stat.S_ISDIR(status.st_mode):
            yield LocalFile(found, status.st_size, stat.S_ISREG(status.st_mode))
            continue
        for entry in _entries(found):
            if not entry.name.isascii() and "\udc80" <= max(entry.name) <= "\udcff":
                raise InputError(f"{found}: holds a file whose name is not UTF-8: {os.fsencode(entry.name)!r}")
            (linked if entry.is_symlink() else folders).append(entry.path)
