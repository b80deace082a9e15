"""The files of ``schemas/records`` as typed, validated definitions.

``schemas/records/README.md`` describes the form of the files; tests check every file. A definition has everything that
the decoders, the encoder and the JSON form need to know about a record kind, so their code names no field of a kind.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Any

INTEGER_SIZES: Mapping[str, int] = {"int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8}
"""Integer types and their size in bytes; all signed but ``uint16``."""

NO_VERSION = 1 << 15
"""A number above every version."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of versions. A definition file has it as ``0-4``, ``3+``, ``1`` or ``none``."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    @property
    def all(self) -> range:
        """Return every version of the range."""
        return range(self.low, self.high + 1)

    @staticmethod
    def parse(text: str) -> "Versions":
        """Return the range that a text such as ``0-4`` names."""
        if text == "none":
            return Versions(NO_VERSION, NO_VERSION)
        if text.endswith("+"):
            return Versions(int(text[:-1]), NO_VERSION - 1)
        low, _, high = text.partition("-")
        return Versions(int(low), int(high or low))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Field:
    """One field of a struct.

    Attributes:
        versions: the versions of the struct that have the field.
        type: an integer type, ``uuid``, ``string``, ``bytes`` or ``struct``; the type of each element if ``is_array``.
        nullable: whether null is a legal value.
        tag: number of a tagged field; None if the field is not tagged.
        default: the value that a missing tagged field means, and that Kafka's JSON form leaves out.
        fields: the fields of a struct.
    """

    name: str
    type: str
    is_array: bool
    versions: Versions
    nullable: bool
    tag: int | None
    default: Any
    about: str
    fields: tuple["Field", ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Struct:
    """The fields of a key, a value or an embedded blob, over all its versions.

    Attributes:
        versions: all versions that can be read.
        flexible: the versions in Kafka's flexible encoding, which has tagged fields and varints for lengths.
    """

    name: str
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordDefinition:
    """One record kind.

    Attributes:
        type: the int16 in the first two bytes of the key.
        key: fields of the key, always in the plain (non-flexible) encoding.
        value: fields of the value, over all versions.
        earlier: other layouts of the value: earlier releases of Kafka wrote other fields under the same version number.
        group_field: name of the first key field, whose value is the group id.
        is_offset_commit: whether the kind goes to ``offset_commits`` rather than to ``group_records``.
    """

    name: str
    type: int
    about: str
    source: str
    key: Struct
    value: Struct
    earlier: tuple[Struct, ...]
    group_field: str
    is_offset_commit: bool


def _parse_field(raw: Mapping[str, Any]) -> Field:
    return Field(
        name=raw["name"],
        type=raw["type"].removeprefix("[]"),
        is_array=raw["type"].startswith("[]"),
        versions=Versions.parse(raw.get("versions", "0+")),
        nullable=raw.get("nullable", False),
        tag=raw.get("tag"),
        default=raw.get("default"),
        about=raw["about"],
        fields=tuple(map(_parse_field, raw.get("fields", ()))),
    )


def _parse_struct(raw: Mapping[str, Any], name: str) -> Struct:
    return Struct(
        name=name,
        versions=Versions.parse(raw["versions"]),
        flexible=Versions.parse(raw["flexible"]),
        fields=tuple(map(_parse_field, raw["fields"])),
    )


def parse_record(raw: Mapping[str, Any]) -> RecordDefinition:
    """Return the definition of a record kind.

    Args:
        raw: the parsed JSON of a file of ``schemas/records``.
    """
    name = raw["name"]
    key = _parse_struct({"versions": "0", "flexible": "none", "fields": raw["key"]}, f"{name}.key")
    value = _parse_struct(raw["value"], f"{name}.value")
    return RecordDefinition(
        name=name,
        type=raw["type"],
        about=raw["about"],
        source=raw["source"],
        key=key,
        value=value,
        earlier=tuple(_parse_struct(layout, value.name) for layout in raw.get("earlier", ())),
        group_field=key.fields[0].name,
        is_offset_commit=any(field.name == "commitTimestamp" for field in value.fields),
    )


def parse_blob(raw: Mapping[str, Any]) -> Struct:
    """Return the definition of a blob embedded in records, or of a message.

    Args:
        raw: the parsed JSON of the definition's file.
    """
    return _parse_struct(raw["value"], raw["name"])


def read_definition(path: Traversable) -> Mapping[str, Any]:
    """Read a definition file as JSON."""
    parsed: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return parsed
