"""What is missing is counted over all files of a log partition."""

from pathlib import Path

from coordinator_replay.log.dump import DumpFile
from coordinator_replay.log.gaps import missing_before_files
from tests.log.writer import LogEntry, write_batch

ENTRY = LogEntry(key=b"k", value=b"v", timestamp_ms=0)


def segment(folder: Path, name: str, *batches: tuple[int, int], log_partition: int = 3) -> DumpFile:
    """A file of batches, each given by its base offset and its number of records."""
    path = folder / name
    path.write_bytes(b"".join(write_batch([ENTRY] * count, base_offset=base) for base, count in batches))
    return DumpFile(str(path), log_partition, path.stat().st_size)


def test_what_earlier_files_and_the_places_between_lack_counts(tmp_path: Path) -> None:
    files = [
        segment(tmp_path, "c", (30, 2), (40, 1)),
        segment(tmp_path, "a", (5, 5), (12, 3)),  # 5 before, 2 within
        segment(tmp_path, "b", (20, 10)),  # 5 between
        segment(tmp_path, "other", (7, 1), log_partition=4),
        segment(tmp_path, "empty"),
    ]
    assert missing_before_files(files) == [12, 5, 12, 7, 0]


def test_damage_is_missing_too(tmp_path: Path) -> None:
    first = segment(tmp_path, "a", (0, 5), (5, 5))
    data = bytearray(Path(first.uri).read_bytes())
    data[100] ^= 1
    Path(first.uri).write_bytes(data)
    assert missing_before_files([first, segment(tmp_path, "b", (10, 1))])[1] == 5
