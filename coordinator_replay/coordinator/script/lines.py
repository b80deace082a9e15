"""The lines of a script: which fields they have, and the errors of lines that can't be read."""

import json
from collections.abc import Mapping
from typing import Any

from coordinator_replay.coordinator.topics import Topic
from coordinator_replay.errors import UsageError

Line = dict[str, Any]

INT16, INT64 = 16, 64


def read_line(text: str, fields: Mapping[str, frozenset[str]]) -> tuple[str, Line]:
    """Read a line.

    Args:
        text: the line.
        fields: fields that each command may have in its line; every line may have a note.

    Returns:
        Its command, and all that stands in it.

    Raises:
        UsageError: it is not a JSON object with one command and what belongs to it.
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
    """Read a topic of a ``topics`` command."""
    if not isinstance(entry, dict):
        raise UsageError(f"topics: {entry!r} is not an object")
    _check_names(entry, {"name", "id", "partitions", "racks"}, "a topic")
    racks = entry.get("racks") or ()
    if not isinstance(racks, list | tuple) or not all(is_texts(replicas) for replicas in racks):
        raise UsageError("racks must be a list of each partition's racks")
    return Topic(
        text_of(entry, "name"),
        text_of(entry, "id"),
        integer_of(entry, "partitions"),
        tuple(tuple(replicas) for replicas in racks),
    )


def read_client(line: Line) -> tuple[str, str]:
    """Client id and host of a request."""
    client = {"id": "client", "host": "127.0.0.1", **(object_of(line, "client") if "client" in line else {})}
    _check_names(client, {"id", "host"}, "client")
    return text_of(client, "id"), text_of(client, "host")


def read_end(line: Line) -> tuple[int, int, bool]:
    """Producer id, its epoch, and whether the transaction is committed."""
    end = object_of(line, "endTxn")
    _check_names(end, {"producerId", "producerEpoch", "commit"}, "endTxn")
    producer_id, epoch = integer_of(end, "producerId", INT64), integer_of(end, "producerEpoch", INT16)
    commit = end.get("commit")
    if not isinstance(commit, bool):
        raise UsageError("commit must be true or false")
    return producer_id, epoch, commit


def check_true(line: Line, name: str) -> None:
    """Make sure that a command that knows no other value has this one."""
    if line[name] is not True:
        raise UsageError(f"{name} is {line[name]!r}; it must be true")


def object_of(line: Mapping[str, Any], name: str) -> Line:
    """A field that is an object."""
    value = line.get(name)
    if not isinstance(value, dict):
        raise UsageError(f"{name} must be an object")
    return value


def list_of(line: Mapping[str, Any], name: str) -> list[Any]:
    """A field that is a list."""
    value = line.get(name)
    if not isinstance(value, list):
        raise UsageError(f"{name} must be a list")
    return value


def text_of(line: Mapping[str, Any], name: str) -> str:
    """A field that is text."""
    value = line.get(name)
    if not isinstance(value, str):
        raise UsageError(f"{name} must be text")
    return value


def integer_of(line: Mapping[str, Any], name: str, bits: int | None = None) -> int:
    """A field that is a whole number, of so many bits where a record or a request has no more for it."""
    value = line.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{name} must be a whole number")
    if bits is not None and not -(1 << bits - 1) <= value < 1 << bits - 1:
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


def is_texts(value: Any) -> bool:
    """Whether a value is a list of texts."""
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
