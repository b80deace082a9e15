"""Rebalances with what the recorded brokers logged: exact times, and the same tables in whichever order."""

import json
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_replay.analysis.broker_logs.words import LOG_COLUMNS, by_records
from coordinator_replay.pipeline.audit import Summary
from scripts.reasons.durations import durations
from scripts.reasons.sample import Sample
from tests.log.batch_spans import walk_batches
from tests.pipeline.in_process import audit_here, contents, cut
from tests.samples import DATA

RECORDED = DATA / "broker-logs"
CLOCK_MS = 40
"""A record is written so soon after the coordinator has logged that it has the assignment, 38 ms by a new broker."""

ORDERS = {
    "dump first": [("whole", ()), ("whole", ("whole.log",))],
    "log first": [("early", ("whole.log",)), ("late", ())],
    "log late": [("early", ()), ("late", ()), ("late", ("second.log",)), ("late", ("first.log",))],
    "night by night": [("early", ("first.log",)), ("late", ("second.log",))],
    "behind": [("early", ()), ("late", ("first.log",)), ("late", ("second.log",))],
}
"""Runs: which part of the dump, and which logs."""


in_usual_buckets = partial(audit_here, buckets=None)
"""Audits into a warehouse of the usual number of buckets.

An empty log partition has a row where its bucket has other records, and these logs and their parts differ in that.
"""


@pytest.fixture
def audit() -> Callable[..., Summary]:
    """Audits dumps into a warehouse."""
    return in_usual_buckets


def parts_of(version: str, into: Path) -> Path:
    """A dump and its log, whole and in two parts."""
    segments, log = RECORDED / version / "segments", RECORDED / version / "server.log"
    into.mkdir()
    (into / "whole").symlink_to(segments)
    (into / "whole.log").symlink_to(log)
    cut(str(segments), [into / "early", into / "late"])
    lines = log.read_bytes().splitlines(keepends=True)
    middle = [number for number, line in enumerate(lines) if b"Preparing to rebalance" in line][2] + 1
    (into / "first.log").write_bytes(b"".join(lines[:middle]))
    (into / "second.log").write_bytes(b"".join(lines[middle:]))
    return into


def tables_of(warehouse: Path) -> dict[str, list[str]]:
    """All rows, those of ``broker_log`` without the file that they were read from."""
    found = contents(warehouse)
    lines = [json.loads(row) for row in found["broker_log"]]
    return found | {"broker_log": sorted(json.dumps({**row, "source": None}, sort_keys=True) for row in lines)}


@pytest.mark.parametrize(
    ("version", "orders"),
    [
        ("4.1", ["behind"]),
        pytest.param("2.8", ["log late"], marks=pytest.mark.long),
        pytest.param("3.9", list(ORDERS), marks=pytest.mark.long),
        pytest.param("3.9-scala", ["log late"], marks=pytest.mark.long),
        pytest.param("4.0", ["log late"], marks=pytest.mark.long),
        pytest.param("4.1", list(ORDERS), marks=pytest.mark.long),
    ],
)
def test_a_dump_and_its_log_end_in_the_same_tables_in_whichever_order(audit, tmp_path, version, orders):
    parts = parts_of(version, tmp_path / "parts")
    audit(tmp_path / "at once", parts / "whole", broker_logs=[str(parts / "whole.log")])
    expected = tables_of(tmp_path / "at once")
    for name in orders:
        for dump, logs in ORDERS[name]:
            audit(tmp_path / name, parts / dump, broker_logs=[str(parts / log) for log in logs], broker_log_zone="UTC")
        for table, rows in tables_of(tmp_path / name).items():
            assert rows == expected[table], (name, table)
    audit(tmp_path / "without", parts / "whole")
    rows = {
        name: DeltaTable(f"{tmp_path}/{name}/rebalances").to_pyarrow_table().sort_by("rebalance_id").to_pylist()
        for name in ("at once", "without")
    }
    assert all(row["reasons"] for row in rows["at once"] if row["group_type"] == "classic")
    assert [by_records(row) for row in rows["at once"]] == rows["without"]
    assert not any(row[name] for row in rows["without"] for name in LOG_COLUMNS)
    took = durations(Sample(RECORDED / version).broker_log)
    for row in rows["at once"]:
        if row["group_type"] == "classic":
            logged_ms = took[row["group_id"], row["epoch"]]
            assert logged_ms <= row["duration_ms"] <= logged_ms + CLOCK_MS


def test_an_older_slice_is_given_again_with_its_log_while_one_between_is_missing(audit, tmp_path):
    """Nothing of the slice is read again: it shows nothing, neither of itself nor of what is missing behind it."""
    slices = [tmp_path / name for name in ("first", "second", "third")]
    cut(str(RECORDED / "2.8" / "segments"), slices)
    log = str(RECORDED / "2.8" / "server.log")
    for part, logs in ((2, []), (0, []), (0, [log]), (1, [])):
        audit(tmp_path / "wh", slices[part], broker_logs=logs, broker_log_zone="UTC")
    audit(tmp_path / "at once", RECORDED / "2.8" / "segments", broker_logs=[log])
    assert tables_of(tmp_path / "wh") == tables_of(tmp_path / "at once")


def rebalances(warehouse: Path) -> list[dict[str, Any]]:
    return DeltaTable(f"{warehouse}/rebalances").to_pyarrow_table().to_pylist()


def in_join_phase(into: Path) -> tuple[Path, Path]:
    """What a night has whose end is in the second join phase of wharf-migrate: the dump, and the log."""
    lines = (RECORDED / "4.1" / "server.log").read_bytes().splitlines(keepends=True)
    _, last, *_ = [n for n, line in enumerate(lines) if b"Preparing to rebalance group wharf-migrate" in line]
    end_ms = int(datetime(2026, 11, 23, 13, 58, 1, 100_000, UTC).timestamp() * 1000)
    for file in sorted((RECORDED / "4.1" / "segments").rglob("*.log")):
        raw = file.read_bytes()
        places = [int(place) for spans in walk_batches(raw) for place in spans.positions]
        # Behind the place of a batch by 35 bytes stands its maxTimestamp.
        end = next((one for one in places if struct.unpack_from(">q", raw, one + 35)[0] > end_ms), len(raw))
        folder = into / "segments" / file.parent.name
        folder.mkdir(parents=True)
        (folder / file.name).write_bytes(raw[:end])
    (into / "server.log").write_bytes(b"".join(lines[: last + 1]))
    return into / "segments", into / "server.log"


def test_a_rebalance_that_goes_on_at_the_end_of_the_log_is_a_row(audit, tmp_path):
    segments, log = in_join_phase(tmp_path / "night")
    audit(tmp_path / "wh", segments)
    without = rebalances(tmp_path / "wh")
    assert None not in [row["epoch"] for row in without]
    audit(tmp_path / "wh", segments, broker_logs=[str(log)])
    for _ in range(2):
        [row] = [row for row in rebalances(tmp_path / "wh") if row["epoch"] is None]
        assert (row["group_id"], row["group_type"], row["completed_at"], row["members_before"]) == (
            "wharf-migrate",
            "classic",
            None,
            2,
        )
        assert row["started_at"] == datetime(2026, 11, 23, 13, 58, 1, 61_000, UTC)
        # No record agrees with the line.
        assert (row["cause"], row["confidence"], row["is_exact"]) == ("MEMBER_LEAVE", "likely", False)
        assert [one[:31] for one in row["reasons"]] == ["explicit `LeaveGroup` request f"]
        assert row["is_open"]
        assert len(rebalances(tmp_path / "wh")) == len(without) + 1
        # A run that brings nothing of it leaves it as it is.
        audit(tmp_path / "wh", segments, broker_logs=[str(log)])


@pytest.mark.long
def test_a_rebalance_that_goes_on_is_its_record_once_it_comes(audit, tmp_path):
    segments, log = in_join_phase(tmp_path / "night")
    audit(tmp_path / "wh", segments, broker_logs=[str(log)])
    assert None in [row["epoch"] for row in rebalances(tmp_path / "wh")]
    audit(tmp_path / "wh", RECORDED / "4.1" / "segments")
    assert None not in [row["epoch"] for row in rebalances(tmp_path / "wh")]
    audit(tmp_path / "wh", RECORDED / "4.1" / "segments", broker_logs=[str(RECORDED / "4.1" / "server.log")])
    audit(tmp_path / "at once", RECORDED / "4.1" / "segments", broker_logs=[str(RECORDED / "4.1" / "server.log")])
    assert tables_of(tmp_path / "wh") == tables_of(tmp_path / "at once")


@pytest.fixture(scope="module", params=["to the end", "in a join phase"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A dump and its log."""
    if request.param == "to the end":
        return RECORDED / "4.1" / "segments", RECORDED / "4.1" / "server.log"
    return in_join_phase(tmp_path_factory.mktemp("night"))


@pytest.fixture(scope="module")
def at_once(recorded: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The tables of one run over a dump and its log."""
    warehouse = tmp_path_factory.mktemp("at-once")
    in_usual_buckets(warehouse, recorded[0], broker_logs=[str(recorded[1])])
    return tables_of(warehouse)


@pytest.mark.long
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_any_slices_of_a_dump_and_its_log_in_any_order_end_in_the_same_tables(
    recorded, at_once, tmp_path_factory, data
):
    folder = tmp_path_factory.mktemp("slices")

    def bounds(length: int, parts: int) -> list[int]:
        return sorted(data.draw(st.lists(st.integers(0, length), min_size=parts - 1, max_size=parts - 1)))

    dumps = [folder / f"dump-{number}" for number in range(data.draw(st.integers(1, 3)))]
    cut(str(recorded[0]), dumps, lambda batches: [0, *bounds(batches, len(dumps))])
    lines = recorded[1].read_bytes().splitlines(keepends=True)
    starts = [0, *bounds(len(lines), data.draw(st.integers(1, 3)))]
    logs = [folder / f"server-{number}.log" for number in range(len(starts))]
    for log, first, end in zip(logs, starts, [*starts[1:], len(lines)], strict=True):
        # A part may have lines of the one before as well.
        log.write_bytes(b"".join(lines[max(first - data.draw(st.sampled_from([0, 30])), 0) : end]))
    there = [dump for dump in dumps if dump.exists()]
    given_last = there[0]
    for item in data.draw(st.permutations([*there, *logs])):
        if item in there:
            given_last = item
        brought = [str(item)] if item in logs else []
        in_usual_buckets(folder / "wh", given_last, broker_logs=brought, broker_log_zone="UTC")
    assert tables_of(folder / "wh") == at_once
