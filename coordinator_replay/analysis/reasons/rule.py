"""A row of the decision table, and the decorator that makes a row from a function."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from coordinator_replay.analysis.reasons.explanation import Explanation
from coordinator_replay.analysis.reasons.situation import Situation
from coordinator_replay.analysis.reasons.vocabulary import Cause
from coordinator_replay.engine.model import GroupType

Find = Callable[[Situation], Explanation | None]

EVERY_TYPE = frozenset(GroupType)
CLASSIC = frozenset({GroupType.CLASSIC})
MODERN = EVERY_TYPE - CLASSIC
CONSUMER = frozenset({GroupType.CONSUMER})


class ReasonRule(NamedTuple):
    """A row of the table of reasons.

    Attributes:
        cause: the cause that the rule finds; the alternatives are in the ``Explanation`` that ``find`` returns.
        types: the types of groups that the rule looks at.
        explains: causes that the rule never names as alternatives, because they are part of its own cause.
        is_quiet: whether the rule applies only if no member joined, was removed or changed its subscription.
        find: the function that looks for the records that the cause leaves.
    """

    cause: Cause
    types: frozenset[GroupType]
    explains: frozenset[Cause]
    is_quiet: bool
    find: Find


class RuleTable:
    """Rows of the decision table.

    A row's docstring has the footprint that must be on record, how sure the cause is (Confidence), and which other
    causes leave the same records (Look-alikes).

    Attributes:
        rules: the rows in the order of their rank.
    """

    def __init__(self) -> None:
        self.rules: list[ReasonRule] = []

    def row(
        self,
        cause: Cause,
        types: frozenset[GroupType] = EVERY_TYPE,
        *,
        explains: Iterable[Cause] = (),
        is_quiet: bool = False,
    ) -> Callable[[Find], Find]:
        """Return a decorator that appends a function to the table as the next row.

        The arguments are fields of ``ReasonRule``.
        """

        def append(find: Find) -> Find:
            self.rules.append(ReasonRule(cause, types, frozenset(explains), is_quiet, find))
            return find

        return append
