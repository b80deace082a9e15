"""One sentence out of what Spark says when something fails."""

from socketserver import BaseRequestHandler

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.accumulators import AccumulatorTCPServer
from pyspark.errors import PySparkException

from coordinator_replay.errors import CoordinatorReplayError, UsageError
from coordinator_replay.pipeline.host.failure import FAILURES, failing_in_a_sentence, leave_it_to_the_run, reason

FULL = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "x.py", line 7, in write
    file.write(rows)
OSError: [Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device
"""
NESTED = """Job aborted due to stage failure: Task 0 in stage 5.0 failed 1 times (TID 9): java.io.IOException: no
\tat org.apache.spark.Some.method(Some.scala:7)
Caused by: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).
\tat org.apache.spark.Other.method(Other.scala:9)
Caused by: java.io.EOFException
\t... 15 more"""
UNREADABLE = """[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///dumps/x.parquet. SQLSTATE: KD001
Caused by: java.lang.RuntimeException: corrupted file: the footer index is not within the file: 100"""


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (PySparkException(FULL), "[Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device"),
        (PySparkException(NESTED), "Python worker exited unexpectedly (crashed)"),
        (PySparkException("[TABLE_GONE] It is gone.\n== Plan ==\nScan"), "[TABLE_GONE] It is gone"),
        (PySparkException(UNREADABLE), "/dumps/x.parquet: corrupted file: the footer index is not within the file"),
        (PySparkException(UNREADABLE.replace("///", "/")), "/dumps/x.parquet: corrupted file"),
        (OSError(28, "No space left on device", "/w"), "[Errno 28] No space left on device: '/w'"),
        (Py4JNetworkError("Answer from Java side is empty"), "Spark's Java process ended unexpectedly"),
        (ConnectionRefusedError(111, "refused"), "Spark's Java process ended unexpectedly"),
        (EOFError(), "Spark's Java process ended unexpectedly"),
    ],
)
def test_the_innermost_cause_that_says_anything_is_told(problem, said):
    assert isinstance(problem, FAILURES)
    assert reason(problem).startswith(said)
    assert "\n" not in reason(problem)


def test_a_connection_that_ends_with_java_prints_no_trace(capfd):
    leave_it_to_the_run()
    with AccumulatorTCPServer(("127.0.0.1", 0), BaseRequestHandler, "token") as server:
        try:
            raise EOFError
        except EOFError:
            server.handle_error(None, ("127.0.0.1", 1))
    assert capfd.readouterr() == ("", "")


def test_what_ends_a_block_is_a_sentence_and_what_was_meant_stays_as_it_is():
    said = r"^the run could not be finished: Spark's Java process .*; try again$"
    with pytest.raises(CoordinatorReplayError, match=said), failing_in_a_sentence("the run", "try again"):
        raise Py4JNetworkError("Error while sending or receiving")
    with pytest.raises(UsageError, match="no such option"), failing_in_a_sentence("the run", "try again"):
        raise UsageError("no such option")
