"""When an audit says that upkeep is due."""

from collections.abc import Iterable

import pytest

from coordinator_replay.store.compaction import LARGE_FILE, MOST_SMALL_FILES, upkeep_note
from coordinator_replay.store.snapshot import TableFile
from coordinator_replay.store.writer import DataFile

MOST = MOST_SMALL_FILES


def stored(count: int, table: str = "offset_commits", size: int = 1000, **values) -> list[TableFile]:
    named = {"cluster": "default", "bucket": 3, **values}
    return [TableFile(table, f"{table}/{number}", f"{number}", size, 1, **named) for number in range(count)]


def added(count: int, table: str | None = "offset_commits", size: int = 1000, bucket: str = "3") -> list[DataFile]:
    values = (("cluster", "default"), ("bucket", bucket))
    return [DataFile("part", table, f"new/{number}", 1, size, "", values) for number in range(count)]


@pytest.mark.parametrize(
    ("files", "new"),
    [
        ([], []),
        (stored(MOST), []),
        (stored(MOST - 1), added(1)),
        (stored(MOST), added(9, bucket="4")),
        (stored(MOST), added(9, table=None)),
        (stored(MOST), added(9, size=LARGE_FILE)),
        (stored(MOST) + stored(9, size=LARGE_FILE), []),
        (stored(MOST) + stored(MOST, bucket=4) + stored(MOST, "group_records") + stored(MOST, cluster="other"), []),
        (stored(MOST, "rebalances", is_open=True) + stored(MOST, "rebalances", is_open=False), []),
    ],
)
def test_nothing_is_said_while_no_bucket_has_too_many_small_files(files: Iterable, new: Iterable):
    assert upkeep_note(files, new) is None


def test_the_bucket_with_the_most_small_files_is_named():
    note = upkeep_note(stored(MOST) + stored(MOST + 5, "group_records"), added(2))
    assert note == f"upkeep is due: bucket 3 of group_records has {MOST + 5} small files, which maintain merges"


def test_what_a_run_adds_counts():
    note = upkeep_note(stored(MOST - 1), added(2))
    assert note == f"upkeep is due: bucket 3 of offset_commits has {MOST + 1} small files, which maintain merges"


def test_a_table_without_buckets_is_named_alone():
    note = upkeep_note(stored(MOST + 1, "topics", bucket=None), [])
    assert note == f"upkeep is due: topics has {MOST + 1} small files, which maintain merges"
