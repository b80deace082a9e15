"""The baseline of whole audits: a plain copy of raw records into Delta, by a Spark session of its own.

An audit of segments has its JVM compile by the first of its two compilers only, which would double the time of a copy:
so this is measured in a process whose JVM is as Spark starts it.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.measured import seconds


def copy_seconds(small: Path, dump: Path, into: Path) -> float:
    """How long a copy takes, start-up aside.

    Args:
        small: a dump that is copied beforehand, so that what is compiled first does not count.
        dump: what to copy.
        into: a folder for the copies.
    """
    command = [sys.executable, "-m", "benchmarks.copying", *map(str, (small, dump, into))]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[-1])


def _main(small: str, dump: str, into: str) -> None:
    from coordinator_replay.pipeline.decode import read_segments

    from coordinator_replay.log.dump import find_dump
    from coordinator_replay.pipeline.host.session import open_session

    spark = open_session("coordinator-replay-copy")

    def copy(folder: str) -> None:
        rows = read_segments(spark, find_dump([folder]).segments)
        rows.write.format("delta").mode("overwrite").save(into)

    copy(small)
    took = seconds(lambda: copy(dump))
    shutil.rmtree(into)
    sys.stdout.write(f"{took}\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
