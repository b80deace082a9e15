"""Questions of the commands in the section *Offsets* of ``coordinator-replay --help``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator_replay.api import questions
from coordinator_replay.api.answer import Answer
from coordinator_replay.api.answers import Expiring
from coordinator_replay.api.moments import Duration, Time
from coordinator_replay.api.tables_and_times import TablesAndTimes
from coordinator_replay.query.times import parse_duration
from coordinator_replay.query.who import EVERYONE, Who

if TYPE_CHECKING:
    from coordinator_replay.query.offset_changes import OffsetChange
    from coordinator_replay.query.offsets import CommittedOffset


class Offsets(TablesAndTimes):
    """Questions about committed offsets: at a point in time, their history, and their removal."""

    def offsets(
        self,
        group: str,
        *,
        at: Time | None = None,
        topics: Sequence[str] = (),
        require_stable: bool = False,
        end_offsets: str | Path | None = None,
        before_removal: bool = False,
    ) -> Answer[CommittedOffset]:
        """Return all committed offsets of a group at a point in time, as OffsetFetch does (KIP-88).

        The notes name offsets that had expired or been deleted by that time, with the time and the reason. They also
        name partitions that have only a pending transactional commit.

        Args:
            group: id of the group.
            at: the point in time; the end of the log if None.
            topics: only offsets of these topics. ``orders:0,1`` names single partitions of a topic. Empty for all
                topics.
            require_stable: show partitions with a pending transactional commit as unstable, without an offset.
            end_offsets: a CSV or JSON-lines file with the ends of partitions, to compute the lag. Its columns are
                topic, partition, offset and, if known, time.
            before_removal: return the last offset of each partition whose offset had been removed by that time, because
                it expired or the group was deleted. Offsets that existed at that time are then left out.
        """
        answer = questions.offsets(
            self._tables,
            group,
            self._times.at(at),
            topics=topics,
            require_stable=require_stable,
            end_offsets=end_offsets,
            before_removal=before_removal,
        )
        return self._rows(answer)

    def offsets_of_groups(
        self, groups: Sequence[str], *, at: Time | None = None, **asked: Any
    ) -> Answer[CommittedOffset]:
        """Return the committed offsets of several groups at a point in time, see ``offsets``.

        Each note names its group.

        Args:
            groups: ids of the groups.
            at: the point in time; the end of the log if None.
            asked: further arguments of ``offsets``.
        """
        return self._rows(questions.offsets_of_groups(self._tables, groups, self._times.at(at), **asked))

    def offset_history(
        self,
        group: str,
        topic: str,
        partition: int | None = None,
        *,
        start: Time | None = None,
        end: Time | None = None,
    ) -> Answer[OffsetChange]:
        """Return every committed offset of a topic or partition, with the time range in which it was in force.

        Rows are in log order.

        Args:
            group: id of the group.
            topic: name of the topic.
            partition: only this partition; None for all partitions of the topic.
            start: leave out offsets that were no longer in force at this time; None for no lower bound.
            end: leave out offsets that were committed at this time or later; None for no upper bound.
        """
        since, until = self._times.at(start), self._times.end(end)
        return self._rows(questions.offset_history(self._tables, group, topic, partition, since, until))

    def expired(
        self,
        group: str | None = None,
        *,
        statuses: Sequence[str] = (),
        within: Duration | None = None,
        until: Time | None = None,
        who: Who = EVERYONE,
    ) -> Expiring:
        """Return offsets that expired or are about to expire, the earliest first.

        Args:
            group: only offsets of this group; None for all groups.
            statuses: only offsets with one of these statuses (``EXPIRED``, ``DUE``, ``EXPIRING``); empty for all
                statuses.
            within: only offsets that have not expired, and that will expire within this duration after the end of the
                log.
            until: only offsets that have not expired, and that will expire up to this time; in place of ``within``.
            who: conditions on groups: on their names, and on their clients, hosts and topics at the end of the log.

        Raises:
            UsageError: both ``within`` and ``until`` are given, or ``until`` lies before the end of the log.
        """
        answer = questions.expired(
            self._tables,
            group,
            statuses=statuses,
            within=parse_duration(within) if isinstance(within, str) else within,
            until=self._times.at(self._times.with_whole_day(until)),
            who=who,
        )
        return Expiring(answer.content.offsets, answer.content.looked_until, answer.notes, answer.basis)
