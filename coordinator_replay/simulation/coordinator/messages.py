"""Requests and responses, in Kafka's JSON form.

``complete`` checks a request and fills in omitted fields. ``respond`` gives a response the fields of its version.

A request's body is Kafka's JSON form of the message. Fields that are left out have the message's defaults. A given
field is used even if the request's version lacks this field, as in Kafka's reader of the JSON form. The messages are
defined in ``schemas/messages``.
"""

import base64
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

from coordinator_replay.errors import UsageError
from coordinator_replay.records.definition import INTEGER_SIZES, Field, Struct, parse_blob, read_definition
from coordinator_replay.schemas_folder import schema_files

Body = dict[str, Any]
Check = Callable[[Any], bool]

ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
NATURAL_DEFAULTS: Mapping[str, Any] = {"string": "", "bytes": "", "bool": False, "uuid": ZERO_UUID}
DEFAULT_VERSIONS: Mapping[str, int] = {"OffsetCommit": 9, "OffsetFetch": 9}
"""Default version of requests, for APIs that do not use the latest. Version 10 names topics by id, and a
broker resolves the ids before the coordinator gets the request."""


class Request(NamedTuple):
    """One request to the coordinator.

    Attributes:
        api: Kafka's name of the API, such as ``ConsumerGroupHeartbeat``.
        body: the fields in Kafka's JSON form; omitted fields have their defaults.
        version: the version of the request; None for the latest (OffsetCommit and OffsetFetch: 9).
        client_id: client id in the request's header.
        client_host: address the request comes from, without a leading slash.
        correlation_id: the number that the response repeats.
    """

    api: str
    body: Mapping[str, Any]
    version: int | None = None
    client_id: str = "client"
    client_host: str = "127.0.0.1"
    correlation_id: int = 0


def complete(request: Request, *, is_draft: bool = False) -> Request:
    """Return the request with its version, and with defaults for omitted fields.

    Args:
        request: the request as the client sent it.
        is_draft: whether to accept the messages that only KIP-848's draft has, too.

    Raises:
        UsageError: the request, its version or one of its fields is unknown, or a value is of the wrong type.
    """
    requests = messages("Request", is_draft=is_draft)
    message = requests.get(request.api)
    if message is None:
        raise UsageError(f"unknown request {request.api!r}; there are {', '.join(sorted(requests))}")
    version = request.version
    if version is None:
        version = DEFAULT_VERSIONS.get(request.api, message.versions.high)
    elif isinstance(version, bool) or version not in message.versions:
        raise UsageError(
            f"{request.api}: version {version} is not among {message.versions.low} to {message.versions.high}"
        )
    body = _filled(message.fields, request.body, request.api)
    return request._replace(version=version, body=body)


@lru_cache(maxsize=1 << 14)
def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of an id.

    Args:
        text: the id as Kafka prints it.
    """
    return base64.urlsafe_b64decode(text + "==")


def respond(api: str, version: int, body: Mapping[str, Any], *, is_draft: bool = False) -> Body:
    """Return a response with all fields of its version and no others, in the order of its definition."""
    return _trimmed(messages("Response", is_draft=is_draft)[api].fields, version, body)


@cache
def messages(side: Literal["Request", "Response"], *, is_draft: bool = False) -> Mapping[str, Struct]:
    """Return the definitions of all requests, or of all responses, by Kafka's name.

    With ``is_draft``, messages of the draft of KIP-848 replace Kafka's messages of the same name.
    """
    folders = ("messages", "messages/draft") if is_draft else ("messages",)
    paths = [path for folder in folders for path in schema_files(folder, f"{side}.json")]
    return {path.name.removesuffix(f"{side}.json"): parse_blob(read_definition(path)) for path in paths}


def _filled(fields: tuple[Field, ...], body: Any, where: str) -> Body:
    if not isinstance(body, Mapping):
        raise UsageError(f"{where}: {body!r} is not an object")
    defaults, by_name = _blank(fields)
    filled = dict(defaults)
    for name, value in body.items():
        if name not in by_name:
            raise UsageError(f"{where}: unknown field {name!r}")
        field, is_plain = by_name[name]
        filled[name] = value if is_plain(value) else _checked(field, value, f"{where}.{name}")
    return filled


@cache
def _blank(fields: tuple[Field, ...]) -> tuple[Body, Mapping[str, tuple[Field, Check]]]:
    """Return two mappings whose keys are the names of the fields.

    The first mapping has the default of each field. The second has pairs of the field and a quick check. A value that
    passes the quick check is valid. A value that fails it may still be valid: ``_checked`` decides.
    """
    return {field.name: _default(field) for field in fields}, {field.name: (field, _plain(field)) for field in fields}


def _plain(field: Field) -> Check:
    return _is_never if field.is_array or field.type == "struct" else CHECKS[field.type]


def _is_never(_: Any) -> bool:
    return False


def _default(field: Field) -> Any:
    """Return the value of an omitted field.

    This is the field's default. A field without a default is null if null is allowed, and zero or empty otherwise.
    """
    if field.is_array:
        return None if field.nullable and field.default is None else ()
    if field.default is not None or field.nullable or field.type == "struct":
        return field.default
    return NATURAL_DEFAULTS.get(field.type, 0)


def _checked(field: Field, value: Any, where: str) -> Any:
    if value is None:
        if not field.nullable:
            raise UsageError(f"{where} must not be null")
        return None
    if not field.is_array:
        return _checked_one(field, value, where)
    if not isinstance(value, list | tuple):
        raise UsageError(f"{where}: {value!r} is not a list")
    return [_checked_one(field, element, f"{where}[{at}]") for at, element in enumerate(value)]


def _checked_one(field: Field, value: Any, where: str) -> Any:
    if field.type == "struct":
        return _filled(field.fields, value, where)
    if not CHECKS[field.type](value):
        raise UsageError(f"{where}: {value!r} is not of type {field.type}")
    return value


def _integer_check(bits: int) -> Check:
    limit = 1 << (bits - 1)
    return lambda value: type(value) is int and -limit <= value < limit


BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")

UUID = re.compile(r"[A-Za-z0-9_-]{21}[AQgw]")
"""An id as Kafka prints it; its last character holds two bits."""

CHECKS: Mapping[str, Check] = {
    "string": lambda value: isinstance(value, str),
    "bytes": lambda value: isinstance(value, str) and BASE64.fullmatch(value) is not None,
    "bool": lambda value: isinstance(value, bool),
    "uuid": lambda value: isinstance(value, str) and UUID.fullmatch(value) is not None,
    **{name: _integer_check(8 * size) for name, size in INTEGER_SIZES.items()},
}
"""Checks of a value's type in Kafka's JSON form; bytes are base64, ids are 22 characters of base64."""


def _trimmed(fields: tuple[Field, ...], version: int, body: Mapping[str, Any]) -> Body:
    trimmed = {}
    for field, default in _of_version(fields, version):
        value = body.get(field.name, default)
        if field.fields and value is not None:
            value = (
                [_trimmed(field.fields, version, element) for element in value]
                if field.is_array
                else _trimmed(field.fields, version, value)
            )
        trimmed[field.name] = value
    return trimmed


@cache
def _of_version(fields: tuple[Field, ...], version: int) -> tuple[tuple[Field, Any], ...]:
    """Return the fields that a version has, each with its default."""
    return tuple((field, _default(field)) for field in fields if version in field.versions)
