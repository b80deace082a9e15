import json
import re
from dataclasses import replace
from datetime import timedelta
from itertools import cycle
from pathlib import Path

import pytest
from bokeh.models import CrosshairTool
from bokeh.models.annotations import BoxAnnotation

from coordinator_replay.engine.model import Record
from coordinator_replay.errors import UsageError
from coordinator_replay.query.fleet import fleet_of
from coordinator_replay.query.rollouts import Rollout
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.columns import Clock
from coordinator_replay.report.fleet_page import UNITS, cause_keys, fleet_page, lane_of
from coordinator_replay.report.group_page import group_page, life_page
from coordinator_replay.report.life_figures import life_figures
from coordinator_replay.report.lives import life_of, spans_of
from coordinator_replay.report.members import MemberIdentities
from coordinator_replay.report.trace import trace_events
from coordinator_replay.report.wording import COLOURS, ROLLOUT, neutral, shade
from coordinator_replay.safe_text import UNSAFE
from coordinator_replay.safe_text import neutral as neutral_text
from coordinator_replay.simulation.page import what_if_page
from coordinator_replay.simulation.what_if.answer import what_if
from coordinator_replay.simulation.what_if.record import Recorded
from coordinator_replay.simulation.what_if.settings import Alternative
from coordinator_replay.times import milliseconds
from scripts.what_if.sample import recorded_groups
from tests.pipeline.audited_once import AuditedOnce
from tests.query.small_warehouse import (
    at,
    event,
    log_partition,
    member,
    offset,
    owned,
    rebalances,
    timeline,
    write_rows,
    write_small_warehouse,
)
from tests.report.hostile import EVIL, GROUP
from tests.report.pages import Page, strings
from tests.samples import Sample
from tests.simulation.what_if.variants import VARIANTS


@pytest.fixture(scope="module")
def page(warehouse: Tables) -> Page:
    return Page(group_page(warehouse, "payments")[0])


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The page of a classic group, of whose rebalance the log proves bounds, and whose commits paused around it."""
    folder = write_small_warehouse(tmp_path_factory.mktemp("bounded"))
    own = {"group_id": "bounded", "group_type": "classic"}
    write_rows(folder, "group_timeline", [event("bounded", 0, "02:03", "MEMBER_JOINED", ">Stable", epoch=1)])
    rebalance = {"rebalance_id": "b1", "cluster": "default", "completed_at": at("02:05"), "duration_ms_min": 20}
    rebalance |= {"began_by": at("02:05") - timedelta(milliseconds=20)}
    rebalance |= {"duration_ms_max": 4000, "commit_pause_ms": 60_000, "cause": "MEMBER_JOIN", "is_exact": True, **own}
    write_rows(folder, "rebalances", [rebalance])
    moments = ["02:03", "02:04:30", "02:05:30", "02:06:30"]
    history = [
        offset("orders", 0, value, since, until, group_id="bounded")
        for value, (since, until) in enumerate(zip(moments, [*moments[1:], None], strict=True))
    ]
    write_rows(folder, "offset_history", history)
    return Page(group_page(Tables(str(folder)), "bounded")[0])


def test_every_figure_has_its_place_and_every_source_its_data(page: Page):
    drawn = life_figures()
    places = {attributes.get("id") for _, attributes in page.elements}
    assert {f"draw-{one.name}" for one in drawn} <= places
    sources = {
        renderer.data_source.name.removesuffix("-data"): renderer.data_source
        for one in drawn
        for renderer in one.renderers
    }
    assert set(page.data["sources"]) == set(sources)
    for name, columns in page.data["sources"].items():
        # The script adds progress to lines of offsets.
        assert set(sources[name].data) - {"progress"} <= set(columns) | {"progress"}, name


def test_figures_of_a_page_share_axis_crosshair_and_brush():
    drawn = life_figures()
    assert len({one.x_range.id for one in drawn}) == 1
    assert len({tool.overlay.id for one in drawn for tool in one.tools if isinstance(tool, CrosshairTool)}) == 1
    assert len({box.id for one in drawn for box in one.center if isinstance(box, BoxAnnotation)}) == 1


def test_a_classic_rebalance_is_drawn_for_as_long_as_it_took_for_certain(bounded: Page):
    (at_least,), (end,), (began,) = (bounded.column("rebalances", name) for name in ("at", "end", "began"))
    assert end - at_least == 20
    # When it may have begun is said by hovering alone.
    assert re.fullmatch(r"not on record: after (\S+), by (\S+)", began)
    assert bounded.column("rebalances", "took") == ["at least 20 ms, at most 4.0 s"]
    assert "at least 20 ms, at most 4.0 s" in bounded.cells


def test_a_rebalance_that_is_going_on_has_its_place_and_no_number_of_partitions(tmp_path: Path):
    folder = write_small_warehouse(tmp_path / "warehouse")
    began_at = Tables(str(folder)).coverage.last + timedelta(seconds=9)
    own = {"rebalance_id": "g1", "cluster": "default", "group_id": "legacy", "group_type": "classic", "is_exact": False}
    write_rows(folder, "rebalances", [{**own, "cause": "SESSION_TIMEOUT", "members_before": 2, "started_at": began_at}])
    drawn = Page(group_page(Tables(str(folder)), "legacy")[0])
    assert drawn.column("rebalances", "at")[-1] == milliseconds(began_at) - drawn.data["start"]
    assert drawn.column("rebalances", "moved")[-1] == "not yet"
    assert {"not yet", "not over"} <= set(drawn.cells)
    # No record is missing: there is none yet.
    assert "no record shows it yet, only the log of a broker" in drawn.text
    assert "are missing from the log" not in drawn.text


def test_pauses_of_commits_are_marks(bounded: Page):
    left, right = bounded.column("pauses", "left"), bounded.column("pauses", "right")
    assert [right[0] - left[0], len(left)] == [60_000, 1]
    assert bounded.column("pauses", "partition") == ["orders-0"]
    assert bounded.data["rows"]["states"]["labels"] == ["state", "commits paused"]
    assert "60.0 s" in bounded.cells


def test_rollouts_are_marks_with_their_costs(tmp_path: Path):
    stays = [
        *((f"old-{n}", "02:00", f"02:1{n}") for n in range(2)),
        *((f"new-{n}", f"02:1{n}:20", None) for n in range(2)),
    ]
    members = [member("payments", name, start, end, 500 + n) for n, (name, start, end) in enumerate(stays)]
    own = [row | {"members_joined": ["new-0"]} if row["rebalance_id"] == "r2" else row for row in rebalances()]
    folder = write_small_warehouse(tmp_path, member_timeline=members, rebalances=own)
    page = Page(group_page(Tables(str(folder)), "payments")[0])
    assert page.data["rows"]["states"]["labels"] == ["state", "rollouts", "findings"]
    assert page.column("rollouts", "restarts") == ["2"]
    left, right = page.column("rollouts", "left"), page.column("rollouts", "right")
    assert [right[0] - left[0]] == [80_000]
    assert page.column("rollouts", "costs") == ["at least 1 rebalance, commits paused for at least 6,000 ms"]


def test_findings_about_the_group_are_marks_and_rows(page: Page):
    assert page.column("findings", "rule") == ["rewind", "storm"]
    assert "Something about rewind." in page.cells


def test_hovering_over_a_rebalance_tells_what_moved(page: Page):
    assert page.column("rebalances", "what")[1] == "orders-1: client-m-1 → client-m-2"


def test_owners_are_told_by_client_id_with_a_legend(page: Page):
    assert set(page.column("owned", "client")) == {"client-m-1", "client-m-2"}
    assert page.data["rows"]["owners-by-member"]["labels"] == ["client-m-1", "client-m-2"]
    for name in ("client-m-1", "client-m-2", "no owner"):
        assert name in page.text


def test_members_that_share_a_client_id_are_told_apart(warehouse: Tables):
    life = life_of(warehouse, "payments")
    shared = replace(life, members=tuple(one._replace(client_id="app", instance_id=None) for one in life.members))
    members = MemberIdentities(shared)
    assert len({label for label, _ in members.legend}) == 2
    assert all(label.startswith("app …") for label, _ in members.legend)
    assert members.colour("m-1") != members.colour("m-2")


def test_a_client_has_one_colour_and_each_of_its_incarnations_a_shade(warehouse: Tables):
    life = life_of(warehouse, "payments")
    first = life.members[0]
    times = {"a": (0, 10), "b": (10, 20), "c": (5, 15), "d": (20, None)}
    spans = tuple(
        first._replace(member_id=name, instance_id=None, client_id="app", from_ms=since, to_ms=until)
        for name, (since, until) in times.items()
    )
    members = MemberIdentities(replace(life, members=spans, holdings=()))
    assert [members.colour(name) for name in ("a", "b", "d")] == [
        shade(COLOURS[0], incarnation) for incarnation in range(3)
    ]
    # It was there at the same time as others: another instance of the client.
    assert members.colour("c") == COLOURS[1]


def test_a_cause_has_the_same_colour_on_all_pages(page: Page, warehouse: Tables):
    drawn = dict(zip(page.column("rebalances", "cause"), page.column("rebalances", "colour"), strict=True))
    listed = {key.split()[0]: colour for key, colour in cause_keys(fleet_of(warehouse, None, None))}
    assert drawn
    assert drawn == {cause: listed[cause] for cause in drawn}


def test_committed_offsets_that_did_not_move_are_a_sentence_and_no_line(warehouse: Tables):
    life = life_of(warehouse, "payments")
    still = life.lines[0]._replace(topic="still", at=[1, 2], offsets=[7, 7], until=[None, None], marked=[])
    shown = replace(life, lines=(*life.lines, still, still._replace(partition=still.partition + 1)))
    page = Page(life_page(warehouse, shown))
    assert f"still:{still.partition},{still.partition + 1}" in page.text
    assert not any(name.startswith("still") for name in page.column("offset-lines", "name"))
    assert page.data["hidden"] == []
    assert Page(life_page(warehouse, replace(life, lines=(still,)))).data["hidden"] == ["offsets"]


def test_a_replaced_static_member_of_a_classic_group_is_not_named_by_its_predecessors_client(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    own = {"group_type": "classic", "instance_id": "pod-0", "client_id": "gone", "client_host": "/10.9.9.9"}
    write_rows(folder, "member_timeline", [
        member("static", "pod-0-a", "02:01", "02:02", 300, **own),
        member("static", "pod-0-b", "02:02", None, 301, **own, is_client_inherited=True),
    ])  # fmt: skip
    write_rows(folder, "partition_ownership", [
        owned(0, name, start, end, group_id="static", instance_id="pod-0")
        for name, start, end in (("pod-0-a", "02:01", "02:02"), ("pod-0-b", "02:02", None))
    ])  # fmt: skip
    write_rows(
        folder, "group_timeline", [event("static", 0, "02:01", "MEMBER_JOINED", ">Stable", group_type="classic")]
    )
    life = life_of(Tables(str(folder)), "static")
    page = Page(life_page(Tables(str(folder)), life))
    assert page.column("owned", "client") == ["pod-0", "pod-0"]
    assert page.column("members", "client") == [
        "gone /10.9.9.9",
        "not on record; its first process was gone /10.9.9.9",
    ]
    named = {one["args"]["name"] for one in trace_events(life) if one["name"] == "thread_name"}
    assert {"gone: pod-0 = pod-0-a", "pod-0 = pod-0-b"} <= named


def test_the_table_tells_reason_confidence_and_evidence(page: Page):
    assert [cell for cell in page.cells if cell.startswith("MEMBER_JOIN")] == ["MEMBER_JOINcertain"]
    assert "member m-2 joined (3:103)epoch 2 to 3 (3:103)" in page.cells


def test_hovering_over_a_rebalance_tells_the_evidence(page: Page):
    assert "member m-2 joined (3:103)\nepoch 2 to 3 (3:103)" in page.column("rebalances", "evidence")


def test_a_partition_that_nobody_owned_is_a_mark_of_its_own(page: Page):
    assert page.column("gaps", "length") == ["5.0 s"]
    assert page.column("gaps", "partition") == ["orders-1"]


def test_what_the_log_does_not_prove_is_said(page: Page, tmp_path: Path):
    events = [{**row, "is_state_exact": row["seq"] < 4} for row in timeline()]
    thinned = Tables(str(write_small_warehouse(tmp_path, group_timeline=events)))
    words = "Records of this time range are missing from the log"
    assert words in Page(group_page(thinned, "payments")[0]).text
    assert words not in page.text
    several = [{**row, "is_exact": False} for row in rebalances()]
    doubtful = Tables(str(write_small_warehouse(tmp_path / "several", rebalances=several)))
    assert words in Page(group_page(doubtful, "payments")[0]).text


def test_pages_begin_with_what_they_stand_on(page: Page, warehouse: Tables):
    line = "Cluster default, log up to 2026-11-20T02:20:00Z."
    assert line in page.text
    fleet = Page(fleet_page(warehouse)[0]).text
    assert f"{line} History is complete in all 2 log partitions; no offset is missing." in fleet


def test_a_page_of_a_part_of_the_time_has_only_that(warehouse: Tables):
    _, life = group_page(warehouse, "payments", at("02:05"), at("02:12"))
    assert [rebalance.rebalance_id for rebalance in life.rebalances] == ["r2"]
    assert next((band.state, band.until) for band in life.states) == ("Stable", at("02:10"))
    assert (life.start, life.end) == (at("02:05"), at("02:12"))


def test_a_group_that_only_holds_offsets_has_a_page(warehouse: Tables):
    page = Page(group_page(warehouse, "simple")[0])
    assert "only holds offsets" in page.text
    assert "did not move: logs:0" in page.text


def test_a_group_that_may_have_had_members_has_its_offsets_on_record(tmp_path: Path):
    own = log_partition(3, "02:00", "02:20", missing_offsets=60, complete_from_offset=None, complete_ranges=[])
    folder = write_small_warehouse(tmp_path, log_partitions=[log_partition(1, "02:02", "02:06"), own])
    page = Page(group_page(Tables(str(folder)), "simple")[0])
    assert "only its offsets are on record" in page.text
    assert "only holds offsets" not in page.text


def test_other_clusters_never_show_through(page: Page):
    assert "m-9" not in page.text
    assert "MEMBER_LEAVE" not in page.text


def test_unknown_groups_have_no_page(warehouse: Tables):
    with pytest.raises(UsageError, match="did you mean 'payments'"):
        group_page(warehouse, "paymets")


@pytest.mark.parametrize("make", [lambda warehouse: group_page(warehouse, GROUP), fleet_page], ids=["group", "fleet"])
def test_names_from_a_dump_stay_text(warehouse: Tables, make):
    html = make(warehouse)[0]
    page = Page(html)
    assert "<img src=x" not in html
    assert not [element for element, _ in page.elements if element == "img"]
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert len(page.scripts) == 4
    assert any(neutral_text(EVIL) in cell for cell in page.cells)
    values = [value or "" for _, attributes in page.elements for value in attributes.values()]
    own = html.split('id="data">')[1].split("</script>")[0]
    assert not UNSAFE.search("".join([*values, *page.text.splitlines(), own]))
    assert "49" not in page.cells


def test_no_figure_holds_controls_or_tex(warehouse: Tables):
    for text in strings(Page(group_page(warehouse, GROUP)[0]).data):
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
    loaded = [value for _, attributes in page.elements for name, value in attributes.items() if name in ("src", "href")]
    assert set(loaded) == {"#draw-rebalances"}


def test_the_fleets_page_has_every_part(warehouse: Tables):
    page = Page(fleet_page(warehouse)[0])
    assert page.column("causes", "cause")
    for part in ("Findings", "Groups", "Offsets that expire", "What the tables cover"):
        assert part in page.text
    assert {"stuck_transaction", "payments", "zombie", "GROUP_CREATED"} <= set(page.cells)
    assert "failed" in page.cells


def test_every_group_is_a_row_with_a_lane(warehouse: Tables):
    made = fleet_page(warehouse)[1]
    assert {lane.group for lane in made.lanes} == {span.group for span in spans_of(warehouse)}
    lane = next(lane for lane in made.lanes if lane.group == "payments")
    assert (lane.rebalances, lane.state, lane.findings) == (2, "Stable", {"warning": 1, "info": 1})
    assert {state for _, state, _ in lane.paths} == {"Assigning", "Reconciling", "Stable"}
    assert lane.ticks.count("M") == 2


def test_a_lane_marks_rollouts_along_its_lower_edge(warehouse: Tables):
    life = life_of(warehouse, "payments")
    clock = Clock(life.start, life.end)
    assert ROLLOUT not in {name for _, name, _ in lane_of(life, clock, ()).paths}
    minute, half = timedelta(minutes=1), (life.end - life.start) / 2
    costs = dict.fromkeys(("unowned_ms_total", "commit_pause_ms_total", "some_clients"))
    costs |= dict.fromkeys(("is_at_least", "is_pause_at_least", "is_count_at_least"), False)
    rollout = Rollout(group_id="payments", first_at=life.start + half, last_at=life.start + half + minute, restarts=3,
                      rebalances=2, clients=1, hosts=1, **costs)  # fmt: skip
    lane = lane_of(replace(life, rollouts=(rollout,)), clock, ())
    (path,) = [path for _, name, path in lane.paths if name == ROLLOUT]
    left, right = map(int, re.fullmatch(r"M(\d+) \.75H(\d+)V1H\1z", path).groups())
    assert left == pytest.approx(UNITS / 2, abs=1)
    assert right - left == pytest.approx(UNITS * (minute / (life.end - life.start)), abs=1)


def test_a_group_of_which_records_may_be_missing_has_at_least_so_many_rebalances(
    audited_once: AuditedOnce, warehouse: Tables
):
    assert not any(lane.is_at_least for lane in fleet_page(warehouse)[1].lanes)
    text, page = fleet_page(Tables(str(audited_once(Sample("compacted").segments).warehouse)))
    assert {lane.is_at_least for lane in page.lanes} == {True}
    assert {"at least 0", "at least 3"} <= set(Page(text).cells)


def test_a_lane_has_no_more_marks_than_can_be_seen(warehouse: Tables):
    life = life_of(warehouse, "payments")
    step = timedelta(milliseconds=20)
    bands = tuple(
        life.states[0]._replace(state=state, since=life.start + place * step, until=life.start + (place + 1) * step)
        for place, state in zip(range(60_000), cycle(["Stable", "Reconciling"]))
    )
    lane = lane_of(replace(life, states=bands), Clock(life.start, life.end), ())
    assert sum(path.count("M") for _, _, path in lane.paths) < 2 * UNITS
    assert "Reconciling" in {state for _, state, _ in lane.paths}


def test_text_for_figures():
    assert neutral("a\x1bb") == "a\ufffdb"
    assert neutral(r"$$x$$ \(y\)") == "$\u200b$x$\u200b$ \\\u200b(y\\)"
    assert len(neutral("x" * 1000)) == 300


def test_names_in_replayed_lives_are_text_and_never_markup(warehouse: Tables):
    text = json.dumps([record._asdict() for record in recorded_groups(VARIANTS)["shop-v-new"].records])
    for name, hostile in (("new-0", EVIL), ("new-1", EVIL), ("shop-v-new", GROUP)):
        text = text.replace(json.dumps(name), json.dumps(hostile))
    records = [Record(**record) for record in json.loads(text)]
    answer = what_if(Recorded(GROUP, records, {}, {}, {}), [Alternative(values={"group.instance.id": "per-client"})])
    page = Page(what_if_page(warehouse, answer))
    assert page.cells[0] == f"{neutral_text(GROUP)}: what if"
    assert "Cluster default, log up to" in page.text
    assert not [tag for tag, _ in page.elements if tag == "img"]
    clients = [text for text in page.column("lives-owned", "client") if "onerror" in text]
    assert clients
    assert all(text.startswith(neutral(EVIL)) for text in clients)
    (policy,) = [told["content"] for _, told in page.elements if told.get("http-equiv")]
    assert all(one in (policy or "") for one in page.hashes)
