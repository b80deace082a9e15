"""The tables of a warehouse, and the reading of times that users give: all questions share both."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from coordinator_replay.api.answer import Answer
from coordinator_replay.api.moments import Moments
from coordinator_replay.query.basis import Basis, basis_from
from coordinator_replay.query.tables import Tables

if TYPE_CHECKING:
    from coordinator_replay.query.answers.answered import Rows

T = TypeVar("T")


class TablesAndTimes:
    """Base of the classes with questions. It has the tables, and converts the times that users give.

    Args:
        tables: the tables to read.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._times = Moments(tables)

    @staticmethod
    def _rows(answer: Rows[T]) -> Answer[T]:
        """Return an answer that has only rows, notes and a basis."""
        return Answer(answer.content, answer.row_type, notes=answer.notes, basis=answer.basis)

    def _from(self, start: datetime | None = None, group: str | None = None) -> Basis:
        """Return the basis of an answer about a time range.

        Args:
            start: start of the time range; None for the start of the log.
            group: the group of the answer; None for all groups.
        """
        return basis_from(self._tables, start, group=group)
