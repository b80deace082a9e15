"""An archive of the classes that a session on this machine loads. With it, the JVM starts in about half the time.

``scripts/setup`` makes the archive once, with ``python -m coordinator_replay.pipeline.host.class_archive``. If the
archive does not fit the classpath or Java's version, Java starts without it (dynamic class data sharing, JEP 350).
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PATH = Path(sys.prefix) / "share" / "coordinator-replay" / "classes.jsa"
"""Path of the archive, inside this installation, because it fits no other installation."""

_MAKE = "COORDINATOR_REPLAY_CLASS_ARCHIVE"
"""Environment variable with the file to which a session writes its classes."""

BARE_SESSION = """
from coordinator_replay.pipeline.host.session import open_session
from coordinator_replay.pipeline.stage import SparkStages
def absolute(number: int) -> int:
    return abs(number)
spark = open_session()
SparkStages(spark).run("nothing", [1], absolute)
spark.stop()
"""
"""A program that starts a session, runs one Python job and stops."""


def java_options() -> tuple[str, ...]:
    """Return the JVM options with which a session reads the archive of classes; none if there is no archive.

    While ``make_archive`` runs, return the option with which a session writes the archive.
    """
    if _MAKE in os.environ:
        return (f"-XX:ArchiveClassesAtExit={os.environ[_MAKE]}",)
    if not PATH.exists():
        return ()
    return f"-XX:SharedArchiveFile={PATH}", "-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr"


def make_archive() -> None:
    """Write the classes that a session loads to an archive, from which the JVM starts faster.

    The classes come from a session that runs one job. This takes about ten seconds.

    Raises:
        OSError: the archive can't be written to ``PATH``.
        subprocess.CalledProcessError: no session can be started.
    """
    PATH.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=PATH.parent) as scratch:
        made = Path(scratch) / PATH.name
        # The JVM writes the archive after Python has ended. Both write to one output, which ends when both have ended.
        # ``run`` waits for this end.
        command, environment = [sys.executable, "-P", "-c", BARE_SESSION], {**os.environ, _MAKE: str(made)}
        subprocess.run(command, env=environment, capture_output=True, check=True)  # noqa: S603
        if made.exists():
            made.replace(PATH)


if __name__ == "__main__":
    make_archive()
