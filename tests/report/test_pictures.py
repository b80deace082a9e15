"""Pictures of pages: what an SVG shows, in which zone, and that a PNG is one."""

import struct
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay import Warehouse
from coordinator_replay.api.page import Page
from coordinator_replay.cli.main import main
from coordinator_replay.errors import UsageError
from coordinator_replay.query.fleet import MOST_BARS, CauseCount, fleet_of
from coordinator_replay.query.tables import Tables
from coordinator_replay.report import png
from coordinator_replay.report.columns import Clock
from coordinator_replay.report.drawing import Mark
from coordinator_replay.report.fleet_page import MOST_CAUSES, cause_data, cause_keys
from coordinator_replay.report.group_page import life_drawing
from coordinator_replay.report.lives import life_of
from coordinator_replay.report.picture import svg_of
from coordinator_replay.report.svg_marks import unpacked
from coordinator_replay.report.ticks import time_ticks
from coordinator_replay.report.wording import MARK_COLOUR, STATE_COLOURS
from coordinator_replay.times import EPOCH, later, milliseconds
from tests.nightly import rest_at_night
from tests.query.small_warehouse import at, rebalances, write_rows, write_small_warehouse
from tests.report.hostile import EVIL, GROUP

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [one.text or "" for one in ET.fromstring(svg).iter(f"{SVG}text")]


def paths(svg: str, colour: str) -> list[str]:
    return [one.get("d") or "" for one in ET.fromstring(svg).iter(f"{SVG}path") if colour in one.attrib.values()]


@pytest.fixture(scope="module")
def payments(warehouse: Tables) -> str:
    return svg_of(life_drawing(warehouse, life_of(warehouse, "payments"), None, [Mark(at("02:10"), "deploy <4.2>")]))


def test_a_picture_has_the_figures_of_the_page(payments: str, warehouse: Tables):
    shown = texts(payments)
    assert {"State", "Rebalances by cause", "Owners", "Committed offsets", "MEMBER_JOIN", "orders-1"} <= set(shown)
    assert "payments, cluster default" in shown
    assert any("log up to 2026-11-20T02:20:00Z" in line for line in shown)
    life = life_of(warehouse, "payments")
    stable = [band for band in life.states if band.state == "Stable"]
    assert [path.count("M") for path in paths(payments, STATE_COLOURS["Stable"])] == [len(stable)]


def test_bars_are_where_their_times_are(payments: str, warehouse: Tables):
    life = life_of(warehouse, "payments")
    first = next(band for band in life.states if band.state == "Stable")
    (bars,) = paths(payments, STATE_COLOURS["Stable"])
    left = float(bars.removeprefix("M").split()[0])
    share = (first.since - life.start) / (life.end - life.start)
    assert left == pytest.approx(200 + share * 976, abs=0.1)


def test_marks_of_ones_own_are_lines_with_their_text(payments: str, warehouse: Tables):
    assert "2026-11-20T02:10:00.000Z  deploy <4.2>" in texts(payments)
    life = life_of(warehouse, "payments")
    x = 200 + 976 * ((at("02:10") - life.start) / (life.end - life.start))
    lines = paths(payments, MARK_COLOUR)
    # In each figure: states, rebalances, owners, offsets.
    assert len(lines) == 4
    assert all(line.startswith(f"M{x:.1f} ") for line in lines)


def test_a_mark_outside_of_the_range_is_said_and_not_drawn(warehouse: Tables):
    svg = svg_of(life_drawing(warehouse, life_of(warehouse, "payments"), None, [Mark(at("05:00"), "deploy")]))
    assert "Outside of this time range: 2026-11-20T05:00:00.000Z deploy" in texts(svg)
    assert not any(paths(svg, MARK_COLOUR))


def test_names_from_a_dump_stay_text(warehouse: Tables):
    svg = svg_of(life_drawing(warehouse, life_of(warehouse, GROUP), None, [Mark(at("02:01"), EVIL)]))
    assert {one.tag.removeprefix(SVG) for one in ET.fromstring(svg).iter()} <= {
        *("svg", "title", "defs", "pattern", "path", "rect", "text", "g"),
    }
    assert "\x1b" not in svg
    assert "\u202e" not in svg
    assert any("<img src=x" in text for text in texts(svg))


def test_a_picture_of_offsets_beyond_a_doubles_digits_is_drawn(warehouse: Tables):
    life = life_of(warehouse, "payments")
    far = life.lines[0]._replace(at=[1, 2], offsets=[2**62, 2**62 + 5], until=[None, None], marked=[])
    assert "Committed offsets" in texts(svg_of(life_drawing(warehouse, replace(life, lines=(far,)))))


def test_times_are_shown_in_the_zone(warehouse: Tables, tmp_path: Path):
    berlin = Tables(warehouse.uri, None, ZoneInfo("Europe/Berlin"))
    shown = texts(svg_of(life_drawing(berlin, life_of(berlin, "payments"), None, [Mark(at("02:10"), "deploy")])))
    assert "2026-11-20T03:10:00.000+01:00  deploy" in shown
    assert "03:10" in shown
    assert "02:10" not in shown


@given(
    start=st.integers(0, 2**41).map(lambda ms: later(EPOCH, ms)),
    length=st.timedeltas(timedelta(milliseconds=1), timedelta(days=4000)),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "Africa/Casablanca"]),
)
def test_ticks_are_round_in_the_zone_and_say_its_time(start: datetime, length: timedelta, zone: str):
    clock = Clock(start, start + length, ZoneInfo(zone))
    ticks = time_ticks(clock, 9)
    assert len(ticks) <= 10
    local = (start + timedelta(milliseconds=ticks[0][0])).astimezone(ZoneInfo(zone)) if ticks else None
    if local is not None and length > timedelta(days=20):
        assert (local.hour, local.minute) == (0, 0)
    for offset, label in ticks:
        moment = (start + timedelta(milliseconds=offset)).astimezone(ZoneInfo(zone))
        assert label in moment.isoformat(sep=" ", timespec="milliseconds")


def test_a_page_knows_when_the_clocks_of_its_zone_change():
    change = datetime(2026, 10, 25, 1, tzinfo=UTC)
    clock = Clock(change - timedelta(hours=3), change + timedelta(hours=3), ZoneInfo("Europe/Berlin"))
    hour = 3_600_000
    begins = milliseconds(change - timedelta(hours=9))
    assert clock.as_data()["zone"]["offsets"] == [[begins, 2 * hour], [milliseconds(change), hour]]


def fleet_with(warehouse: Tables, causes: dict[str, int]):
    fleet = fleet_of(warehouse)
    counts = [CauseCount(since=fleet.start, cause=cause, count=count) for cause, count in causes.items()]
    return replace(fleet, causes=tuple(counts))


@pytest.mark.parametrize("number", [1, MOST_CAUSES, MOST_CAUSES + 1, 13])
def test_a_stack_has_as_many_colours_as_can_be_told_apart(warehouse: Tables, number: int):
    fleet = fleet_with(warehouse, {f"CAUSE_{place}": 20 - place for place in range(number)})
    keys = cause_keys(fleet)
    assert len(keys) == min(number, MOST_CAUSES + 1)
    rows = unpacked(cause_data(fleet, Clock(fleet.start, fleet.end))["sources"]["causes"])
    assert len(rows["cause"]) == len(keys)
    assert max(rows["top"]) == sum(20 - place for place in range(number))
    assert all(f"CAUSE_{place}" in " ".join(rows["cause"]) for place in range(number))


@pytest.mark.parametrize(
    ("length", "width"),
    [
        (timedelta(minutes=2), timedelta(seconds=1)),
        (timedelta(hours=3), timedelta(minutes=2)),
        (timedelta(days=7), timedelta(hours=2)),
        (timedelta(days=365), timedelta(days=7)),
    ],
)
def test_bars_are_as_wide_as_the_time_range_asks(warehouse: Tables, length: timedelta, width: timedelta):
    end = at("02:10")
    fleet = fleet_of(warehouse, end - length, end)
    assert fleet.width == width
    assert length / fleet.width <= MOST_BARS


def test_bars_of_days_begin_at_midnight_of_the_zone(tmp_path: Path):
    many = [
        {
            **row,
            "rebalance_id": f"x{day}",
            "started_at": (began := at("02:00") - timedelta(days=day)),
            "completed_at": began,
        }
        for day, row in enumerate(rebalances()[:1] * 3)
    ]
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "rebalances", many)
    tables = Tables(str(folder), None, ZoneInfo("Asia/Kolkata"))
    fleet = fleet_of(tables, at("02:00") - timedelta(days=100), at("02:20"))
    assert fleet.width == timedelta(days=1)
    starts = {count.since.astimezone(ZoneInfo("Asia/Kolkata")) for count in fleet.causes}
    assert {(start.hour, start.minute) for start in starts} == {(0, 0)}
    assert len(starts) >= 3


def run(warehouse: Tables, *arguments: str):
    return CliRunner().invoke(main, [*arguments, "--warehouse", warehouse.uri])


@pytest.mark.parametrize("group", rest_at_night([["payments"], []], [["payments"]]), ids=["group", "fleet"])
def test_report_writes_what_the_name_says(warehouse: Tables, tmp_path: Path, group: list[str]):
    written = run(warehouse, "report", *group, "--out", str(tmp_path / "x.svg"), "--mark", "02:10=deploy = 4.2")
    assert written.exit_code == 0, written.output
    assert "2026-11-20T02:10:00.000Z  deploy = 4.2" in texts((tmp_path / "x.svg").read_text(encoding="utf-8"))


@pytest.mark.parametrize("end", rest_at_night([".jpg", ".pdf", ".webp"], [".jpg"]))
def test_no_page_is_written_under_the_name_of_a_picture(warehouse: Tables, tmp_path: Path, end: str):
    out = tmp_path / f"x{end}"
    for command in (["report", "payments"], ["report"], ["diff", "--from", "02:05"]):
        refused = run(warehouse, *command, "--out", str(out))
        if out.is_dir():
            # Without a group, any other name is a folder.
            continue
        assert refused.exit_code == 2, refused.output
        assert ".html, .svg or .png" in " ".join(refused.output.split())
        assert not out.exists()


def test_a_page_without_figures_is_no_picture(warehouse: Tables, tmp_path: Path):
    refused = run(warehouse, "diff", "--from", "02:05", "--out", str(tmp_path / "x.svg"))
    assert refused.exit_code == 2
    assert "no figures" in refused.output
    assert not (tmp_path / "x.svg").exists()


@pytest.mark.parametrize("mark", ["deploy", "02:10", "02:10=", "nonsense=deploy"])
def test_a_mark_is_a_time_and_a_text(warehouse: Tables, tmp_path: Path, mark: str):
    refused = run(warehouse, "report", "payments", "--out", str(tmp_path / "x.html"), "--mark", mark)
    assert refused.exit_code == 2
    assert not (tmp_path / "x.html").exists()


def test_png_without_a_chromium_is_a_sentence(monkeypatch: pytest.MonkeyPatch, warehouse: Tables, tmp_path: Path):
    monkeypatch.setattr(png, "find_chromium", lambda: None)
    with pytest.raises(UsageError, match=r"none is on this machine: .* name it in CHROMIUM, or write .*x\.svg"):
        Warehouse(warehouse.uri).report("payments").save(tmp_path / "x.png")
    monkeypatch.setattr(png, "find_chromium", lambda: "/bin/false")
    with pytest.raises(UsageError, match="could not draw the picture"):
        Warehouse(warehouse.uri).report("payments").save(tmp_path / "x.png")
    assert not (tmp_path / "x.png").exists()


def test_png_is_the_picture(payments: str, tmp_path: Path):
    if png.find_chromium() is None:
        pytest.skip("there is no Chromium on this machine to draw with: install it, or name it in CHROMIUM")
    page = Page("", {}, drawing=None)
    with pytest.raises(UsageError, match="no figures"):
        page.save(tmp_path / "x.png")
    png.write_png(payments, tmp_path / "x.png")
    head = (tmp_path / "x.png").read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", head[16:24])
    drawn = ET.fromstring(payments)
    assert (width, height) == (2 * int(drawn.attrib["width"]), 2 * int(drawn.attrib["height"]))
