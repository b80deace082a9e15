"""Rebalances in words."""

from dataclasses import replace
from datetime import timedelta

import pytest
from click.testing import CliRunner

from coordinator_replay import Warehouse
from coordinator_replay.api.answers import Reasons
from coordinator_replay.cli import reasons as module
from coordinator_replay.cli.main import main
from coordinator_replay.cli.reasons import print_reasons, reason_lines
from coordinator_replay.query.rebalances import Rebalance
from tests.pipeline.audited_once import AuditedOnce
from tests.query.small_warehouse import write_small_warehouse
from tests.samples import Sample


@pytest.fixture(scope="module")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Rebalance:
    folder = tmp_path_factory.mktemp("warehouse")
    write_small_warehouse(folder)
    (rebalance,) = Warehouse(folder).why("legacy")
    return rebalance


def test_a_sync_is_told_with_the_limit_of_the_whole(classic: Rebalance):
    assert reason_lines(classic)[1].startswith("  sync took 40 ms, the whole rebalance at most 60,000 ms;")
    assert reason_lines(replace(classic, duration_ms_max=None))[1].startswith("  sync took 40 ms; its join phase")


@pytest.mark.parametrize("least_ms", [0, None])
def test_no_sync_is_told_where_the_log_bounds_it_from_neither_side(classic: Rebalance, least_ms: int | None):
    lines = reason_lines(replace(classic, duration_ms_min=least_ms, duration_ms_max=None))
    assert lines[1] == "  the log does not show how long it took"
    assert "sync" not in "".join(lines)


def several(classic: Rebalance, count: int) -> Reasons:
    assert classic.completed_at is not None
    later = [classic.completed_at + timedelta(minutes=number) for number in range(count)]
    rows = [replace(classic, epoch=number, completed_at=at, started_at=None) for number, at in enumerate(later)]
    return Reasons(rows, {}, summary=["A summary."] * (count > 5))


@pytest.mark.parametrize("count", [1, 2, 4, 5, 8, 60])
def test_a_terminal_gets_the_latest_reasons_that_fit_and_the_names_of_those_before(
    classic: Rebalance, count: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(module, "terminal_width", lambda: 80)
    print_reasons(several(classic, count), is_wide=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 22
    names = [line for line in lines if "  generation " in line]
    numbers = [int(line.split("generation ")[1].split()[0]) for line in names]
    assert numbers == list(range(count - len(numbers), count))
    explained = sum("could also be" in line for line in lines)
    assert explained == count if count <= 4 else 1 <= explained < count
    earlier = count - len(names)
    assert any(line.startswith(f"{earlier} earlier rebalance") for line in lines) == (earlier > 0)
    assert any("--at TIME for one." in line for line in lines) == (explained < count)


def test_all_is_explained_with_wide_and_where_no_terminal_reads(classic: Rebalance, monkeypatch, capsys):
    print_reasons(several(classic, 60), is_wide=False)
    told = capsys.readouterr().out
    assert told.count("could also be") == 60
    monkeypatch.setattr(module, "terminal_width", lambda: 80)
    print_reasons(several(classic, 60), is_wide=True)
    assert capsys.readouterr().out == told


def test_one_long_reason_is_told_whole(classic: Rebalance, monkeypatch, capsys):
    monkeypatch.setattr(module, "terminal_width", lambda: 80)
    long = replace(classic, evidence=[f"fact {number}" for number in range(40)])
    print_reasons(Reasons([classic, long], {}), is_wide=False)
    assert "- fact 39" in capsys.readouterr().out


def test_what_a_time_is_asked_about_is_told_whole(audited_once: AuditedOnce, monkeypatch: pytest.MonkeyPatch):
    warehouse = audited_once(Sample("group-lifecycles").segments).warehouse
    monkeypatch.setattr(module, "terminal_width", lambda: 80)
    monkeypatch.setattr(module, "_MOST_LINES", 5)
    asked = ["why", "shop-billing", "--warehouse", str(warehouse)]
    told = CliRunner().invoke(main, [*asked, "--at", "2026-11-21T08:32:25Z"]).stdout
    assert "MEMBER_LEAVE, likely" in told
    assert told.count("could also be") == told.count("  generation ") > 1
    assert "--at TIME" not in told
    assert "--at TIME for one." in CliRunner().invoke(main, asked).stdout


def test_a_known_fault_in_evidence_without_room_is_named(
    classic: Rebalance, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(module, "terminal_width", lambda: 80)
    rows = list(several(classic, 8))
    early, late = (replace(rows[place], evidence=[f"possibly KAFKA-{place}: x"]) for place in (0, 7))
    print_reasons(Reasons([early, *rows[1:7], late], {}), is_wide=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[lines.index("") - 1] == "Evidence (names KAFKA-0): --wide, or --at TIME for one."
    assert sum("KAFKA" in line for line in lines) == 2
