"""Shares and results of stages as typed columns and back, by their type hints: Spark can show and check what it moves.

Texts, numbers, booleans, bytes and times stay as they are, and a ``StrEnum`` is its text. A dataclass, a NamedTuple and
a tuple of fixed length are structs; other collections are lists, mappings lists of entries. A mapping to ``Any``, such
as the bounds of columns, is the text of its JSON, as in Delta's log; a time in it is an object of its microseconds.
"""

import types
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache, partial
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import orjson
import pyarrow as pa

from coordinator_replay.arrow_times import TIMESTAMP
from coordinator_replay.times import microseconds, moment_of_us

Convert = Callable[[Any], Any]

_PLAIN = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary()}


class TypedColumn(NamedTuple):
    """How values of a type are written into a column and read from it."""

    type: pa.DataType
    write: Convert
    read: Convert

    def array(self, values: Iterable[Any]) -> pa.Array:
        """The column of some values."""
        return pa.array([self.write(value) for value in values], self.type)

    def values(self, column: pa.Array | pa.ChunkedArray) -> list[Any]:
        """The values of a column."""
        return [self.read(plain) for plain in column.to_pylist()]


def share_column(stage: Callable[..., Any]) -> TypedColumn:
    """The column of what a function takes as its first argument."""
    return typed_column(next(iter(_hints(stage).values())))


def result_column(stage: Callable[..., Any]) -> TypedColumn:
    """The column of what a function returns."""
    return typed_column(_hints(stage)["return"])


def _hints(stage: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(stage.func if isinstance(stage, partial) else stage)


@cache
def typed_column(hint: Any) -> TypedColumn:
    """The column of a type.

    Raises:
        TypeError: there is none.
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return TypedColumn(_PLAIN[hint], _same, _same)
    if origin in (Union, types.UnionType):
        return _optional(*(arg for arg in args if arg is not types.NoneType))
    if origin is tuple and args[1:] != (Ellipsis,):
        return _struct(lambda *values: values, {f"_{place}": arg for place, arg in enumerate(args)})
    if origin is not None:
        return _collection(origin, args)
    return _scalar_or_struct(hint)


def _same(value: Any) -> Any:
    return value


def _scalar_or_struct(hint: Any) -> TypedColumn:
    if hint is datetime:
        return TypedColumn(TIMESTAMP, _same, lambda plain: plain.astimezone(UTC))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return TypedColumn(pa.string(), str, hint)
    hints = get_type_hints(hint)
    if hasattr(hint, "_fields"):
        return _struct(hint, {name: hints[name] for name in hint._fields})
    made: Any = hint
    if is_dataclass(hint):
        named = {field.name: hints[field.name] for field in fields(hint)}
        return _struct(lambda *values: made(**dict(zip(named, values, strict=True))), named)
    raise TypeError(f"{hint} has no column")


def _struct(make: Callable[..., Any], hints: Mapping[str, Any]) -> TypedColumn:
    columns = {name: typed_column(hint) for name, hint in hints.items()}

    def write(value: Any) -> dict[str, Any]:
        values = value if isinstance(value, tuple) else [getattr(value, name) for name in columns]
        return {name: one.write(part) for (name, one), part in zip(columns.items(), values, strict=True)}

    def read(plain: Mapping[str, Any]) -> Any:
        return make(*(one.read(plain[name]) for name, one in columns.items()))

    return TypedColumn(pa.struct([(name, one.type) for name, one in columns.items()]), write, read)


def _optional(hint: Any) -> TypedColumn:
    column = typed_column(hint)
    return TypedColumn(
        column.type,
        lambda value: None if value is None else column.write(value),
        lambda plain: None if plain is None else column.read(plain),
    )


def _bounds() -> TypedColumn:
    def plain_time(value: datetime) -> dict[str, int]:
        return {"us": microseconds(value)}

    def read(plain: str) -> dict[str, Any]:
        bounds: dict[str, Any] = orjson.loads(plain)
        return {name: moment_of_us(one["us"]) if type(one) is dict else one for name, one in bounds.items()}

    option = orjson.OPT_PASSTHROUGH_DATETIME
    return TypedColumn(pa.string(), lambda value: orjson.dumps(value, plain_time, option).decode(), read)


def _collection(origin: type, args: Sequence[Any]) -> TypedColumn:
    if args[1:] == (Any,):
        return _bounds()
    if issubclass(origin, Mapping):
        return _mapping(Counter if origin is Counter else dict, args[0], int if origin is Counter else args[1])
    item = typed_column(args[0])
    made: Any = origin if issubclass(origin, list | tuple | set | frozenset) else list
    return TypedColumn(
        pa.list_(item.type),
        lambda values: [item.write(value) for value in values],
        lambda plain: made(item.read(one) for one in plain),
    )


def _mapping(made: Callable[[Mapping[Any, Any]], Mapping[Any, Any]], key: Any, item: Any) -> TypedColumn:
    entry = _struct(lambda *values: values, {"key": key, "value": item})
    return TypedColumn(
        pa.list_(entry.type),
        lambda value: [entry.write(pair) for pair in value.items()],
        lambda plain: made(dict(entry.read(one) for one in plain)),
    )
