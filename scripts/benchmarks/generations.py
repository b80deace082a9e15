"""Records of made-up groups."""

import base64
import json
from collections.abc import Mapping
from typing import Any

from coordinator_replay.pipeline.groups.replay import InputRow
from coordinator_replay.records.kinds import blob
from coordinator_replay.records.plain import encode_blob

BEGIN_MS = 1_795_000_000_000
"""Time of the first record."""


def _assignment(partitions: range) -> str:
    told = {"assignedPartitions": [{"topic": "orders", "partitions": [*partitions]}], "userData": None}
    return base64.b64encode(encode_blob(blob("ConsumerProtocolAssignment"), 1, told)).decode()


def generation(number: int, members: Mapping[str, range], *, group: str = "group") -> InputRow:
    """Return the record of a classic group's generation, given the partitions of each member."""
    subscription = encode_blob(blob("ConsumerProtocolSubscription"), 0, {"topics": ["orders"], "userData": None})
    member = {"groupInstanceId": None, "clientId": "client", "clientHost": "/10.0.0.9"}
    member |= {"rebalanceTimeout": 300_000, "sessionTimeout": 45_000}
    member |= {"subscription": base64.b64encode(subscription).decode()}
    value: dict[str, Any] = {"protocolType": "consumer", "generation": number, "protocol": "range", "leader": None}
    value |= {"currentStateTimestamp": BEGIN_MS + number}
    value |= {
        "members": [{**member, "memberId": name, "assignment": _assignment(one)} for name, one in members.items()]
    }
    return row(group, number, "GroupMetadata", {"group": group}, value)


def row(group: str, offset: int, kind: str, key: Mapping[str, Any], value: Mapping[str, Any]) -> InputRow:
    """Return a record in the form that the replay takes."""
    texts = json.dumps(key), json.dumps(value)
    return InputRow(group, 0, offset, BEGIN_MS + offset, kind, *texts, 3, 0, len(texts[1]))
