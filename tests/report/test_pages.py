import json
import re

import pytest

from coordinator_replay.errors import UsageError
from coordinator_replay.query.warehouse import Warehouse
from coordinator_replay.report.figures import neutral
from coordinator_replay.report.fleet_page import fleet_page
from coordinator_replay.report.group_page import group_page
from tests.query.small_warehouse import at
from tests.report.hostile import EVIL, GROUP
from tests.report.pages import Page, strings


@pytest.fixture(scope="module")
def page(warehouse: Warehouse) -> Page:
    return Page(group_page(warehouse, "payments")[0])


def test_a_page_has_all_figures_of_a_group(page: Page):
    names = {"states", "rebalances", "owners-by-partition", "owners-by-member", "offsets"}
    assert names <= set(page.figures)


def test_figures_of_a_page_move_together(page: Page):
    ranges = {
        name: json.dumps(page.figures[name]["attributes"]["x_range"])
        for name in ("rebalances", "offsets", "owners-by-member")
    }
    assert len(set(ranges.values())) == 1


def test_the_table_tells_reason_confidence_and_evidence(page: Page):
    assert [cell for cell in page.cells if cell.startswith("MEMBER_JOIN")] == ["MEMBER_JOINcertain"]
    assert "member m-2 joined (3:103)epoch 2 to 3 (3:103)" in page.cells


def test_hovering_over_a_rebalance_tells_the_evidence(page: Page):
    assert "member m-2 joined (3:103)\nepoch 2 to 3 (3:103)" in strings(page.figures["rebalances"])


def test_a_partition_that_nobody_owned_is_a_mark_of_its_own(page: Page):
    told = strings(page.figures["owners-by-partition"])
    assert "5.0 s" in told
    assert "orders-1" in told


def test_what_was_not_seen_is_said(page: Page, warehouse: Warehouse):
    assert "Records are missing from the log" in page.text
    assert "Records are missing" not in Page(group_page(warehouse, "legacy")[0]).text


def test_a_page_of_a_part_of_the_time_has_only_that(warehouse: Warehouse):
    _, life = group_page(warehouse, "payments", at("02:05"), at("02:12"))
    assert [rebalance.rebalance_id for rebalance in life.rebalances] == ["r2"]
    assert next((band.state, band.until) for band in life.states) == ("Stable", at("02:10"))
    assert (life.start, life.end) == (at("02:05"), at("02:12"))


def test_a_group_that_only_holds_offsets_has_a_page(warehouse: Warehouse):
    page = Page(group_page(warehouse, "simple")[0])
    assert "only holds offsets" in page.text
    assert "logs-0" in strings(page.figures["offsets"])


def test_other_clusters_never_show_through(page: Page):
    assert "m-9" not in page.text
    assert "MEMBER_LEAVE" not in page.text


def test_unknown_groups_have_no_page(warehouse: Warehouse):
    with pytest.raises(UsageError, match="did you mean 'payments'"):
        group_page(warehouse, "paymets")


@pytest.mark.parametrize("make", [lambda warehouse: group_page(warehouse, GROUP), fleet_page], ids=["group", "fleet"])
def test_names_from_a_dump_stay_text(warehouse: Warehouse, make):
    html = make(warehouse)[0]
    page = Page(html)
    assert "<img src=x" not in html
    assert not [element for element, _ in page.elements if element == "img"]
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert len(page.scripts) == 3
    assert any(EVIL in cell for cell in page.cells)
    assert "49" not in page.cells


def test_no_figure_holds_controls_or_tex(warehouse: Warehouse):
    for text in strings(Page(group_page(warehouse, GROUP)[0]).figures):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]|\$\$", text), text


def test_only_the_pages_own_scripts_may_run_and_nothing_may_be_loaded(page: Page):
    (policy,) = (
        attributes["content"]
        for tag, attributes in page.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"].split() == page.hashes
    assert not [
        value for _, attributes in page.elements for name, value in attributes.items() if name in ("src", "href")
    ]


def test_the_fleets_page_has_every_part(warehouse: Warehouse):
    page = Page(fleet_page(warehouse)[0])
    assert {"kinds", "causes"} <= set(page.figures)
    for part in (
        "Findings",
        "Longest without owners",
        "Most rebalances",
        "Offsets that expire",
        "What the tables cover",
    ):
        assert part in page.text
    assert {"stuck_transaction", "payments", "zombie", "GROUP_CREATED"} <= set(page.cells)
    assert "failed" in page.cells


def test_text_for_figures():
    assert neutral("a\x1bb") == "a\ufffdb"
    assert neutral(r"$$x$$ \(y\)") == "$\u200b$x$\u200b$ \\\u200b(y\\)"
    assert len(neutral("x" * 1000)) == 300
