"""Generations of a classic group, written as the coordinator writes them, with their blobs already opened."""

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_replay.engine.model import Record
from tests.engine.lives import GROUP


def member(
    member_id: str,
    assigned: Sequence[int] = (),
    *,
    topics: Sequence[str] = ("orders",),
    owned: Sequence[int] = (),
    client: str | None = None,
    instance: str | None = None,
    session_ms: int = 10_000,
    rebalance_ms: int | None = 300_000,
    version: int = 1,
) -> dict[str, Any]:
    def entries(partitions: Sequence[int]) -> list[dict[str, Any]]:
        return [{"topic": "orders", "partitions": list(partitions)}] if partitions else []

    # Version 0 of the value has no rebalance timeout.
    timeouts = {} if rebalance_ms is None else {"rebalanceTimeout": rebalance_ms}
    return {
        **timeouts,
        "memberId": member_id,
        "groupInstanceId": instance,
        "clientId": client or member_id,
        "clientHost": "/10.0.0.9",
        "sessionTimeout": session_ms,
        "subscription": "",
        "assignment": "",
        "subscriptionFields": {"version": version, "topics": list(topics), "ownedPartitions": entries(owned)},
        "assignmentFields": {"version": version, "assignedPartitions": entries(assigned)},
    }


class ClassicLog:
    """The records of a group whose beginning is in the log."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.generation = 0
        self._write(0, [], {"protocolType": "", "protocol": None, "leader": None})

    def sync(
        self, at_ms: int, *members: Mapping[str, Any], protocol: str = "range", attempts: int = 1, missing: int = 0
    ) -> None:
        """Complete a generation: its join phase ended five milliseconds before the record."""
        self.generation += attempts
        leader = members[0]["memberId"] if members else None
        told = {"protocolType": "consumer", "protocol": protocol if members else None, "leader": leader}
        self._write(at_ms, list(members), told, missing)

    def replace(self, at_ms: int, stable_ms: int, *members: Mapping[str, Any], missing: int = 0) -> None:
        """Write the generation again, as for a static member that came back: it has been Stable since ``stable_ms``."""
        told = {"protocolType": "consumer", "protocol": "range", "leader": members[0]["memberId"]}
        self._write(at_ms, list(members), told, missing, stable_ms)

    def _write(
        self,
        at_ms: int,
        members: list[Mapping[str, Any]],
        told: Mapping[str, Any],
        missing: int = 0,
        state_ms: int | None = None,
    ) -> None:
        since_ms = at_ms - 5 if state_ms is None else state_ms
        value = {**told, "generation": self.generation, "currentStateTimestamp": since_ms, "members": members}
        offset = len(self.records) + missing
        self.records.append(Record("GroupMetadata", {"group": GROUP}, value, 0, offset, at_ms, missing, 4))
