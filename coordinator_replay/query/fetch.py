"""Running of SQL statements in DuckDB. Ctrl-C and a time limit end a statement at once."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Any

import duckdb

from coordinator_replay.errors import UsageError
from coordinator_replay.times import EPOCH

_AGAIN_SECONDS = 0.2
"""Time after which a running statement is interrupted again. DuckDB ignores an interrupt between two statements of one
text."""


@contextmanager
def ended_by_ctrl_c(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Make a context in which Ctrl-C ends the running statement.

    DuckDB notices Ctrl-C by itself, but then waits for the tasks of its other threads. The task of a join may take
    hours. So this context interrupts the connection, which also ends these tasks.

    In other threads than the main thread, the context does nothing, because Python handles signals only in the main
    thread.

    Args:
        connection: the connection that runs the statement.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; DuckDB itself raises another error for this.
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
    """Make a context in which DuckDB ends a statement that runs too long.

    Args:
        connection: the connection that runs the statements.
        most: the longest time that the statements in the context may take together; None for no limit.

    Raises:
        UsageError: the statements took longer and were ended.
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


_UNSHOWN = """CASE
    WHEN epoch_us(#{place}) BETWEEN -62135596800000000 AND 253402300799999999 THEN NULL
    ELSE #{place}::VARCHAR
END"""
"""SQL for the text of a time outside the years 1 to 9999; null for other times."""


def fetch(
    connection: duckdb.DuckDBPyConnection, statement: str, parameters: Mapping[str, object]
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and rows that answer a statement.

    Args:
        connection: connection to a DuckDB that has the tables of the statement.
        statement: SQL.
        parameters: a value for each ``$name`` of the statement.

    Returns:
        Names of the columns, and the rows; no columns if the statement returns nothing.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
        UsageError: a value is too large for the Python type that it would get.
        duckdb.Error: the statement is wrong, or a file can't be read.
    """
    try:
        with ended_by_ctrl_c(connection):
            relation = connection.sql(statement, params=dict(parameters) or None)
            return ([], []) if relation is None else _fetched(relation)
    except OverflowError as problem:
        raise UsageError(
            f"a value of the answer is too large to be shown: cast its column to VARCHAR ({problem})"
        ) from problem


def _fetched(relation: duckdb.DuckDBPyRelation) -> tuple[list[str], list[tuple[Any, ...]]]:
    names = relation.columns
    moments = [place for place, type_ in enumerate(relation.types) if str(type_) == "TIMESTAMP WITH TIME ZONE"]
    if not moments:
        return names, relation.fetchall()
    # DuckDB's own conversion of times needs the package pytz. A conversion from microseconds needs no package.
    columns = [f"epoch_us(#{place + 1})" if place in moments else f"#{place + 1}" for place in range(len(names))]
    columns += [_UNSHOWN.format(place=place + 1) for place in moments]
    values = list(zip(*relation.project(", ".join(columns)).fetchall(), strict=True))
    if not values:
        return names, []
    for place, unshown in zip(moments, values[len(names) :], strict=True):
        values[place] = tuple(
            text if text is not None else None if micros is None else EPOCH + timedelta(microseconds=micros)
            for micros, text in zip(values[place], unshown, strict=True)
        )
    return names, list(zip(*values[: len(names)], strict=True))
