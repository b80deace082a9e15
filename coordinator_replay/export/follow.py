"""A continuous export (``export --follow``): records are written as they come, before the cleaner can remove any.

The process that exports continuously is called the *follower*. It reads the same stream as a single export
(``topic.py``), but with a trigger that fires at an interval. The checkpoint and the folders are the same, too. So a
follower continues where a single export ended, and a single export continues where a follower ended. A follower may be
killed at any time: the next follower writes the unfinished batch again, with the same records, into the same folder.

Kafka's clients wait some minutes for a broker that restarts. If that is not enough, the query ends and the follower
starts it again, as often as needed. Against some failures, waiting does not help: a missing permission, a topic that
was created again, offsets that the log no longer has, a full disk. These failures end the follower with an error
message.
"""

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from coordinator_replay.errors import InputError
from coordinator_replay.export.folders import ExportedDump
from coordinator_replay.export.topic import (
    ExportOptions,
    cluster_errors,
    offsets_by_partition,
    open_stream,
    seeing_internal_topics,
    writer,
)
from coordinator_replay.pipeline.host.failure import FAILURES, reason

COMMAND = "export --follow"
"""Name of a follower in the lock of its dump. By this name, an export that finds the dump locked knows the follower."""

_PASSING = re.compile(
    r"TimeoutException|TimeoutError|DisconnectException|NetworkException|NotLeaderOrFollowerException"
    r"|LeaderNotAvailableException|BrokerNotAvailableException|CoordinatorNotAvailableException"
    r"|CoordinatorLoadInProgressException|ReplicaNotAvailableException|Timeout of \d+ ?ms expired"
)
"""Failures that end by themselves when brokers are back."""

_POLL_SECONDS = 1.0
_RETRY_SECONDS = 10.0
_QUIET_SECONDS = 600.0
"""After this time without a line, the follower logs that there are no new records."""
_LAST_BATCH_SECONDS = 20.0
"""Time to wait at the end for the batch that is being written; Kubernetes kills after 30 seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """Options of a follower.

    Attributes:
        every_ms: interval at which the follower asks for new records.
        stopped: the event that ends the follower.
        log: function that gets a line for each batch with records, and for each other event.
    """

    every_ms: int
    stopped: threading.Event
    log: Callable[[str], None]


def follow_topic(spark: SparkSession, options: ExportOptions, following: Following) -> None:
    """Write new records of the topic to folders of the dump, until the follower is stopped.

    Args:
        spark: a session that has the Kafka source.
        options: options of the export.
        following: the options of the follower.

    Raises:
        PrerequisiteError: the session lacks the Kafka source.
        InputError: the export failed before the cluster answered for the first time, or failed in a way that waiting
            does not mend.
    """
    follower = _Follower(spark, options, following)
    with seeing_internal_topics(spark):
        while not following.stopped.is_set():
            try:
                with cluster_errors(options):
                    follower.run()
            except InputError as problem:
                if following.stopped.is_set():
                    break
                if not (follower.is_connected and _PASSING.search(str(problem.__cause__))):
                    raise
                following.log(f"{problem}; trying again in {_RETRY_SECONDS:.0f} s")
                following.stopped.wait(_RETRY_SECONDS)
            except FAILURES:
                # The signal that ends the process may have ended Java as well.
                if not following.stopped.is_set():
                    raise


class _Follower:
    """A loop of Spark's streaming queries. If a query ends, the next begins. The loop reports the progress of each.

    Attributes:
        is_connected: whether the cluster has ever answered.
    """

    def __init__(self, spark: SparkSession, options: ExportOptions, following: Following) -> None:
        self.is_connected = False
        self._spark = spark
        self._options = options
        self._following = following
        self._dump = ExportedDump(options.out)
        self._last_line = time.monotonic()
        self._merged_in = ""

    def run(self) -> None:
        """Run one streaming query until the query fails or the follower is stopped."""
        folders: dict[int, str] = {}
        stream = open_stream(self._spark, self._options, self._dump, self._following.log)
        self.is_connected = True
        query = (
            # The fewest files that keep all cores busy if there is much to read, as at the first start.
            stream.writeStream.foreachBatch(
                writer(self._dump, folders.__setitem__, files=self._spark.sparkContext.defaultParallelism)
            )
            .option("checkpointLocation", self._dump.checkpoint)
            .trigger(processingTime=f"{self._following.every_ms} milliseconds")
            .start()
        )
        try:
            self._watch(query, folders)
        finally:
            _end(query)

    def _watch(self, query: StreamingQuery, folders: dict[int, str]) -> None:
        self._say(f"following; new records are read every {self._following.every_ms / 1000:g} s")
        reported = -1
        while query.isActive:
            is_over = self._following.stopped.wait(_POLL_SECONDS)
            if is_over:
                _let_finish(query)
            reported = self._report(query, folders, reported)
            if is_over:
                return
            if not query.status["isTriggerActive"]:
                self._merge()
        # Raises the exception that ended the query.
        query.awaitTermination()

    def _say(self, line: str) -> None:
        self._last_line = time.monotonic()
        self._following.log(line)

    def _report(self, query: StreamingQuery, folders: dict[int, str], reported: int) -> int:
        """Log the new batches of a query.

        Batches without records are not logged. After ``_QUIET_SECONDS`` without a line, log that there are no new
        records.

        Args:
            query: the query.
            folders: the folder of each batch, by the batch's number. Logged batches are removed.
            reported: number of the newest batch that was logged before.

        Returns:
            The number of the newest batch that is logged now.
        """
        for progress in query.recentProgress:
            batch: dict[str, Any] = json.loads(progress.json)
            if batch["batchId"] <= reported or not batch["numInputRows"]:
                continue
            reported = batch["batchId"]
            into = folders.pop(reported).rpartition("/")[2]
            self._say(f"{into}: {batch['numInputRows']:,} records; {_lag(batch)}")
        if time.monotonic() - self._last_line >= _QUIET_SECONDS:
            latest = query.lastProgress
            self._say(f"no new records; {_lag(json.loads(latest.json)) if latest else 'the cluster has not answered'}")
        return reported

    def _merge(self) -> None:
        """Merge the folders of hours that are over, at most once an hour."""
        now = datetime.now(UTC)
        if self._merged_in == (hour := f"{now:%Y%m%dT%H}"):
            return
        self._merged_in = hour
        try:
            for folder in self._dump.merge_hours(self._spark, now):
                self._say(f"merged {folder.last - folder.first + 1} folders into {folder.name}")
        except FAILURES as problem:
            self._say(f"folders were not merged, and will be in an hour: {reason(problem)}")


def _lag(batch: dict[str, Any]) -> str:
    """Return how far a batch is behind the end of the log, in words.

    The distance is the number of log offsets, summed over all log partitions.

    Args:
        batch: Spark's report on the batch.
    """
    behind = 0
    for source in batch["sources"]:
        ends, latest = offsets_by_partition(source["endOffset"]), offsets_by_partition(source.get("latestOffset"))
        behind += sum(max(0, offset - ends.get(partition, 0)) for partition, offset in latest.items())
    return f"{behind:,} offsets behind the end of the log at {batch['timestamp']}"


def _let_finish(query: StreamingQuery) -> None:
    """Wait until the batch that is being written is complete, but at most ``_LAST_BATCH_SECONDS``.

    The next follower repeats a batch that is not complete.
    """
    until = time.monotonic() + _LAST_BATCH_SECONDS
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < until:
        time.sleep(_POLL_SECONDS / 10)


def _end(query: StreamingQuery) -> None:
    # The reason of a failed query is reported elsewhere, and a query whose Java has ended needs no end.
    with suppress(Py4JError):
        query.stop()
