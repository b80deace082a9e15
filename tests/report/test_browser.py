"""Pages in a headless browser: what it draws, at two sizes and in both themes, how it answers, and what it never does.

Chromium must be on the machine (Debian: ``apt-get install chromium``; or ``CHROMIUM=/path``). Screenshots go to the
folder that ``SCREENSHOTS`` names.
"""

import base64
import io
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from coordinator_replay import Warehouse
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.drawing import Mark
from coordinator_replay.report.fleet_page import fleet_page
from coordinator_replay.report.group_page import group_page
from coordinator_replay.report.site import write_site
from coordinator_replay.report.wording import cause_colour
from tests.nightly import rest_at_night
from tests.query.small_warehouse import at
from tests.report.hostile import EVIL, GROUP
from tests.simulation.what_if.variants import write_variants

SIZES = [(1400, 1000, "light"), (390, 844, "dark"), (1400, 1000, "dark"), (390, 844, "light")]
WIDE, NARROW = SIZES[:2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("there is no Chromium on this machine to open pages in: install it, or name it in CHROMIUM")
    with playwright.sync_playwright() as started:
        # As root, which containers are, Chromium needs to be told to do without its sandbox.
        opened = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@dataclass
class Opened:
    """A page in the browser, and what it complained of or asked for."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def model(self, name: str, ask: str) -> Any:
        """What an expression says of a figure's model, which it calls ``found``."""
        return self.page.evaluate(
            f"(() => {{ const found = Bokeh.documents[0].get_model_by_name({name!r}); return {ask} }})()"
        )

    def shown(self, rows: str) -> list[str]:
        """The first cells of the rows that a table shows."""
        return self.page.evaluate(
            f"[...document.querySelectorAll('tbody[data-rows={rows}] tr')].filter((row) => !row.hidden)"
            ".map((row) => row.cells[0].textContent)"
        )

    def fits(self) -> bool:
        """Whether nothing on the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    def colours(self, box: dict[str, float]) -> set[tuple[int, ...]]:
        """Distinct colours within a part of the page."""
        from PIL import Image

        picture = Image.open(io.BytesIO(self.page.screenshot(clip=box, full_page=True))).convert("RGB")
        return {colour for _, colour in picture.getcolors(1 << 24) or ()}


Open = Callable[[str | Path, str, tuple[int, int, str]], Opened]


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Open]:
    pages = []

    def run(html: str | Path, name: str, size: tuple[int, int, str]) -> Opened:
        width, height, theme = size
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
        pages.append(page)
        opened = Opened(page)
        page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        page.on(
            "console", lambda said: opened.complaints.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("dialog", lambda dialog: (opened.complaints.append("a dialog"), dialog.dismiss()))
        page.on("request", lambda request: opened.requests.append(request.url))
        file = html if isinstance(html, Path) else tmp_path / f"{name}.html"
        if isinstance(html, str):
            file.write_text(html, encoding="utf-8")
        page.goto(file.as_uri())
        page.wait_for_selector("body[data-drawn=yes]", timeout=60_000)
        page.wait_for_timeout(300)
        if shots := os.environ.get("SCREENSHOTS"):
            page.screenshot(path=Path(shots) / f"{name}-{width}-{theme}.png", full_page=True)
        return opened

    yield run
    for page in pages:
        page.close()


@pytest.fixture(scope="module")
def what_if_html(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A group's recorded life, its simulation, and two alternatives."""
    warehouse = Warehouse(write_variants(tmp_path_factory.mktemp("variants")))
    heartbeat = {"heartbeat.interval.ms": 500}
    tried = [{"group.instance.id": "per-client"}, {"group.protocol": "consumer", **heartbeat}]
    return warehouse.report("shop-v-dynamic", what_if=tried, known=heartbeat).html


def box_of(opened: Opened, name: str) -> dict[str, float]:
    """Where a figure stands on the page."""
    ask = "(() => { const box = Bokeh.index.find_one_by_id(found.id).el.getBoundingClientRect();"
    ask += " return {x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height} })()"
    return opened.model(name, ask)


@pytest.mark.parametrize("size", rest_at_night(SIZES, [NARROW]), ids=str)
def test_a_groups_page_shows_its_marks(open_page: Open, warehouse: Tables, size: tuple[int, int, str]):
    opened = open_page(group_page(warehouse, "payments")[0], "group", size)
    assert opened.complaints == []
    assert len(opened.requests) == 1
    assert opened.fits()
    assert opened.model("rebalances-data", "found.length") == 2
    assert opened.model("states-data", "found.length") == 6
    # The colours of a state, and of a stretch that nobody owned, are really on the canvas.
    assert (0x2E, 0x9E, 0x5B) in opened.colours(box_of(opened, "states"))
    gap = [
        colour for colour in opened.colours(box_of(opened, "owners-by-partition")) if colour[0] > 180 > 90 > colour[1]
    ]
    assert gap


def test_owners_can_be_switched_to_members_and_offsets_to_what_was_committed(open_page: Open, warehouse: Tables):
    opened = open_page(group_page(warehouse, "payments")[0], "switched", WIDE)
    assert (
        opened.model("owners-by-partition", "found.visible"),
        opened.model("owners-by-member", "found.visible"),
    ) == (True, False)
    opened.page.click("button[data-show=owners-by-member]")
    assert (
        opened.model("owners-by-partition", "found.visible"),
        opened.model("owners-by-member", "found.visible"),
    ) == (False, True)
    opened.page.click("button[data-field=offset]")
    assert opened.model("offset-lines-marks", "found.glyph.ys.field") == "offset"
    assert opened.complaints == []


def spot(opened: Opened, figure: str, moment: float, row: float = 0) -> tuple[float, float]:
    """Where in the window a figure shows a moment and a row."""
    opened.page.evaluate(f"document.getElementById('draw-{figure}').scrollIntoView({{block: 'center'}})")
    ask = f"""(() => {{
        const view = Bokeh.index.find_one_by_id(found.id), box = view.canvas_view.el.getBoundingClientRect();
        return [box.x + view.frame.x_scale.compute({moment}), box.y + view.frame.y_scale.compute({row})];
    }})()"""
    x, y = opened.model(figure, ask)
    return x, y


def milliseconds(clock: str) -> float:
    return at(clock).timestamp() * 1000


def hover(opened: Opened, place: int) -> str:
    """What is shown when the pointer rests on the mark of a rebalance."""
    moment, row = opened.model("rebalances-data", f"[found.data.at[{place}], found.data.row[{place}]]")
    x, y = spot(opened, "rebalances", moment, row)
    opened.page.mouse.move(x + 30, y)
    opened.page.mouse.move(x, y, steps=5)
    opened.page.wait_for_timeout(400)
    return tooltips(opened)


def tooltips(opened: Opened) -> str:
    """Texts of the tooltips that are shown; what a name had put into the page as an element would not be here."""
    return opened.page.evaluate("""(() => {
        const texts = [];
        const walk = (node) => {
            if (node.shadowRoot) walk(node.shadowRoot);
            if (node.classList && node.classList.contains("bk-Tooltip")) texts.push(node.shadowRoot.textContent);
            for (const child of node.childNodes) walk(child);
        };
        walk(document.body);
        return texts.join(" ");
    })()""")


def drag(opened: Opened, figure: str, since: str, until: str) -> None:
    """Choose a time range in a figure."""
    (x, y), (end, _) = (spot(opened, figure, milliseconds(clock)) for clock in (since, until))
    opened.page.mouse.move(x, y)
    opened.page.mouse.down()
    opened.page.mouse.move(end, y, steps=8)
    opened.page.mouse.up()
    opened.page.wait_for_timeout(200)


def test_hovering_over_a_rebalance_tells_its_reason_and_evidence(open_page: Open, warehouse: Tables):
    opened = open_page(group_page(warehouse, "payments")[0], "hover", WIDE)
    told = hover(opened, 1)
    for text in ("MEMBER_JOIN", "certain", "member m-2 joined (3:103)", "orders-1: client-m-1 → client-m-2"):
        assert text in told


def test_hostile_names_are_shown_and_do_nothing(open_page: Open, warehouse: Tables):
    opened = open_page(group_page(warehouse, GROUP)[0], "hostile", WIDE)
    assert "<img src=x onerror=alert(1)>" in hover(opened, 0)
    opened.page.click("button[data-show=owners-by-member]")
    assert opened.complaints == []
    assert len(opened.requests) == 1
    assert opened.page.locator("h1").inner_text().startswith("evil </script>")
    assert EVIL[:20] in opened.page.locator("tbody[data-rows=rebalances]").inner_text()


def test_rebalances_can_be_filtered_and_sorted(open_page: Open, warehouse: Tables):
    opened = open_page(group_page(warehouse, "payments")[0], "filtered", WIDE)
    first, second = opened.shown("rebalances")
    opened.page.click("th:has-text('Took') button")
    assert opened.shown("rebalances") == [second, first]
    opened.page.click("th:has-text('Took') button")
    assert opened.shown("rebalances") == [first, second]
    opened.page.fill("input[data-filter=rebalances]", "member_join")
    assert opened.shown("rebalances") == [second]
    assert opened.page.inner_text("[data-count=rebalances]") == "1 of 2 shown"


def test_a_chosen_time_range_filters_tables_and_can_be_zoomed_to(open_page: Open, warehouse: Tables):
    opened = open_page(group_page(warehouse, "payments")[0], "brushed", WIDE)
    drag(opened, "owners-by-partition", "02:08", "02:12")
    assert opened.shown("rebalances") == ["2026-11-20T02:10:00.000Z"]
    assert opened.model("brush", "found.visible")
    assert opened.page.inner_text("#chosen").startswith("2026-11-20 02:0")
    opened.page.click("button[data-axis=zoom]")
    start, end = opened.model("times", "[found.start, found.end]")
    assert abs(start - milliseconds("02:08")) < 5000
    assert abs(end - milliseconds("02:12")) < 5000
    assert len(opened.shown("rebalances")) == 2
    opened.page.click("button[data-axis=whole]")
    assert opened.model("times", "found.start") < milliseconds("02:00")
    assert opened.complaints == []


def test_one_crosshair_goes_through_all_figures(open_page: Open, warehouse: Tables):
    opened = open_page(group_page(warehouse, "payments")[0], "crosshair", WIDE)
    x, y = spot(opened, "owners-by-partition", milliseconds("02:10"))
    opened.page.mouse.move(x - 20, y)
    opened.page.mouse.move(x, y, steps=4)
    opened.page.wait_for_timeout(200)
    assert abs(opened.model("pointer", "found.location") - milliseconds("02:10")) < 5000
    assert opened.model("pointer", "found.visible")
    assert opened.page.inner_text("#pointed").startswith("2026-11-20 02:")


def test_offsets_are_steps(open_page: Open, warehouse: Tables):
    opened = open_page(group_page(warehouse, "payments")[0], "steps", WIDE)
    times, offsets = opened.model(
        "offset-lines-data",
        "(() => { const line = found.data.name.indexOf('orders-0');"
        "return [[...found.data.times[line]], [...found.data.offset[line]]] })()",
    )
    assert offsets == [100, 100, 150, 150, 150]
    assert times[1] == times[2] == milliseconds("02:11")


def test_a_click_on_a_rebalance_leads_to_its_row(open_page: Open, warehouse: Tables):
    opened = open_page(group_page(warehouse, "payments")[0], "clicked", WIDE)
    x, y = spot(opened, "rebalances", *opened.model("rebalances-data", "[found.data.at[1], found.data.row[1]]"))
    opened.page.mouse.click(x, y)
    opened.page.wait_for_timeout(300)
    assert opened.page.get_attribute("tr.pointed", "id") == "rebalance-r2"
    opened.page.click("tr.pointed a.back")
    assert opened.page.evaluate("document.getElementById('draw-rebalances').getBoundingClientRect().top") > 0


PRINTED = """() => {
    window.beyond = [];
    window.broken = [];
    const broken = (text) => [...text.data.matchAll(/[A-Za-z_]+/g)].filter((word) => {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        return new Set([...range.getClientRects()].map((box) => box.top)).size > 1;
    });
    matchMedia("print").addEventListener("change", ({ matches }) => {
        if (!matches) return;
        const width = document.body.getBoundingClientRect().right;
        window.paper = width;
        for (const one of document.body.querySelectorAll("*")) {
            const box = one.getBoundingClientRect();
            if (box.width && box.right > width + 1 && !one.closest("svg svg, defs")) window.beyond.push(one.outerHTML);
        }
        for (const cell of document.querySelectorAll(".n, .when, .n span, td b, td[class=warning]")) {
            for (const text of cell.childNodes) if (text.data) window.broken.push(...broken(text).flat());
        }
    });
}"""
"""Notes what would be cut on paper, and words broken in two: a print has its own layout, gone when it is over."""


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("group", WIDE),
        *(
            pytest.param(kind, size, marks=pytest.mark.long)
            for kind, size in product(["fleet", "group", "what if"], [WIDE, NARROW])
            if (kind, size) != ("group", WIDE)
        ),
    ],
    ids=str,
)
def test_on_a4_nothing_is_cut(
    open_page: Open, warehouse: Tables, what_if_html: str, kind: str, size: tuple[int, int, str]
):
    pages = {"fleet": lambda: fleet_page(warehouse)[0], "group": lambda: group_page(warehouse, "payments")[0]}
    opened = open_page(pages[kind]() if kind in pages else what_if_html, "a4", size)
    opened.page.evaluate(PRINTED)
    opened.page.pdf(format="A4")
    assert 600 < opened.page.evaluate("paper") < 800
    assert opened.page.evaluate("beyond") == []
    assert opened.page.evaluate("broken") == []
    assert opened.complaints == []
    assert not opened.page.locator(".draw > svg").count()


@pytest.fixture(scope="module")
def site(warehouse: Tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write_site(warehouse, folder)
    return folder


@pytest.mark.parametrize("size", rest_at_night(SIZES, [WIDE]), ids=str)
def test_pages_of_a_site_are_drawn_and_linked(open_page: Open, site: Path, size: tuple[int, int, str]):
    opened = open_page(site / "index.html", "site", size)
    assert opened.fits()
    opened.page.click("table.lanes a:has-text('payments')")
    opened.page.wait_for_selector("body[data-drawn=yes]")
    assert opened.page.inner_text("h1") == "payments"
    assert opened.model("rebalances-data", "found.length") == 2
    opened.page.click("a:has-text('Groups of cluster')")
    opened.page.wait_for_selector("body[data-drawn=yes]")
    assert opened.complaints == []
    assert all(request.startswith(site.as_uri()) for request in opened.requests)


def test_lanes_share_the_axis_of_the_figure(open_page: Open, site: Path):
    opened = open_page(site / "index.html", "lanes", WIDE)
    lane = opened.page.locator("svg.lane").first.bounding_box()
    frame = opened.model(
        "causes",
        "(() => { const view = Bokeh.index.find_one_by_id(found.id), box = view.canvas_view.el.getBoundingClientRect();"
        "return [box.x + view.frame.bbox.left, view.frame.bbox.width] })()",
    )
    assert abs(frame[0] - lane["x"]) < 2
    assert abs(frame[1] - lane["width"]) < 3
    # payments rebalanced at 02:00 and 02:10, legacy at 02:02.
    drag(opened, "causes", "02:08", "02:12")
    assert opened.shown("groups") == ["payments"]
    assert opened.page.inner_text("tr[data-lane]:not([hidden]) [data-rebalances]") == "1"
    opened.page.click("button[data-axis=zoom]")
    start, _, span, _ = map(float, opened.page.get_attribute("svg.lane", "viewBox").split())
    assert 3800 < start < 4200
    assert 1700 < span < 2300
    assert opened.complaints == []


def test_a_time_range_can_be_chosen_on_a_lane(open_page: Open, site: Path):
    opened = open_page(site / "index.html", "lane", WIDE)
    lane = opened.page.locator("tr:has-text('legacy') svg.lane")
    lane.scroll_into_view_if_needed()
    box = lane.bounding_box()
    middle = box["y"] + box["height"] / 2
    opened.page.mouse.move(box["x"] + 2, middle)
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + box["width"] * 0.2, middle, steps=5)
    opened.page.mouse.up()
    assert sorted(opened.shown("groups"))[-2:] == ["legacy", "payments"]
    assert opened.model("brush", "found.visible")
    opened.page.click("button[data-axis=clear]")
    assert not opened.model("brush", "found.visible")
    assert len(opened.shown("groups")) > 3


def test_groups_can_be_sorted(open_page: Open, site: Path):
    opened = open_page(site / "index.html", "sorted", WIDE)
    opened.page.click("table.lanes th:has-text('Rebalances') button")
    assert opened.shown("groups")[0] == "payments"
    opened.page.click("table.lanes th:has-text('Group') button")
    names = opened.shown("groups")
    assert names == sorted(names, key=str.lower)


@pytest.mark.parametrize("size", rest_at_night(SIZES, [NARROW]), ids=str)
def test_the_fleets_page_is_drawn(open_page: Open, warehouse: Tables, size: tuple[int, int, str]):
    opened = open_page(fleet_page(warehouse)[0], "fleet", size)
    assert opened.complaints == []
    assert len(opened.requests) == 1
    assert opened.fits()
    colours = {cause_colour(cause) for (cause,) in warehouse.rows("SELECT DISTINCT cause FROM rebalances")}
    assert {tuple(bytes.fromhex(one[1:])) for one in colours} & opened.colours(box_of(opened, "causes"))
    assert (0x2E, 0x9E, 0x5B) in opened.colours(opened.page.locator("table.lanes").bounding_box())


def test_on_paper_there_are_no_controls(open_page: Open, warehouse: Tables):
    opened = open_page(group_page(warehouse, "payments")[0], "paper", NARROW)
    opened.page.emulate_media(media="print")
    assert not opened.page.locator(".controls").first.is_visible()
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


@pytest.mark.parametrize("size", rest_at_night(SIZES, [WIDE]), ids=str)
def test_both_lives_are_drawn_on_one_time_axis(open_page: Open, what_if_html: str, size: tuple[int, int, str]):
    opened = open_page(what_if_html, "what-if", size)
    assert opened.complaints == []
    assert len(opened.requests) == 1
    assert opened.fits()
    rows = opened.model("lives-rebalances-data", "[...found.data.row]")
    assert [rows.count(row) for row in range(4)] == [13, 13, 7, 14]
    ranges = [opened.model(name, "found.x_range.id") for name in ("lives", "lives-owners")]
    assert ranges[0] == ranges[1]
    # Red is on the canvas where nobody worked on a partition.
    assert [
        one for one in opened.colours(box_of(opened, "lives-owners")) if one[0] > 180 > 120 > one[1] and one[2] < 120
    ]


def test_a_chosen_time_range_filters_the_rebalances_of_all_lives(open_page: Open, what_if_html: str):
    opened = open_page(what_if_html, "what-if-brushed", WIDE)
    everything = len(opened.shown("rebalances"))
    first, last = opened.model("times", "[found.start, found.end]")
    (x, y), (end, _) = (spot(opened, "lives", first + (last - first) * share, 1.5) for share in (0.1, 0.3))
    opened.page.mouse.move(x, y)
    opened.page.mouse.down()
    opened.page.mouse.move(end, y, steps=8)
    opened.page.mouse.up()
    opened.page.wait_for_timeout(200)
    assert 0 < len(opened.shown("rebalances")) < everything
    opened.page.click("button[data-axis=clear]")
    opened.page.fill("input[data-filter=rebalances]", "what if 1")
    assert len(opened.shown("rebalances")) == 7
    assert opened.complaints == []


def test_the_time_range_is_in_the_pages_address(open_page: Open, site: Path):
    opened = open_page(site / "index.html", "address", WIDE)
    assert "#" not in opened.page.url
    drag(opened, "causes", "02:08", "02:12")
    opened.page.click("button[data-axis=zoom]")
    fragment = opened.page.url.partition("#")[2]
    assert re.fullmatch(r"from=2026-11-20T02:0[78]:\S+Z&to=2026-11-20T02:1[12]:\S+Z", fragment)
    # Links keep it: the group's page shows the same time.
    opened.page.click("table.lanes a:has-text('payments')")
    opened.page.wait_for_selector("body[data-drawn=yes]")
    assert opened.page.inner_text("h1") == "payments"
    assert opened.page.url.partition("#")[2] == fragment
    start, end = opened.model("times", "[found.start, found.end]")
    assert abs(start - milliseconds("02:08")) < 5000
    assert abs(end - milliseconds("02:12")) < 5000
    opened.page.click("button[data-axis=whole]")
    assert "#" not in opened.page.url
    assert opened.complaints == []


@pytest.mark.parametrize("kind", rest_at_night(["fleet", "group", "what if"], ["group"]))
def test_a_page_can_be_copied_as_an_image(open_page: Open, warehouse: Tables, what_if_html: str, kind: str):
    from PIL import Image

    marks = [Mark(at("02:10"), "deploy")]
    pages = {
        "fleet": lambda: fleet_page(warehouse, marks=marks)[0],
        "group": lambda: group_page(warehouse, "payments", marks=marks)[0],
    }
    opened = open_page(pages[kind]() if kind in pages else what_if_html, f"copied-{kind}", WIDE)
    opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.page.click("button[data-copy]")
    opened.page.wait_for_selector("button[data-copy]:has-text('Copied')", timeout=20_000)
    encoded = opened.page.evaluate("""async () => {
        const [item] = await navigator.clipboard.read();
        const bytes = new Uint8Array(await (await item.getType("image/png")).arrayBuffer());
        return btoa(bytes.reduce((text, byte) => text + String.fromCharCode(byte), ""));
    }""")
    picture = Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGB")
    if shots := os.environ.get("SCREENSHOTS"):
        picture.save(Path(shots) / f"copied-{kind}.png")
    # Above lanes the legend is in the picture, not beside it.
    assert picture.width > (700 if kind == "fleet" else 1000)
    colours = {colour for _, colour in picture.getcolors(1 << 24) or ()}
    if kind != "what if":
        assert (0x2E, 0x9E, 0x5B) in colours
    assert opened.complaints == []


def test_an_image_that_can_not_be_copied_is_saved(open_page: Open, warehouse: Tables):
    opened = open_page(group_page(warehouse, "payments")[0], "saved", WIDE)
    opened.page.evaluate("() => { navigator.clipboard.write = () => Promise.reject(new Error('no')); }")
    with opened.page.expect_download() as downloaded:
        opened.page.click("button[data-copy]")
    assert downloaded.value.suggested_filename == "payments-consumer-group.png"
    assert Path(downloaded.value.path()).read_bytes().startswith(b"\x89PNG")


def test_marks_of_ones_own_are_lines_in_all_figures_and_lanes(open_page: Open, warehouse: Tables):
    marks = [Mark(at("02:10"), "deploy <4.2>")]
    opened = open_page(group_page(warehouse, "payments", marks=marks)[0], "marked", WIDE)
    assert opened.model("marks-data", "[...found.data.at]") == [milliseconds("02:10")]
    assert opened.page.inner_text(".marks").split() == ["┆", "2026-11-20T02:10:00.000Z", "deploy", "<4.2>"]
    assert (0xC2, 0x18, 0x5B) in opened.colours(box_of(opened, "owners-by-partition"))
    opened = open_page(fleet_page(warehouse, marks=marks)[0], "marked-fleet", WIDE)
    lane = opened.page.locator("svg.lane").first.bounding_box()
    mark = opened.page.locator(".lane-mark").bounding_box()
    assert abs(mark["x"] - (lane["x"] + lane["width"] * 0.5)) < lane["width"] * 0.02
    assert opened.complaints == []


def test_times_are_shown_in_the_zone_of_the_page(open_page: Open, warehouse: Tables):
    kolkata = Tables(warehouse.uri, None, ZoneInfo("Asia/Kolkata"))
    opened = open_page(group_page(kolkata, "payments")[0], "zone", WIDE)
    assert opened.shown("rebalances")[1] == "2026-11-20T07:40:00.000+05:30"
    assert "from2026-11-20 07:40:20.000" in hover_over_state(opened)
    drag_at = [milliseconds(clock) + 5.5 * 3600e3 for clock in ("02:08", "02:12")]
    (x, y), (end, _) = (spot(opened, "owners-by-partition", moment) for moment in drag_at)
    opened.page.mouse.move(x, y)
    opened.page.mouse.down()
    opened.page.mouse.move(end, y, steps=8)
    opened.page.mouse.up()
    opened.page.wait_for_timeout(200)
    assert opened.shown("rebalances") == ["2026-11-20T07:40:00.000+05:30"]
    assert opened.page.inner_text("#chosen").startswith("2026-11-20 07:3")
    assert opened.page.inner_text("#pointed").endswith("Asia/Kolkata")
    # Addresses have UTC, whatever zone a page is in.
    opened.page.click("button[data-axis=zoom]")
    assert "from=2026-11-20T02:0" in opened.page.url
    assert opened.complaints == []


def hover_over_state(opened: Opened) -> str:
    """What is shown when the pointer rests on the group's last state."""
    place = opened.model("states-data", "found.length - 1")
    moment = opened.model("states-data", f"(found.data.left[{place}] + found.data.right[{place}]) / 2")
    x, y = spot(opened, "states", moment)
    opened.page.mouse.move(x + 30, y)
    opened.page.mouse.move(x, y, steps=5)
    opened.page.wait_for_timeout(400)
    return tooltips(opened)
