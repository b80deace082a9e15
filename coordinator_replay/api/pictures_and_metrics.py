"""Questions of the commands in the section *Pictures and metrics* of ``coordinator-replay --help``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator_replay.api import questions
from coordinator_replay.api.moments import Time
from coordinator_replay.api.page import Page, Pages, Trace
from coordinator_replay.api.tables_and_times import TablesAndTimes
from coordinator_replay.errors import UsageError
from coordinator_replay.query.who import EVERYONE, Who, groups_at_time
from coordinator_replay.simulation import door

if TYPE_CHECKING:
    from coordinator_replay.report.metrics import Metrics

MOST_TRACED_GROUPS = 50
"""Largest number of groups in one trace; viewers can't usefully show more tracks."""


class PicturesAndMetrics(TablesAndTimes):
    """Pages, traces and metrics of groups."""

    def report(
        self,
        group: str | None = None,
        *,
        start: Time | None = None,
        end: Time | None = None,
        what_if: Sequence[Mapping[str, str | int]] = (),
        known: Mapping[str, str | int] | None = None,
        marks: Sequence[tuple[Time, str]] = (),
    ) -> Page:
        """Return one page about what happened to a group, or to all groups. The page needs no network.

        A notebook shows the page in place. ``Page.save`` writes the page, or the figures of the page as a picture.

        Args:
            group: the group; None for an overview of all groups.
            start: start of the time range, included; None to begin at the start of the log.
            end: end of the time range, excluded; None to end after the last record of the log.
            what_if: settings to try, one mapping for each alternative, see ``what_if``. The page shows the group's
                recorded life and each alternative on one time axis.
            known: settings of the recorded life that are not in the log; only with ``what_if``.
            marks: times to mark in all figures, each with a text, such as a deployment.

        Raises:
            UsageError: alternatives are given for all groups at once, or ``known`` without alternatives.
        """
        if what_if:
            return self._what_if_page(group, what_if, start, end, known, marks)
        if known:
            raise UsageError("known settings are for alternatives: give what to try, too")
        since, until, marked = self._times.at(start), self._times.end(end), self._marks(marks)
        if group is None:
            html, fleet = questions.fleet_page(self._tables, since, until, marked)
            facts = {"groups": fleet.group_count, "rebalances": fleet.rebalances}
            return Page(html, facts, basis=self._from(since), drawing=fleet.drawing)
        html, life = questions.group_page(self._tables, group, since, until, marked)
        facts = {"rebalances": len(life.rebalances), "commits": life.commit_count}
        drawing = partial(questions.life_drawing, self._tables, life, since, marked)
        return Page(html, facts, life.notes, self._from(since, group), drawing)

    def _what_if_page(
        self,
        group: str | None,
        alternatives: Sequence[Mapping[str, str | int]],
        start: Time | None,
        end: Time | None,
        known: Mapping[str, str | int] | None,
        marks: Sequence[tuple[Time, str]],
    ) -> Page:
        """Return a page that shows the recorded life of a group and each alternative on one time axis.

        For the arguments, see ``report``.

        Raises:
            UsageError: no group is given.
        """
        if group is None:
            raise UsageError("give the group whose life is to be drawn under other settings")
        tried = [door.alternative_of(values) for values in alternatives]
        since = self._times.at(start)
        answer = door.what_if(self._tables, group, tried, since, self._times.end(end), known)
        facts = {"rebalances": answer.recorded.rebalances, "alternatives": len(answer.alternatives)}
        notes = (str(answer.fidelity), *answer.differences)
        marked = self._marks(marks)
        html = door.what_if_page(self._tables, answer, marked)
        drawing = partial(door.what_if_drawing, self._tables, answer, marked)
        return Page(html, facts, notes, self._from(since, group), drawing)

    def write_pages(
        self,
        folder: str | Path,
        *,
        start: Time | None = None,
        end: Time | None = None,
        marks: Sequence[tuple[Time, str]] = (),
    ) -> Pages:
        """Write linked pages about groups into a folder: an overview, and a page for each group with news.

        A group has news if a rebalance or a finding of the group is on record in the time range.

        Args:
            folder: target folder; it is made if it does not exist.
            start: start of the time range, included; None to begin at the start of the log.
            end: end of the time range, excluded; None to end after the last record of the log.
            marks: times to mark in all figures, each with a text.

        Raises:
            UsageError: the folder can't be written.
        """
        since = self._times.at(start)
        made = questions.write_site(self._tables, Path(folder), since, self._times.end(end), self._marks(marks))
        facts = {"groups": made.group_count, "rebalances": made.rebalances}
        return Pages(Path(folder) / questions.INDEX, facts, tuple(made.notes), self._from(since))

    def _marks(self, marks: Sequence[tuple[Time, str]]) -> tuple[questions.Mark, ...]:
        """Convert times and their texts to marks of a page."""
        return tuple(questions.Mark(moment, text) for at, text in marks if (moment := self._times.at(at)) is not None)

    def trace(self, group: str | None = None, *, start: Time | None = None, end: Time | None = None) -> Trace:
        """Return what happened to a group, or to the groups with most events, as a trace for Perfetto.

        Args:
            group: the group; None for the groups with most events, at most MOST_TRACED_GROUPS.
            start: start of the time range, included; None to begin at the start of the log.
            end: end of the time range, excluded; None to end after the last record of the log.
        """
        since, until = self._times.at(start), self._times.end(end)
        names = questions.lively_groups(self._tables, since, until) if group is None else [group]
        notes = []
        if len(names) > MOST_TRACED_GROUPS:
            notes = [
                f"{len(names)} groups existed in that time; the trace has the {MOST_TRACED_GROUPS} with most events."
            ]
        lives = questions.traces_of(self._tables, names[:MOST_TRACED_GROUPS], since, until)
        return Trace(lives, notes, self._from(since, group), self._tables.zone)

    def metrics(
        self,
        *,
        now: datetime | None = None,
        groups: str | None = None,
        limit: int | None = None,
        is_openmetrics: bool = False,
        who: Who = EVERYONE,
    ) -> Metrics:
        """Return the groups at the end of the log as metrics in Prometheus' text format.

        Args:
            now: the time at which the age of the log is computed; None for the current time.
            groups: a regular expression. A group gets series of its own if the whole name matches. None for all groups.
            limit: largest number of groups with series of their own; None for no limit. If there are more groups, those
                with the most rebalances have series.
            is_openmetrics: whether to use OpenMetrics' format in place of Prometheus' own.
            who: conditions on groups; other groups have no series and no findings.
        """
        moment = now or datetime.now(UTC)
        names = groups_at_time(self._tables, who)
        return questions.metrics_of(
            self._tables, moment, groups=groups, limit=limit, is_openmetrics=is_openmetrics, names=names
        )
