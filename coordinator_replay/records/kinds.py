"""The registry of record kinds: every file of ``schemas/records``, by the number that opens a key and by name."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from coordinator_replay.errors import DefinitionError
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
    """All record kinds by the int16 that opens their keys.

    Raises:
        DefinitionError: a file breaks the grammar, or two claim one number.
    """
    kinds: dict[int, RecordDefinition] = {}
    for path in schema_files("records", ".json"):
        kind = parse_record(read_definition(path), path.name)
        if kind.type in kinds:
            raise DefinitionError(f"{path.name}: type {kind.type} is already {kinds[kind.type].name}")
        kinds[kind.type] = kind
    return MappingProxyType(dict(sorted(kinds.items())))


@cache
def kinds_by_name() -> Mapping[str, RecordDefinition]:
    """All record kinds by Kafka's name for them."""
    return MappingProxyType({kind.name: kind for kind in record_kinds().values()})


@cache
def blob(name: str) -> Struct:
    """A blob embedded in records, by the name of its file in ``schemas/records/protocol``.

    Raises:
        DefinitionError: the file breaks the grammar.
    """
    path = schemas_folder() / "records" / "protocol" / f"{name}.json"
    return parse_blob(read_definition(path), path.name)
