"""Conversion of the shares and results of stages to JSON and back.

The type hints of a stage's function decide the form of the JSON. Texts, numbers and booleans stay as they are. Values
of other types are written in these forms:

- a ``StrEnum``: its text
- a time: the number of microseconds since 1970
- a dataclass or NamedTuple: an object
- a tuple or another collection: a list
- a mapping: a list of pairs, each with a key and a value
- a mapping whose values have the type hint ``Any``, such as the bounds of columns: an object. A time in such a mapping
  is written as ``{"us": microseconds}``.
"""

# Structs of Spark can't be used instead of JSON. Spark passes rows to a grouped map as DataFrames of pandas. If an
# integer field inside a struct has a null, pandas turns its integers into floats, and large offsets lose digits.

import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache, partial
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import orjson

from coordinator_replay.times import microseconds, moment_of_us

Convert = Callable[[Any], Any]

_PLAIN = (bool, int, float, str)


class TypedJson(NamedTuple):
    """Conversion of the values of a type to JSON values and back."""

    write: Convert
    read: Convert

    def text(self, value: Any) -> str:
        """Return the JSON of a value."""
        return orjson.dumps(self.write(value), _plain_time, orjson.OPT_PASSTHROUGH_DATETIME).decode()

    def value(self, text: str) -> Any:
        """Read a value from the value's JSON."""
        return self.read(orjson.loads(text))


def share_json(stage: Callable[..., Any]) -> TypedJson:
    """Return the conversion to and from JSON for the first argument of a function."""
    return typed_json(next(iter(_hints(stage).values())))


def result_json(stage: Callable[..., Any]) -> TypedJson:
    """Return the conversion to and from JSON for the result of a function."""
    return typed_json(_hints(stage)["return"])


def _hints(stage: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(stage.func if isinstance(stage, partial) else stage)


@cache
def typed_json(hint: Any) -> TypedJson:
    """Return the conversion to and from JSON for a type.

    Raises:
        TypeError: values of this type can't be converted.
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return TypedJson(_same, _same)
    if origin in (Union, types.UnionType):
        return _optional(*(arg for arg in args if arg is not types.NoneType))
    if origin is tuple and args[1:] != (Ellipsis,):
        return _fixed_tuple(args)
    if origin is not None:
        return _collection(origin, args)
    return _scalar_or_object(hint)


def _same(value: Any) -> Any:
    return value


def _plain_time(value: Any) -> dict[str, int]:
    """Return the JSON object for a time in a mapping whose values have the type hint ``Any``.

    Raises:
        TypeError: the value is neither a time nor a JSON value.
    """
    if isinstance(value, datetime):
        return {"us": microseconds(value)}
    raise TypeError(f"{type(value)} has no JSON")


def _scalar_or_object(hint: Any) -> TypedJson:
    if hint is datetime:
        return TypedJson(microseconds, moment_of_us)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return TypedJson(str, hint)
    hints = get_type_hints(hint)
    if hasattr(hint, "_fields"):
        return _object(hint, {name: hints[name] for name in hint._fields})
    if is_dataclass(hint):
        return _object(hint, {field.name: hints[field.name] for field in fields(hint)})
    raise TypeError(f"{hint} has no JSON")


def _object(make: Any, hints: Mapping[str, Any]) -> TypedJson:
    parts = {name: typed_json(hint) for name, hint in hints.items()}

    def write(value: Any) -> dict[str, Any]:
        return {name: part.write(getattr(value, name)) for name, part in parts.items()}

    def read(plain: Mapping[str, Any]) -> Any:
        return make(**{name: part.read(plain[name]) for name, part in parts.items()})

    return TypedJson(write, read)


def _fixed_tuple(hints: Sequence[Any]) -> TypedJson:
    parts = [typed_json(hint) for hint in hints]
    return TypedJson(
        lambda values: [part.write(value) for part, value in zip(parts, values, strict=True)],
        lambda plain: tuple(part.read(value) for part, value in zip(parts, plain, strict=True)),
    )


def _optional(hint: Any) -> TypedJson:
    part = typed_json(hint)
    return TypedJson(
        lambda value: None if value is None else part.write(value),
        lambda plain: None if plain is None else part.read(plain),
    )


def _to_any() -> TypedJson:
    def read(plain: Mapping[str, Any]) -> dict[str, Any]:
        return {name: moment_of_us(value["us"]) if type(value) is dict else value for name, value in plain.items()}

    return TypedJson(dict, read)


def _collection(origin: type, args: Sequence[Any]) -> TypedJson:
    if args[1:] == (Any,):
        return _to_any()
    if issubclass(origin, Mapping):
        return _mapping(Counter if origin is Counter else dict, args[0], int if origin is Counter else args[1])
    item = typed_json(args[0])
    made: Any = origin if issubclass(origin, list | tuple | set | frozenset) else list
    return TypedJson(
        lambda values: [item.write(value) for value in values],
        lambda plain: made(item.read(value) for value in plain),
    )


def _mapping(made: Callable[[Mapping[Any, Any]], Mapping[Any, Any]], key: Any, item: Any) -> TypedJson:
    entry = _fixed_tuple((key, item))
    return TypedJson(
        lambda value: [entry.write(pair) for pair in value.items()],
        lambda plain: made(dict(entry.read(pair) for pair in plain)),
    )
