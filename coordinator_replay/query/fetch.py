"""Rows that the embedded engine returns for a statement; Ctrl-C or a time limit ends a statement at once."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Any, NamedTuple

import duckdb

from coordinator_replay.errors import UsageError
from coordinator_replay.times import EPOCH

_AGAIN_SECONDS = 0.2
"""Time after which a running statement is interrupted again. DuckDB ignores an interrupt between two statements of one
text."""


@contextmanager
def ended_by_ctrl_c(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Let Ctrl-C end the statement that the block runs.

    DuckDB notices Ctrl-C by itself, but then waits for the tasks of its other threads, and the task of a join may take
    hours. These tasks end early only if the connection itself is interrupted.

    Args:
        connection: the connection on which the block runs its statement.

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
    """End a statement of the block when it has taken too long.

    Args:
        connection: the connection on which the block runs its statements.
        most: the longest time that the statements may take; None for no limit.

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


class _Shape(NamedTuple):
    """Columns of an answer.

    Attributes:
        width: their number.
        moments: places of those that are points in time.
    """

    width: int
    moments: tuple[int, ...]

    @classmethod
    def of(cls, relation: duckdb.DuckDBPyRelation) -> "_Shape":
        types = [str(type_) for type_ in relation.types]
        return cls(len(types), tuple(place for place, type_ in enumerate(types) if type_ == "TIMESTAMP WITH TIME ZONE"))

    @property
    def selected(self) -> str:
        """Return the columns to select from an answer instead of its own.

        DuckDB's own conversion of points in time asks for pytz; counting microseconds needs nothing.
        """
        if not self.moments:
            return "*"
        places = range(self.width)
        columns = [f"epoch_us(#{place + 1})" if place in self.moments else f"#{place + 1}" for place in places]
        return ", ".join(columns + [_UNSHOWN.format(place=place + 1) for place in self.moments])

    def rows(self, selected: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return the rows of an answer from what was selected from it."""
        if not self.moments or not selected:
            return selected
        values = list(zip(*selected, strict=True))
        for place, unshown in zip(self.moments, values[self.width :], strict=True):
            values[place] = tuple(
                text if text is not None else None if micros is None else EPOCH + timedelta(microseconds=micros)
                for micros, text in zip(values[place], unshown, strict=True)
            )
        return list(zip(*values[: self.width], strict=True))


@contextmanager
def _shown() -> Iterator[None]:
    """Turn a value that Python has no room for into a UsageError."""
    try:
        yield
    except OverflowError as problem:
        raise UsageError(
            f"a value of the answer is too large to be shown: cast its column to VARCHAR ({problem})"
        ) from problem


def fetch(
    connection: duckdb.DuckDBPyConnection, statement: str, parameters: Mapping[str, object]
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and rows that answer a user's statement.

    Args:
        connection: the engine, which knows the tables that the statement names.
        statement: SQL.
        parameters: a value for each ``$name`` of the statement.

    Returns:
        Names of the columns, and the rows; no columns if the statement returns nothing.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
        UsageError: a value is larger than Python's type for it.
        duckdb.Error: the statement is wrong, or a file can't be read.
    """
    with _shown(), ended_by_ctrl_c(connection):
        relation = connection.sql(statement, params=dict(parameters) or None)
        if relation is None:
            return [], []
        shape = _Shape.of(relation)
        answer = relation.project(shape.selected) if shape.moments else relation
        return relation.columns, shape.rows(answer.fetchall())


_MOST_SHAPES = 1000
_shapes: dict[tuple[object, ...], _Shape] = {}


def fetch_rows(
    connection: duckdb.DuckDBPyConnection, select: str, parameters: Mapping[str, object]
) -> list[tuple[Any, ...]]:
    """Return the rows that answer one of our own questions, see ``fetch``.

    DuckDB plans a statement once to tell the types of its columns, and again for the columns that are selected from it.
    Over small tables planning takes as long as the answer. The tables have the types of the contract, so a process asks
    for the types once for each statement and types of parameters.

    Args:
        connection: the engine, which knows the tables that the statement names.
        select: one SELECT over tables of the contract.
        parameters: a value for each ``$name`` of the statement.
    """
    values = dict(parameters) or None
    with _shown(), ended_by_ctrl_c(connection):
        key = (select, *((name, type(value)) for name, value in sorted(parameters.items())))
        shape = _shapes.get(key)
        if shape is None:
            relation = connection.sql(select, params=values)
            shape = _Shape.of(relation)
            if len(_shapes) >= _MOST_SHAPES:
                _shapes.clear()
            _shapes[key] = shape
            # With parameters, DuckDB has the answer already.
            return shape.rows((relation.project(shape.selected) if shape.moments else relation).fetchall())
        # The statement is ours, and has its line ends because a comment may end it.
        asked = f"SELECT {shape.selected} FROM (\n{select}\n)" if shape.moments else select  # noqa: S608
        return shape.rows(connection.execute(asked, values).fetchall())
