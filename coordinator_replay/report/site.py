"""Linked pages of a cluster in one folder: a page of all groups, and pages of single groups.

A group has its own page if it has a rebalance or a finding in the time range. All pages share the files of scripts.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from coordinator_replay.errors import writing
from coordinator_replay.garbage import few_collections
from coordinator_replay.listing import counted, listed
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.drawing import Mark
from coordinator_replay.report.fleet_page import FleetPage, fleet_figures
from coordinator_replay.report.group_page import Ways, life_page
from coordinator_replay.report.life import GroupLife
from coordinator_replay.report.life_figures import life_figures
from coordinator_replay.report.lives import Span, lives_of
from coordinator_replay.report.page import undrawn_page, write_assets, write_page
from coordinator_replay.times import moment_text

GROUPS = "groups"
ASSETS = "assets"
INDEX = "index.html"

_OTHER = re.compile(r"[^a-z0-9._-]+")


def page_name(group: str) -> str:
    """Return the file name of a group's page: readable, safe in every file system, different for each group."""
    digest = hashlib.sha256(group.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    readable = _OTHER.sub("-", group.lower())[:60].strip("-.")
    return f"{readable}-{digest}.html" if readable else f"{digest}.html"


def pages_beside(
    folder: Path, groups: Iterable[str], between: tuple[datetime, datetime] | None = None
) -> Mapping[str, str]:
    """Return links to the pages of groups, by group id. A group without a page in the folder is left out.

    Args:
        folder: the folder of the page with the links.
        groups: ids of the groups to link to.
        between: the time range that a page shows when the reader opens its link; None for the whole range of the page.
    """
    shown = "" if between is None else f"#from={moment_text(between[0])}&to={moment_text(between[1])}"
    ways = {group: f"{GROUPS}/{page_name(group)}" for group in groups}
    return {group: f"{way}{shown}" for group, way in ways.items() if (folder / way).is_file()}


def _drawn(
    warehouse: Tables, life: GroupLife, start: datetime | None, fleet: FleetPage, ways: Ways, marks: Sequence[Mark]
) -> str:
    """Return the page of a group.

    If the page can't be drawn, return a page with only a note on the reason. Add the note to the page of all groups.
    """
    try:
        return life_page(warehouse, life, start, f"../{ASSETS}/", ways, marks)
    except Exception as problem:  # noqa: BLE001 - what clients wrote into one group's records keeps no other from its page
        note = f"The page of group {life.group!r} could not be drawn ({type(problem).__name__}: {problem})."
        fleet.notes.append(note)
        return undrawn_page(life.group, warehouse.cluster, note, index=ways.index, assets=f"../{ASSETS}/")


def _ways_of(groups: Sequence[str]) -> Mapping[str, Ways]:
    """Return the links from each group's page to the page of all groups, and to the pages before and after it."""
    pages = [None, *((group, page_name(group)) for group in groups), None]
    return {
        group: Ways(f"../{INDEX}", before, after)
        for group, before, after in zip(groups, pages, pages[2:], strict=False)
    }


def _forget(folder: Path, quiet: Sequence[Span]) -> None:
    """Remove the pages of groups that an earlier report wrote and this report does not write.

    Args:
        folder: the folder of the report.
        quiet: groups without a rebalance or finding in the report's time range.
    """
    names = {page_name(span.group) for span in quiet}
    with writing(folder):
        for page in folder.iterdir():
            if page.name in names:
                page.unlink()


def write_site(
    warehouse: Tables,
    folder: Path,
    start: datetime | None = None,
    end: datetime | None = None,
    marks: Sequence[Mark] = (),
) -> FleetPage:
    """Write ``index.html`` for all groups, and a page in ``groups/`` for each group with a rebalance or finding.

    Args:
        warehouse: the tables to read.
        folder: target folder; made if it does not exist. Pages that an earlier report left there are replaced.
        start: start of the time range, included; None to begin at the first record that was read.
        end: end of the time range, excluded; None to end after the last record that was read.
        marks: times to mark.

    Returns:
        The page of all groups. Its notes say which groups have no page of their own.

    Raises:
        UsageError: the tables have no record of the cluster, or of the time range; or a file can't be written.
    """
    page = FleetPage(warehouse, start, end, marks)
    with writing(folder):
        for part in (GROUPS, ASSETS):
            (folder / part).mkdir(parents=True, exist_ok=True)
    write_assets(folder / ASSETS, [fleet_figures, life_figures])
    with_news, quiet = page.spans()
    _forget(folder / GROUPS, quiet)
    ways = _ways_of(sorted(span.group for span in with_news))
    with few_collections():
        for life in lives_of(warehouse, with_news, start, end):
            name = page_name(life.group)
            write_page(_drawn(warehouse, life, start, page, ways[life.group], marks), folder / GROUPS / name)
            page.add(life, f"{GROUPS}/{name}")
        page.add_quiet(quiet)
    if quiet:
        names = listed(sorted(span.group for span in quiet))
        page.notes.append(
            f"No page for {counted(len(quiet), 'group')} ({names}): no rebalance and no finding of theirs is on record "
            "in this time. coordinator-replay report GROUP --out FILE draws one."
        )
    write_page(page.html(f"{ASSETS}/"), folder / INDEX)
    return page
