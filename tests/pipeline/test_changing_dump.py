"""Dumps that change between the listing of their files and the end of reading."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from coordinator_replay.errors import InputError
from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.pipeline.audit import Options, audit
from tests.nightly import rest_at_night
from tests.pipeline.in_process import InProcess, audit_here, contents
from tests.samples import DATA

SEGMENTS = DATA / "transactions" / "segments"
PARQUET = DATA / "transactions" / "parquet"
Change = Callable[[Path], object]


@dataclass(frozen=True, kw_only=True)
class Changing(InProcess):
    """Stages of an audit whose dump changes when they begin to decode, or when they have."""

    change: Callable[[], object]
    is_before: bool

    def run_on_files(self, name: str, shares: Any, stage: Any, size: Any = None) -> list[Any]:
        run = InProcess.run
        return self._changing(lambda: run(self, name, shares, stage, size))

    def run_on_rows(self, name: str, dump: Any, stage: Any) -> list[Any]:
        run = InProcess.run_on_rows
        return self._changing(lambda: run(self, name, dump, stage))

    def _changing(self, run: Callable[[], list[Any]]) -> list[Any]:
        if self.is_before:
            self.change()
            return run()
        result = run()
        self.change()
        return result


def _rename(file: Path) -> None:
    file.rename(f"{file}.deleted")


def _truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _grow(file: Path) -> None:
    file.write_bytes(file.read_bytes() * 2)


def _roll(file: Path) -> None:
    (file.parent / f"{10**9:020d}.log").write_bytes(b"")


def _rewrite(file: Path) -> None:
    raw = file.read_bytes()
    file.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    os.utime(file, ns=(1, 1))


def _remove_all(file: Path) -> None:
    shutil.rmtree(file.parent)


CHANGES = {
    "was deleted": Path.unlink,
    "was deleted or renamed": _rename,
    "shrank from": _truncate,
    "grew from": _grow,
    "was added": _roll,
    "was written to": _rewrite,
    "was deleted or renamed ": _remove_all,
}


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize(("what", "change"), rest_at_night(CHANGES.items(), list(CHANGES.items())[::2], several=True))
def test_a_dump_that_changes_while_it_is_read_is_refused_in_a_sentence(
    tmp_path: Path, what: str, change: Change, is_before: bool
):
    dump = Path(shutil.copytree(SEGMENTS, tmp_path / "dump"))
    file = max(dump.rglob("*.log"), key=lambda one: one.stat().st_size)
    warehouse = tmp_path / "warehouse"
    options = Options(inputs=[str(dump)], warehouse=str(warehouse))
    with pytest.raises(InputError, match=f"the dump changed while it was read: .* {what.strip()}") as failure:
        audit(Changing(change=lambda: change(file), is_before=is_before), options)
    assert "Errno" not in str(failure.value)
    assert "nothing was written" in str(failure.value)
    assert not list(warehouse.rglob("*.parquet"))


def test_an_export_that_changes_while_it_is_read_is_refused(tmp_path: Path):
    dump = Path(shutil.copytree(PARQUET, tmp_path / "dump"))
    file = max(dump.rglob("*.parquet"))
    options = Options(inputs=[str(dump)], warehouse=str(tmp_path / "warehouse"))
    with pytest.raises(InputError, match="shrank from"):
        audit(Changing(change=lambda: _truncate(file), is_before=True), options)


@pytest.mark.long
def test_a_second_night_whose_dump_changes_leaves_the_first_one_s_tables(tmp_path: Path):
    dump = Path(shutil.copytree(SEGMENTS, tmp_path / "dump"))
    warehouse = tmp_path / "warehouse"
    audit_here(warehouse, dump)
    before = contents(warehouse)
    file = max(dump.rglob("*.log"), key=lambda one: one.stat().st_size)
    options = Options(inputs=[str(dump)], warehouse=str(warehouse), full=True)
    with pytest.raises(InputError, match="was deleted or renamed"):
        audit(Changing(change=file.unlink, is_before=False), options)
    assert contents(warehouse) == before


def test_a_file_of_a_store_that_is_gone_is_told_in_a_sentence(tmp_path: Path):
    filesystem, path = open_filesystem("memory://changing-dump/__consumer_offsets-0")
    assert not isinstance(filesystem, fs.LocalFileSystem)
    file = f"{path}/{0:020d}.log"
    filesystem.create_dir(path, recursive=True)
    with filesystem.open_output_stream(file) as stream:
        stream.write(max(SEGMENTS.rglob("*.log"), key=lambda one: one.stat().st_size).read_bytes())
    options = Options(inputs=["memory://changing-dump"], warehouse=str(tmp_path / "warehouse"))
    with pytest.raises(InputError, match=r"0\.log was deleted or renamed"):
        audit(Changing(change=lambda: filesystem.delete_file(file), is_before=True), options)


def test_a_change_of_what_is_not_read_is_no_change_of_the_dump(tmp_path: Path):
    dump = Path(shutil.copytree(SEGMENTS, tmp_path / "dump"))
    other = dump / "orders-0" / f"{0:020d}.log"
    other.parent.mkdir()
    other.write_bytes(b"")
    options = Options(inputs=[str(dump)], warehouse=str(tmp_path / "warehouse"))
    changing = Changing(change=lambda: other.write_bytes(b"more"), is_before=True)
    assert audit(changing, options).run.status
