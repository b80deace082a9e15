"""One record at a time, decoded and encoded by the definitions, in Kafka's JSON form.

The plain twin of the columnar decoder: slow, short and easy to check. It serves single records, the tests as a judge
of the columnar one, and everything that has to *write* coordinator records.

JSON form (``CoordinatorRecordMessageFormatter``, the generated ``…JsonConverter``): camelCase names, uuids in their
22-character form, bytes in base64, fields of other versions left out, tagged fields left out at their default. Beyond
Kafka's form, tagged fields that no definition knows stand under ``unknownTaggedFields``, so that nothing is lost.
"""

import base64
import binascii
import struct as packing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from coordinator_replay.records.damage import ErrorClass, RecordError
from coordinator_replay.records.definition import Field, RecordDefinition, Struct
from coordinator_replay.records.kinds import kinds_by_name, record_kinds

UNKNOWN_TAGS = "unknownTaggedFields"

_INTEGERS = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "int64": ">q"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRecord:
    """A key and a value in Kafka's JSON form; ``value`` is None for a tombstone."""

    kind: str
    key_version: int
    value_version: int | None
    key: Mapping[str, Any]
    value: Mapping[str, Any] | None

    @property
    def is_tombstone(self) -> bool:
        """Whether the record deletes its key's object."""
        return self.value is None


class _Reader:
    """A position in a run of bytes; every read checks that the bytes are there."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    @property
    def remaining(self) -> int:
        return len(self.data) - self.position

    def take(self, size: int) -> bytes:
        if size > self.remaining:
            raise RecordError(ErrorClass.BUFFER_UNDERFLOW)
        self.position += size
        return self.data[self.position - size : self.position]

    def integer(self, type_: str) -> int:
        form = _INTEGERS[type_]
        value: int = packing.unpack(form, self.take(packing.calcsize(form)))[0]
        return value

    def uvarint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise RecordError(ErrorClass.VARINT_TOO_LONG)

    def length(self, plain: str, flexible: bool) -> int:
        """A length or count; negative means null."""
        return self.uvarint() - 1 if flexible else self.integer(plain)


def _not_null(field: Field) -> None:
    if not field.nullable:
        raise RecordError(ErrorClass.UNEXPECTED_NULL, field.name)


def _read_element(reader: _Reader, field: Field, version: int, flexible: bool) -> Any:
    if field.type in _INTEGERS:
        return reader.integer(field.type)
    if field.type == "uuid":
        return base64.urlsafe_b64encode(reader.take(16)).decode().rstrip("=")
    if field.type == "struct":
        return _read_fields(reader, field.fields, version, flexible)
    length = reader.length("int16" if field.type == "string" else "int32", flexible)
    if length < 0:
        _not_null(field)
        return None
    data = reader.take(length)
    if field.type == "bytes":
        return base64.b64encode(data).decode()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise RecordError(ErrorClass.INVALID_UNICODE, field.name) from None


def _read_field(reader: _Reader, field: Field, version: int, flexible: bool) -> Any:
    if field.is_array:
        count = reader.length("int32", flexible)
        if count < 0:
            _not_null(field)
            return None
        if count > reader.remaining:
            raise RecordError(ErrorClass.BUFFER_UNDERFLOW, field.name)
        return [_read_element(reader, field, version, flexible) for _ in range(count)]
    if field.type == "struct" and field.nullable:
        present = reader.uvarint() > 0 if field.tag is not None else reader.integer("int8") >= 0
        if not present:
            return None
    return _read_element(reader, field, version, flexible)


def _read_tagged(reader: _Reader, fields: tuple[Field, ...], version: int) -> dict[str, Any]:
    known = {field.tag: field for field in fields if field.tag is not None and version in field.versions}
    found: dict[str, Any] = {}
    unknown = []
    for _ in range(reader.uvarint()):
        tag, size = reader.uvarint(), reader.uvarint()
        if size > reader.remaining:
            raise RecordError(ErrorClass.BUFFER_UNDERFLOW)
        field = known.get(tag)
        if field is None:
            unknown.append({"tag": tag, "data": base64.b64encode(reader.take(size)).decode()})
            continue
        end = reader.position + size
        value = _read_field(reader, field, version, True)
        if reader.position != end or field.name in found:
            raise RecordError(ErrorClass.BAD_TAGGED_FIELD, field.name)
        found[field.name] = value
    tagged = {
        field.name: found[field.name]
        for field in known.values()
        if field.name in found and found[field.name] != field.default
    }
    if unknown:
        tagged[UNKNOWN_TAGS] = unknown
    return tagged


def _read_fields(reader: _Reader, fields: tuple[Field, ...], version: int, flexible: bool) -> dict[str, Any]:
    result = {
        field.name: _read_field(reader, field, version, flexible)
        for field in fields
        if field.tag is None and version in field.versions
    }
    if flexible:
        result.update(_read_tagged(reader, fields, version))
    return result


def _decode_whole(struct: Struct, version: int, data: bytes) -> dict[str, Any]:
    reader = _Reader(data, 2)
    fields = _read_fields(reader, struct.fields, version, version in struct.flexible)
    if reader.remaining:
        raise RecordError(ErrorClass.TRAILING_BYTES, f"{reader.remaining} bytes")
    return fields


def decode_record(key: bytes | None, value: bytes | None) -> DecodedRecord:
    """Decode one record.

    Args:
        key: the record's key.
        value: the record's value, None for a tombstone.

    Raises:
        RecordError: the bytes are damaged, or of a kind or version that no definition knows.
    """
    if key is None or len(key) < 2:
        raise RecordError(ErrorClass.MISSING_KEY)
    number = packing.unpack_from(">h", key)[0]
    kind = record_kinds().get(number)
    if kind is None:
        raise RecordError(ErrorClass.UNKNOWN_RECORD_TYPE, f"kind {number}")
    key_fields = _decode_whole(kind.key, 0, key)
    version = None
    value_fields = None
    if value is not None:
        if len(value) < 2:
            raise RecordError(ErrorClass.EMPTY_VALUE)
        version = packing.unpack_from(">h", value)[0]
        if version not in kind.value.versions:
            raise RecordError(ErrorClass.UNSUPPORTED_VERSION, f"{kind.name} version {version}")
        value_fields = _decode_whole(kind.value, version, value)
    return DecodedRecord(kind=kind.name, key_version=number, value_version=version, key=key_fields, value=value_fields)


def decode_blob(struct: Struct, data: bytes) -> dict[str, Any]:
    """Decode a blob embedded in a record: its version, then its fields.

    A version above the newest known one is read as the newest known one, and bytes after the last field are legal
    (``ConsumerProtocol``: newer versions only append).

    Raises:
        RecordError: the bytes end early, or the version is negative.
    """
    return read_blob(struct, data)[0]


def read_blob(struct: Struct, data: bytes) -> tuple[dict[str, Any], int]:
    """As ``decode_blob``, and how many bytes follow the last field."""
    reader = _Reader(data)
    version = reader.integer("int16")
    if version < 0:
        raise RecordError(ErrorClass.UNSUPPORTED_VERSION, f"{struct.name} version {version}")
    read_as = min(version, struct.versions.high)
    fields = _read_fields(reader, struct.fields, read_as, read_as in struct.flexible)
    return {"version": version, **fields}, reader.remaining


def _write_uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _write_length(length: int, plain: str, flexible: bool) -> bytes:
    return _write_uvarint(length + 1) if flexible else packing.pack(_INTEGERS[plain], length)


def _write_element(field: Field, value: Any, version: int, flexible: bool) -> bytes:
    if field.type in _INTEGERS:
        return packing.pack(_INTEGERS[field.type], value)
    if field.type == "uuid":
        return base64.urlsafe_b64decode(value + "==")
    if field.type == "struct":
        return _write_fields(field.fields, value, version, flexible)
    plain = "int16" if field.type == "string" else "int32"
    if value is None:
        return _write_length(-1, plain, flexible)
    data = value.encode() if field.type == "string" else base64.b64decode(value)
    return _write_length(len(data), plain, flexible) + data


def _write_field(field: Field, value: Any, version: int, flexible: bool) -> bytes:
    if field.is_array:
        if value is None:
            return _write_length(-1, "int32", flexible)
        elements = b"".join(_write_element(field, element, version, flexible) for element in value)
        return _write_length(len(value), "int32", flexible) + elements
    if field.type == "struct" and field.nullable:
        tagged = field.tag is not None
        if value is None:
            return b"\x00" if tagged else b"\xff"
        return b"\x01" + _write_fields(field.fields, value, version, flexible)
    return _write_element(field, value, version, flexible)


def _write_fields(fields: tuple[Field, ...], values: Mapping[str, Any], version: int, flexible: bool) -> bytes:
    current = [field for field in fields if version in field.versions]
    out = b"".join(_write_field(field, values[field.name], version, flexible) for field in current if field.tag is None)
    if not flexible:
        return out
    tagged = {
        field.tag: _write_field(field, values[field.name], version, True)
        for field in current
        if field.tag is not None and values.get(field.name, field.default) != field.default
    }
    tagged.update({entry["tag"]: base64.b64decode(entry["data"]) for entry in values.get(UNKNOWN_TAGS, ())})
    parts = [_write_uvarint(tag) + _write_uvarint(len(data)) + data for tag, data in sorted(tagged.items())]
    return out + _write_uvarint(len(parts)) + b"".join(parts)


def _guarded(write: Callable[[], bytes], what: str) -> bytes:
    try:
        return write()
    except (KeyError, TypeError, AttributeError, packing.error, binascii.Error) as problem:
        raise ValueError(f"{what} can't be encoded: {problem!r}") from problem


def _kind(name: str) -> RecordDefinition:
    kind = kinds_by_name().get(name)
    if kind is None:
        raise ValueError(f"no record kind is called {name!r}")
    return kind


def encode_key(kind: str, fields: Mapping[str, Any]) -> bytes:
    """Encode a key.

    Args:
        kind: Kafka's name of the record kind.
        fields: the key's fields in JSON form.

    Raises:
        ValueError: the kind is unknown, or a field is missing or of the wrong type.
    """
    definition = _kind(kind)
    prefix = packing.pack(">h", definition.type)
    return prefix + _guarded(lambda: _write_fields(definition.key.fields, fields, 0, False), f"key of {kind}")


def encode_value(kind: str, version: int, fields: Mapping[str, Any]) -> bytes:
    """Encode a value of a given version.

    Args:
        kind: Kafka's name of the record kind.
        version: the value version.
        fields: the value's fields in JSON form; tagged ones may be left out.

    Raises:
        ValueError: the kind or version is unknown, or a field is missing or of the wrong type.
    """
    value = _kind(kind).value
    if version not in value.versions:
        raise ValueError(f"{kind} has no value version {version}")
    return packing.pack(">h", version) + _guarded(
        lambda: _write_fields(value.fields, fields, version, version in value.flexible), f"value of {kind}"
    )


def encode_blob(struct: Struct, version: int, fields: Mapping[str, Any]) -> bytes:
    """Encode a blob embedded in records, such as a member's subscription.

    Raises:
        ValueError: a field is missing or of the wrong type.
    """
    return packing.pack(">h", version) + _guarded(
        lambda: _write_fields(struct.fields, fields, version, version in struct.flexible), struct.name
    )


def read_uvarints(data: bytes, count: int) -> tuple[tuple[int, ...], int]:
    """The unsigned varints that some bytes begin with, and where they end.

    Raises:
        RecordError: the bytes end early.
    """
    reader = _Reader(data)
    return tuple(reader.uvarint() for _ in range(count)), reader.position


def read_leading_fields(struct: Struct, version: int, data: bytes, position: int) -> dict[str, Any]:
    """The fields of a struct from a position on; what follows them, tagged fields too, is not looked at.

    Raises:
        RecordError: the bytes end early.
    """
    reader = _Reader(data, position)
    flexible = version in struct.flexible
    return {
        field.name: _read_field(reader, field, version, flexible)
        for field in struct.fields
        if version in field.versions
    }
