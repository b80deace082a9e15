"""Ctrl-C ends a statement of DuckDB at once, whatever its threads are doing."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import duckdb


@contextmanager
def ended_by_ctrl_c(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Let Ctrl-C end the statement that the block runs.

    DuckDB notices Ctrl-C by itself, but then waits for the tasks of its other threads, and the task of a join may
    take hours. They end early only where the connection itself is told to interrupt.

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
