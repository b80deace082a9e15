"""The benchmark's made-up fleet, in small: groups that rebalance, commit, and expire, in a log of many batches."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SCRIPTS = Path(__file__).parents[1] / "scripts"


@contextmanager
def _scripts() -> Iterator[None]:
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield
    finally:
        sys.path.remove(str(SCRIPTS))


def write_fleet(folder: Path, *, records: int = 20_000, groups: int = 100) -> Path:
    """Write a dump of two log partitions, some 1,300 batches each."""
    with _scripts():
        from benchmarks.dump import make_dump
    return make_dump(folder, records=records, groups=groups)


def cut_nights(dump: Path, into: Path, nights: int) -> list[Path]:
    """Cut hundredths off the end of each log partition: the dump without them, then one a night."""
    with _scripts():
        from benchmarks import nightly
    return nightly.cut_nights(dump, into, nights=nights)
