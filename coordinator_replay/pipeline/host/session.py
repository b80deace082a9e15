"""The Spark session with the settings that we rely on: the cluster's session, or else a session on this machine."""

import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib.resources import files
from pathlib import Path
from subprocess import Popen

from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from coordinator_replay.errors import PrerequisiteError
from coordinator_replay.pipeline.host import class_archive
from coordinator_replay.pipeline.host.failure import leave_it_to_the_run
from coordinator_replay.pipeline.host.jars import delta, jars_of, kafka_source
from coordinator_replay.pipeline.host.java import check_java
from coordinator_replay.pipeline.host.spark_versions import wants_remote
from coordinator_replay.safe_text import neutral

_TIME_ZONE = "spark.sql.session.timeZone"

RELIED_ON = {
    # Timestamps of the tables are UTC, whatever the zone of the machine.
    _TIME_ZONE: "UTC",
    # A batch that differs from the declared schema fails with a clear error instead of an obscure one.
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    # From some ten thousand rows on, the overhead per batch of the columnar decoder no longer matters; a batch has at
    # most 64 MiB.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
}
"""Settings that can be changed in a running session; every session gets them."""

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Settings with which a session must be started to know Delta; ``conf/spark-defaults.conf`` has them for clusters."""

LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # One process is driver and executor; the default of 1 GiB is too small for it.
    "spark.driver.memory": "3g",
    # The defaults (200 and 50) are meant for clusters; these settings only matter for dumps that are Delta tables.
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    # A stage is a small plan: compiling it, and planning again after each stage, takes longer than running it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    # The default since Spark 4.0: a manifest becomes a local relation, see ``stage.manifest_of``.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Listing files on this machine one by one is faster than with a job.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""Settings of a session on one machine."""

WORKERS = {
    # Python first looks for modules in its working directory: the user's current folder, which may be a dump that
    # somebody sent.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}
"""Settings for the Python workers of a session that we start, on this machine or on a cluster."""

_QUICK_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=240m")
"""Options for a JVM that starts fast: Python workers do the work, and Spark only passes shares and file names. With one
compiler, the code cache would have a fifth of its usual size. Once the cache is full, nothing more is compiled, so an
option sets its usual size."""


@contextmanager
def _java_output_to_a_file() -> Iterator[None]:
    """Send the output of the JVM and the Python workers that start in the block to a file without a name.

    Raises:
        PrerequisiteError: the JVM can't be started; the message has its output.
    """
    keep = os.dup(2)
    with tempfile.TemporaryFile(prefix="coordinator-replay-spark-") as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        except PySparkRuntimeError as problem:
            log.seek(0)
            output = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
            errors = [line for line in output if "rror" in line] or output or [str(problem)]
            raise PrerequisiteError(f"Spark's Java process can't be started: {neutral(errors[0].strip())}") from problem
        finally:
            os.dup2(keep, 2)
            os.close(keep)


@contextmanager
def _same_interrupts() -> Iterator[None]:
    """Keep the present handler of Ctrl-C while the block runs, although PySpark sets its own."""
    # PySpark's handler asks Java to cancel all jobs. If the handler runs in the middle of an answer from Java, its
    # request corrupts the answer, and both the answer and the request end in a traceback.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except KeyboardInterrupt as problem:
        _end_java(problem)
        raise
    finally:
        signal.signal(signal.SIGINT, handler)


def _end_java(problem: BaseException) -> None:
    """End the JVM whose start was interrupted. It would wait forever."""
    # PySpark has removed the folder into which the JVM would write its port.
    for frame, _ in traceback.walk_tb(problem.__traceback__):
        for value in [*frame.f_locals.values()]:
            if isinstance(value, Popen):
                value.kill()


def quoted_option(option: str) -> str:
    """Return an option of the JVM, quoted so that blanks and quotes in it survive Spark's parser."""
    # Spark parses options with org.apache.spark.launcher.CommandBuilderUtils.
    return '"{}"'.format(option.replace("\\", "\\\\").replace('"', '\\"'))


def _local_session(app_name: str, *, with_delta: bool, with_catalog: bool, with_kafka: bool) -> SparkSession:
    check_java()
    jars = (jars_of(delta()) if with_delta else []) + (jars_of(kafka_source()) if with_kafka else [])
    # By default, workers start the python3 of the PATH, which lacks our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name).master("local[*]")
    log4j = Path(str(files("coordinator_replay.pipeline.host") / "log4j2.properties")).as_uri()
    java_options = (f"-Dlog4j2.configurationFile={log4j}", *_QUICK_JAVA, *class_archive.java_options())
    settings = {
        **LOCAL,
        **WORKERS,
        **(DELTA if with_delta else {}),
        **RELIED_ON,
        "spark.jars": ",".join(map(str, jars)),
        "spark.driver.extraJavaOptions": " ".join(map(quoted_option, java_options)),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    if with_catalog:
        builder = builder.enableHiveSupport()
    return builder.getOrCreate()


def _rely_on(active: SparkSession) -> None:
    """Set the options that this program needs, in a session that somebody else started.

    Raises:
        PySparkException: the session can't be set to UTC.
    """
    for key, value in RELIED_ON.items():
        # Serverless platforms refuse most settings. Only the time zone is necessary; the others make errors clearer and
        # batches larger.
        with nullcontext() if key == _TIME_ZONE else suppress(PySparkException):
            active.conf.set(key, value)


def open_session(
    app_name: str = "coordinator-replay",
    *,
    verbose: bool = False,
    with_delta: bool = False,
    with_catalog: bool = False,
    with_kafka: bool = False,
) -> SparkSession:
    """Return the running session, or the session that ``spark-submit`` or ``SPARK_REMOTE`` names.

    If there is neither, start a session on this machine.

    Args:
        app_name: name of the session in the Spark UI.
        verbose: whether to print Spark's own messages.
        with_delta: whether a session on this machine can read Delta tables.
        with_catalog: whether a session on this machine keeps names of tables in a catalog on disk.
        with_kafka: whether a session on this machine can read from Kafka.

    Raises:
        PrerequisiteError: Java, Delta's jars or the jars of the Kafka source are missing.
    """
    active = SparkSession.getActiveSession()
    if active is None and ("PYSPARK_GATEWAY_PORT" in os.environ or wants_remote()):
        builder = SparkSession.builder.appName(app_name)
        # The server of Spark Connect has already started its workers.
        for key, value in () if wants_remote() else WORKERS.items():
            builder = builder.config(key, value)
        with _same_interrupts():
            active = builder.getOrCreate()
    if active is not None:
        _rely_on(active)
        return active
    wanted = {"with_delta": with_delta, "with_catalog": with_catalog, "with_kafka": with_kafka}
    if verbose:
        with _same_interrupts():
            return _local_session(app_name, **wanted)
    leave_it_to_the_run()
    with _same_interrupts(), _java_output_to_a_file():
        return _local_session(app_name, **wanted)
