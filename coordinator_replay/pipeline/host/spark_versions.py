"""Differences between Spark 3.5, 4.0, 4.1, 4.2 and 4.3. Only this module looks at Spark's version.

The version comes from ``pyspark.__version__``, and not from pip's metadata, which a platform's own Spark does not have.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, NamedTuple

import pyspark
from pyspark import accumulators
from pyspark.sql import SparkSession

from coordinator_replay.errors import PrerequisiteError

Version = tuple[int, int]

OLDEST: Version = (3, 5)
"""The oldest Spark that audits run on."""


class Feature(Enum):
    """A feature that not every Spark has.

    Each value has the beginning of an error message, and the first version of Spark with the feature.
    """

    DATA_SOURCE = ("the data source consumer_offsets needs", (4, 0))
    SQL_FUNCTIONS = ("the SQL functions decode_record, decode_key and consumer_protocol need", (4, 1))

    def __init__(self, sentence: str, since: Version) -> None:
        self.sentence = sentence
        self.since = since


class KafkaSource(NamedTuple):
    """Versions that Spark's Kafka source was built with.

    Attributes:
        scala: binary version of Scala, which is a part of the jars' names.
        kafka_clients: version of Kafka's client.
        commons_pool: version of Apache Commons Pool.
    """

    scala: str
    kafka_clients: str
    commons_pool: str


_KAFKA_SOURCES = {
    (3, 5): KafkaSource("2.12", "3.4.1", "2.11.1"),
    (4, 0): KafkaSource("2.13", "3.9.1", "2.12.0"),
    (4, 1): KafkaSource("2.13", "3.9.1", "2.12.1"),
    (4, 2): KafkaSource("2.13", "3.9.2", "2.13.1"),
}

_ACCUMULATOR_SERVERS = ("AccumulatorServer", "AccumulatorTCPServer", "AccumulatorUnixServer")
"""Servers of PySpark's accumulators: the first one until 4.0, the others from 4.1 on."""

_REMOTE = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
"""Variables that ask PySpark for a session over Spark Connect."""


def version_text() -> str:
    """Return the version of Spark as PySpark names it."""
    return str(pyspark.__version__)


def version() -> Version:
    """Return major and minor version of Spark."""
    major, minor = version_text().split(".")[:2]
    return int(major), int(minor)


def check_has(feature: Feature) -> None:
    """Refuse a feature that this Spark lacks.

    Raises:
        PrerequisiteError: this Spark is too old for the feature.
    """
    if version() < feature.since:
        raise PrerequisiteError(
            f"{feature.sentence} Spark {'.'.join(map(str, feature.since))} or newer, and this is Spark "
            f"{version_text()}; audits and all questions work here: use the tables of an audit"
        )


def kafka_source() -> KafkaSource:
    """Return the versions that this Spark's Kafka source was built with.

    If this Spark is newer than all known releases, return the newest known versions.
    """
    known = [since for since in _KAFKA_SOURCES if since <= version()]
    return _KAFKA_SOURCES[max(known, default=OLDEST)]


def accumulator_servers() -> list[Any]:
    """Return the classes of PySpark's accumulator servers."""
    return [getattr(accumulators, name) for name in _ACCUMULATOR_SERVERS if hasattr(accumulators, name)]


def is_remote(spark: SparkSession) -> bool:
    """Return whether a session goes over Spark Connect, and so has no JVM and no SparkContext here."""
    return ".connect." in type(spark).__module__


def wants_remote() -> bool:
    """Return whether the environment asks for a session over Spark Connect."""
    return any(os.environ.get(name) for name in _REMOTE)


def is_local(spark: SparkSession) -> bool:
    """Return whether a session runs on one machine, without executors.

    Return False if the session does not say so.
    """
    master = str(spark.conf.get("spark.master", ""))
    return master == "local" or master.startswith("local[")


@contextmanager
def named_jobs(spark: SparkSession, name: str) -> Iterator[None]:
    """Name the jobs of the block in the Spark UI. Spark Connect has tags instead, which can't have blanks."""
    if is_remote(spark):
        tag = name.replace(" ", "-").replace(",", "")
        spark.addTag(tag)
        try:
            yield
        finally:
            spark.removeTag(tag)
        return
    context = spark.sparkContext
    context.setJobDescription(name)
    try:
        yield
    finally:
        context.setJobDescription("")


def running_tasks(spark: SparkSession) -> Callable[[], tuple[int, int]]:
    """Return a function that returns how many tasks of the running stages are done, and how many tasks they have.

    Spark Connect of Spark 3.5 does not report these numbers: both are 0.
    """
    if is_remote(spark):
        return _remote_tasks(spark)
    tracker = spark.sparkContext.statusTracker()

    def tasks() -> tuple[int, int]:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        running = [stage for stage in stages if stage is not None]
        return sum(stage.numCompletedTasks for stage in running), sum(stage.numTasks for stage in running)

    return tasks


def _remote_tasks(spark: SparkSession) -> Callable[[], tuple[int, int]]:
    latest = (0, 0)

    def note(stages: Any = None, **_: Any) -> None:
        nonlocal latest
        running = [stage for stage in stages or () if not stage.done]
        latest = sum(stage.num_completed_tasks for stage in running), sum(stage.num_tasks for stage in running)

    register = getattr(spark, "registerProgressHandler", None)
    if register is not None:
        register(note)
    return lambda: latest
