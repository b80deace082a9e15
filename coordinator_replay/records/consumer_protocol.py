"""Subscriptions and assignments of classic consumers as typed columns.

The bytes of a blob don't say whether it is a subscription (``ConsumerProtocolSubscription``) or an assignment
(``ConsumerProtocolAssignment``). So each blob is decoded as both. The result that leaves fewer bytes unread is
returned. If both leave the same number unread, as for a member without topics, both are returned. Then you must know
from which field of a record you took the bytes.

Some clients write a subscription that ends before the fields of its version. The coordinator reads only the version 0
fields of a subscription. So this module reads these fields if the bytes can't be decoded in their own version.
"""

import base64
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.records.damage import RecordError
from coordinator_replay.records.definition import Struct
from coordinator_replay.records.kinds import blob
from coordinator_replay.records.plain import read_blob

_PARTITIONS = pa.list_(pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32()))]))

PROTOCOL = pa.struct(
    [
        ("version", pa.int16()),
        (
            "subscription",
            pa.struct(
                [
                    ("topics", pa.list_(pa.string())),
                    ("user_data", pa.binary()),
                    ("owned_partitions", _PARTITIONS),
                    ("generation_id", pa.int32()),
                    ("rack_id", pa.string()),
                ]
            ),
        ),
        ("assignment", pa.struct([("assigned_partitions", _PARTITIONS), ("user_data", pa.binary())])),
    ]
)
"""A blob as a subscription, an assignment, or both if the bytes don't tell which; null if they can be read as neither.
Fields that the blob's version does not have are null. If only the version 0 fields of a subscription can be read, all
fields but version, topics and user data are null.
"""

_NAMES = {
    "topics": "topics",
    "ownedPartitions": "owned_partitions",
    "generationId": "generation_id",
    "rackId": "rack_id",
    "assignedPartitions": "assigned_partitions",
}


def _reading(struct: Struct, data: bytes, version: int | None = None) -> tuple[dict[str, Any], int] | None:
    try:
        return read_blob(struct, data, version)
    except RecordError:
        return None


def _typed(fields: dict[str, Any]) -> dict[str, Any]:
    typed = {name: fields[field] for field, name in _NAMES.items() if field in fields}
    user_data = fields.get("userData")
    return {**typed, "user_data": None if user_data is None else base64.b64decode(user_data)}


def _open(data: bytes) -> dict[str, Any] | None:
    """Return one blob as a value of PROTOCOL; None if it can be read as neither subscription nor assignment."""
    subscription, assignment = blob("ConsumerProtocolSubscription"), blob("ConsumerProtocolAssignment")
    readings = {"subscription": _reading(subscription, data), "assignment": _reading(assignment, data)}
    readable = {name: reading for name, reading in readings.items() if reading is not None}
    if not readable:
        part = _reading(subscription, data, 0)
        return None if part is None else {"version": part[0]["version"], "subscription": _typed(part[0])}
    fewest = min(left for _, left in readable.values())
    fitting = {name: fields for name, (fields, left) in readable.items() if left == fewest}
    version = next(iter(fitting.values()))["version"]
    return {"version": version, **{name: _typed(fields) for name, fields in fitting.items()}}


def open_protocol_blobs(blobs: pa.Array) -> pa.Array:
    """Decode a column of blobs.

    Equal blobs are read once.

    Returns:
        A value of PROTOCOL for each blob; null for null, and for bytes that are neither subscription nor assignment.
    """
    distinct = pc.unique(blobs)
    opened = pa.array([None if blob is None else _open(blob) for blob in distinct.to_pylist()], PROTOCOL)
    return opened.take(pc.index_in(blobs, distinct))
