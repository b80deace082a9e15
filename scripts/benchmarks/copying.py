"""The baseline of whole audits: a plain copy of raw records into Delta, by a Spark session of its own.

The copy runs in a process of its own, whose session has Spark's own settings. An audit's JVM uses only the first of
Java's two compilers, and Spark generates no code for it. This suits stages in Python, but would make a copy by Spark
several times slower.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measured import seconds
from benchmarks.plain_session import open_plain_session


def copy_seconds(small: Path, dump: Path, into: Path) -> float:
    """Return the seconds that a copy takes, without start-up.

    Args:
        small: a dump that is copied first, so that the first compilation does not count.
        dump: the dump to copy.
        into: a folder for the copies.
    """
    command = [sys.executable, "-m", "benchmarks.copying", *map(str, (small, dump, into))]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[-1])


def _main(small: str, dump: str, into: str) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    from coordinator_replay.log.dump import find_dump
    from coordinator_replay.log.reading import read_file
    from coordinator_replay.log.schema import LOG_RECORD

    spark = open_plain_session("coordinator-replay-copy")

    def copy(folder: str) -> None:
        files = find_dump([folder]).segments

        def read(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                for place in batch.column(0).to_pylist():
                    yield from (part.records for part in read_file(files[place]))

        schema = from_arrow_schema(LOG_RECORD, prefer_timestamp_ntz=False)
        rows = spark.range(0, len(files), 1, max(len(files), 1)).mapInArrow(read, schema)
        rows.write.format("delta").mode("overwrite").save(into)

    copy(small)
    took = seconds(lambda: copy(dump))
    shutil.rmtree(into)
    sys.stdout.write(f"{took}\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
