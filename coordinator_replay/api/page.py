"""Pages and traces of groups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator_replay.api import questions
from coordinator_replay.query.basis import Basis

if TYPE_CHECKING:
    from coordinator_replay.report.life import GroupLife

_HEIGHT = 900
"""Pixels of a page in a notebook; it scrolls."""


@dataclass(frozen=True, slots=True, repr=False)
class Page:
    """One self-contained HTML page; a notebook shows it in place.

    Attributes:
        html: the page.
        facts: counts of the things that it shows.
        notes: sentences that belong to it.
        basis: the basis, see ``Answer``.
    """

    html: str
    facts: Mapping[str, int | None]
    notes: tuple[str, ...] = ()
    basis: Basis | None = None

    def save(self, path: str | Path) -> None:
        """Write the page.

        Raises:
            UsageError: the file can't be written.
        """
        questions.write_page(self.html, Path(path))

    def __repr__(self) -> str:
        return f"Page({', '.join(f'{name}={count}' for name, count in self.facts.items())})"

    def _repr_html_(self) -> str:
        # The page may run only its own scripts, isolated from the notebook's page.
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts" width="100%" height="{_HEIGHT}" '
            'style="border:0"></iframe>'
        )


@dataclass(frozen=True, slots=True, repr=False)
class Pages:
    """Linked pages of all groups in a folder.

    Attributes:
        index: the overview, to open in a browser.
        facts: counts of the things that the pages show.
        notes: sentences that belong to them.
        basis: the basis, see ``Answer``.
    """

    index: Path
    facts: Mapping[str, int | None]
    notes: tuple[str, ...] = ()
    basis: Basis | None = None

    def __repr__(self) -> str:
        return f"Pages({self.index}, {', '.join(f'{name}={count}' for name, count in self.facts.items())})"


class Trace:
    """The lives of groups as a trace that Perfetto and chrome://tracing open.

    Attributes:
        groups: their names.
        notes: sentences that belong to it.
        basis: the basis, see ``Answer``.
    """

    def __init__(self, lives: Sequence["GroupLife"], notes: Iterable[str] = (), basis: Basis | None = None) -> None:
        self._lives = tuple(lives)
        self.groups = tuple(life.group for life in lives)
        self.notes = (*notes, *(note for life in lives for note in life.notes))
        self.basis = basis

    def save(self, path: str | Path) -> int:
        """Write the trace.

        Returns:
            The number of its events.

        Raises:
            UsageError: the file can't be written.
        """
        return questions.write_trace(self._lives, Path(path), None if self.basis is None else self.basis.line())

    def __repr__(self) -> str:
        return f"Trace(groups={list(self.groups)!r})"
