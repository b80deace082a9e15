"""What the coordinator remembers of an assignment on the client's side; no record of Kafka 4.3 holds it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Assignors = tuple[Mapping[str, Any], ...]
"""What a member brings, in the order of its preference: name, versions, reason and metadata of each."""


@dataclass(slots=True)
class Prepared:
    """What a member was given to compute from."""

    member_id: str
    epoch: int
    members: frozenset[str]
    partitions: Mapping[str, int]


@dataclass(slots=True)
class ClientAssignment:
    """The state of a group's assignment on the client's side.

    Attributes:
        assignors: what each member brings.
        computing: the member that was asked.
        prepared: what it was given.
        installed: error, metadata version and metadata that the last assignment has for each member.
    """

    assignors: dict[str, Assignors] = field(default_factory=dict)
    computing: str | None = None
    prepared: Prepared | None = None
    installed: dict[str, tuple[int, int, str]] = field(default_factory=dict)
