"""Takes the picture of the README: the page of a group of the demo, with the evidence of one rebalance.

Chromium must be on the machine (Debian: ``apt-get install chromium``; or ``CHROMIUM=/path``), and the package
playwright.
"""

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from coordinator_replay.query.tables import Tables
from coordinator_replay.report.group_page import group_page

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "images" / "report.png"
GROUP = "shop-new"
REBALANCE = "MEMBER_JOIN"
WIDTH, HEIGHT = 1400, 1000

_PLACE = """(cause) => {
    const doc = Bokeh.documents[0], data = doc.get_model_by_name("rebalances-data").data;
    const view = Bokeh.index.find_one_by_id(doc.get_model_by_name("rebalances").id);
    const place = data.cause.lastIndexOf(cause), box = view.canvas_view.el.getBoundingClientRect();
    return [box.x + view.frame.x_scale.compute(data.at[place]), box.y + view.frame.y_scale.compute(data.row[place])];
}"""


def take(warehouse: Path, browser: str) -> bytes:
    """Return the picture as PNG."""
    html, _ = group_page(Tables(str(warehouse)), GROUP)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        file = Path(folder) / "page.html"
        file.write_text(html, encoding="utf-8")
        # Chromium's sandbox does not work for root, which is the user in containers.
        opened = started.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = opened.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(file.as_uri())
        page.wait_for_selector("body[data-drawn=yes]")
        page.wait_for_timeout(500)
        x, y = page.evaluate(_PLACE, REBALANCE)
        page.mouse.move(x + 20, y)
        page.mouse.move(x, y, steps=4)
        page.wait_for_timeout(700)
        taken: bytes = page.screenshot()
        opened.close()
    return taken


def main() -> None:
    """Take the picture and replace the old one."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        sys.exit("there is no Chromium on this machine: install it, or name it in CHROMIUM")
    picture = Image.open(io.BytesIO(take(Path(sys.argv[1]), browser))).convert("RGB")
    PICTURE.parent.mkdir(exist_ok=True)
    picture.save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
