"""The files of ``schemas/records`` as typed, validated definitions.

The grammar stands in ``schemas/records/README.md``. A definition says everything that the decoders, the encoder and
the JSON form need to know of a record kind; no other code knows a kind's fields.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Any

from coordinator_replay.errors import DefinitionError

INTEGER_SIZES: Mapping[str, int] = {"int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8}
"""Integer types and their size in bytes; all signed but ``uint16``."""

SCALAR_TYPES = frozenset(INTEGER_SIZES) | {"uuid", "string", "bytes", "bool"}
"""Types without parts; ``bool`` is one of messages only, no record has it."""

NEVER = 1 << 15
"""A version that no record reaches."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of versions, as ``0-4``, ``3+``, ``1`` or ``none`` in a definition file."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    @property
    def all(self) -> range:
        """Every version of the range."""
        return range(self.low, self.high + 1)

    @staticmethod
    def parse(text: str) -> "Versions":
        """Read the text form.

        Raises:
            DefinitionError: the text is not a range of versions.
        """
        try:
            if text == "none":
                return Versions(NEVER, NEVER)
            if text.endswith("+"):
                return Versions(int(text[:-1]), NEVER - 1)
            low, _, high = text.partition("-")
            return Versions(int(low), int(high or low))
        except ValueError:
            raise DefinitionError(f"{text!r} is not a range of versions: write 0-4, 3+, 1 or none") from None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Field:
    """One field of a struct.

    Attributes:
        type: an integer type, ``uuid``, ``string``, ``bytes`` or ``struct``; of the elements if ``is_array``.
        nullable: whether null is a legal value.
        tag: number of the tagged field, None for a field that stands in line.
        default: of a tagged field: what its absence means, and what Kafka's JSON form leaves out.
        fields: of a struct: its own fields.
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
    """The fields of a key, a value or an embedded blob over all its versions."""

    name: str
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordDefinition:
    """One record kind.

    Attributes:
        type: the int16 that opens the key.
        key: fields of the key, always in the plain (non-flexible) encoding.
        value: fields of the value by version.
        group_field: name of the key field that holds the group id, the first one.
        is_offset_commit: whether the kind goes to ``offset_commits`` rather than to ``group_records``.
    """

    name: str
    type: int
    about: str
    source: str
    key: Struct
    value: Struct
    group_field: str
    is_offset_commit: bool


def _parse_field(raw: Mapping[str, Any], where: str) -> Field:
    where = f"{where}.{raw.get('name')}"
    unknown = set(raw) - {"name", "type", "versions", "nullable", "tag", "default", "about", "fields"}
    if unknown:
        raise DefinitionError(f"{where}: unknown entries {sorted(unknown)}")
    type_ = str(raw.get("type", ""))
    is_array = type_.startswith("[]")
    element = type_.removeprefix("[]")
    if element not in SCALAR_TYPES and element != "struct":
        raise DefinitionError(f"{where}: unknown type {type_!r}")
    if (element == "struct") != ("fields" in raw):
        raise DefinitionError(f"{where}: 'fields' belong to structs and only to them")
    if "tag" in raw and "default" not in raw:
        raise DefinitionError(f"{where}: a tagged field needs the default that its absence means")
    if not raw.get("about"):
        raise DefinitionError(f"{where}: 'about' must say what the field means")
    return Field(
        name=str(raw["name"]),
        type=element,
        is_array=is_array,
        versions=Versions.parse(raw.get("versions", "0+")),
        nullable=bool(raw.get("nullable", False)),
        tag=raw.get("tag"),
        default=raw.get("default"),
        about=str(raw["about"]),
        fields=_parse_fields(raw.get("fields", ()), where),
    )


def _parse_fields(raw: Sequence[Mapping[str, Any]], where: str) -> tuple[Field, ...]:
    fields = tuple(_parse_field(entry, where) for entry in raw)
    if fields and all(field.tag is not None for field in fields):
        raise DefinitionError(f"{where}: a struct needs at least one field that is not tagged")
    if len({field.name for field in fields}) != len(fields):
        raise DefinitionError(f"{where}: a field name stands twice")
    return fields


def _parse_struct(raw: Mapping[str, Any], name: str) -> Struct:
    fields = _parse_fields(raw["fields"], name)
    if not fields:
        raise DefinitionError(f"{name}: no fields")
    return Struct(
        name=name,
        versions=Versions.parse(raw["versions"]),
        flexible=Versions.parse(raw["flexible"]),
        fields=fields,
    )


def parse_record(raw: Mapping[str, Any], where: str) -> RecordDefinition:
    """Read one record kind.

    Args:
        raw: the parsed JSON of a file of ``schemas/records``.
        where: the file, for error messages.

    Raises:
        DefinitionError: an entry is missing, unknown, or of the wrong form.
    """
    try:
        name = raw["name"]
        key = _parse_struct({"versions": "0", "flexible": "none", "fields": raw["key"]}, f"{name}.key")
        value = _parse_struct(raw["value"], f"{name}.value")
        return RecordDefinition(
            name=name,
            type=int(raw["type"]),
            about=raw["about"],
            source=raw["source"],
            key=key,
            value=value,
            group_field=key.fields[0].name,
            is_offset_commit=any(field.name == "commitTimestamp" for field in value.fields),
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise DefinitionError(f"{where}: {problem!r} is missing or of the wrong form") from problem


def parse_blob(raw: Mapping[str, Any], where: str) -> Struct:
    """Read the definition of a blob embedded in records, or of a message.

    Raises:
        DefinitionError: an entry is missing, unknown, or of the wrong form.
    """
    try:
        return _parse_struct(raw["value"], raw["name"])
    except (KeyError, TypeError, ValueError) as problem:
        raise DefinitionError(f"{where}: {problem!r} is missing or of the wrong form") from problem


def read_definition(path: Traversable) -> Mapping[str, Any]:
    """Read a definition file as JSON.

    Raises:
        DefinitionError: the file is not JSON.
    """
    try:
        parsed: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise DefinitionError(f"{path.name} is not JSON: {problem}") from problem
    return parsed
