"""The pages of a whole cluster: linked, sharing their scripts, and safe whatever groups are called."""

import re
from pathlib import Path

import pytest

from coordinator_replay.errors import UsageError
from coordinator_replay.query.findings import findings_of
from coordinator_replay.query.rebalances import rebalances_of
from coordinator_replay.query.tables import Tables
from coordinator_replay.report import fleet_page
from coordinator_replay.report.lives import spans_of
from coordinator_replay.report.site import page_name, write_site
from tests.query.small_warehouse import at
from tests.report.hostile import GROUP
from tests.report.pages import Page


@pytest.fixture(scope="module")
def site(warehouse: Tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "fleet"
    write_site(warehouse, folder)
    return folder


def links(page: Path) -> list[str]:
    found = [value for _, attributes in Page(page.read_text("utf-8")).elements for name, value in attributes.items()
             if name in ("href", "src")]  # fmt: skip
    return [link for link in found if link is not None]


def with_news(warehouse: Tables) -> list[str]:
    """The groups that a rebalance or a finding is on record of, by name."""
    told = {row.group_id for row in [*rebalances_of(warehouse), *findings_of(warehouse)]}
    return sorted(group for group in told if group is not None)


def test_every_group_with_news_has_a_page_that_the_index_links_to(site: Path, warehouse: Tables):
    linked = {link for link in links(site / "index.html") if link.startswith("groups/")}
    assert linked == {f"groups/{page_name(group)}" for group in with_news(warehouse)}


def test_a_quiet_group_has_a_row_and_no_page(site: Path, warehouse: Tables):
    quiet = {span.group for span in spans_of(warehouse)} - set(with_news(warehouse))
    assert quiet == {"simple"}
    assert not (site / "groups" / page_name("simple")).exists()
    assert '<td class="name">simple</td>' in (site / "index.html").read_text("utf-8")


def test_quiet_groups_are_counted_and_lose_the_page_of_another_time(warehouse: Tables, tmp_path: Path):
    page = tmp_path / "groups" / page_name("legacy")
    write_site(warehouse, tmp_path)
    assert page.is_file()
    made = write_site(warehouse, tmp_path, at("02:15"), at("02:16"))
    assert not page.exists()
    assert any(note.startswith("No page for ") and "on record" in note for note in made.notes), made.notes


def test_an_overview_has_rows_for_a_part_of_the_quiet_groups(
    warehouse: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fleet_page, "MOST_QUIET", 0)
    made = write_site(warehouse, tmp_path)
    count = len(spans_of(warehouse))
    assert (len(made.lanes), made.group_count) == (count - 1, count)
    assert f"The overview leaves out 1 group of {count}: " in made.notes[0]
    assert f"The first {count - 1} of {count} groups; no rebalance" in (tmp_path / "index.html").read_text("utf-8")


def test_every_link_leads_to_a_file_of_the_folder(site: Path):
    for page in site.rglob("*.html"):
        assert links(page)
        for link in links(page):
            if link.startswith("#"):
                elements = Page(page.read_text("utf-8")).elements
                assert link[1:] in {attributes.get("id") for _, attributes in elements}
                continue
            target = (page.parent / link).resolve()
            assert target.is_file(), link
            assert target.is_relative_to(site.resolve())


def test_a_groups_page_leads_to_the_group_before_and_after_it(site: Path, warehouse: Tables):
    names = with_news(warehouse)
    assert len(names) > 2
    neighbours = zip([None, *names], names, [*names[1:], None], strict=False)
    for before, group, after in neighbours:
        elements = Page((site / "groups" / page_name(group)).read_text("utf-8")).elements
        ways = {
            attributes["rel"]: attributes["href"]
            for _, attributes in elements
            if "rel" in attributes and "href" in attributes
        }
        wanted = {"prev": before, "next": after}
        assert {rel: href for rel, href in ways.items() if rel in wanted} == {
            rel: page_name(name) for rel, name in wanted.items() if name is not None
        }


def test_pages_share_their_scripts_and_run_no_other(site: Path):
    for path in site.rglob("*.html"):
        page = Page(path.read_text("utf-8"))
        assert [attributes.get("id") or attributes["src"].rpartition("/")[2] for attributes, _ in page.scripts] == [
            "data", "bokeh.js", "fleet-figures.js" if path.name == "index.html" else "life-figures.js", "page.js",
        ]  # fmt: skip
        assert "unsafe" not in re.search(r"script-src ([^;]*)", path.read_text("utf-8"))[1]
        assert len(path.read_text("utf-8")) < 100_000


def test_shared_scripts_know_nothing_of_the_dump(site: Path):
    for path in (site / "assets").iterdir():
        assert "payments" not in path.read_text("utf-8")


def test_names_of_files_are_safe_and_different():
    names = [
        page_name(group) for group in (GROUP, "../../etc/passwd", "", "A", "a", "é" * 500, "CON", ".", "a/b", "a-b")
    ]
    assert len({name.lower() for name in names}) == len(names)
    for name in names:
        assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*\.html", name)
        assert len(name) < 100


def test_a_part_of_the_time_can_be_written(warehouse: Tables, tmp_path: Path):
    made = write_site(warehouse, tmp_path, at("02:05"), at("02:12"))
    assert made.rebalances == 1
    with pytest.raises(UsageError, match="covered"):
        write_site(warehouse, tmp_path, at("23:00"))


def test_a_file_in_the_way_is_told(warehouse: Tables, tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="can't be written"):
        write_site(warehouse, tmp_path / "file")
