"""A folder of jars with which Spark can read from Kafka, even if one of the jars can't be fetched.

The jar for delegation tokens is missing from some mirrors. This project uses no such tokens, but Spark's Kafka source
does not load without the classes. ``stand-in/`` has the few methods that the source calls, for tests only.
"""

import shutil
import subprocess
from pathlib import Path

import pyspark
from kafka_jars import FOLDER, program

from coordinator_replay.errors import PrerequisiteError
from coordinator_replay.pipeline.host.jars import Library, delta, jars_of, kafka_source

TOKENS = "spark-token-provider-kafka"


def kafka_source_jars(folder: Path) -> Path:
    """Make a folder of jars for the variable ``COORDINATOR_REPLAY_JARS``, and return the folder.

    Raises:
        PrerequisiteError: Maven or a JDK is missing, or Maven could not fetch the other jars.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for jar in jars_of(delta()):
        shutil.copy(jar, folder)
    source = folder / kafka_source().folder
    source.mkdir()
    try:
        jars, is_whole = jars_of(kafka_source()), True
    except PrerequisiteError:
        jars, is_whole = jars_of(_without_tokens()), False
    for jar in jars:
        shutil.copy(jar, source)
    if not is_whole:
        _build_stand_in(source)
    return folder


def _without_tokens() -> Library:
    return Library(
        title=kafka_source().title,
        folder=f"{kafka_source().folder}-without-tokens",
        jars=[jar for jar in kafka_source().jars if not jar.artifact.startswith(TOKENS)],
        is_whole=True,
    )


def _build_stand_in(into: Path) -> None:
    sources = FOLDER / "stand-in"
    classes = into / "classes"
    spark = Path(pyspark.__path__[0]) / "jars" / "*"
    javac = program("javac", "compiling needs a JDK")
    files = [str(file) for file in sorted(sources.rglob("*.java"))]
    subprocess.run([javac, "--release", "17", "-nowarn", "-cp", str(spark), "-d", str(classes), *files], check=True)
    jar = program("jar", "packing needs a JDK")
    subprocess.run([jar, "cf", str(into / "stand-in.jar"), "-C", str(classes), "."], check=True)
    shutil.rmtree(classes)
