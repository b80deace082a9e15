"""An answer in a form that does not depend on how it is shown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from coordinator_replay.query.basis import Basis
from coordinator_replay.query.completeness import undecoded_note
from coordinator_replay.query.tables import Tables

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[T]):
    """Rows of an answer, with the answer's notes and basis.

    Attributes:
        content: the rows, or an object that has the rows and further facts.
        notes: sentences about the content; a note that is None is left out.
        basis: the basis of the answer; None if the answer is not about a single cluster.
    """

    content: T
    notes: Iterable[str | None] = ()
    basis: Basis | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows(Answered[Sequence[T]], Generic[T]):
    """An answer that consists of rows.

    Attributes:
        row_type: the class of the rows.
    """

    row_type: type[T]


def nothing_note(warehouse: Tables, what: str, rows: Sequence[object], group: str | None = None) -> str | None:
    """Return a note that says that an answer has no rows, and which time range the tables cover.

    Return None if the answer has rows.

    Args:
        warehouse: the tables to read.
        what: the word for one row, such as ``rebalance``.
        rows: rows of the answer.
        group: the group that the rows are about; None if they are about all groups.
    """
    if rows:
        return None
    return f"No {what}{on_record(warehouse, group)} matches; the tables cover {warehouse.coverage}."


def on_record(warehouse: Tables, group: str | None = None) -> str:
    """Return the words " on record" for a sentence such as "no rebalance on record".

    Return an empty text if no record is missing and all records could be decoded.

    Args:
        warehouse: the tables to read.
        group: the group that the answer is about; None if it is about all groups.
    """
    is_whole = warehouse.completeness.is_whole and undecoded_note(warehouse, group) is None
    return "" if is_whole else " on record"
