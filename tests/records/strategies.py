"""Records of every kind and version, made from the definitions: what hypothesis draws from."""

import base64
from typing import Any

from hypothesis import strategies as st

from coordinator_replay.records.definition import Field, RecordDefinition, Struct
from coordinator_replay.records.kinds import record_kinds
from coordinator_replay.records.plain import UNKNOWN_TAGS

_BOUNDS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_BYTES = st.binary(max_size=12).map(lambda data: base64.b64encode(data).decode())
_UUID = st.binary(min_size=16, max_size=16).map(lambda data: base64.urlsafe_b64encode(data).decode().rstrip("="))

KINDS_AND_VERSIONS = [
    (kind, version)
    for kind in record_kinds().values()
    for version in range(kind.value.versions.low, kind.value.versions.high + 1)
]


def _element(field: Field, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    if field.type in _BOUNDS:
        low, high = _BOUNDS[field.type]
        return st.one_of(st.integers(low, high), st.sampled_from([0, -1 if low < 0 else 0, low, high]))
    if field.type == "struct":
        return fields(field.fields, version, flexible)
    return {"string": _TEXT, "bytes": _BYTES, "uuid": _UUID}[field.type]


def _field(field: Field, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    value = _element(field, version, flexible)
    if field.is_array:
        value = st.lists(value, max_size=3)
    return st.none() | value if field.nullable else value


def _unknown_tags(field_tags: set[int]) -> st.SearchStrategy[list[dict[str, Any]]]:
    entry = st.tuples(st.integers(0, 300).filter(lambda tag: tag not in field_tags), _BYTES)
    entries = st.lists(entry, max_size=2, unique_by=lambda pair: pair[0])
    return entries.map(lambda pairs: [{"tag": tag, "data": data} for tag, data in sorted(pairs)])


@st.composite
def fields(draw: st.DrawFn, of: tuple[Field, ...], version: int, flexible: bool) -> dict[str, Any]:
    """The fields of a struct in JSON form, tagged ones at their default left out."""
    current = [field for field in of if version in field.versions and (flexible or field.tag is None)]
    values = {}
    for field in current:
        value = draw(_field(field, version, flexible))
        if field.tag is None or (draw(st.booleans()) and value != field.default):
            values[field.name] = value
    if flexible:
        unknown = draw(_unknown_tags({field.tag for field in current if field.tag is not None}))
        if unknown:
            values[UNKNOWN_TAGS] = unknown
    return values


def structs(struct: Struct, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """The fields of a struct at a version."""
    return fields(struct.fields, version, version in struct.flexible)


def records(kind: RecordDefinition, version: int) -> st.SearchStrategy[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Key and value of a kind; the value is None for a tombstone."""
    return st.tuples(structs(kind.key, 0), st.none() | structs(kind.value, version))
