"""Jars that pip does not install.

The jars are fetched once into a cache and passed to Spark as files. So later starts need no network. If Maven is
installed, Maven fetches the jars, with the user's mirrors and proxies. If not, Spark's own resolver fetches them.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from coordinator_replay.errors import PrerequisiteError
from coordinator_replay.pipeline.host import spark_versions

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>coordinator-replay</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = """<dependency>
  <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>{exclusions}
</dependency>
"""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A jar as Maven names it."""

    group: str
    artifact: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A library of the JVM that Spark does not bring.

    Attributes:
        title: the library's name, for people.
        folder: the library's folder in the cache.
        jars: the jars to fetch.
        is_whole: whether ``jars`` includes the library's dependencies. If not, the dependencies with the same Maven
            group id are fetched as well.
    """

    title: str
    folder: str
    jars: Sequence[Coordinate]
    is_whole: bool

    def has(self, file_name: str) -> bool:
        """Return whether a jar that Spark's resolver fetched belongs to this library.

        The resolver puts the group id in front of each file name.
        """
        if self.is_whole:
            return file_name in {f"{jar.group}_{jar.artifact}-{jar.version}.jar" for jar in self.jars}
        return any(file_name.startswith(f"{jar.group}_") for jar in self.jars)


@cache
def delta() -> Library:
    """Return Delta's library for this Spark.

    Raises:
        PrerequisiteError: the package delta-spark is not installed here, or fits another Spark.
    """
    try:
        from delta import configure_spark_with_delta_pip

        builder: Any = configure_spark_with_delta_pip(SparkSession.Builder())
    # Delta raises a bare Exception if pip has no metadata of Delta's package.
    except Exception as problem:
        raise PrerequisiteError(
            f"Delta's jars are needed for dumps in Delta and for --database, and the package delta-spark, which knows "
            f"them, is missing or fits another Spark than {spark_versions.version_text()} ({problem}); install it, or "
            "run jobs/audit.py in a session that knows Delta"
        ) from problem
    group, artifact, version = builder._options["spark.jars.packages"].split(":")
    return Library(
        title="Delta",
        folder=f"{artifact}-{version}",
        jars=(Coordinate(group, artifact, version),),
        is_whole=False,
    )


@cache
def kafka_source() -> Library:
    """Return the library of Spark's Kafka source for this Spark, with the list of all its jars."""
    # The list has all jars, so nothing is read from the library's Maven definition. That definition would send Maven to
    # a mirror that not every network can reach.
    built, version = spark_versions.kafka_source(), spark_versions.version_text()
    return Library(
        title="Spark's Kafka source",
        folder=f"spark-sql-kafka-{version}",
        jars=(
            Coordinate("org.apache.spark", f"spark-sql-kafka-0-10_{built.scala}", version),
            Coordinate("org.apache.spark", f"spark-token-provider-kafka-0-10_{built.scala}", version),
            Coordinate("org.apache.kafka", "kafka-clients", built.kafka_clients),
            Coordinate("org.apache.commons", "commons-pool2", built.commons_pool),
        ),
        is_whole=True,
    )


def cache_folder(library: Library) -> Path:
    """Return the folder for a library's jars.

    Each library has a subfolder of the user's cache, or of the folder that the variable ``COORDINATOR_REPLAY_JARS``
    names. Delta's jars are an exception: they are directly in the folder that the variable names.
    """
    named = os.environ.get("COORDINATOR_REPLAY_JARS")
    if named and library is delta():
        return Path(named)
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coordinator-replay"
    return (Path(named) if named else own) / library.folder


def jars_of(library: Library) -> list[Path]:
    """Return a library's jars. If the cache has no jars of the library, fetch all of them.

    Raises:
        PrerequisiteError: the jars can't be fetched, or can't be written to the cache.
    """
    folder = cache_folder(library)
    jars = sorted(folder.glob("*.jar"))
    if jars:
        return jars
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            fetched = Path(scratch) / "jars"
            fetched.mkdir()
            (_fetch_with_maven if shutil.which("mvn") else _fetch_with_spark)(library, Path(scratch), fetched)
            if not folder.exists():
                fetched.rename(folder)
    except OSError as problem:
        raise PrerequisiteError(f"the jars of {library.title} can't be kept in {folder}: {problem}") from problem
    return sorted(folder.glob("*.jar"))


def _run(command: list[str], library: Library, what: str, scratch: Path) -> None:
    # Both programs read settings and code from their working directory, so they get an empty one.
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        errors = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line] or ["no reason given"]
        raise PrerequisiteError(
            f"the jars of {library.title} ({', '.join(map(str, library.jars))}) can't be fetched with {what}: "
            f"{errors[0].strip()}; where this machine can't reach Maven Central, copy {cache_folder(library)} from one "
            "that has run the same command, or keep them in a folder that COORDINATOR_REPLAY_JARS names"
        )


def _fetch_with_maven(library: Library, scratch: Path, into: Path) -> None:
    exclusions = _ALONE if library.is_whole else ""
    dependencies = "".join(
        _DEPENDENCY.format(group=jar.group, artifact=jar.artifact, version=jar.version, exclusions=exclusions)
        for jar in library.jars
    )
    pom = scratch / "pom.xml"
    pom.write_text(_POM.format(dependencies=dependencies))
    groups = ",".join(sorted({jar.group for jar in library.jars}))
    options = [f"-DoutputDirectory={into}", "-DincludeScope=runtime", f"-DincludeGroupIds={groups}"]
    _run(["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *options], library, "Maven", scratch)


def _fetch_with_spark(library: Library, scratch: Path, into: Path) -> None:
    coordinates = ",".join(map(str, library.jars))
    ivy = scratch / "ivy"
    start = (
        "from pyspark.sql import SparkSession; SparkSession.builder.master('local[1]')"
        f".config('spark.jars.packages', {coordinates!r}).config('spark.jars.ivy', {str(ivy)!r})"
        ".config('spark.ui.enabled', 'false').getOrCreate().stop()"
    )
    _run([sys.executable, "-P", "-c", start], library, "Spark's resolver", scratch)
    for jar in (ivy / "jars").glob("*.jar"):
        if library.has(jar.name):
            shutil.copy(jar, into / jar.name.partition("_")[2])


if __name__ == "__main__":
    # Fetches Delta's jars; with --kafka also the jars of the Kafka source.
    for needed in (delta(), kafka_source()) if "--kafka" in sys.argv else (delta(),):
        print("\n".join(str(jar) for jar in jars_of(needed)))  # noqa: T201
