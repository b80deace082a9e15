"""What a session is tuned for, by the files of the dump."""

import os

import pytest

from coordinator_replay.cli.compute import _load
from coordinator_replay.log.dump import Dump, DumpFile, Format
from coordinator_replay.pipeline.host.session import Load

MUCH = 1 << 30


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)


def segment(folder, partition, *, size=MUCH, is_current=True):
    uri = f"{folder}/__consumer_offsets-{partition}/00000000000000000000.log"
    return DumpFile(uri, partition, size, is_current)


@pytest.mark.parametrize(
    ("segments", "load"),
    [
        ([segment("/a", 0, size=1000), segment("/b", 0, size=1000)], Load.SMALL),
        ([segment("/a", 0), segment("/b", 1)], Load.WORKERS),
        ([segment("/a", 0), segment("/b", 0)], Load.ROWS),
        ([segment("/a", 0), segment("/a", 0, is_current=False)], Load.ROWS),
        ([], Load.ROWS),
    ],
    ids=["little", "no copies", "two replicas", "what the log has lost", "no segments"],
)
def test_only_copies_and_rows_that_spark_reads_are_work_for_spark(segments, load, tmp_path):
    form = Format.SEGMENTS if segments else Format.PARQUET
    assert _load(Dump(form, segments), str(tmp_path / "warehouse")) is load


def test_tables_are_read_by_spark_where_they_are_far_away_or_tasks_are_many(tmp_path, monkeypatch):
    dump = Dump(Format.SEGMENTS, [segment("/a", 0)])
    assert _load(dump, "s3://lake/audit") is Load.ROWS
    assert _load(dump, f"file://{tmp_path}") is Load.WORKERS
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert _load(dump, f"file://{tmp_path}") is Load.ROWS


def test_a_small_dump_for_a_large_warehouse_is_no_small_load(tmp_path):
    table = tmp_path / "offset_commits"
    table.mkdir()
    with (table / "part-0.parquet").open("wb") as file:
        file.truncate(MUCH)
    assert _load(Dump(Format.SEGMENTS, [segment("/a", 0, size=1000)]), str(tmp_path)) is Load.WORKERS
