"""Requests as they come in and responses as they go out: complete, checked, and in the fields of their version.

A request's body is Kafka's JSON form of the message; fields that are left out have the message's defaults. A field
that the version does not have counts where it is given, as it does when Kafka reads that form.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from coordinator_replay.coordinator.message_layouts import DRAFT_REQUESTS, DRAFT_RESPONSES, REQUESTS, RESPONSES
from coordinator_replay.errors import UsageError

Body = dict[str, Any]

ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
NATURAL_DEFAULTS: Mapping[str, Any] = {"string": "", "bytes": "", "bool": False, "uuid": ZERO_UUID}
INT_BITS: Mapping[str, int] = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
DEFAULT_VERSIONS: Mapping[str, int] = {"OffsetCommit": 9, "OffsetFetch": 9}
"""Where a request without a version does not take the latest: version 10 names topics by id, which the broker in front
of the coordinator resolves."""


class Request(NamedTuple):
    """One request to the coordinator.

    Attributes:
        api: Kafka's name of it, e.g. ``ConsumerGroupHeartbeat``.
        body: its fields in Kafka's JSON form; left out ones have their defaults.
        version: its version, None for the latest (OffsetCommit and OffsetFetch: 9).
        client_id: client id in the request's header.
        client_host: address the request comes from, without a leading slash.
        correlation_id: number that its response carries.
    """

    api: str
    body: Mapping[str, Any]
    version: int | None = None
    client_id: str = "client"
    client_host: str = "127.0.0.1"
    correlation_id: int = 0


class Field(NamedTuple):
    """One field of a message."""

    name: str
    type: str
    is_list: bool
    is_nullable: bool
    default: Any
    first: int
    last: int | None
    fields: "tuple[Field, ...]" = ()

    def is_in(self, version: int) -> bool:
        """Tell whether messages of this version have the field."""
        return version >= self.first and (self.last is None or version <= self.last)


class Layout(NamedTuple):
    """A message: its name, lowest and highest version, and fields."""

    name: str
    lowest: int
    highest: int
    fields: tuple[Field, ...]


def complete(request: Request, *, is_draft: bool = False) -> Request:
    """The request with its version and every field of it.

    Args:
        request: as it came.
        is_draft: take the messages that only KIP-848's draft has too.

    Raises:
        UsageError: the request, its version or one of its fields is unknown, or a value is of the wrong type.
    """
    known = layouts("request", is_draft=is_draft)
    layout = known.get(request.api)
    if layout is None:
        raise UsageError(f"unknown request {request.api!r}; there are {', '.join(sorted(known))}")
    version = request.version
    if version is None:
        version = DEFAULT_VERSIONS.get(request.api, layout.highest)
    elif isinstance(version, bool) or not isinstance(version, int) or not layout.lowest <= version <= layout.highest:
        raise UsageError(f"{request.api}: version {version} is not among {layout.lowest} to {layout.highest}")
    body = _filled(layout.fields, version, request.body, request.api)
    return request._replace(version=version, body=body)


@lru_cache(maxsize=1 << 14)
def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of an id as Kafka prints it."""
    return base64.urlsafe_b64decode(text + "==")


def respond(api: str, version: int, body: Mapping[str, Any], *, is_draft: bool = False) -> Body:
    """A response with all fields of its version and no others, in the order of its definition."""
    return _trimmed(layouts("response", is_draft=is_draft)[api].fields, version, body)


@cache
def layouts(side: str, *, is_draft: bool = False) -> Mapping[str, Layout]:
    """Every message of a side, ``request`` or ``response``, by name; those of the draft take the place of others."""
    text = REQUESTS if side == "request" else RESPONSES
    draft = DRAFT_REQUESTS if side == "request" else DRAFT_RESPONSES
    return {layout.name: layout for layout in (*_parse(text), *(_parse(draft) if is_draft else ()))}


def _filled(fields: tuple[Field, ...], version: int, body: Any, where: str) -> Body:
    if not isinstance(body, Mapping):
        raise UsageError(f"{where}: {body!r} is not an object")
    filled, known = _blank(fields, version)
    filled = dict(filled)
    for name, value in body.items():
        field = known.get(name)
        if field is None:
            raise UsageError(f"{where}: unknown field {name!r}")
        filled[name] = _checked(field, version, value, f"{where}.{name}")
    return filled


@cache
def _blank(fields: tuple[Field, ...], version: int) -> tuple[Body, Mapping[str, Field]]:
    return {field.name: field.default for field in fields}, {field.name: field for field in fields}


def _checked(field: Field, version: int, value: Any, where: str) -> Any:
    if value is None:
        if not field.is_nullable:
            raise UsageError(f"{where} must not be null")
        return None
    if not field.is_list:
        return _checked_one(field, version, value, where)
    if not isinstance(value, list | tuple):
        raise UsageError(f"{where}: {value!r} is not a list")
    return [_checked_one(field, version, one, f"{where}[{at}]") for at, one in enumerate(value)]


def _checked_one(field: Field, version: int, value: Any, where: str) -> Any:
    if field.type == "struct":
        return _filled(field.fields, version, value, where)
    if not CHECKS[field.type](value):
        raise UsageError(f"{where}: {value!r} is not of type {field.type}")
    return value


def _integer_check(bits: int) -> Callable[[Any], bool]:
    limit = 1 << (bits - 1)
    return lambda value: type(value) is int and -limit <= value < limit


BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")

UUID = re.compile(r"[A-Za-z0-9_-]{21}[AQgw]")
"""An id as Kafka prints it; its last character holds two bits."""

CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "bytes": lambda value: isinstance(value, str) and BASE64.fullmatch(value) is not None,
    "bool": lambda value: isinstance(value, bool),
    "uuid": lambda value: isinstance(value, str) and UUID.fullmatch(value) is not None,
    **{name: _integer_check(bits) for name, bits in INT_BITS.items()},
}
"""How a value of a type is recognised in Kafka's JSON form; bytes are base64, ids are 22 characters of it."""


def _trimmed(fields: tuple[Field, ...], version: int, body: Mapping[str, Any]) -> Body:
    trimmed = {}
    for field in fields:
        if field.is_in(version):
            value = body.get(field.name, field.default)
            if field.fields and value is not None:
                value = (
                    [_trimmed(field.fields, version, one) for one in value]
                    if field.is_list
                    else _trimmed(field.fields, version, value)
                )
            trimmed[field.name] = value
    return trimmed


def _parse(text: str) -> Iterator[Layout]:
    lines = [line for line in text.splitlines() if line]
    starts = [at for at, line in enumerate(lines) if not line.startswith(" ")]
    for start, end in pairwise([*starts, len(lines)]):
        name, versions = lines[start].split(" ")
        lowest, highest = versions.split("-")
        yield Layout(name, int(lowest), int(highest), _fields(lines[start + 1 : end], 1))


def _fields(lines: list[str], depth: int) -> tuple[Field, ...]:
    starts = [at for at, line in enumerate(lines) if line[depth * 4] != " "]
    return tuple(
        _field(lines[start].strip(), _fields(lines[start + 1 : end], depth + 1))
        for start, end in pairwise([*starts, len(lines)])
    )


def _field(line: str, fields: tuple[Field, ...]) -> Field:
    declared, _, default = line.partition(" = ")
    name, kind, *versions = declared.split(" ")
    is_nullable, kind = kind.startswith("?"), kind.removeprefix("?")
    is_list, kind = kind.startswith("[]"), kind.removeprefix("[]")
    first, last = _version_range(versions[0]) if versions else (0, None)
    return Field(name, kind, is_list, is_nullable, _default(kind, default, is_list=is_list), first, last, fields)


def _version_range(text: str) -> tuple[int, int | None]:
    if text.endswith("+"):
        return int(text[:-1]), None
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _default(kind: str, text: str, *, is_list: bool) -> Any:
    if text == "null":
        return None
    if is_list:
        return ()
    if kind in INT_BITS:
        return int(text or 0)
    return NATURAL_DEFAULTS.get(kind)
