"""Files below a folder of this machine. Each file is listed once, even if several links lead to it.

A folder from somebody else may have links that lead back into it, so that each file has endlessly many paths. It may
have links to private files of whoever reads the folder. It may have pipes or devices, which never end. So a link that
leads out of the folder is not followed, and ``LocalFile`` tells which files must not be opened.
"""

import os
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from coordinator_replay.errors import InputError


class LocalFile(NamedTuple):
    """A file of a folder, or a file to which a link of the folder leads.

    Attributes:
        path: path by which the file was found; begins with the folder's path as it was given.
        size: size in bytes.
        is_regular: False for a pipe, a socket or a device, which must not be opened.
        leads_out: True for a link that leads out of the folder; its target is not looked at.
        modified_ns: time of the last write, in nanoseconds since 1970.
    """

    path: str
    size: int
    is_regular: bool
    leads_out: bool = False
    modified_ns: int | None = None


def _status(path: str) -> os.stat_result | None:
    """Return the status of the file at a path; None if there is no file, or a link leads nowhere or in a circle."""
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


def _is_below(path: str, folder: str) -> bool:
    """Return whether a path leads to the given folder, or to something in it.

    The folder's path must have no links.
    """
    real = os.path.realpath(path)
    return real == folder or real.startswith(folder if folder.endswith(os.sep) else f"{folder}{os.sep}")


def _is_open(path: str, status: os.stat_result, root: str) -> bool:
    """Return whether the files of a folder are listed: the path leads to a folder, and this folder lies in ``root``."""
    return stat.S_ISDIR(status.st_mode) and _is_below(path, root)


def _file(path: str, status: os.stat_result, root: str) -> LocalFile:
    if not _is_below(path, root):
        return LocalFile(path, 0, is_regular=False, leads_out=True)
    return LocalFile(path, status.st_size, stat.S_ISREG(status.st_mode), modified_ns=status.st_mtime_ns)


def files_below(path: str, within: str | None = None) -> Iterator[LocalFile]:
    """Yield a file, or every file below a folder. Yield no file twice.

    If several paths lead to a file, a path without links is preferred. Links that lead nowhere are left out.

    Args:
        path: the file or folder; it may be a link itself.
        within: the folder in which links may lead to files; None for ``path`` itself. A link that leads out of this
            folder is not followed, but yielded with ``leads_out``.

    Raises:
        InputError: the path does not exist, or a folder can't be read.
    """
    status = _status(path)
    if status is None:
        raise InputError(f"{path}: no such file or folder")
    root = os.path.realpath(path if within is None else within)
    if not _is_open(path, status, root):
        yield _file(path, status, root)
        return
    folders, linked = deque([path]), deque[str]()
    seen: set[str] = set()
    while folders or linked:
        path = folders.popleft() if folders else linked.popleft()
        real = os.path.realpath(path)
        if real in seen:
            continue
        seen.add(real)
        status = _status(path)
        if status is None:
            continue
        if not _is_open(path, status, root):
            yield _file(path, status, root)
            continue
        for entry in _entries(path):
            if not entry.name.isascii() and "\udc80" <= max(entry.name) <= "\udcff":
                raise InputError(f"{path}: holds a file whose name is not UTF-8: {os.fsencode(entry.name)!r}")
            (linked if entry.is_symlink() else folders).append(entry.path)
