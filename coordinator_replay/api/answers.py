"""Classes of answers that have more attributes than rows and notes.

For example, ``Owned`` also has the last owner before a time and the first owner after that time.

A class imports the type of its rows only when an answer is made. So a command loads only the types that it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator_replay.api import html, plain_text, questions
from coordinator_replay.api.answer import Answer
from coordinator_replay.api.page import Page
from coordinator_replay.query.basis import Basis
from coordinator_replay.simulation import door

if TYPE_CHECKING:
    from coordinator_replay.query.describe import DescribedMember, Description  # noqa: F401 - rows of a base
    from coordinator_replay.query.diff import Change
    from coordinator_replay.query.expired import ExpiredOffset
    from coordinator_replay.query.hold_ups import HoldUp
    from coordinator_replay.query.impact import GroupImpact, Impact  # noqa: F401 - rows of a base
    from coordinator_replay.query.owner import Owners, Ownership  # noqa: F401 - rows of a base
    from coordinator_replay.query.rebalances import Rebalance


_MOST_CHANGES = 5000
"""Largest number of changes that a page lists one by one; the answer has all of them."""


class Described(Answer["DescribedMember"]):
    """A group as Kafka's admin client would have described it.

    The rows are the group's members.

    Attributes:
        group: the group itself.
        assignor: the assignor or protocol that the group uses to assign partitions; None if the group has none.
        kinds: kinds of groups that this group belongs to, such as ``share groups``. Some columns are shown only for
            some kinds (``AnswerColumn.only_with``).
        group_notes: the notes that are not about single members.
        alone_notes: the notes that a terminal leaves out if it shows several groups.
    """

    def __init__(
        self,
        description: Description,
        notes: Iterable[str | None] = (),
        basis: Basis | None = None,
        of_members: Collection[str] = (),
        of_alone: Collection[str] = (),
    ) -> None:
        super().__init__(description.members, questions.DescribedMember, notes=notes, basis=basis)
        self.group_notes = tuple(note for note in self.notes if note not in of_members)
        self.alone_notes = tuple(of_alone)
        self.group = description.group
        self.assignor = description.group.assignor
        self.kinds = description.kinds

    def _text_lines(self) -> list[str]:
        members = super()._text_lines()
        return [*Answer([self.group], type(self.group))._text_lines(), *[""] * bool(members), *members]

    def _repr_html_(self) -> str:
        return Answer([self.group], type(self.group))._repr_html_() + super()._repr_html_()


class Expiring(Answer["ExpiredOffset"]):
    """Offsets that expired, or are about to expire.

    Attributes:
        looked_until: the answer has the offsets that expire up to this time. None if the last audit did not record the
            time.
    """

    def __init__(
        self,
        rows: Iterable[ExpiredOffset],
        looked_until: datetime | None,
        notes: Iterable[str | None] = (),
        basis: Basis | None = None,
    ) -> None:
        super().__init__(rows, questions.ExpiredOffset, notes=notes, basis=basis)
        self.looked_until = looked_until


class Owned(Answer["Ownership"]):
    """Owners of a partition.

    There is no row if no owner is on record. In a share group, several members may own a partition at once.

    Attributes:
        before: the last ownership that had ended by the point in time; None if there is none, or for a time range.
        after: the first ownership that began after the point in time; None if there is none, or for a time range.
        neighbours: the ownerships ``before`` and ``after`` if the partition has no owner; empty if it has one.
        is_exact: whether the log proves that the partition had these owners and no others.
        handovers: sentences on how long the partition had no owner between two owners, and whether two owners
            overlapped. None if the question is about a point in time, if the partition had fewer than two owners, or
            for a share group. These sentences are among the notes, too.
    """

    def __init__(self, owners: Owners, notes: Iterable[str | None] = (), basis: Basis | None = None) -> None:
        super().__init__(owners.owners, questions.Ownership, notes=notes, basis=basis)
        self.before = owners.before
        self.after = owners.after
        self.neighbours = owners.neighbours
        self.is_exact = owners.is_exact
        self.handovers = owners.handovers


class Compared(Answer["Change"]):
    """Differences between two times, or two clusters.

    The rows are the differences.

    Attributes:
        sides: the two times, or the two clusters, as text.
        counts: numbers of changes, by group and kind.
        between: the two times; None for two clusters.
    """

    def __init__(
        self,
        rows: Iterable[Change],
        sides: str,
        notes: Iterable[str | None] = (),
        basis: Basis | None = None,
        *,
        between: tuple[datetime, datetime] | None = None,
        zone: tzinfo = UTC,
    ) -> None:
        super().__init__(rows, questions.Change, notes=notes, basis=basis)
        self.sides = sides
        self.between = between
        self._zone = zone
        self.counts = questions.counted_changes(self)

    def page(self, beside: str | Path | None = None) -> Page:
        """Return an HTML page with a table that counts the differences by group and kind.

        Below the table, the page lists the changes one by one, at most the first 5,000.

        Args:
            beside: the folder for which the page is made. The page links to the pages of groups that ``write_pages``
                has written into this folder. None to make no links.
        """
        groups = {change.group_id for change in self if change.group_id is not None}
        shown = self[:_MOST_CHANGES]
        facts = {"changes": len(self), "groups": len({change.group_id for change in self})}
        html_text = questions.plain_page(
            "diff.html.j2",
            self._zone,
            pages={} if beside is None else questions.pages_beside(Path(beside), groups, self.between),
            sides=self.sides,
            basis="" if self.basis is None else str(self.basis),
            notes=self.notes,
            counts=self.counts,
            changes=shown,
            change_count=len(self),
        )
        return Page(html_text, facts, self.notes, self.basis)

    def _text_lines(self) -> list[str]:
        return Answer(self.counts, questions.ChangeCount)._text_lines()

    def _repr_html_(self) -> str:
        return Answer(self.counts, questions.ChangeCount, notes=self._remarks())._repr_html_()


class Impacted(Answer["GroupImpact"]):
    """Answer to ``impact``: what the rebalances of a time range cost.

    The rows are the groups that rebalanced in the time range or had partitions without an owner. The most costly group
    comes first.

    Attributes:
        total: the costs of all groups together, and what these groups have in common, such as a host or a topic.
    """

    def __init__(self, impact: Impact, notes: Iterable[str | None] = (), basis: Basis | None = None) -> None:
        super().__init__(impact.groups, questions.GroupImpact, notes=notes, basis=basis)
        self.total = impact

    def _text_lines(self) -> list[str]:
        parts = [plain_text.sentences(self.total.sentences), super()._text_lines()]
        if self.total.traits:
            parts.append(Answer(self.total.traits, questions.CommonTrait)._text_lines())
        return [line for part in parts if part for line in ("", *part)][1:]

    def _repr_html_(self) -> str:
        traits = Answer(self.total.traits, questions.CommonTrait)._repr_html_() if self.total.traits else ""
        return html.notes(self.total.sentences) + super()._repr_html_() + traits


class Reasons(Answer["Rebalance"]):
    """Rebalances with the evidence for their causes. A notebook shows the evidence below each rebalance.

    Attributes:
        hold_ups: the member that blocked a rebalance, by rebalance id. There may be entries for rebalances that are not
            in this answer. A rebalance without an entry has no such member on record.
        summary: three sentences about these rebalances; empty for five rebalances or fewer.
    """

    def __init__(
        self,
        rows: Iterable[Rebalance],
        hold_ups: Mapping[str, HoldUp],
        summary: Sequence[str] = (),
        notes: Iterable[str | None] = (),
        basis: Basis | None = None,
    ) -> None:
        super().__init__(rows, questions.Rebalance, notes=notes, basis=basis)
        self.hold_ups = hold_ups
        self.summary = summary

    def _text_lines(self) -> list[str]:
        lines = [line for rebalance in self[: html.MOST_ROWS] for line in _reason_lines(rebalance)]
        left_out = len(self) - html.MOST_ROWS
        return plain_text.sentences([*self.summary, *lines, *[f"{left_out:,} more rebalances."] * (left_out > 0)])

    def _repr_html_(self) -> str:
        shown = "".join(map(_reason_html, self[: html.MOST_ROWS]))
        left_out = len(self) - html.MOST_ROWS
        return shown + html.notes([f"{left_out:,} more rebalances."] * (left_out > 0)) + html.notes(self._remarks())


class Replayed(Answer["door.Measures"]):
    """A group's life under several settings.

    The rows are the recorded life, its simulation, and each alternative.

    Attributes:
        fidelity: how well the simulation with the recorded settings reproduces the recorded life.
        assumptions: assumptions about facts that the log does not show, in sentences.
        differences: sentences on what each alternative changes. If fidelity is too low, sentences on why no alternative
            was simulated.
    """

    def __init__(self, what_if: door.WhatIf, basis: Basis | None = None) -> None:
        lives = (what_if.recorded, what_if.simulated, *what_if.alternatives)
        rows = [replace(life, group_id=what_if.group_id) for life in lives]
        self.fidelity = what_if.fidelity
        self.assumptions = what_if.assumptions
        notes = [str(what_if.fidelity), *what_if.fidelity.misses, *what_if.differences, *self.assumptions]
        super().__init__(rows, door.Measures, notes=notes, basis=basis)
        self.differences = what_if.differences


def _reason_head(rebalance: Rebalance) -> tuple[list[Any], str, str]:
    """Return the parts of a line about a rebalance.

    Returns:
        Three parts: a list of time, group and number, which name the rebalance; the cause; and the confidence in it.
    """
    matched = " (matched by an alternative)" if rebalance.matched_by == "alternative" else ""
    name = [rebalance.shown_at, rebalance.group_id, rebalance.number]
    return name, rebalance.cause or "UNKNOWN", f"{rebalance.confidence or ''}{matched}"


def _reason_parts(rebalance: Rebalance) -> list[str]:
    """Return the evidence for the cause of a rebalance, the alternatives, and a note if the rebalance is not exact."""
    parts = [*rebalance.evidence] if rebalance.evidence else []
    if rebalance.alternatives:
        parts.append(f"could also be: {', '.join(rebalance.alternatives)}")
    if rebalance.exactness_note is not None:
        parts.append(rebalance.exactness_note)
    return parts


def _reason_lines(rebalance: Rebalance) -> list[str]:
    """Return lines about one rebalance.

    The first line has the cause; the lines below it have the evidence.
    """
    name, cause, sure = _reason_head(rebalance)
    head = "  ".join(filter(None, map(html.text_of, name)))
    return [f"{head}  {cause}{f', {sure}' if sure else ''}", *(f"  - {part}" for part in _reason_parts(rebalance))]


def _reason_html(rebalance: Rebalance) -> str:
    """Return the HTML of one rebalance.

    The evidence is below the cause.
    """
    name, cause, sure = _reason_head(rebalance)
    items = "".join(f"<li>{html.safe(part)}</li>" for part in _reason_parts(rebalance))
    head = " ".join(map(html.safe, name))
    return f"<p>{head} <b>{html.safe(cause)}</b> {html.safe(sure)}</p><ul>{items}</ul>"
