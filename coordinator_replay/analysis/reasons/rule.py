"""A row of the decision table, and how functions become rows."""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from coordinator_replay.analysis.reasons.situation import Situation
from coordinator_replay.analysis.reasons.vocabulary import Cause, Explanation
from coordinator_replay.engine.model import GroupType

Needs = Literal["nothing", "arrivals", "departures", "requests", "quiet"]
"""What a row needs to find anything: members that came, went, or asked for other topics; or that none did."""

Find = Callable[[Situation], Explanation | None]

EVERY_TYPE = frozenset(GroupType)
CLASSIC = frozenset({GroupType.CLASSIC})
MODERN = EVERY_TYPE - CLASSIC
CONSUMER = frozenset({GroupType.CONSUMER})


class ReasonRule(NamedTuple):
    """One row.

    Attributes:
        rank: its place; of rows that find something, the one that ranks first names the cause.
        cause: the cause it finds; its alternatives are in the finding.
        types: the types of groups it looks at.
        footprint: what must be on record, in words.
        confidence: how sure it can be, in words.
        look_alikes: what else leaves the same records, in words.
        explains: findings of lower rank that are parts of this one and no causes of their own.
        needs: what must have happened; it is not asked otherwise.
        find: the row itself.
    """

    rank: int
    cause: Cause
    types: frozenset[GroupType]
    footprint: str
    confidence: str
    look_alikes: str
    explains: frozenset[Cause]
    needs: Needs
    find: Find

    def may_find(self, group_type: GroupType, *, arrivals: bool, departures: bool, requests: bool) -> bool:
        """Whether it is worth asking in a situation of this kind."""
        quiet = not (arrivals or departures or requests)
        there = {
            "nothing": True,
            "arrivals": arrivals,
            "departures": departures,
            "requests": requests,
            "quiet": quiet,
        }
        return group_type in self.types and there[self.needs]


def row(
    table: list[ReasonRule],
    cause: Cause,
    types: frozenset[GroupType],
    *,
    footprint: str,
    confidence: str,
    look_alikes: str = "none",
    explains: Iterable[Cause] = (),
    needs: Needs = "nothing",
) -> Callable[[Find], Find]:
    """Append a function to a table as its next row."""

    def append(find: Find) -> Find:
        rank = len(table) + 1
        table.append(
            ReasonRule(rank, cause, types, footprint, confidence, look_alikes, frozenset(explains), needs, find)
        )
        return find

    return append
