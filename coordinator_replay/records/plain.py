"""Decoding of single records to Kafka's JSON form, and encoding from it.

This module reads everything that ``columnar.py`` does not read: values with lists, records that are not well-formed,
and the blobs of clients in records. It also writes all records.

The JSON form (``CoordinatorRecordMessageFormatter``, the generated ``…JsonConverter``) has camelCase names, uuids in
their 22-character form, and bytes in base64. It leaves out fields that the record's version does not have, and tagged
fields with their default value. So that nothing is lost, tagged fields that no definition knows are kept under
``unknownTaggedFields``. Kafka's form does not have this name.
"""

import base64
import binascii
import struct as packing
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from coordinator_replay.records.damage import ErrorClass, RecordError
from coordinator_replay.records.definition import Field, RecordDefinition, Struct
from coordinator_replay.records.kinds import kinds_by_name, record_kinds

UNKNOWN_TAGS = "unknownTaggedFields"

_INTEGERS = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "int64": ">q"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRecord:
    """A key and a value in Kafka's JSON form.

    Attributes:
        kind: Kafka's name of the record kind.
        key_version: the number of the kind, which is at the start of the key.
        value_version: the version of the value; None for a tombstone.
        value: None for a tombstone.
    """

    kind: str
    key_version: int
    value_version: int | None
    key: Mapping[str, Any]
    value: Mapping[str, Any] | None

    @property
    def is_tombstone(self) -> bool:
        """Return whether the record is a tombstone, which removes its key."""
        return self.value is None


class _Source:
    """Bytes, and the position of the next byte to read. Every read checks that enough bytes are left.

    Args:
        malformed: the error handler of ``bytes.decode`` for texts that are not UTF-8.
    """

    __slots__ = ("at", "data", "malformed")

    def __init__(self, data: bytes, at: int = 0, malformed: str = "strict") -> None:
        self.data = data
        self.at = at
        self.malformed = malformed

    @property
    def remaining(self) -> int:
        return len(self.data) - self.at

    def take(self, size: int) -> bytes:
        start = self.at
        end = start + size
        if end > len(self.data):
            raise RecordError(ErrorClass.BUFFER_UNDERFLOW)
        self.at = end
        return self.data[start:end]

    def text(self, size: int) -> str:
        try:
            return self.take(size).decode("utf-8", self.malformed)
        except UnicodeDecodeError:
            raise RecordError(ErrorClass.INVALID_UNICODE) from None

    def base64(self, size: int) -> str:
        return binascii.b2a_base64(self.take(size), newline=False).decode()

    def uvarint(self) -> int:
        value = shift = 0
        while shift < 35:
            try:
                byte = self.data[self.at]
            except IndexError:
                raise RecordError(ErrorClass.BUFFER_UNDERFLOW) from None
            self.at += 1
            if byte < 0x80:
                return value | byte << shift
            value |= (byte & 0x7F) << shift
            shift += 7
        raise RecordError(ErrorClass.VARINT_TOO_LONG)


_Read = Callable[[_Source], Any]
"""A function that reads one value of a field. It is made once for each field, so reading a record does not consult the
definition."""


def _integers(type_: str) -> _Read:
    layout = packing.Struct(_INTEGERS[type_])
    size, unpack = layout.size, layout.unpack_from

    def read(source: _Source) -> Any:
        at = source.at
        source.at = at + size
        try:
            return unpack(source.data, at)[0]
        except packing.error:
            raise RecordError(ErrorClass.BUFFER_UNDERFLOW, is_in_number=True) from None

    return read


def _lengths(plain: str, flexible: bool) -> tuple[_Read, int]:
    """Return a function that reads a length or count, and the number to subtract from its result.

    If the difference is below 0, the field is null. For example, the flexible encoding writes a length of 5 as 6, and
    null as 0: subtract 1.

    Args:
        plain: type of the length in the plain encoding, such as ``int16``.
        flexible: whether the field is in the flexible encoding.
    """
    return (_Source.uvarint, 1) if flexible else (_integers(plain), 0)


@lru_cache(1024)
def _uuid_text(data: bytes) -> str:
    """Return an id in text form.

    The text is cached, because nearly all records have the same few ids.
    """
    return base64.urlsafe_b64encode(data)[:22].decode()


def _uuid(source: _Source) -> str:
    return _uuid_text(source.take(16))


def _runs_of_bytes(field: Field, nullable: bool, flexible: bool) -> _Read:
    """Return a reader of strings or bytes."""
    is_text = field.type == "string"
    length_of, none = _lengths("int16" if is_text else "int32", flexible)
    convert = _Source.text if is_text else _Source.base64

    def read(source: _Source) -> str | None:
        length = length_of(source) - none
        if length >= 0:
            return convert(source, length)
        if not nullable:
            raise RecordError(ErrorClass.UNEXPECTED_NULL)
        return None

    return read


def _elements(field: Field, version: int, nullable: bool, flexible: bool) -> _Read:
    """Return a reader of a field's values, or of the elements of its array."""
    if field.type in _INTEGERS:
        return _integers(field.type)
    if field.type == "uuid":
        return _uuid
    if field.type == "struct":
        return _structs(field.fields, version, flexible)
    return _runs_of_bytes(field, nullable, flexible)


def _arrays(field: Field, version: int, flexible: bool) -> _Read:
    nullable, count_of, none = field.nullable, *_lengths("int32", flexible)
    code = _INTEGERS.get(field.type, "").removeprefix(">")
    element = _elements(field, version, False, flexible)

    def read(source: _Source) -> list[Any] | None:
        count = count_of(source) - none
        # An element takes at least a byte, so a false count is found before memory is reserved.
        if count > source.remaining:
            raise RecordError(ErrorClass.BUFFER_UNDERFLOW)
        if count < 0:
            if not nullable:
                raise RecordError(ErrorClass.UNEXPECTED_NULL)
            return None
        if not code:
            return [element(source) for _ in range(count)]
        layout = f">{count}{code}"
        return list(packing.unpack(layout, source.take(packing.calcsize(layout))))

    return read


def _nullable_structs(field: Field, version: int, flexible: bool) -> _Read:
    is_tagged, presence = field.tag is not None, _integers("int8")
    fields = _structs(field.fields, version, flexible)

    def read(source: _Source) -> Any:
        is_present = source.uvarint() > 0 if is_tagged else presence(source) >= 0
        return fields(source) if is_present else None

    return read


def _values(field: Field, version: int, flexible: bool) -> _Read:
    if field.is_array:
        return _arrays(field, version, flexible)
    if field.type == "struct" and field.nullable:
        return _nullable_structs(field, version, flexible)
    return _elements(field, version, field.nullable, flexible)


def _tagged_fields(fields: list[Field], version: int) -> _Read:
    by_tag = {field.tag: (field.name, _values(field, version, True)) for field in fields}
    defaults = {field.name: field.default for field in fields}

    def read(source: _Source) -> dict[str, Any]:
        tagged: dict[str, Any] = {}
        unknown = []
        for _ in range(source.uvarint()):
            tag, size = source.uvarint(), source.uvarint()
            if size > source.remaining:
                raise RecordError(ErrorClass.BUFFER_UNDERFLOW)
            if tag not in by_tag:
                unknown.append({"tag": tag, "data": source.base64(size)})
                continue
            name, value_of = by_tag[tag]
            end = source.at + size
            value = value_of(source)
            if source.at != end or name in tagged:
                raise RecordError(ErrorClass.BAD_TAGGED_FIELD)
            tagged[name] = value
        values = {name: tagged[name] for name in defaults if name in tagged and tagged[name] != defaults[name]}
        return values | {UNKNOWN_TAGS: unknown} if unknown else values

    return read


def _structs(fields: tuple[Field, ...], version: int, flexible: bool) -> _Read:
    current = [field for field in fields if version in field.versions]
    in_line = [(field.name, _values(field, version, flexible)) for field in current if field.tag is None]
    if not flexible:
        return lambda source: {name: value_of(source) for name, value_of in in_line}
    tagged_fields = _tagged_fields([field for field in current if field.tag is not None], version)

    def read(source: _Source) -> dict[str, Any]:
        values = {}
        for name, value_of in in_line:
            values[name] = value_of(source)
        if source.data[source.at : source.at + 1] == b"\0":  # no tagged field, as in nearly all records
            source.at += 1
            return values
        values.update(tagged_fields(source))
        return values

    return read


@cache
def _reader(struct: Struct, version: int) -> _Read:
    return _structs(struct.fields, version, version in struct.flexible)


def _decode_whole(struct: Struct, version: int, data: bytes) -> dict[str, Any]:
    source = _Source(data, 2)
    try:
        fields: dict[str, Any] = _reader(struct, version)(source)
    except RecordError as problem:
        raise RecordError(problem.error_class, struct.name) from None
    if source.remaining:
        raise RecordError(ErrorClass.TRAILING_BYTES, struct.name)
    return fields


def decode_record(key: bytes | None, value: bytes | None) -> DecodedRecord:
    """Decode one record.

    Args:
        key: the record's key.
        value: the record's value, None for a tombstone.

    Raises:
        RecordError: the bytes are damaged, or no definition knows their kind or version.
    """
    if key is None or len(key) < 2:
        raise RecordError(ErrorClass.MISSING_KEY)
    number = packing.unpack_from(">h", key)[0]
    kind = record_kinds().get(number)
    if kind is None:
        raise RecordError(ErrorClass.UNKNOWN_RECORD_TYPE, f"kind {number}")
    key_fields = _decode_whole(kind.key, 0, key)
    version, value_fields = (None, None) if value is None else decode_value(kind, value)
    return DecodedRecord(kind=kind.name, key_version=number, value_version=version, key=key_fields, value=value_fields)


def decode_value(kind: RecordDefinition, value: bytes) -> tuple[int, dict[str, Any]]:
    """Decode a value of a kind.

    Returns:
        The value's version and its fields.

    Raises:
        RecordError: the bytes are damaged, or of a version that no definition knows.
    """
    if len(value) < 2:
        raise RecordError(ErrorClass.EMPTY_VALUE, kind.name)
    version = packing.unpack_from(">h", value)[0]
    if version not in kind.value.versions:
        raise RecordError(ErrorClass.UNSUPPORTED_VERSION, f"{kind.name} version {version}")
    try:
        return version, _decode_whole(kind.value, version, value)
    except RecordError:
        fields = _decode_earlier(kind, version, value)
        if fields is None:
            raise
        return version, fields


def _decode_earlier(kind: RecordDefinition, version: int, value: bytes) -> dict[str, Any] | None:
    """Return the fields of a value in a layout of earlier releases; None if no layout fits all bytes of the value."""
    for layout in kind.earlier:
        if version in layout.versions:
            with suppress(RecordError):
                return _decode_whole(layout, version, value)
    return None


def group_of_key(key: bytes) -> str | None:
    """Return the group id in a key of an unknown kind; None if it can't be read.

    The group id is the first field in the keys of all known kinds. Later releases are expected to keep this order.
    """
    source = _Source(key, 2)
    try:
        length: int = _integers("int16")(source)
        return source.text(length) if length >= 0 else None
    except RecordError:
        return None


def read_blob(struct: Struct, data: bytes, version: int | None = None) -> tuple[dict[str, Any], int]:
    """Decode the version and the fields of a blob that is embedded in a record or a request.

    A blob of an unknown newer version is read in the newest known version (``ConsumerProtocol``: newer versions only
    append). Bytes after the last field are legal, and invalid characters are replaced.

    Args:
        struct: the blob's definition.
        data: the bytes of the blob.
        version: the version in which to read the fields; None for the blob's own version.

    Returns:
        Version and fields, and the number of bytes after the last field.

    Raises:
        RecordError: the bytes end early, a field that is not nullable is null, or ``version`` is None and the blob's
            own version is negative.
    """
    source = _Source(data, malformed="replace")
    own = _integers("int16")(source)
    if own < 0 and version is None:
        raise RecordError(ErrorClass.UNSUPPORTED_VERSION, f"{struct.name} version {own}")
    fields = _reader(struct, min(own if version is None else version, struct.versions.high))(source)
    return {"version": own, **fields}, source.remaining


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
    """Return the unsigned varints at the start of some bytes, and the position after them.

    Raises:
        RecordError: the bytes end early, or a varint has more than five bytes.
    """
    source = _Source(data)
    return tuple(source.uvarint() for _ in range(count)), source.at


def read_leading_fields(struct: Struct, version: int, data: bytes, position: int) -> dict[str, Any]:
    """Read the fields of a struct from bytes, beginning at ``position``.

    Bytes after these fields are ignored. Tagged fields come last in a message. So a struct with tagged fields must also
    define all other fields of the message.

    Raises:
        RecordError: the bytes end early, or a field can't be read.
    """
    source, flexible = _Source(data, position), version in struct.flexible
    current = [field for field in struct.fields if version in field.versions]
    values = {field.name: _values(field, version, flexible)(source) for field in current if field.tag is None}
    tagged = [field for field in current if field.tag is not None]
    return values | _tagged_fields(tagged, version)(source) if tagged else values
