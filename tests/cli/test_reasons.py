"""Rebalances in words."""

import io
import re
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import timedelta
from unittest.mock import patch

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator_replay import Warehouse
from coordinator_replay.analysis.reasons.vocabulary import Cause
from coordinator_replay.api.answers import Reasons
from coordinator_replay.cli import output
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


@pytest.mark.parametrize("before", [0, 1, 5])
@pytest.mark.parametrize("count", [2, 21, 40])
def test_facts_without_room_are_counted(classic: Rebalance, before: int, count: int, monkeypatch, capsys):
    monkeypatch.setattr(module, "terminal_width", lambda: 80)
    long = replace(classic, evidence=[f"fact {number}" for number in range(count)])
    print_reasons(Reasons([*[classic] * before, long], {}), is_wide=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 22
    told = sum(line.startswith("  - fact ") for line in lines)
    assert told >= 1
    more = [line for line in lines if line.endswith("of the evidence: --wide")]
    assert more == ([f"  - {count - told} more facts of the evidence: --wide"] if told < count else [])
    assert "could also be" in lines[-1]
    print_reasons(Reasons([*[classic] * before, long], {}), is_wide=True)
    assert f"- fact {count - 1}" in capsys.readouterr().out


def test_the_rebalance_of_a_time_is_explained_before_one_that_may_have_begun(
    audited_once: AuditedOnce, monkeypatch: pytest.MonkeyPatch
):
    warehouse = audited_once(Sample("group-lifecycles").segments).warehouse
    asked = ["why", "shop-billing", "--warehouse", str(warehouse)]
    at = ["--at", "2026-11-21T08:32:25Z"]
    whole = CliRunner().invoke(main, [*asked, *at]).stdout
    assert whole.count("could also be") == whole.count("  generation ") == 2
    monkeypatch.setattr(module, "terminal_width", lambda: 80)
    monkeypatch.setattr(module, "_MOST_LINES", 10)
    told = CliRunner().invoke(main, [*asked, *at]).stdout
    lines = told.splitlines()
    assert lines[0].endswith("generation 4  MEMBER_LEAVE, likely")
    later, hint = lines[lines.index("") + 1 :]
    assert "  generation 5  " in later
    assert hint == "Evidence of generation 5: --wide."
    assert told.count("could also be") == 1
    assert "--at TIME for one." in CliRunner().invoke(main, asked).stdout


@pytest.mark.parametrize("count", [2, 3, 40])
def test_the_rebalance_of_a_time_is_explained_even_if_a_later_one_names_a_known_fault(
    classic: Rebalance, count: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(module, "terminal_width", lambda: 80)
    first, *rows, last = several(classic, count)
    first = replace(first, evidence=[f"fact {number}" for number in range(30)])
    last = replace(last, evidence=["possibly KAFKA-1: x"])
    print_reasons(Reasons([first, *rows, last], {}), is_wide=False, is_at=True)
    told = " ".join(capsys.readouterr().out.split())
    assert "generation 0" in told.partition("fact 0")[0]
    assert "possibly KAFKA-1" not in told
    others = {2: "Evidence of generation 1", 3: "Evidence of the others"}
    what = others.get(count, " other rebalances, and the evidence of all others")
    assert f"{what} (KAFKA-1 in that of {last.group_id} {last.number}): --wide." in told


def test_a_known_fault_in_evidence_without_room_is_named(
    classic: Rebalance, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(module, "terminal_width", lambda: 80)
    rows = list(several(classic, 8))
    early, late = (replace(rows[place], evidence=[f"possibly KAFKA-{place}: x"]) for place in (0, 7))
    print_reasons(Reasons([early, *rows[1:7], late], {}), is_wide=False)
    lines = capsys.readouterr().out.splitlines()
    hint = f"Evidence (KAFKA-0 in that of {early.group_id} {early.number}): --wide, or --at TIME for one."
    assert lines[lines.index("") - 1] == hint
    assert sum("KAFKA" in line for line in lines) == 2


@pytest.mark.parametrize("place", [0, 3, 7, 20])
def test_the_rebalance_that_names_a_known_fault_is_explained_and_the_fault_comes_first(
    classic: Rebalance, place: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(module, "terminal_width", lambda: 80)
    rows = list(several(classic, 21))
    rows[place] = replace(rows[place], evidence=[*(f"fact {number}" for number in range(30)), "possibly KAFKA-1: x"])
    print_reasons(Reasons(rows, {}), is_wide=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 22
    names = [line for line in lines if "  generation " in line]
    assert f"  generation {place}  " in names[-1]
    assert f"  generation {20 if place < 20 else 19}  " in names[-2]
    facts = [line for line in lines if line.startswith("  - ")]
    assert facts[0] == "  - possibly KAFKA-1: x"
    below = f"Below is generation {place}, whose evidence names KAFKA-1."
    assert (below in " ".join(map(str.strip, lines))) == (place < 20)


GROUPS = st.lists(st.text("ab-. é漢", min_size=1, max_size=90).filter(str.strip), min_size=1, max_size=2)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(names=GROUPS, width=st.integers(40, 130), cause=st.sampled_from([row.value for row in Cause]))
def test_each_named_rebalance_has_its_confidence_at_every_width(
    classic: Rebalance, names: list[str], width: int, cause: str
):
    sure = ["certain", "likely", "possible"]
    rows = [
        replace(row, group_id=names[place % len(names)], cause=cause, confidence=sure[place % 3], evidence=["x"] * 30)
        for place, row in enumerate(several(classic, 5))
    ]
    out = io.StringIO()
    with (
        patch.object(module, "terminal_width", lambda: width),
        patch.object(output, "terminal_width", lambda **_: width),
        redirect_stdout(out),
    ):
        print_reasons(Reasons(rows, {}), is_wide=False)
    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    listing = " ".join(map(str.strip, lines[: lines.index("")]))
    told = re.findall(rf"generation\s+(\d+)\s+{cause},\s+(\w+)", listing)
    earlier = re.search(r"(\d+) earlier rebalance", listing)
    assert [int(number) for number, _ in told] == list(range(int(earlier[1]) if earlier else 0, 4))
    assert [word for _, word in told] == [sure[int(number) % 3] for number, _ in told]
