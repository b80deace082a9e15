"""Audits of recorded dumps that many tests ask about: each is made once in a run, for all of its workers.

A test about what an audit does makes its own; one that only asks about the tables takes them from here.
"""

import fcntl
import hashlib
import pickle
import shutil
from pathlib import Path
from typing import Any, NamedTuple

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

    Args:
        folder: the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def __call__(self, *dumps: Path | str, **options: Any) -> Audited:
        """Return the warehouse of dumps that nobody changes, with options as `audit_here` takes them."""
        asked = repr((tuple(map(str, dumps)), sorted(options.items())))
        place = self._folder / hashlib.sha256(asked.encode()).hexdigest()[:16]
        kept, warehouse = place.with_suffix(".summary"), place / "warehouse"
        with place.with_suffix(".lock").open("w") as lock:
            # Another worker may be at it: closing the file lets the next one in, and so does the end of a process.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                shutil.rmtree(place, ignore_errors=True)
                summary = audit_here(warehouse, *dumps, **options)
                kept.write_bytes(pickle.dumps((summary, _files_of(warehouse))))
        summary, files = pickle.loads(kept.read_bytes())
        assert _files_of(warehouse) == files, f"a test wrote to the warehouse that others share: {asked}"
        return Audited(warehouse, summary)


def _files_of(warehouse: Path) -> set[tuple[str, int]]:
    """Return the files of a warehouse with their sizes."""
    return {(str(file), file.stat().st_size) for file in warehouse.rglob("*") if file.is_file()}
