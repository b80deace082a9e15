"""The registry of record kinds: every file of ``schemas/records``, by the number at the start of a key and by name."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from coordinator_replay.records.definition import (
    RecordDefinition,
    Struct,
    parse_blob,
    parse_record,
    read_definition,
)
from coordinator_replay.schemas_folder import schema_files, schemas_folder


@cache
def record_kinds() -> Mapping[int, RecordDefinition]:
    """Return all record kinds by the int16 at the start of their keys."""
    kinds = (parse_record(read_definition(path)) for path in schema_files("records", ".json"))
    return MappingProxyType({kind.type: kind for kind in sorted(kinds, key=lambda kind: kind.type)})


@cache
def kinds_by_name() -> Mapping[str, RecordDefinition]:
    """Return all record kinds by Kafka's name for them."""
    return MappingProxyType({kind.name: kind for kind in record_kinds().values()})


@cache
def blob(name: str) -> Struct:
    """Return a blob embedded in records, by the name of its file in ``schemas/records/protocol``."""
    return parse_blob(read_definition(schemas_folder() / "records" / "protocol" / f"{name}.json"))
