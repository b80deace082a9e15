"""Records of ``__cluster_metadata`` that hold topics, partition leaders and settings.

A value is a frame version, a record type and a record version, each an unsigned varint, then the fields
(``MetadataRecordSerde``, ``AbstractApiMessageSerde``). ``schemas/records/cluster_metadata`` defines only the few record
types that are read, and only the first fields of most of these types. All other types and fields are skipped.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from coordinator_replay.records.damage import RecordError
from coordinator_replay.records.definition import Struct, parse_blob, read_definition
from coordinator_replay.records.plain import read_leading_fields, read_uvarints
from coordinator_replay.schemas_folder import schema_files

FRAME_VERSION = 1


class MetadataRecord(NamedTuple):
    """One record: Kafka's name of its type, and its leading fields in JSON form."""

    kind: str
    fields: Mapping[str, Any]


@cache
def metadata_kinds() -> Mapping[int, Struct]:
    """Return the definitions of the record types that this module reads, by their number."""
    raw = map(read_definition, schema_files("records/cluster_metadata", ".json"))
    return MappingProxyType({definition["type"]: parse_blob(definition) for definition in raw})


def decode_metadata(value: bytes) -> MetadataRecord | None:
    """Decode the value of a record.

    Return None for a record type, record version or frame version that this module does not read, and for damaged
    bytes.
    """
    try:
        (frame, number, version), position = read_uvarints(value, 3)
        struct = metadata_kinds().get(number)
        if frame != FRAME_VERSION or struct is None or version not in struct.versions:
            return None
        return MetadataRecord(struct.name, read_leading_fields(struct, version, value, position))
    except RecordError:
        return None
