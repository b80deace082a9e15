"""Questions of the commands in the section *Over all groups* of ``coordinator-replay --help``."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

from coordinator_replay.api import questions
from coordinator_replay.api.answer import Answer, SqlAnswer
from coordinator_replay.api.answers import Compared, Impacted
from coordinator_replay.api.moments import Duration, Time
from coordinator_replay.api.tables_and_times import TablesAndTimes
from coordinator_replay.errors import UsageError
from coordinator_replay.query.times import parse_duration
from coordinator_replay.query.who import EVERYONE, Who

if TYPE_CHECKING:
    from coordinator_replay.query.answers.answered import Answered
    from coordinator_replay.query.answers.diff import Comparison
    from coordinator_replay.query.consumers import TopicConsumer
    from coordinator_replay.query.rollouts import Rollout
    from coordinator_replay.query.saved import SavedQuery


class OverAllGroups(TablesAndTimes):
    """Questions that look at all groups, or at all tables."""

    def consumers(
        self, topic: str, *, start: Time | None = None, end: Time | None = None, who: Who = EVERYONE
    ) -> Answer[TopicConsumer]:
        """Return every group, client and host that read a topic.

        A row says how the log shows that they read the topic, when they read it, and which partitions.

        Args:
            topic: the topic's name or id.
            start: leave out members that left, and commits that were made, before this time; None for no lower bound.
            end: leave out members that joined at this time or later, and commits from this time on; None for no
                upper bound.
            who: conditions on names of groups, clients and hosts.
        """
        return self._rows(
            questions.consumers(self._tables, topic, self._times.at(start), self._times.end(end), who=who)
        )

    def impact(self, *, start: Time | None = None, end: Time | None = None) -> Impacted:
        """Return the costs of a time range over all groups.

        The costs are rebalances, partitions without an owner, and commit pauses.

        Args:
            start: start of the time range, included; None to begin at the start of the log.
            end: end of the time range, excluded; None to end after the last record of the log.
        """
        answer = questions.impact(self._tables, self._times.at(start), self._times.end(end))
        return Impacted(answer.content, answer.notes, answer.basis)

    def rollouts(
        self, group: str | None = None, *, start: Time | None = None, end: Time | None = None
    ) -> Answer[Rollout]:
        """Return rollouts with their costs, the most expensive first.

        A rollout is a series of restarts of a group's members in quick succession.

        Args:
            group: only rollouts of this group; None for all groups.
            start: leave out rollouts that ended before this time; None for no lower bound.
            end: leave out rollouts that began at this time or later; None for no upper bound.
        """
        return self._rows(questions.rollouts(self._tables, group, self._times.at(start), self._times.end(end)))

    def diff(self, start: Time, end: Time | None = None) -> Compared:
        """Return the differences of all groups between two points in time, with rebalances and findings in between.

        Args:
            start: the first point in time, or the run id of an audit. A run id means the time of the latest record
                that the audit had read.
            end: the second point in time, or a run id; None for the end of the log.

        Raises:
            UsageError: the second time lies before the first, or no audit has such a run id. Also raised if the rows
                about the time of a run id were purged.
        """
        return self._compared(questions.diff(self._times.side(start), self._times.last_side(end)))

    def diff_with(self, other: str, *, at: Time | None = None) -> Compared:
        """Return the differences between this cluster and another cluster of the warehouse at a point in time.

        Args:
            other: the other cluster's name; its values are in the columns ``after``.
            at: the point in time; None for the end of each cluster's log.
        """
        return self._compared(questions.diff_with(self._tables, other, self._times.at(at)))

    def _compared(self, answer: Answered[Comparison]) -> Compared:
        content = answer.content
        return Compared(
            content.changes,
            content.sides,
            answer.notes,
            answer.basis,
            between=content.between,
            zone=self._tables.zone,
        )

    def sql(
        self,
        statement: str | None = None,
        /,
        *,
        query: str | None = None,
        allow_files: bool = False,
        timeout: Duration | None = None,
        **parameters: object,
    ) -> SqlAnswer:
        """Return the answer of an SQL statement over all tables, or of a saved query.

        Args:
            statement: the SQL, in DuckDB's dialect. It may have parameters, such as ``$topic``. The parameter
                ``$cluster`` always has the name of this warehouse's cluster. ``SHOW TABLES`` and
                ``DESCRIBE`` show names, types and comments.
            query: the name of a saved query, in place of a statement.
            allow_files: let the statement read and write other files, attach databases and load extensions.
            timeout: the longest time that the statement may take, such as ``30s``; None for no limit.
            parameters: values for the parameters of the statement, or of the saved query, by name.

        Raises:
            UsageError: statement and query are both given or both missing, ``allow_files`` is given with a query,
                DuckDB does not understand the statement, or the statement took longer than the timeout.
        """
        if (statement is None) == (query is None):
            raise UsageError("give either a statement or the name of a saved query")
        most = parse_duration(timeout) if isinstance(timeout, str) else timeout
        if statement is not None:
            answer = questions.sql(self._tables, statement, parameters, allow_files=allow_files, timeout=most)
        elif allow_files:
            raise UsageError("allow_files is for statements: a saved query reads the tables only")
        else:
            values = {name: _text(value) for name, value in parameters.items() if value is not None}
            answer = questions.saved(self._tables, str(query), values, timeout=most)
        return SqlAnswer(answer.content.columns, answer.content.rows, answer.notes, answer.basis)

    @staticmethod
    def saved_queries() -> Answer[SavedQuery]:
        """Return the saved queries, with their parameters and the questions that they answer."""
        return Answer(questions.saved_queries().values(), questions.SavedQuery)


def _text(value: Any) -> str:
    """Return a value of a saved query's parameter in the form that a user types."""
    return value.isoformat() if isinstance(value, date) else str(value)
