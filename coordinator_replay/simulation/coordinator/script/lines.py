"""The lines of a script: their fields, and the errors of lines that can't be read."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from coordinator_replay.errors import UsageError
from coordinator_replay.simulation.coordinator.topics import Topic

Line = dict[str, Any]

Value = TypeVar("Value")

INT16, INT64 = 16, 64
JSON_TYPES = {dict: "an object", list: "a list", str: "text", int: "a whole number", bool: "true or false"}


def read_line(text: str, fields: Mapping[str, frozenset[str]]) -> tuple[str, Line]:
    """Read a line of a script.

    Args:
        text: the line as text.
        fields: fields that each command may have in its line; every line may also have a note.

    Returns:
        The command of the line, and all its fields.

    Raises:
        UsageError: the line is not a JSON object with one command and the command's fields.
    """
    try:
        line = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}") from None
    if not isinstance(line, dict):
        raise UsageError("not a JSON object")
    if "\\u" in text or not text.isascii():
        _check_texts(line)
    command = next((name for name in fields if name in line), None)
    if command is None:
        raise UsageError(f"it has no command; there are {', '.join(fields)}")
    _check_names(line, {command, "note"} | fields[command], f"a line with {command}")
    return command, line


def read_topic(entry: Any) -> Topic:
    """Read a topic of a ``topics`` command.

    Raises:
        UsageError: the entry is no topic.
    """
    if not isinstance(entry, dict):
        raise UsageError(f"topics: {entry!r} is not an object")
    _check_names(entry, {"name", "id", "partitions", "racks"}, "a topic")
    racks = tuple(map(tuple, racks_of(entry, "racks")))
    return Topic(value_of(entry, "name", str), value_of(entry, "id", str), value_of(entry, "partitions", int), racks)


def read_client(line: Line) -> tuple[str, str]:
    """Return the client id and the host of a request, or their defaults where the line has none."""
    client = {"id": "client", "host": "127.0.0.1", **(value_of(line, "client", dict) if "client" in line else {})}
    _check_names(client, {"id", "host"}, "client")
    return value_of(client, "id", str), value_of(client, "host", str)


def read_end(line: Line) -> tuple[int, int, bool]:
    """Read the command ``endTxn``: the producer id, the producer epoch, and whether the transaction is committed."""
    end: Line = value_of(line, "endTxn", dict)
    _check_names(end, {"producerId", "producerEpoch", "commit"}, "endTxn")
    return _integer(end, "producerId", INT64), _integer(end, "producerEpoch", INT16), value_of(end, "commit", bool)


def check_true(line: Line, name: str) -> None:
    """Raise a UsageError unless the value of a field is true."""
    if line[name] is not True:
        raise UsageError(f"{name} is {line[name]!r}; it must be true")


def value_of(line: Mapping[str, Any], name: str, kind: type[Value]) -> Value:
    """Return the value of a field, which must have a given JSON type.

    Raises:
        UsageError: the field is missing, or its value has another type.
    """
    value = line.get(name)
    if type(value) is not kind:
        raise UsageError(f"{name} must be {JSON_TYPES[kind]}")
    return value


def is_list_of(values: Any, kind: type) -> bool:
    """Return whether a value is a list of values of a JSON type."""
    return isinstance(values, list) and all(type(value) is kind for value in values)


def racks_of(entry: Mapping[str, Any], name: str) -> list[list[str]]:
    """Return the racks of the replicas of each partition, from the field with this name.

    If the field is missing, return an empty list.
    """
    racks = entry.get(name) or []
    if not isinstance(racks, list) or not all(is_list_of(replicas, str) for replicas in racks):
        raise UsageError(f"{name} must be a list of each partition's racks")
    return racks


def _integer(line: Line, name: str, bits: int) -> int:
    value = value_of(line, name, int)
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise UsageError(f"{name} is {value}; it must be a number of {bits} bits")
    return value


def _check_names(entry: Mapping[str, Any], allowed: frozenset[str] | set[str], where: str) -> None:
    unknown = next((name for name in entry if name not in allowed), None)
    if unknown is not None:
        raise UsageError(f"unknown field {unknown!r} in {where}")


def _check_texts(line: Line) -> None:
    try:
        json.dumps(line, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UsageError("a text in it is not Unicode: not UTF-8, or half of a surrogate pair") from None
