"""The Spark session: the cluster's where there is one, else one on this machine, with the settings we rely on."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import Enum, auto
from importlib.resources import files

from pyspark.sql import SparkSession

from coordinator_replay.pipeline.failure import leave_it_to_the_run
from coordinator_replay.pipeline.jars import DELTA as DELTA_JARS
from coordinator_replay.pipeline.jars import KAFKA_SOURCE, jars_of
from coordinator_replay.pipeline.java import check_java

RELIED_ON = {
    # Timestamps of the tables are UTC, whatever zone the machine is in.
    "spark.sql.session.timeZone": "UTC",
    # A batch that differs from the declared schema fails with a clear error instead of an obscure one.
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    # Per-batch overhead of the columnar decoder fades from some ten thousand rows on; bytes stay bounded at 64 MiB.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # Its usual form of moments is one that other readers have given up, and that has no bounds in a file's footer.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""Settings that can be made on a running session, and are made on every one."""

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""What a session must be started with to know Delta; ``conf/spark-defaults.conf`` has it for clusters."""

LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # One process does driver's and executors' work; the default of 1 GiB is too small for it.
    "spark.driver.memory": "3g",
    # The defaults (200 and 50) are made for clusters and cost seconds on small tables.
    "spark.sql.shuffle.partitions": "8",
    "spark.databricks.delta.snapshotPartitions": "2",
    # Files on this machine are looked up faster one by one than by a job.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    # For the file beside each commit, that spares readers of huge tables a look at the log, Delta adds up the table's
    # whole state: three quarters of the time that a commit takes here.
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""Settings of a session on one machine."""

WORKERS = {
    # Python looks for modules in the folder it is started in first: the user's current one, which may be a dump that
    # somebody sent.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}
"""What the Python workers of a session that we start are started with, on this machine or on a cluster."""

SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # Compiling a plan, and planning it anew after each stage, takes longer than running it once on so little.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""For a few hundred records, where every task costs more than its work."""

_QUICK_JAVA = " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""A JVM that starts fast and never gets fast. With one compiler only, its room for code is a fifth of the usual, and
once that is full nothing is compiled any more."""


class Load(Enum):
    """What a session on this machine is to be tuned for.

    Attributes:
        SMALL: a few hundred records.
        WORKERS: Python workers read and write all that is large, and Spark only plans it. Its plans are so many that
            the JVM's second compiler takes a third of all time of a night on two cores, and is never worth it.
        ROWS: Spark itself moves rows; with one compiler, that takes up to twice as long.
    """

    SMALL = auto()
    WORKERS = auto()
    ROWS = auto()


_BATCHES = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
}


@contextmanager
def changed_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """A session with other settings while the block runs."""
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            spark.conf.unset(name) if earlier is None else spark.conf.set(name, earlier)


def short_rows(spark: SparkSession) -> AbstractContextManager[None]:
    """Hand rows to Python by number alone, where none can be longer than some kilobytes.

    To keep a bound on bytes, Spark adds up the size of the whole batch after each row: measured here, that is two
    thirds of the time of handing over rows of twenty columns.
    """
    return changed_settings(spark, _BATCHES)


@contextmanager
def _java_output_aside() -> Iterator[None]:
    """Send what the JVM and the Python workers print to a file; they inherit this process's standard error."""
    keep = os.dup(2)
    with tempfile.NamedTemporaryFile(prefix="coordinator-replay-spark-", suffix=".log", delete=False) as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(keep, 2)
        os.close(keep)


def _local_session(app_name: str, *, with_catalog: bool, with_kafka: bool, load: Load) -> SparkSession:
    check_java()
    jars = jars_of(DELTA_JARS) + (jars_of(KAFKA_SOURCE) if with_kafka else [])
    # Workers start the python3 of the PATH unless told otherwise, and that one lacks our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name).master("local[*]")
    log4j = files("coordinator_replay.pipeline") / "log4j2.properties"
    java = "" if load is Load.ROWS else _QUICK_JAVA
    settings = {
        **LOCAL,
        **WORKERS,
        **DELTA,
        **RELIED_ON,
        "spark.jars": ",".join(map(str, jars)),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j}{java}",
        **(SMALL if load is Load.SMALL else {}),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    if with_catalog:
        builder = builder.enableHiveSupport()
    return builder.getOrCreate()


def open_session(
    app_name: str = "coordinator-replay",
    *,
    verbose: bool = False,
    with_catalog: bool = False,
    with_kafka: bool = False,
    load: Load = Load.ROWS,
) -> SparkSession:
    """Take the session that runs, or that ``spark-submit`` prepared; else start one on this machine.

    Args:
        app_name: shown by the cluster's own pages.
        verbose: let Spark's own messages through.
        with_catalog: keep table names in a catalog that outlives the session.
        with_kafka: let a session on this machine read from Kafka.
        load: what to tune a session on this machine for.

    Raises:
        PrerequisiteError: Java, Delta's jars or those of the Kafka source are missing.
    """
    active = SparkSession.getActiveSession()
    if active is None and "PYSPARK_GATEWAY_PORT" in os.environ:
        builder = SparkSession.builder.appName(app_name)
        for key, value in WORKERS.items():
            builder = builder.config(key, value)
        active = builder.getOrCreate()
    if active is not None:
        for key, value in RELIED_ON.items():
            active.conf.set(key, value)
        return active
    if verbose:
        return _local_session(app_name, with_catalog=with_catalog, with_kafka=with_kafka, load=load)
    leave_it_to_the_run()
    with _java_output_aside():
        return _local_session(app_name, with_catalog=with_catalog, with_kafka=with_kafka, load=load)
