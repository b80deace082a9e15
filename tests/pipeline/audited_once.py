"""Audits of recorded dumps that many tests ask about: each is made once in a run, for all of its workers.

A test about what an audit does makes its own; one that only asks about the tables takes them from here.
"""

import fcntl
import hashlib
import pickle
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from coordinator_replay.pipeline.audit import Summary
from tests.pipeline.in_process import audit_here


class Audited(NamedTuple):
    """A finished audit.

    Attributes:
        warehouse: the folder, which nobody writes to.
        summary: what the audit said.
    """

    warehouse: Path
    summary: Summary

    def copy(self, to: Path) -> Path:
        """Copy the warehouse for a test that writes to it."""
        return Path(shutil.copytree(self.warehouse, to))


class AuditedOnce:
    """Warehouses in a folder that all workers of a run share.

    As a context, it makes sure at the end that nobody has written to one of them.

    Args:
        folder: the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A worker that ends earlier sees only what was written so far; the one that writes looks after its last test.
        for kept in sorted(self._folder.glob("*.summary")):
            with self._locked(kept):
                _made(kept)

    def __call__(self, *dumps: Path | str, **options: Any) -> Audited:
        """Return the warehouse of dumps that nobody changes, with options as `audit_here` takes them."""
        asked = repr((tuple(map(str, dumps)), sorted(options.items())))
        place = self._folder / hashlib.sha256(asked.encode()).hexdigest()[:16]
        kept, warehouse = place.with_suffix(".summary"), place / "warehouse"
        with self._locked(kept):
            if not kept.exists():
                shutil.rmtree(place, ignore_errors=True)
                summary = audit_here(warehouse, *dumps, **options)
                kept.write_bytes(pickle.dumps((Audited(warehouse, summary), asked, _files_of(warehouse))))
        return _made(kept)

    @staticmethod
    @contextmanager
    def _locked(kept: Path) -> Iterator[None]:
        with kept.with_suffix(".lock").open("w") as lock:
            # Another worker may be at it: closing the file lets the next one in, and so does the end of a process.
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _made(kept: Path) -> Audited:
    """Return a kept audit, and make sure that nobody has written to its warehouse."""
    audited, asked, files = pickle.loads(kept.read_bytes())
    assert _files_of(audited.warehouse) == files, f"a test wrote to the warehouse that others share: {asked}"
    return audited


def _files_of(warehouse: Path) -> set[tuple[str, int]]:
    """Return the files of a warehouse with their sizes."""
    return {(str(file), file.stat().st_size) for file in warehouse.rglob("*") if file.is_file()}
