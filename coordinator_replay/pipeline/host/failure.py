"""Reasons for a run's failure, as clauses of an error message.

Spark wraps an exception in other exceptions. The reason is the text of the innermost exception that has one.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from coordinator_replay.errors import CoordinatorReplayError
from coordinator_replay.filesystem import FAILURES as STORE_FAILURES
from coordinator_replay.pipeline.host.spark_versions import accumulator_servers

FAILURES = (PySparkException, Py4JError, *STORE_FAILURES, EOFError)
"""Exceptions of a run when one of its processes dies, a disk is full or a store can't be reached."""

_CAUSE = re.compile(r"^(?:Caused by: |: )?(?:[A-Za-z_$][\w$]*\.)*[A-Z]\w*(?:Error|Exception): (\S.*)$", re.MULTILINE)
_FILE = re.compile(r"(?:while reading|footer for) file:? (?:file:(?://)?)?([^\s,]+)")

_MOST = 400


def _log(self: BaseServer, request: object, client_address: object) -> None:
    logging.getLogger(__name__).debug("a connection of Spark ended", exc_info=True)


def leave_it_to_the_run() -> None:
    """Keep Spark from printing a traceback when Java ends or the user interrupts the run.

    The program prints its own error message instead.
    """
    # Py4J logs to the root logger, which prints records if it has no handler.
    logging.getLogger().addHandler(logging.NullHandler())
    for server in accumulator_servers():
        server.handle_error = _log


def is_interrupted(problem: BaseException | None) -> bool:
    """Return whether Ctrl-C caused a failure, even if the exception is not a KeyboardInterrupt."""
    # Ctrl-C cuts the connection to Java. Cleanup then fails as well, and its exception hides the KeyboardInterrupt.
    while problem is not None and not isinstance(problem, KeyboardInterrupt):
        problem = problem.__cause__ or problem.__context__
    return problem is not None


def reason(problem: BaseException) -> str:
    """Return why a run failed, as a clause.

    Args:
        problem: one of FAILURES.
    """
    if isinstance(problem, Py4JError | ConnectionError | EOFError) and not isinstance(problem, Py4JJavaError):
        return "Spark's Java process ended unexpectedly: was it killed, or did memory run out?"
    text = str(problem).strip()
    causes: list[str] = _CAUSE.findall(text)
    cause = causes[-1] if causes else text.splitlines()[0] if text else type(problem).__name__
    cause = cause.strip().rstrip(".")[:_MOST]
    # The innermost cause of a failed read rarely names the file.
    match = _FILE.search(text)
    file = match[1].rstrip(".") if match else ""
    return cause if file in cause else f"{file}: {cause}"


@contextmanager
def failing_in_a_sentence(what: str, then: str) -> Iterator[None]:
    """Turn a failure of Spark in the block, including a failed start, into an error with one sentence.

    Args:
        what: the work that could not be finished.
        then: a clause on what becomes of the finished part of the work.

    Raises:
        CoordinatorReplayError: the block ended with one of FAILURES.
        KeyboardInterrupt: Ctrl-C caused the failure.
    """
    try:
        yield
    except FAILURES as problem:
        if is_interrupted(problem):
            raise KeyboardInterrupt from problem
        raise CoordinatorReplayError(f"{what} could not be finished: {reason(problem)}; {then}") from problem
