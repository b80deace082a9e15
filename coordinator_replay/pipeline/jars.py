"""Delta's jars: fetched once into a cache, then handed to Spark as files, so that later starts touch no network.

Maven is asked where it is at hand, because it honours a user's mirrors and proxies; else Spark's own resolver is.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from coordinator_replay.errors import PrerequisiteError

GROUP = "io.delta"
ARTIFACT = "delta-spark_4.2_2.13"

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>coordinator-replay</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
  </dependency></dependencies>
</project>
"""


def cache_folder() -> Path:
    """Where the jars are kept: ``COORDINATOR_REPLAY_JARS``, or a folder of the user's cache."""
    named = os.environ.get("COORDINATOR_REPLAY_JARS")
    if named:
        return Path(named)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "coordinator-replay" / f"delta-spark-{version('delta-spark')}"


def delta_jars() -> list[Path]:
    """Delta's jars, fetched if they are not there yet.

    Raises:
        PrerequisiteError: they are not there and can't be fetched.
    """
    folder = cache_folder()
    jars = sorted(folder.glob("*.jar"))
    if jars:
        return jars
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            fetched = Path(scratch) / "jars"
            fetched.mkdir()
            (_fetch_with_maven if shutil.which("mvn") else _fetch_with_spark)(Path(scratch), fetched)
            if not folder.exists():
                fetched.rename(folder)
    except OSError as problem:
        raise PrerequisiteError(f"Delta's jars can't be kept in {folder}: {problem}") from problem
    return sorted(folder.glob("*.jar"))


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line] or ["no reason given"]
        raise PrerequisiteError(f"Delta's jars can't be fetched with {what}: {said[0].strip()}")


def _fetch_with_maven(scratch: Path, into: Path) -> None:
    pom = scratch / "pom.xml"
    pom.write_text(_POM.format(group=GROUP, artifact=ARTIFACT, version=version("delta-spark")))
    options = [f"-DoutputDirectory={into}", "-DincludeScope=runtime", f"-DincludeGroupIds={GROUP}"]
    _run(["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *options], "Maven")


def _fetch_with_spark(scratch: Path, into: Path) -> None:
    coordinate = f"{GROUP}:{ARTIFACT}:{version('delta-spark')}"
    ivy = scratch / "ivy"
    start = (
        "from pyspark.sql import SparkSession; SparkSession.builder.master('local[1]')"
        f".config('spark.jars.packages', {coordinate!r}).config('spark.jars.ivy', {str(ivy)!r})"
        ".config('spark.ui.enabled', 'false').getOrCreate().stop()"
    )
    _run([sys.executable, "-c", start], "Spark's resolver")
    for jar in (ivy / "jars").glob(f"{GROUP}_*.jar"):
        shutil.copy(jar, into / jar.name.removeprefix(f"{GROUP}_"))


if __name__ == "__main__":
    print("\n".join(str(jar) for jar in delta_jars()))  # noqa: T201
