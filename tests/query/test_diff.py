"""What changed between two times, over warehouses written for the question."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator_replay import Warehouse
from coordinator_replay.cli.main import main
from coordinator_replay.errors import UsageError
from coordinator_replay.query.diff import Change, Side, changes_between, counted_changes
from coordinator_replay.query.tables import Tables
from tests.query.small_warehouse import at, event, member, offset, write_rows, write_small_warehouse


def facts(found: list[Change]) -> set[tuple[str | None, str, str, str | None, str | None, str | None]]:
    return {(one.group_id, one.what, one.change, one.name, one.before, one.after) for one in found}


@pytest.mark.parametrize("clock", ["02:00", "02:05", "02:10:10", "02:20", None])
def test_a_time_does_not_differ_from_itself(warehouse: Tables, clock: str | None):
    side = Side(warehouse, None if clock is None else at(clock))
    assert changes_between(side, side) == []


def test_what_changed_and_what_lay_between(warehouse: Tables):
    found = facts(changes_between(Side(warehouse, at("02:09")), Side(warehouse, at("02:21"))))
    assert {
        ("payments", "member", "added", "two on /10.0.0.1", None, "1"),
        ("payments", "subscription", "added", "two", None, "orders"),
        ("payments", "assignor", "added", None, None, "range"),
        ("payments", "owner", "changed", "orders-1", "client-m-1", "two"),
        ("payments", "rebalance", "between", "MEMBER_JOIN", None, None),
        ("txn-only", "group", "added", None, None, "Empty"),
    } <= found
    assert ("payments", "offset", "advanced", "orders-0", "100", "150") in found
    assert not {one for one in found if one[0] == "legacy"}


def test_the_other_direction_is_the_mirror_image(warehouse: Tables):
    """Of what is at the two times; what lay between them has a direction."""
    turned = {"added": "removed", "removed": "added", "advanced": "rewound", "rewound": "advanced"}
    early, late = Side(warehouse, at("02:04")), Side(warehouse, at("02:15"))
    forth = {one for one in facts(changes_between(early, late)) if one[1] not in ("rebalance", "finding")}
    back = facts(changes_between(late, early))
    assert len(forth) > 5
    assert back == {(group, what, turned.get(how, how), name, new, old) for group, what, how, name, old, new in forth}


def test_partitions_that_did_not_move_are_named_where_others_of_the_topic_did(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "offset_history", [
        offset("logs", 0, 5, "02:03", "02:12", group_id="some"), offset("logs", 0, 9, "02:12", group_id="some"),
        offset("logs", 1, 7, "02:03", group_id="some"),
        offset("quiet", 0, 7, "02:03", group_id="some"),
        offset("back", 0, 9, "02:03", "02:12", group_id="some"), offset("back", 0, 2, "02:12", group_id="some"),
        offset("back", 1, 9, "02:03", group_id="some"),
    ])  # fmt: skip
    tables = Tables(str(folder))
    found = [one for one in changes_between(Side(tables, at("02:10")), Side(tables)) if one.group_id == "some"]
    assert facts(found) == {
        ("some", "offset", "advanced", "logs-0", "5", "9"),
        ("some", "offset", "not moved", "logs-1", "7", "7"),
        ("some", "offset", "rewound", "back-0", "9", "2"),
    }
    assert [one.number for one in found] == [4, 0, -7]


def test_that_something_is_not_there_is_exact_where_its_group_is(tmp_path: Path):
    """One group has a record that can't be decoded, another one a commit; nothing is missing from the log."""
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "group_timeline", [
        event("lost", 0, "02:02", "GROUP_CREATED", ">Stable", member_count=1),
        event("lost", 1, "02:08", "MEMBER_LEFT", "Stable>Stable", member_count=0, is_exact=False, is_state_exact=False),
        event("plain", 0, "02:02", "GROUP_CREATED", ">Stable", member_count=1),
        event("plain", 1, "02:08", "MEMBER_LEFT", "Stable>Empty", member_count=0),
    ])  # fmt: skip
    write_rows(folder, "member_timeline", [
        member("lost", "l-1", "02:02", "02:08", 7), member("plain", "p-1", "02:02", "02:08", 8),
    ])  # fmt: skip
    write_rows(folder, "offset_history", [
        offset("logs", 0, 5, "02:03", group_id="plain"), offset("logs", 1, 6, "02:06", group_id="plain",
                                                                is_exact=False, committed_offset=None),
        offset("logs", 2, 5, "02:03", group_id="plain", is_proven=False),
    ])  # fmt: skip
    tables = Tables(str(folder))
    found = changes_between(Side(tables, at("02:05")), Side(tables, at("02:12")))
    assert {one.group_id: one.is_exact for one in found if one.what == "member"} == {
        "lost": False, "payments": True, "plain": True,
    }  # fmt: skip
    early = changes_between(Side(tables, at("02:01")), Side(tables, at("02:07")))
    assert {one.name: one.is_exact for one in early if one.group_id == "plain" and one.what == "offset"} == {
        "logs-0": True, "logs-1": False, "logs-2": False,
    }  # fmt: skip
    assert [one.is_exact for one in early if one.group_id == "plain" and one.what == "group"] == [True]


def test_changes_of_a_kind_are_counted_and_partitions_are_ranges(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "offset_history", [
        one for place in range(5) for one in (
            offset("logs", place, 5, "02:03", "02:12", group_id="some"),
            offset("logs", place, 8, "02:12", group_id="some"))
    ])  # fmt: skip
    tables = Tables(str(folder))
    counts = counted_changes(changes_between(Side(tables, at("02:10")), Side(tables)))
    assert [(one.change, one.count, one.detail) for one in counts if one.group_id == "some"] == [
        ("advanced", 5, "+15 in all: logs:0-4")
    ]


def test_a_restarted_client_is_no_change(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "member_timeline", [
        member("some", "id-before", "02:03", "02:12", 7, client_id="worker"),
        member("some", "id-after", "02:12", None, 9, client_id="worker"),
    ])  # fmt: skip
    tables = Tables(str(folder))
    found = changes_between(Side(tables, at("02:10")), Side(tables, at("02:15")))
    assert [one for one in found if one.group_id == "some" and one.what in ("member", "subscription")] == []


def test_findings_that_are_new_or_over(warehouse: Tables):
    found = changes_between(Side(warehouse, at("02:05")), Side(warehouse, at("02:15")))
    assert {(one.change, one.name) for one in found if one.what == "finding"} == {
        ("over", "storm"), ("over", "rewind"),
    }  # fmt: skip
    early = changes_between(Side(warehouse, at("02:00") - timedelta(seconds=1)), Side(warehouse, at("02:05")))
    assert {(one.change, one.name) for one in early if one.what == "finding"} == {
        ("new", "storm"), ("new", "stuck_transaction"), ("new", "rewind"),
    }  # fmt: skip


def test_clusters_differ_in_what_one_has_and_the_other_has_not(folder: Path):
    answers = Warehouse(folder)
    found = answers.diff_with("other")
    assert ("payments", "type", "changed", None, "consumer", "share") in facts(list(found))
    assert ("simple", "group", "removed", None, "Empty", None) in facts(list(found))
    assert not {one.what for one in found} & {"rebalance", "finding"}
    assert "removed: only default has it; added: only other has it." in found.notes
    assert list(answers.diff_with("default")) == []
    assert not any("removed: " in note for note in answers.diff_with("default").notes)
    with pytest.raises(UsageError, match="does not know the cluster 'nowhere'"):
        answers.diff_with("nowhere")


def test_a_page_has_every_change_and_nothing_that_runs(tmp_path: Path):
    folder = write_small_warehouse(tmp_path / "warehouse")
    hostile = "<script>alert(1)</script>"
    write_rows(folder, "offset_history", [offset(hostile, 0, 9, "02:12", group_id="some")])
    changes = Warehouse(folder, "default").diff("02:09")
    page = changes.page()
    assert page.facts == {"changes": len(changes), "groups": len({one.group_id for one in changes})}
    assert page.html.count("<tr") == 2 + len(changes) + len(changes.counts)
    assert hostile not in page.html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;-0" in page.html
    assert "script-src 'none'" in page.html
    out = tmp_path / "changes.html"
    asked = ["diff", "--from", "02:09", "--warehouse", str(folder), "--cluster", "default", "--out", str(out)]
    written = CliRunner().invoke(main, asked)
    assert written.exit_code == 0, written.output
    assert out.read_text(encoding="utf-8") == page.html


def test_times_are_in_their_order(folder: Path):
    with pytest.raises(UsageError, match="give the earlier time first"):
        Warehouse(folder).diff("02:10", "02:05")


def test_an_audit_whose_records_were_purged_is_not_replaced_by_the_begin_of_the_log(tmp_path: Path):
    early, late = "20261120T013000.000000Z", "20261120T025500.000000Z"
    runs = [
        {"run_id": run, "cluster": "default", "status": "done", "started_at": at(ended), "finished_at": at(ended),
         "log_end": at(log_end)}
        for run, ended, log_end in ((early, "01:31", "01:30"), (late, "03:00", "02:20"))
    ]  # fmt: skip
    asked = Warehouse(write_small_warehouse(tmp_path, audit_runs=runs), "default")
    for end in (None, late, "02:10"):
        with pytest.raises(UsageError, match=r"T01:30:00\.000Z lies before the start of the log"):
            asked.diff(early, end)
    assert list(asked.diff(late)) == []
    assert any("The log begins only at" in note for note in asked.diff("01:30").notes)


def test_a_group_that_came_or_went_is_one_entry(warehouse: Tables):
    early, late = Side(warehouse, at("01:59")), Side(warehouse, at("02:21"))
    (new,) = [one for one in counted_changes(changes_between(early, late)) if one.group_id == "payments"]
    assert (new.what, new.change, new.count) == ("group", "added", 1)
    assert (
        new.detail
        == "Stable, 2 members, 2 owned partitions, 2 committed offsets, 2 rebalances, 2 findings, reads orders"
    )
    (gone,) = [one for one in counted_changes(changes_between(late, early)) if one.group_id == "payments"]
    assert (gone.what, gone.change, gone.count) == ("group", "removed", 1)


def test_the_page_of_changes_is_linked_to_pages_beside_it(warehouse: Tables, tmp_path: Path):
    asked = Warehouse(warehouse.uri, zone="Europe/Berlin")
    changes = asked.diff("2026-11-20T02:01Z", "2026-11-20T02:15Z")
    assert "href" not in changes.page(tmp_path).html
    asked.write_pages(tmp_path)
    html = changes.page(tmp_path).html
    found = re.search(
        r'<td class="name"><a href="([^"#]+)#from=2026-11-20T02:01:00.000Z&amp;to=2026-11-20T02:15:00.000Z"', html
    )
    assert found is not None
    assert (tmp_path / found[1]).is_file()
    assert "2026-11-20T03:01:00.000+01:00 to 2026-11-20T03:15:00.000+01:00" in html
    assert '<tr class="new">' in html


def test_two_times_after_the_last_record_have_one_note(warehouse: Tables):
    notes = Warehouse(warehouse.uri).diff("2026-11-20T02:30", "2026-11-20T02:40").notes
    assert [note for note in notes if note.startswith("The log ends at")] == [
        "The log ends at 2026-11-20T02:20:00.000Z; this is the state at its end."
    ]
