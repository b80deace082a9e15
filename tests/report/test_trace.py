"""Held against the documented shape of the Trace Event Format, and Perfetto's own reader where it can be had."""

import json
import subprocess
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import coordinator_replay
from coordinator_replay.query.tables import Tables
from coordinator_replay.report.trace import traces_of, write_trace
from tests.pipeline.in_process import audit_here
from tests.query.small_warehouse import ORDERS, at, event, owned, write_rows, write_small_warehouse
from tests.report.hostile import EVIL, GROUP
from tests.samples import DATA

Event = dict[str, Any]


@pytest.fixture(scope="module")
def path(warehouse: Tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "payments.json"
    write_trace(traces_of(warehouse, ["payments", GROUP]), path)
    return path


@pytest.fixture(scope="module")
def events(path: Path) -> list[Event]:
    trace = json.loads(path.read_text(encoding="utf-8"))
    assert trace["displayTimeUnit"] == "ms"
    return trace["traceEvents"]


def tracks(events: list[Event]) -> dict[tuple[int, int], str]:
    return {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}


def microseconds(clock: str) -> int:
    return round(at(clock).timestamp() * 1_000_000)


def test_events_have_the_documented_fields(events: list[Event]):
    for one in events:
        assert isinstance(one["name"], str)
        assert isinstance(one["pid"], int)
        assert isinstance(one["tid"], int)
        if one["ph"] == "M":
            assert one["name"] in {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}
            continue
        assert isinstance(one["ts"], int)
        assert isinstance(one["cat"], str)
        assert isinstance(one["args"], dict)
        if one["ph"] == "X":
            assert isinstance(one["dur"], int)
            assert one["dur"] >= 0
        else:
            assert one["ph"] == "C"
            assert all(isinstance(value, int) and value >= 0 for value in one["args"].values())


def overlapping(events: list[Event]) -> list[Event]:
    """Slices that neither follow the one before them on their track nor lie within it."""
    found, open_until = [], defaultdict(list)
    slices = (one for one in events if one["ph"] == "X")
    for one in sorted(slices, key=lambda one: (one["ts"], -one["dur"])):
        stack = open_until[one["pid"], one["tid"]]
        while stack and stack[-1] <= one["ts"]:
            stack.pop()
        if stack and one["ts"] + one["dur"] > stack[-1]:
            found.append(one)
        stack.append(one["ts"] + one["dur"])
    return found


def test_slices_of_a_track_lie_apart_or_within_each_other(events: list[Event]):
    assert overlapping(events) == []


def test_owners_at_the_same_time_go_on_tracks_side_by_side(tmp_path: Path):
    folder = write_small_warehouse(tmp_path / "warehouse")
    write_rows(folder, "partition_ownership", [owned(0, "m-7", "02:05", "02:15"), owned(0, "m-8", "02:06", "02:20")])
    write_trace(traces_of(Tables(str(folder)), ["payments"]), tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert overlapping(events) == []
    assert {"orders-0", "orders-0 (2)", "orders-0 (3)"} <= set(tracks(events).values())
    assert ORDERS not in tracks(events).values()


def test_every_member_and_partition_has_a_track(events: list[Event]):
    names = set(tracks(events).values())
    assert {
        "state",
        "rebalances",
        "client-m-1: m-1",
        "client-m-2: two = m-2",
        "orders-0",
        "orders-1",
        f"{EVIL}-0",
    } <= names


def test_rebalances_are_slices_with_their_length_and_reason(events: list[Event]):
    (second,) = (one for one in events if one.get("cat") == "rebalance" and one["args"].get("rebalance_id") == "r2")
    assert (second["name"], second["ts"], second["dur"]) == ("MEMBER_JOIN", microseconds("02:10"), 20_000_000)
    assert second["args"]["confidence"] == "certain"
    assert second["args"]["evidence"] == ["member m-2 joined (3:103)", "epoch 2 to 3 (3:103)"]


def test_a_classic_rebalance_is_as_long_as_is_certain(tmp_path: Path):
    folder = write_small_warehouse(tmp_path / "warehouse")
    own = {
        "rebalance_id": "c1",
        "cluster": "default",
        "group_id": "legacy",
        "group_type": "classic",
        "cause": "UNKNOWN",
    }
    began_by = at("02:04") - timedelta(milliseconds=20)
    bounds = {"duration_ms_min": 20, "duration_ms_max": 4000, "began_by": began_by}
    write_rows(folder, "rebalances", [{**own, **bounds, "completed_at": at("02:04"), "is_exact": True}])
    write_trace(traces_of(Tables(str(folder)), ["legacy"]), tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = tracks(events)
    found = {
        names[one["pid"], one["tid"]]: (one["ts"], one["dur"])
        for one in events
        if one["ph"] == "X" and one["args"].get("rebalance_id") == "c1"
    }
    end = microseconds("02:04")
    assert found == {
        "rebalances": (end - 20_000, 20_000),
        "join phase: not on record": (end - 4_000_000, 3_980_000),
    }


def rebalance_slices(file: Path) -> dict[str, list[Event]]:
    """The slices of rebalances, by track."""
    events = json.loads(file.read_text())["traceEvents"]
    names, found = tracks(events), defaultdict(list)
    for one in events:
        if one.get("cat") == "rebalance":
            found[names[one["pid"], one["tid"]]].append(one)
    return found


@pytest.mark.long
def test_nothing_may_have_begun_earlier_where_a_brokers_log_shows_the_beginning(tmp_path: Path):
    recorded = DATA / "broker-logs" / "4.1"
    for logs, has_possible in ([], True), ([str(recorded / "server.log")], False):
        folder = tmp_path / f"{len(logs)}-logs"
        audit_here(folder, recorded / "segments", broker_logs=logs)
        write_trace(traces_of(Tables(str(folder)), ["wharf-pollers"]), tmp_path / "trace.json")
        assert ("join phase: not on record" in rebalance_slices(tmp_path / "trace.json")) == has_possible
    for one in rebalance_slices(tmp_path / "trace.json")["rebalances"]:
        assert one["dur"] == 1000 * one["args"]["duration_ms"] > 1000 * one["args"]["duration_ms_min"]


def test_a_rebalance_that_is_going_on_begins_where_a_brokers_log_has_it(tmp_path: Path):
    folder = write_small_warehouse(tmp_path / "warehouse")
    began_at = Tables(str(folder)).coverage.last + timedelta(seconds=9)
    own = {"rebalance_id": "g1", "cluster": "default", "group_id": "legacy", "group_type": "classic", "is_exact": False}
    write_rows(folder, "rebalances", [{**own, "cause": "SESSION_TIMEOUT", "started_at": began_at}])
    write_trace(traces_of(Tables(str(folder)), ["legacy"]), tmp_path / "trace.json")
    (*_, last) = rebalance_slices(tmp_path / "trace.json")["rebalances"]
    assert (last["name"], last["ts"], last["dur"]) == ("SESSION_TIMEOUT", round(began_at.timestamp() * 1e6), 1000)


def test_a_bar_ends_where_a_rebalance_may_be_over(tmp_path: Path):
    folder = write_small_warehouse(tmp_path / "warehouse")
    own = {"cluster": "default", "group_id": "legacy", "group_type": "classic", "is_exact": False, "cause": "UNKNOWN"}
    lost = {**own, "rebalance_id": "lost", "epoch": 8, "started_at": at("02:11"), "settled_at_offset": 900}
    by = {**own, "rebalance_id": "by", "epoch": 7, "began_by": at("02:09"), "completed_at": at("02:10")}
    write_rows(folder, "rebalances", [lost, {**by, "completed_offset": 800, "is_end_open": True}])
    write_trace(traces_of(Tables(str(folder)), ["legacy"]), tmp_path / "trace.json")
    slices = rebalance_slices(tmp_path / "trace.json")["rebalances"]
    found = {one["args"]["rebalance_id"]: (one["ts"], one["dur"]) for one in slices}
    assert (found["lost"], found["by"]) == ((microseconds("02:11"), 0), (microseconds("02:09"), 0))


def test_counters_tell_members_and_partitions_without_owner(events: list[Event]):
    def steps(name: str) -> list[tuple[int, int]]:
        return [
            (one["ts"], one["args"][name])
            for one in events
            if one["ph"] == "C" and one["pid"] == 1 and one["name"] == name
        ]

    assert steps("members") == [(microseconds("02:00"), 1), (microseconds("02:10"), 2)]
    assert steps("partitions without owner") == [(microseconds("02:10:15"), 1), (microseconds("02:10:20"), 0)]


def test_states_and_owners_are_slices(events: list[Event]):
    names = tracks(events)
    states = [
        (one["name"], one["ts"], one["dur"]) for one in events if one.get("cat") == "group_state" and one["pid"] == 1
    ]
    assert states[3] == ("Assigning", microseconds("02:10"), 5_000_000)
    owners = [one["name"] for one in events if one["ph"] == "X" and names[one["pid"], one["tid"]] == "orders-1"]
    assert owners == ["client-m-1", "client-m-2"]
    assert "UNREVOKED_PARTITIONS" in {one["name"] for one in events if one.get("cat") == "member_state"}


@pytest.mark.long
def test_perfetto_reads_the_trace(path: Path, events: list[Event]):
    processor = pytest.importorskip("perfetto.trace_processor", reason="the package perfetto is not installed")
    try:
        reader = processor.TraceProcessor(trace=str(path))
    except (OSError, subprocess.CalledProcessError) as problem:
        pytest.skip(f"Perfetto's trace processor is a binary that its package downloads, and could not: {problem}")
    with reader:
        slices = [row.name for row in reader.query("SELECT name FROM slice ORDER BY name")]
        assert slices == sorted(one["name"] for one in events if one["ph"] == "X")
        wrong = reader.query("SELECT name, value FROM stats WHERE severity = 'error' AND value > 0")
        assert [row.name for row in wrong] == []


def test_many_groups_ask_no_more_than_one_and_have_the_same_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = write_small_warehouse(tmp_path / "warehouse")
    more = [f"group-{number}" for number in range(30)]
    joined = [event(name, 0, "02:03", "MEMBER_JOINED", ">Stable", epoch=1, member_count=1) for name in more]
    write_rows(folder, "group_timeline", joined)
    # Between the others by name, and not asked about.
    write_rows(folder, "partition_ownership", [owned(0, "m-7", "02:05", "02:15", group_id=name) for name in more])
    asked: list[str] = []
    rows = Tables.rows

    def counted(self: Tables, statement: str, **parameters: object):
        asked.append(statement)
        return rows(self, statement, **parameters)

    monkeypatch.setattr(Tables, "rows", counted)

    def statements(groups: list[str]) -> int:
        asked.clear()
        lives = traces_of(Tables(str(folder)), groups)
        assert [life.group for life in lives] == groups
        return len(asked)

    assert statements(more[:2]) == statements([*more[5:], "payments", "legacy"]) <= 15
    together = traces_of(Tables(str(folder)), ["payments", "group-3", "legacy"])
    assert together == [one for life in together for one in traces_of(Tables(str(folder)), [life.group])]


def test_the_file_says_what_it_stands_on(folder: Path, tmp_path: Path):
    traced = coordinator_replay.Warehouse(folder).trace("payments")
    traced.save(tmp_path / "trace.json")
    written = json.loads((tmp_path / "trace.json").read_text())
    assert written["otherData"] == {"basis": str(traced.basis)}
    assert str(traced.basis).startswith("cluster default, log up to ")
