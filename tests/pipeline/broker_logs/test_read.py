"""Logs of brokers beside their dumps, in whole audits: recorded ones of three versions, cut, renamed and forged."""

import gzip
import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator_replay.broker_log.layouts import parse_line
from coordinator_replay.errors import InputError, UsageError
from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.log.dump import DumpFile
from coordinator_replay.pipeline.broker_logs.file import ReadLog
from coordinator_replay.pipeline.broker_logs.read import LogContext, merge_lines, read_log
from coordinator_replay.pipeline.bucket_files import Place
from tests.nightly import rest_at_night
from tests.pipeline.in_process import audit, audit_here, content, contents
from tests.samples import DATA

__all__ = ["audit"]

RECORDED = DATA / "broker-logs"
QUERY = Path(__file__).parents[3] / "conf" / "queries" / "broker-log-rebalances.sql"
HOUR = timedelta(hours=1)


def segments(version: str) -> str:
    return str(RECORDED / version / "segments")


def log_of(version: str) -> bytes:
    return (RECORDED / version / "server.log").read_bytes()


def moved(log: bytes, by: timedelta) -> bytes:
    """A log as a broker in another time zone writes it."""
    lines = []
    for line in log.decode().splitlines(keepends=True):
        try:
            at = datetime.strptime(line[1:24], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
        except ValueError:
            lines.append(line)
        else:
            lines.append(f"[{at + by:%Y-%m-%d %H:%M:%S},{line[21:24]}{line[24:]}")
    return "".join(lines).encode()


def lines_of(warehouse: Path) -> list[str]:
    """Rows of the table without the files that they came from."""
    rows = DeltaTable(f"{warehouse}/broker_log").to_pyarrow_table().drop_columns(["source"]).to_pylist()
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A warehouse with the records of the 2.8 broker and no log, and one with its log."""
    folder = tmp_path_factory.mktemp("dump")
    audit_here(folder / "without", segments("2.8"))
    shutil.copytree(folder / "without", folder / "with")
    audit_here(folder / "with", segments("2.8"), broker_logs=[str(RECORDED / "2.8" / "server.log")])
    return folder / "without", folder / "with"


@pytest.fixture
def fresh(dump: tuple[Path, Path], tmp_path: Path) -> Path:
    """A warehouse of the test's own with the records and no log."""
    return Path(shutil.copytree(dump[0], tmp_path / "fresh"))


def read_into(place: Path, rebalances: list[str], *logs: Path, zone: str | None = None) -> tuple[list[Any], list[Any]]:
    """What the two stages make of logs: results of the files, and the rows."""
    where = Place(warehouse=str(place), cluster="default", folder=f"{place}/staged")
    context = LogContext(place=where, zone=zone, rebalances=rebalances, earlier={})
    results = [read_log(DumpFile(str(log), 0, 0), context) for log in logs]
    files = merge_lines([file for one in results for file in one.files], [], where)
    if not files:
        return results, []
    return results, duckdb.read_parquet([file.path for file in files]).order("logged_at, text").fetchall()


def rebalances_of(warehouse: Path) -> list[str]:
    return DeltaTable(f"{warehouse}/rebalances").file_uris()


def rebalances(warehouse: Path) -> list[dict[str, Any]]:
    """Rows of the table."""
    rows: list[dict[str, Any]] = DeltaTable(f"{warehouse}/rebalances").to_pyarrow_table().to_pylist()
    return rows


@pytest.mark.parametrize("version", rest_at_night(["2.8", "3.9", "3.9-scala", "4.0", "4.1"], ["2.8", "3.9", "4.1"]))
def test_durations_of_the_log_lie_within_the_bounds_of_the_records(audit, tmp_path, version):
    summary = audit(tmp_path, segments(version), broker_logs=[str(RECORDED / version / "server.log")])
    assert not [note for note in summary.run.notes if "left out" in note or "not read" in note]
    with duckdb.connect() as connection:
        for name in ("rebalances", "broker_log"):
            connection.register(name, DeltaTable(f"{tmp_path}/{name}").to_pyarrow_table())
        rows = connection.execute(QUERY.read_text(), {"cluster": "default", "group": None, "from": None}).fetchall()
        names = [column[0] for column in connection.description]
        [(classic,)] = connection.execute("SELECT count(*) FROM rebalances WHERE group_type = 'classic'").fetchall()
    found = [dict(zip(names, row, strict=True)) for row in rows]
    found = [one for one in found if one["group_type"] == "classic"]
    assert len(found) == classic
    for one in found:
        # The line before and the record after are of different milliseconds of the same clock.
        assert one["duration_ms_min"] - 2 <= one["duration_ms"] <= (one["duration_ms_max"] or 10**9) + 2, one
        assert one["attempts"] >= 1
        assert one["reasons"]


def test_a_log_changes_rebalances_and_coordinators_alone(dump):
    without, with_log = dump
    before, after = contents(without), contents(with_log)
    assert after.pop("broker_log")
    assert not before.pop("broker_log")
    for name in ("rebalances", "coordinator_changes"):
        assert after.pop(name) != before.pop(name)
    assert after == before


def test_a_log_that_is_given_again_or_later_reads_nothing_twice(audit, fresh, dump, tmp_path):
    log = tmp_path / "logs" / "server.log"
    log.parent.mkdir()
    lines = log_of("2.8").splitlines(keepends=True)
    # The part that is there when the first run reads it ends within a line.
    log.write_bytes(b"".join(lines[:682])[:-20])
    audit(fresh, segments("2.8"), broker_logs=[str(log.parent)])
    early = len(lines_of(fresh))
    assert 0 < early < len(lines_of(dump[1]))
    # Rotated by renaming: the old file got its last lines, the new one has the rest.
    log.rename(log.with_suffix(".log.1"))
    log.with_suffix(".log.1").write_bytes(b"".join(lines[:688]))
    log.write_bytes(b"".join(lines[688:]))
    summary = audit(fresh, segments("2.8"), broker_logs=[str(log.parent)])
    assert lines_of(fresh) == lines_of(dump[1])
    assert any("0 were there or came twice" in note for note in summary.run.notes)
    # Packed, copied and from another shipper, they are the same lines.
    log.with_suffix(".log.1.gz").write_bytes(gzip.compress(b"".join(lines[:688])))
    log.with_suffix(".log.copy").write_bytes(b"".join(lines[640:]))
    shipped = [
        json.dumps({"timestamp": f"{datetime.fromtimestamp(line.time_ms / 1000, UTC):%FT%T}.{line.time_ms % 1000:03}Z",
                    "level": "INFO", "message": line.message})
        for raw in lines
        if (line := parse_line(raw.decode().rstrip("\n"))) is not None
    ]  # fmt: skip
    (log.parent / "shipped.json").write_text("\n".join(shipped) + "\n")
    audit(fresh, segments("2.8"), broker_logs=[str(log.parent)])
    assert lines_of(fresh) == lines_of(dump[1])
    summary = audit(fresh, segments("2.8"), broker_logs=[str(log.parent)])
    assert "no new lines in the logs of brokers" in summary.run.notes


@pytest.mark.long
def test_logs_in_an_object_store_are_read_on(audit, fresh, dump, s3):
    filesystem, folder = open_filesystem(f"{s3}/logs")
    lines = log_of("2.8").splitlines(keepends=True)

    def put(name: str, log: bytes) -> None:
        with filesystem.open_output_stream(f"{folder}/{name}", compression=None) as out:
            out.write(log)

    put("server.log", b"".join(lines[:682])[:-20])
    audit(fresh, segments("2.8"), broker_logs=[f"{s3}/logs"])
    assert 0 < len(lines_of(fresh)) < len(lines_of(dump[1]))
    put("server.log.1.gz", gzip.compress(b"".join(lines[:688])))
    put("server.log", b"".join(lines[688:]))
    summary = audit(fresh, segments("2.8"), broker_logs=[f"{s3}/logs/server.log*"])
    assert lines_of(fresh) == lines_of(dump[1])
    assert any("0 were there or came twice" in note for note in summary.run.notes)
    assert content(fresh, "rebalances") == content(dump[1], "rebalances")
    sources = DeltaTable(f"{fresh}/broker_log").to_pyarrow_table().column("source").to_pylist()
    assert {source.rpartition("/logs/")[2] for source in sources} == {"server.log", "server.log.1.gz"}
    summary = audit(fresh, segments("2.8"), broker_logs=[f"{s3}/logs/*"])
    assert "no new lines in the logs of brokers" in summary.run.notes


def test_a_file_that_was_truncated_and_written_again_is_read_from_its_beginning(audit, fresh, dump, tmp_path):
    log = tmp_path / "server.log"
    lines = log_of("2.8").splitlines(keepends=True)
    for part in (lines[:684], lines[684:]):
        log.write_bytes(b"".join(part))
        audit(fresh, segments("2.8"), broker_logs=[str(log)])
    assert lines_of(fresh) == lines_of(dump[1])


@pytest.mark.parametrize("hours", rest_at_night([-8, 5.75, 14], [-8, 5.75]))
def test_records_say_the_zone(audit, fresh, dump, tmp_path, hours):
    log = tmp_path / "server.log"
    log.write_bytes(moved(log_of("2.8"), hours * HOUR))
    summary = audit(fresh, segments("2.8"), broker_logs=[str(log)])
    assert lines_of(fresh) == lines_of(dump[1])
    [read] = summary.run.broker_logs
    assert read["offset_ms"] == hours * 3_600_000
    zone = {-8: "UTC-08:00", 5.75: "UTC+05:45", 14: "UTC+14:00"}[hours]
    assert f"times are {zone} by their records in {log}" in summary.run.notes


def test_a_zone_that_is_named_counts(audit, fresh, dump, tmp_path):
    log = tmp_path / "server.log"
    log.write_bytes(moved(log_of("2.8"), HOUR))
    summary = audit(fresh, segments("2.8"), broker_logs=[str(log)], broker_log_zone="Europe/Berlin")
    assert lines_of(fresh) == lines_of(dump[1])
    assert not [note for note in summary.run.notes if "by records" in note]


@pytest.mark.long
def test_a_log_whose_zone_was_wrong_is_mended_by_full(audit, fresh, dump, tmp_path):
    log = str(RECORDED / "2.8" / "server.log")
    summary = audit(fresh, segments("2.8"), broker_logs=[log], broker_log_zone="+09:00")
    assert lines_of(fresh) != lines_of(dump[1])
    assert [note for note in summary.run.notes if note.startswith(f"{log}: by records its times are UTC, not +09:00")]
    audit(fresh, segments("2.8"), broker_logs=[log], full=True)
    assert lines_of(fresh) == lines_of(dump[1])


def test_full_without_logs_keeps_the_lines(audit, dump, tmp_path):
    warehouse = Path(shutil.copytree(dump[1], tmp_path / "wh"))
    audit(warehouse, segments("2.8"), full=True)
    assert lines_of(warehouse) == lines_of(dump[1])


def test_a_log_that_comes_before_its_records_is_read_once_they_are_there(audit, dump, tmp_path):
    log = str(RECORDED / "2.8" / "server.log")
    other = segments("3.9")
    summary = audit(tmp_path, other, broker_logs=[log])
    assert any(note.startswith(log) and "not read" in note for note in summary.run.notes)
    assert not lines_of(tmp_path)
    assert not summary.run.broker_logs


def test_the_log_of_another_cluster_and_files_without_coordinator_are_named(audit, fresh, tmp_path):
    other, state = tmp_path / "other.log", tmp_path / "state-change.log"
    other.write_bytes(log_of("4.1").replace(b"wharf-enforced", b"quarry-meters"))
    state.write_bytes(b"[2026-11-23 13:58:11,457] INFO [Controller id=1] nothing (state.change.logger)\n")
    summary = audit(fresh, segments("2.8"), broker_logs=[str(other), str(state)])
    assert not content(fresh, "broker_log")
    assert f"no line of a group coordinator in {state}" in summary.run.notes
    assert any(note.startswith(f"{other}: its times name no zone and fit no record") for note in summary.run.notes)


def test_a_path_without_a_file_and_a_zone_that_there_is_not_end_the_run(audit, fresh, tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        audit(fresh, segments("2.8"), broker_logs=[str(tmp_path / "nowhere")])
    with pytest.raises(UsageError, match="no time zone 'Mars'"):
        audit(fresh, segments("2.8"), broker_logs=[str(RECORDED / "2.8")], broker_log_zone="Mars")


def test_daylight_saving_within_a_file(dump, tmp_path):
    lines = log_of("2.8").splitlines(keepends=True)
    turn = next(number for number, line in enumerate(lines) if b"Stabilized" in line and b"generation 4" in line)
    log = tmp_path / "server.log"
    log.write_bytes(b"".join([*lines[:turn], moved(b"".join(lines[turn:]), -HOUR)]))
    [result], rows = read_into(tmp_path / "wh", rebalances_of(dump[0]), log)
    whole = set(lines_of(dump[1]))
    assert result.problem.startswith("3 lines left out")
    assert len(rows) == len(whole) - 3


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", None])
def test_times_that_jump_end_nothing(dump, tmp_path, zone):
    """A clock that was set back by seven minutes in mid-file, and once for good by a year, fits no zone."""
    lines = log_of("2.8").splitlines(keepends=True)
    third = len(lines) // 3
    jumps = [
        moved(b"".join(lines[third : 2 * third]), -timedelta(minutes=7)),
        moved(b"".join(lines[2 * third :]), -timedelta(days=365)),
    ]
    log = tmp_path / "server.log"
    log.write_bytes(b"".join([*lines[:third], *jumps]))
    [result], rows = read_into(tmp_path / "wh", rebalances_of(dump[0]), log, zone=zone)
    if zone is None:
        # Most of its lines with a record fit no zone, so that it may be of other brokers.
        assert "name their zone with --broker-log-zone" in (result.problem or "")
        assert not rows
    else:
        assert result.problem is None
        assert len(rows) == len(lines_of(dump[1]))


@pytest.mark.parametrize("form", ["plain", "packed"])
def test_lines_of_any_length_and_bytes(dump, tmp_path, form):
    log = log_of("2.8")
    hostile = b"[GroupCoordinator 0]: " + b"x" * (10 << 20) + b"\n\xff\xfe[GroupCoordinator 0]: \x00\xed\xa0\x80\n"
    cut = log.index(b"\n", len(log) // 2) + 1
    whole = log[:cut] + hostile + b"\r\n" * 3 + log[cut:] + b"[GroupCoordinator " * 300_000
    path = tmp_path / "server.log"
    path.write_bytes(whole if form == "plain" else gzip.compress(whole, 1))
    [result], rows = read_into(tmp_path / "wh", rebalances_of(dump[0]), path)
    assert len(rows) == len(lines_of(dump[1])) == result.events
    assert result.read.position == whole.rindex(b"\n") + 1


def test_what_can_not_be_unpacked_is_named(dump, tmp_path):
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(log_of("2.8"))[:-500])
    [result], rows = read_into(tmp_path / "wh", rebalances_of(dump[0]), path)
    assert "can't be read" in result.problem
    assert not rows


FORGED = {
    "other members": "13:58:27,400 Stabilized group quarry-meters generation 4 (__consumer_offsets-0) with 77 members",
    "another time": "13:58:34,000 Stabilized group quarry-meters generation 4 (__consumer_offsets-0) with 1 members",
    "another reason": "13:58:26,000 Preparing to rebalance group quarry-meters in state PreparingRebalance with old "
    "generation 3 (__consumer_offsets-0) (reason: removing member {left} on heartbeat expiration)",
}


@pytest.mark.parametrize("forged", rest_at_night(FORGED, ["other members"]))
def test_what_a_forged_line_can_do(audit, fresh, dump, tmp_path, forged):
    """A client's reason can hold what looks like a line of its own: see docs/security.md."""
    [row] = [one for one in rebalances(dump[1]) if one["epoch"] == 4]
    assert (row["cause"], row["confidence"]) == ("MEMBER_LEAVE", "certain")
    time, text = FORGED[forged].format(left=row["members_left"][0]).split(" ", 1)
    log = tmp_path / "server.log"
    line = f"[2026-11-23 {time}] INFO [GroupCoordinator 0]: {text} (kafka.coordinator.group.GroupCoordinator)\n"
    log.write_bytes(log_of("2.8") + line.encode())
    audit(fresh, segments("2.8"), broker_logs=[str(log)])
    assert len(lines_of(fresh)) == len(lines_of(dump[1])) + 1
    found = {one["rebalance_id"]: one for one in rebalances(fresh)}
    differing = {one["epoch"] for one in rebalances(dump[1]) if found[one["rebalance_id"]] != one}
    if forged == "another time":
        assert not differing
        return
    assert differing == {4}
    if forged == "other members":
        [note] = set(found[row["rebalance_id"]].pop("evidence")) - set(row.pop("evidence"))
        assert "contradicts the record" in note
        facts = row.pop("facts")
        [fact] = [fact for fact in found[row["rebalance_id"]].pop("facts") if fact not in facts]
        assert fact["kind"] == "CONTRADICTED"
        assert found[row["rebalance_id"]] == row
        return
    # Beside the true line it makes nothing certain, but an earlier beginning and one reason more are in the row.
    false = found[row["rebalance_id"]]
    assert (false["cause"], false["confidence"]) == ("LEAVE_OR_TIMEOUT", "possible")
    assert false["duration_ms"] > row["duration_ms"]
    assert len(false["reasons"]) == len(row["reasons"]) + 1
    assert false["by_records"] == row["by_records"]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 69_804), max_size=4), chunk=st.integers(100, 5_000))
def test_a_file_that_grows_in_any_steps_is_read_as_one(dump, tmp_path_factory, cuts, chunk):
    folder = tmp_path_factory.mktemp("steps")
    log, path = log_of("2.8"), folder / "server.log"
    where = Place(warehouse=f"{folder}/wh", cluster="default", folder=f"{folder}/staged")
    earlier: dict[str, ReadLog] = {}
    events = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("coordinator_replay.pipeline.broker_logs.file._CHUNK_BYTES", chunk)
        for end in [*sorted(cuts), len(log)]:
            path.write_bytes(log[:end])
            context = LogContext(place=where, zone="UTC", rebalances=[], earlier=earlier)
            result = read_log(DumpFile(str(path), 0, end), context)
            events += result.events
            if result.read is not None:
                earlier = {**earlier, result.read.head: result.read}
    assert events == len(lines_of(dump[1]))
