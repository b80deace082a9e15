"""Pages in a headless browser: what it draws, at two sizes and in both themes, and what it never does.

Chromium must be on the machine (Debian: ``apt-get install chromium``; or ``CHROMIUM=/path``). Screenshots go to the
folder that ``SCREENSHOTS`` names, else they are looked at and thrown away.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.query.warehouse import Warehouse
from coordinator_replay.report.fleet_page import fleet_page
from coordinator_replay.report.group_page import group_page
from tests.report.hostile import EVIL, GROUP

pytestmark = pytest.mark.long

SIZES = [(1600, 1000, "light"), (800, 1100, "dark")]
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

    def colours(self, box: dict[str, float]) -> set[tuple[int, ...]]:
        """Distinct colours within a part of the page."""
        import io

        from PIL import Image

        picture = Image.open(io.BytesIO(self.page.screenshot(clip=box, full_page=True))).convert("RGB")
        return {colour for _, colour in picture.getcolors(1 << 24) or ()}


Open = Callable[[str, str, tuple[int, int, str]], Opened]


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Open]:
    pages = []

    def run(html: str, name: str, size: tuple[int, int, str]) -> Opened:
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
        file = tmp_path / f"{name}.html"
        file.write_text(html, encoding="utf-8")
        page.goto(file.as_uri())
        page.wait_for_selector("body[data-drawn=yes]", timeout=60_000)
        page.wait_for_timeout(300)
        shots = Path(os.environ.get("SCREENSHOTS") or tmp_path)
        page.screenshot(path=shots / f"{name}-{width}.png", full_page=True)
        return opened

    yield run
    for page in pages:
        page.close()


def box_of(opened: Opened, name: str) -> dict[str, float]:
    """Where a figure stands on the page."""
    ask = "(() => { const box = Bokeh.index.find_one_by_id(found.id).el.getBoundingClientRect();"
    ask += " return {x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height} })()"
    return opened.model(name, ask)


@pytest.mark.parametrize("size", SIZES, ids=["wide", "narrow"])
def test_a_groups_page_shows_its_marks(open_page: Open, warehouse: Warehouse, size: tuple[int, int, str]):
    opened = open_page(group_page(warehouse, "payments")[0], "group", size)
    assert opened.complaints == []
    assert len(opened.requests) == 1
    assert opened.model("rebalances", "found.renderers[1].data_source.length") == 2
    assert opened.model("states", "found.renderers[0].data_source.length") == 6
    # The colours of a state, and of a stretch that nobody owned, are really on the canvas.
    assert (0x2E, 0x9E, 0x5B) in opened.colours(box_of(opened, "states"))
    gap = [
        colour for colour in opened.colours(box_of(opened, "owners-by-partition")) if colour[0] > 180 > 90 > colour[1]
    ]
    assert gap


def test_owners_can_be_switched_to_members_and_offsets_to_what_was_committed(open_page: Open, warehouse: Warehouse):
    opened = open_page(group_page(warehouse, "payments")[0], "switched", SIZES[0])
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
    assert opened.model("offset-lines", "found.glyph.ys.field") == "offset"
    assert opened.complaints == []


def hover(opened: Opened, name: str, row: int) -> str:
    """What is shown when the pointer rests on a mark."""
    ask = f"""(() => {{
        const view = Bokeh.index.find_one_by_id(found.id), data = found.renderers[{row}].data_source.data;
        const box = view.canvas_view.el.getBoundingClientRect(), frame = view.frame;
        const last = data.start.length - 1;
        return [box.x + frame.x_scale.compute(data.start[last]), box.y + frame.y_scale.compute(data.row[last])];
    }})()"""
    x, y = opened.model(name, ask)
    opened.page.mouse.move(x + 30, y)
    opened.page.mouse.move(x, y, steps=5)
    opened.page.wait_for_timeout(400)
    # Text only: what a name had put into the page as an element would not be here.
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


def test_hovering_over_a_rebalance_tells_its_reason_and_evidence(open_page: Open, warehouse: Warehouse):
    opened = open_page(group_page(warehouse, "payments")[0], "hover", SIZES[0])
    told = hover(opened, "rebalances", 1)
    for text in ("MEMBER_JOIN", "certain", "member m-2 joined (3:103)"):
        assert text in told


def test_hostile_names_are_shown_and_do_nothing(open_page: Open, warehouse: Warehouse):
    opened = open_page(group_page(warehouse, GROUP)[0], "hostile", SIZES[0])
    assert "<img src=x onerror=alert(1)>" in hover(opened, "rebalances", 1)
    opened.page.click("button[data-show=owners-by-member]")
    assert opened.complaints == []
    assert len(opened.requests) == 1
    assert opened.page.locator("h1").inner_text().startswith("evil </script>")
    assert EVIL[:20] in opened.page.locator("#rebalance-rows").inner_text()


def test_rebalances_can_be_filtered(open_page: Open, warehouse: Warehouse):
    opened = open_page(group_page(warehouse, "payments")[0], "filtered", SIZES[0])
    opened.page.fill("input[data-rows=rebalance-rows]", "member_join")
    assert opened.page.locator("#rebalance-rows tr:visible").count() == 1


@pytest.mark.parametrize("size", SIZES, ids=["wide", "narrow"])
def test_the_fleets_page_is_drawn(open_page: Open, warehouse: Warehouse, size: tuple[int, int, str]):
    opened = open_page(fleet_page(warehouse)[0], "fleet", size)
    assert opened.complaints == []
    assert len(opened.requests) == 1
    assert (0x2E, 0x9E, 0x5B) in opened.colours(box_of(opened, "kinds"))


def test_on_paper_there_are_no_controls(open_page: Open, warehouse: Warehouse):
    opened = open_page(group_page(warehouse, "payments")[0], "paper", SIZES[1])
    opened.page.emulate_media(media="print")
    assert not opened.page.locator(".controls").first.is_visible()
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
