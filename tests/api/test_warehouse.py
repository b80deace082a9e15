"""The Python API over a warehouse known by heart: the answers of the query room, and what is said beside them."""

import json
import re
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta, timezone

import pyarrow as pa
import pytest

import coordinator_replay
from coordinator_replay import Warehouse
from coordinator_replay.answer_columns import row_with
from coordinator_replay.api.answer import Answer
from coordinator_replay.api.moments import Moments
from coordinator_replay.errors import UsageError, WarehouseError
from coordinator_replay.query.describe import DescribedGroup, DescribedMember
from coordinator_replay.query.groups import Group, groups_at
from coordinator_replay.query.offsets import offsets_at
from coordinator_replay.query.rebalances import rebalances_of
from coordinator_replay.query.timeline import timeline_of
from tests.query.small_warehouse import at, write_rows, write_small_warehouse


def test_the_package_offers_the_warehouse_and_nothing_it_does_not_have():
    assert coordinator_replay.Warehouse is Warehouse
    with pytest.raises(AttributeError):
        _ = coordinator_replay.Wharehouse


def test_answers_are_those_of_the_query_room(warehouse):
    tables = warehouse._tables
    assert list(warehouse.groups()) == groups_at(tables)
    assert list(warehouse.offsets("payments")) == offsets_at(tables, "payments")
    assert list(warehouse.timeline("payments")) == timeline_of(tables, "payments")
    assert list(warehouse.rebalances()) == rebalances_of(tables)
    assert list(warehouse.why("payments")) == rebalances_of(tables, "payments")
    [group] = groups_at(tables, group="payments")
    described = warehouse.describe("payments").group
    shared = {one.name for one in fields(described)} & {one.name for one in fields(group)}
    assert {"group_id", "state", "epoch", "member_count"} <= shared
    assert {name: getattr(described, name) for name in shared} == {name: getattr(group, name) for name in shared}
    assert warehouse.clusters == ("default", "other")


@pytest.mark.parametrize(
    "given",
    [
        "2026-11-20T02:05:30",
        "02:05:30",
        "1795140330000",
        datetime(2026, 11, 20, 2, 5, 30),  # noqa: DTZ001 - a naive time means UTC
        datetime(2026, 11, 20, 3, 5, 30, tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_times_are_datetimes_or_the_texts_of_the_command_line(warehouse, given):
    found = warehouse.groups(at=given, types=["classic"], states=["empty"])
    assert found[0].since == at("02:05")


def test_a_date_is_its_start_or_its_end_where_a_range_ends(warehouse):
    whole = warehouse.timeline("payments")
    day = date(2026, 11, 20)
    assert len(warehouse.timeline("payments", start=day)) == len(whole)
    assert len(warehouse.timeline("payments", start=day, end=day)) == len(whole)
    assert len(warehouse.timeline("payments", end="2026-11-20")) == len(whole)
    with pytest.raises(UsageError, match="not covered"):
        warehouse.timeline("payments", end=day - timedelta(days=1))
    with pytest.raises(UsageError, match="not covered"):
        warehouse.timeline("payments", end="2026-11-20T00:00")


def test_a_date_is_a_day_in_the_zone_of_the_warehouse(warehouse):
    day = date(2026, 11, 20)
    moments = Moments(Warehouse(warehouse._tables.uri, "default", zone="Pacific/Auckland")._tables)
    assert moments.at(day) == datetime(2026, 11, 19, 11, tzinfo=UTC)
    assert moments.end(day) == datetime(2026, 11, 20, 11, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "name", "given"),
    [
        ("UTC", "end", date.max),
        ("America/Los_Angeles", "end", date.max),
        ("Pacific/Auckland", "at", date.min),
        ("UTC", "at", datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))),
        ("UTC", "up_to", datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))),
    ],
)
def test_a_time_beyond_the_calendar_is_a_wrong_argument(warehouse, zone: str, name: str, given: date):
    moments = Moments(Warehouse(warehouse._tables.uri, "default", zone=zone)._tables)
    with pytest.raises(UsageError, match="outside the years 1 to 9999"):
        getattr(moments, name)(given)


def test_what_is_said_beside_an_answer_goes_with_it(warehouse):
    assert "The log ends at" in warehouse.groups(at=at("02:59")).notes[0]
    assert warehouse.groups(states=["Dead"]).notes[0].startswith("No group matches; cluster 'default' is covered from")
    assert [note.partition(",")[0] for note in warehouse.groups().notes] == ["Only log partitions 1"]


def test_the_owner_of_a_partition_and_who_had_it_before_and_after(warehouse):
    owned = warehouse.owner("payments", "orders", 1, at=at("02:12"))
    assert [one.member_id for one in owned] == ["m-2"]
    assert owned.before.member_id == "m-1"


def test_all_owners_of_a_time_range(warehouse):
    owned = warehouse.owner("payments", "orders", 1, start="02:10:15", end="02:20")
    assert [(one.member_id, one.client_id) for one in owned] == [("m-2", "client-m-2")]
    both = warehouse.owner("payments", "orders", 1, start="02:01")
    assert [(one.member_id, one.owned_to) for one in both] == [("m-1", at("02:10:15")), ("m-2", None)]
    assert both.is_exact
    assert both.handovers in both.notes
    assert "5,000 ms in all" in both.handovers
    nobody = warehouse.owner("payments", "orders", 1, end="02:00:02")
    assert (len(nobody), nobody.notes[0][:17]) == (0, "No owner matches;")
    with pytest.raises(UsageError, match="never owned partition 7"):
        warehouse.owner("payments", "orders", 7, start="02:01")
    with pytest.raises(UsageError, match="either a point in time"):
        warehouse.owner("payments", "orders", 1, at="02:01", start="02:01")


def test_no_finding_of_a_rule_says_what_it_takes(tmp_path):
    settings = {"thresholds": {"metadata_delay_ms": 90_000}, "horizon_ms": 5 * 86_400_000}
    ran = {"run_id": "r9", "cluster": "default", "status": "done", "settings": json.dumps(settings)}
    write_small_warehouse(tmp_path)
    write_rows(tmp_path, "audit_runs", [ran])
    (late,) = Warehouse(tmp_path, "default").findings(rules=["late_topic_change", "storm"]).notes
    assert late.startswith("late_topic_change: ")
    needs = "it needs the times at which topics were created, got partitions or were deleted (--cluster-metadata)."
    assert late.endswith(f"metadata-delay 90 s; {needs}")
    notes = Warehouse(tmp_path, "default").findings(rules=["offset_expiring"]).notes
    assert "owned-lately 7 d, horizon 5 d (--horizon)." in notes[1]


def test_findings_of_a_time_range(warehouse):
    assert {one.finding_id for one in warehouse.findings(start="02:11")} == {"f3"}
    assert {one.finding_id for one in warehouse.findings(start="02:05", end="02:06")} == {"f1", "f2", "f3"}


def test_the_latest_rebalances(warehouse):
    everything = list(warehouse.rebalances())
    assert list(warehouse.rebalances(last=2)) == everything[-2:]
    assert list(warehouse.rebalances(last=99)) == everything
    assert list(warehouse.why(last=1)) == everything[-1:]
    assert warehouse.why().summary == []


def test_errors_are_sentences(warehouse, tmp_path):
    with pytest.raises(UsageError, match="did you mean 'payments'"):
        warehouse.describe("paymets")
    with pytest.raises(UsageError, match="invalid time 'noonish'"):
        warehouse.groups(at="noonish")
    with pytest.raises(UsageError, match="there is no status 'GONE': there are EXPIRED, DUE, EXPIRING"):
        warehouse.expired(statuses=["gone"])
    with pytest.raises(UsageError, match="there is no severity 'fatal'"):
        warehouse.findings(severity="fatal")
    with pytest.raises(UsageError, match="either a point in time"):
        warehouse.why(at="-1h", start="-2h")
    with pytest.raises(UsageError, match="either a statement or"):
        warehouse.sql()
    with pytest.raises(WarehouseError, match="there is no warehouse at"):
        Warehouse(tmp_path / "nowhere").groups()


def test_sql_takes_parameters_and_saved_queries(warehouse):
    found = warehouse.sql(
        "SELECT count(*) AS n FROM group_timeline WHERE cluster = $cluster AND group_id = $g", g="legacy"
    )
    assert found.columns == ("n",)
    assert found[0][0] > 0
    assert found.to_pandas()["n"].tolist() == [found[0][0]]
    names = {query.name for query in warehouse.saved_queries()}
    assert "flapping-groups" in names
    assert warehouse.sql(query="flapping-groups").columns
    with pytest.raises(UsageError, match="takes no parameter 'colour'"):
        warehouse.sql(query="flapping-groups", colour="red")


def test_arrow_columns_are_the_same_with_and_without_rows(warehouse):
    full, empty = warehouse.groups().to_arrow(), warehouse.groups(states=["Dead"]).to_arrow()
    assert full.schema == empty.schema
    assert full.schema.field("since").type == pa.timestamp("us", tz="UTC")
    assert full.to_pylist() == [
        {name: getattr(group, name) for name in Group.__dataclass_fields__} for group in warehouse.groups()
    ]


def test_assignments_are_structs_and_details_are_json(warehouse):
    members = warehouse.describe("payments").to_arrow()
    assert pa.types.is_struct(members.schema.field("current_assignment").type.value_type)
    assert members["current_assignment"].to_pylist()[0][0]["topic"] == "orders"
    assert members["group_id"].to_pylist() == ["payments"] * members.num_rows
    assert warehouse.timeline("payments").to_arrow().schema.field("detail").type == pa.string()


@pytest.mark.parametrize(
    "ask",
    [
        lambda w: w.groups(),
        lambda w: w.describe("payments"),
        lambda w: w.offsets("payments"),
        lambda w: w.timeline("payments"),
        lambda w: w.members("payments"),
        lambda w: w.rebalances(),
        lambda w: w.why(),
        lambda w: w.owner("payments", "orders", 1),
        lambda w: w.expired(),
        lambda w: w.findings(),
        lambda w: w.sql("SHOW TABLES"),
        lambda w: w.saved_queries(),
    ],
)
def test_every_answer_is_arrow_pandas_html_and_text(warehouse, ask):
    answer = ask(warehouse)
    assert answer.to_arrow().num_rows == len(answer.to_pandas()) == len(answer)
    assert "<" in answer._repr_html_()
    assert f"{len(answer):,} ×" in repr(answer)
    assert len(str(answer).splitlines()) >= len(answer)
    assert "Rebalance(" not in str(answer)


def test_printed_reasons_have_the_evidence_of_the_notebook(warehouse):
    answer = warehouse.why()
    printed = str(answer)
    for rebalance in answer:
        assert f"{rebalance.group_id}  {rebalance.number}  {rebalance.cause}, {rebalance.confidence}" in printed
        assert all(f"  - {sentence}" in printed for sentence in rebalance.evidence or ())


def test_a_rebalance_has_one_time_in_every_answer(warehouse, tmp_path):
    """The join phase of a classic rebalance ended some milliseconds before the record that completed it."""
    (classic,) = warehouse.why("legacy")
    assert classic.began_by < classic.shown_at == classic.completed_at
    text = "2026-11-20T02:02:00.000Z"
    assert f"{text}  legacy  generation 1" in str(warehouse.why("legacy"))
    assert f"{text} legacy generation 1" in warehouse.why("legacy")._repr_html_()
    assert [group.first_at for group in warehouse.impact() if group.group_id == "legacy"] == [classic.shown_at]


def test_printed_times_name_their_zone(warehouse):
    for answer in (
        warehouse.why("payments"),
        warehouse.rebalances("payments"),
        warehouse.sql("SELECT TIMESTAMPTZ '2026-11-20 02:00:00+01' AS at"),
    ):
        times = re.findall(r"2026-11-20.\d\d:\d\d:\d\d\S*", str(answer))
        assert times and all(time.rstrip(",.").endswith("Z") for time in times)


def headings(answer: Answer) -> set[str]:
    """The headings that an answer has when it is printed."""
    return set(str(answer).splitlines()[0].split())


def test_a_printed_number_of_zero_is_a_value(tmp_path):
    led = {"cluster": "default", "log_partition": 3, "leader_epoch": 0, "elected_at": at("02:00"), "is_exact": True}
    asked = Warehouse(write_small_warehouse(tmp_path / "warehouse", coordinator_changes=[{**led, "broker": 0}]))
    ends = tmp_path / "ends.csv"
    ends.write_text("topic,partition,offset\norders,0,150\norders,1,200\n")
    offsets = asked.offsets("payments", end_offsets=ends)
    assert {row.lag for row in offsets} == {0}
    assert {"LAG", "LOG-END-OFFSET"} <= headings(offsets)
    assert not {"LAG", "LOG-END-OFFSET", "UNSTABLE"} & headings(asked.offsets("payments"))
    described = asked.describe("payments")
    assert described.group.coordinator == 0
    assert "COORDINATOR" in headings(described)
    streams = row_with(DescribedGroup, group_type="streams", topology_epoch=0)
    assert "TOPOLOGY-EPOCH" in headings(Answer([streams], DescribedGroup))
    assert "TOPOLOGY-EPOCH" not in headings(described)


def test_a_printed_false_is_a_value_where_others_have_none(warehouse):
    """UPGRADED says no of a classic member of a consumer group; UNSTABLE is false without the option."""
    assert "UNSTABLE" in headings(warehouse.offsets("payments", require_stable=True))
    assert "UNSTABLE" not in headings(warehouse.offsets("payments", at="02:14:30", require_stable=True))
    member = row_with(DescribedMember, group_id="g", current_assignment=(), is_upgraded=False)
    assert "UPGRADED" in headings(Answer([member], DescribedMember))
    assert "UPGRADED" not in headings(Answer([row_with(DescribedMember, current_assignment=())], DescribedMember))


def test_nulls_are_printed_below_their_headings(warehouse):
    assert str(warehouse.sql("SELECT NULL AS x, NULL AS other")).splitlines()[:2] == ["x  other", "-  -"]
    assert headings(warehouse.sql("SELECT NULL AS x, 1 AS other")) == {"other"}
    assert "x" not in str(warehouse.sql("SELECT NULL AS x WHERE false")).splitlines()


def test_names_that_clients_wrote_reach_no_terminal_as_headings_or_notes(tmp_path):
    hostile = "a\x1b[2Jb\u202e"
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "rebalances", [
        {"rebalance_id": "r9", "cluster": "default", "group_id": hostile, "is_exact": True},
    ])  # fmt: skip
    counted = Warehouse(folder).sql("PIVOT (SELECT group_id FROM rebalances) ON group_id USING count(*)")
    assert hostile in counted.columns
    noted = Answer([], Group, notes=[f"The group {hostile} is unknown."])
    for text in (str(counted), str(noted), repr(noted)):
        assert "a\\x1b[2Jb\\u202e" in text
        assert all(line.isprintable() for line in text.splitlines())


def test_missing_numbers_stay_numbers_in_pandas(warehouse):
    frame = warehouse.groups().to_pandas()
    assert str(frame["epoch"].dtype) == "Int64"
    assert frame["since"].dtype.tz is UTC or str(frame["since"].dtype.tz) == "UTC"


def test_a_page_is_shown_in_place_and_written(warehouse, tmp_path):
    page = warehouse.report("payments")
    shown = page._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and 'sandbox="allow-scripts"' in shown
    assert "<script" not in shown
    page.save(tmp_path / "payments.html")
    assert (tmp_path / "payments.html").read_text(encoding="utf-8") == page.html
    assert "groups" in repr(warehouse.report())


def test_a_trace_is_written(warehouse, tmp_path):
    trace = warehouse.trace("payments")
    assert trace.groups == ("payments",)
    assert trace.save(tmp_path / "trace.json") > 0


def test_pages_of_all_groups_are_written_into_a_folder(warehouse, tmp_path):
    pages = warehouse.write_pages(tmp_path / "fleet", end="2026-11-20T02:12:00Z")
    assert pages.index == tmp_path / "fleet" / "index.html"
    assert "payments" in pages.index.read_text(encoding="utf-8")
    assert list((tmp_path / "fleet" / "groups").glob("payments-*.html"))
    assert repr(pages).endswith("index.html, groups=3, rebalances=3)")


def test_a_saved_query_says_where_records_could_not_be_decoded(tmp_path):
    folder = write_small_warehouse(tmp_path / "warehouse")
    note = "what they changed is not on record"
    assert not any(note in one for one in Warehouse(str(folder)).sql(query="downtime-by-cause").notes)
    damaged = {"cluster": "default", "log_partition": 3, "source": "a", "error_class": "BufferUnderflow"}
    unknown = damaged | {"error_class": "UnknownRecordType"}
    write_rows(folder, "quarantine", [damaged | {"log_offset": 7}, damaged | {"log_offset": 8}, unknown])
    [said] = [one for one in Warehouse(str(folder)).sql(query="downtime-by-cause").notes if note in one]
    assert said.startswith("2 records could not be decoded")


@pytest.mark.parametrize(
    ("record", "on_record"),
    [
        ({"group_id": "orders", "log_partition": 3}, ""),
        pytest.param({"log_partition": 4}, "", marks=pytest.mark.long),
        pytest.param({"group_id": "payments", "log_partition": 3}, " on record", marks=pytest.mark.long),
        ({"log_partition": 3}, " on record"),
        ({"log_partition": None, "bucket": -1}, " on record"),
    ],
    ids=["another group", "another log partition", "this group", "a key that can't be read", "no log partition"],
)
def test_only_records_that_may_be_of_the_group_leave_open_what_it_had(tmp_path, record, on_record):
    folder = write_small_warehouse(tmp_path / "warehouse")
    damaged = {"cluster": "default", "source": "a", "error_class": "BufferUnderflow"}
    write_rows(folder, "quarantine", [damaged | record])
    [note] = Warehouse(str(folder)).expired("payments", statuses=["DUE"]).notes
    assert note.startswith(f"No DUE offset{on_record} matches")
