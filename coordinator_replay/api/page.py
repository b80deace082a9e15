"""Pages, pictures and traces of groups."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator_replay.api import questions
from coordinator_replay.errors import UsageError
from coordinator_replay.query.basis import Basis

if TYPE_CHECKING:
    from coordinator_replay.report.drawing import Drawing
    from coordinator_replay.report.life import GroupLife

_HEIGHT = 900
"""Height of a page in a notebook, in pixels. A longer page scrolls."""


_OTHER_PICTURES = (".jpg", ".jpeg", ".pdf", ".gif", ".webp")
"""File extensions that neither a page nor its picture can have."""


def check_page_name(path: Path) -> None:
    """Check that a page or its picture can be written under a name.

    Raises:
        UsageError: the extension is of a picture format that can't be made, such as ``.pdf``.
    """
    if path.suffix.lower() in _OTHER_PICTURES:
        raise UsageError(f"{path}: give a name that ends in .html, .svg or .png")


@dataclass(frozen=True, slots=True, repr=False)
class Page:
    """A self-contained HTML page.

    A notebook shows the page in place.

    Attributes:
        html: text of the page.
        facts: numbers that belong to the page, by name, such as the number of rebalances. The numbers also count what
            the page leaves out.
        notes: sentences about the page.
        basis: basis of the page, see ``Answer``.
        drawing: function that makes the page's figures for a picture; None if the page has no figures.
    """

    html: str
    facts: Mapping[str, int | None]
    notes: tuple[str, ...] = ()
    basis: Basis | None = None
    drawing: "Callable[[], Drawing] | None" = None

    def save(self, path: str | Path) -> None:
        """Write the page to a file.

        If the name ends in ``.svg`` or ``.png``, write the page's figures as a picture instead.

        Raises:
            UsageError: the file can't be written, or its extension is of a picture format that can't be made, such as
                ``.pdf``. Also raised for a picture if the page has no figures, and for a PNG if there is no Chromium.
        """
        path = Path(path)
        check_page_name(path)
        match path.suffix.lower():
            case ".svg":
                questions.write_page(self.svg(), path)
            case ".png":
                questions.write_png(self.svg(), path)
            case _:
                questions.write_page(self.html, path)

    def svg(self) -> str:
        """Return the figures of the page as an SVG picture.

        Raises:
            UsageError: the page has no figures.
        """
        if self.drawing is None:
            raise UsageError("this page has no figures for a picture: give a name that ends in .html")
        return questions.svg_of(self.drawing())

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
    """A folder with linked pages: an overview of all groups, and a page for each group with news.

    A group has news if a rebalance or a finding of the group is on record in the time range.

    Attributes:
        index: path of the overview, to open in a browser.
        facts: number of groups and number of rebalances that the overview states.
        notes: sentences about the pages.
        basis: basis of the pages, see ``Answer``.
    """

    index: Path
    facts: Mapping[str, int | None]
    notes: tuple[str, ...] = ()
    basis: Basis | None = None

    def __repr__(self) -> str:
        return f"Pages({self.index}, {', '.join(f'{name}={count}' for name, count in self.facts.items())})"


class Trace:
    """What happened to groups, as a trace that Perfetto and chrome://tracing open.

    Attributes:
        groups: names of the groups.
        notes: sentences about the trace.
        basis: basis of the trace, see ``Answer``.
    """

    def __init__(
        self,
        lives: Sequence["GroupLife"],
        notes: Iterable[str] = (),
        basis: Basis | None = None,
        zone: tzinfo = UTC,
    ) -> None:
        self._lives = tuple(lives)
        self._zone = zone
        self.groups = tuple(life.group for life in lives)
        self.notes = (*notes, *(note for life in lives for note in life.notes))
        self.basis = basis

    def save(self, path: str | Path) -> int:
        """Write the trace to a file in the format of Chrome's trace events (JSON).

        Returns:
            The number of events in the file.

        Raises:
            UsageError: the file can't be written.
        """
        basis = None if self.basis is None else self.basis.line()
        return questions.write_trace(self._lives, Path(path), basis, self._zone)

    def __repr__(self) -> str:
        return f"Trace(groups={list(self.groups)!r})"
