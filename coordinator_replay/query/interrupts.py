"""Ctrl-C, or a limit of time, ends a statement of DuckDB at once, whatever its threads are doing."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType

import duckdb

from coordinator_replay.errors import UsageError

_AGAIN_SECONDS = 0.2
"""After so long a statement that still runs is interrupted again: between two of one text nothing listens."""


@contextmanager
def ended_by_ctrl_c(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Let Ctrl-C end the statement that the block runs.

    DuckDB notices Ctrl-C by itself, but then waits for the tasks of its other threads, and the task of a join may
    take hours. They end early only where the connection itself is interrupted.

    Args:
        connection: where the block runs its statement.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; what DuckDB raises for it is an error of its own.
    """
    former = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(former):
        yield
        return
    is_pressed = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal is_pressed
        is_pressed = True
        connection.interrupt()
        former(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except Exception:
        if is_pressed:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, former)


@contextmanager
def ended_after(connection: duckdb.DuckDBPyConnection, most: timedelta | None) -> Iterator[None]:
    """Let statements that the block runs take no longer than so long.

    Args:
        connection: where the block runs its statements.
        most: how long; None for no limit.

    Raises:
        UsageError: they took longer, and were ended.
    """
    if most is None:
        yield
        return
    is_over, is_late = threading.Event(), threading.Event()

    def watch(seconds: float) -> None:
        while not is_over.wait(seconds):
            is_late.set()
            connection.interrupt()
            seconds = _AGAIN_SECONDS

    watching = threading.Thread(target=watch, args=(most.total_seconds(),), daemon=True)
    watching.start()
    try:
        yield
    except duckdb.Error:
        if is_late.is_set():
            raise UsageError(f"the statement was ended: it took longer than {most}") from None
        raise
    finally:
        is_over.set()
        watching.join()
