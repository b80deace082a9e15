"""Offsets at both ends of 64 bits: whoever commits them, every question about every group keeps its answer."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from coordinator_replay import Warehouse
from coordinator_replay.query.saved import saved_queries
from tests.hostile import recordings
from tests.hostile.questions import SHARES, ask, faults, one_group, whole_cluster
from tests.pipeline.in_process import audit_here
from tests.report.pages import Page

LOW, HIGH = -(2**63), 2**63 - 1
OFFSETS = (0, HIGH, LOW, LOW + 1, HIGH - 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, HIGH, LOW)
START_MS = 1_795_000_000_000
RESET, LIVELY, PENDING = "reset", "lively", "pending"


def commit(group: str, partition: int, offset: int, at_ms: int) -> recordings.LogEntry:
    kind = recordings.record_kinds()[1]
    value = recordings.plain(kind.value, 3) | {"offset": offset, "commitTimestamp": at_ms}
    return recordings.LogEntry(
        key=recordings.encode_key(kind.name, {"group": group, "topic": "orders", "partition": partition}),
        value=recordings.encode_value(kind.name, 3, value),
        timestamp_ms=at_ms,
    )


def batch(group: str) -> list[recordings.LogEntry]:
    """Every end after every other, in two partitions."""
    offsets = [OFFSETS, OFFSETS[::-1]]
    return [
        commit(group, partition, offset, START_MS + 60_000 * place)
        for partition, each in enumerate(offsets)
        for place, offset in enumerate(each)
    ]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Groups without members, with members, Empty ones, and one with transactions that never end."""
    folder = tmp_path_factory.mktemp("ends")
    life = next(one for one in recordings.recorded_lives() if {2, 1} <= {entry.record.key_version for entry in one})
    shift = START_MS - life[0].at_ms
    own = [recordings.Entry(entry.record, entry.at_ms + shift) for entry in life if entry.record.key_version != 1]
    entries = [*recordings.encoded(recordings.renamed(tuple(own), LIVELY)), *batch(LIVELY), *batch(RESET)]
    place = folder / "dump" / "__consumer_offsets-0"
    place.mkdir(parents=True)
    with (place / f"{0:020}.log").open("wb") as file:
        file.write(recordings.write_batch(entries, base_offset=0))
        pending = {"producer_id": HIGH, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        file.write(recordings.write_batch(batch(PENDING), base_offset=len(entries), **pending))
    audit_here(folder / "warehouse", folder / "dump")
    return folder / "warehouse"


@pytest.mark.parametrize("share", SHARES)
def test_every_question_about_all_groups_is_answered(share: int, warehouse: Path, tmp_path: Path):
    for question in [*list(whole_cluster(tmp_path))[2 % share :: share], ["report", "--out", f"{tmp_path}/fleet/"]]:
        result = ask(warehouse, question)
        assert result.exit_code == 0, (question, result.output)
        assert not faults(result, question)


@pytest.mark.parametrize(
    ("group", "share"),
    [
        *((group, slice(place, None, 3)) for place, group in enumerate((RESET, LIVELY, PENDING))),
        *(pytest.param(group, slice(None), marks=pytest.mark.long) for group in (RESET, LIVELY, PENDING)),
    ],
    ids=lambda value: ("all" if value == slice(None) else "a third") if isinstance(value, slice) else value,
)
def test_every_question_about_one_group_is_answered(warehouse: Path, tmp_path: Path, group: str, share: slice):
    for question in list(one_group(group, tmp_path))[share]:
        result = ask(warehouse, question)
        assert not faults(result, question)
        if question[0] not in ("describe", "owner") and "--require-stable" not in question:
            assert result.exit_code == 0 or "never committed" in result.output, (question, result.output)


def test_differences_are_exact(warehouse: Path):
    # A negative offset is none, and not compared.
    steps = [after - before if min(before, after) >= 0 else None for before, after in pairwise(OFFSETS)]
    told = ask(warehouse, ["offsets", RESET, "--history=orders:0", "--output", "json"]).stdout
    rows = [json.loads(line) for line in told.splitlines()]
    assert [row["delta"] for row in rows] == [None, *steps]
    rewinds = ask(warehouse, ["sql", "--query", "rewinds", "--param", f"group={RESET}", "--output", "json"]).stdout
    found = [json.loads(line) for line in rewinds.splitlines()]
    assert [(row["partition"], row["delta"]) for row in found] == [(1, HIGH), (1, 1)]
    events = ask(warehouse, ["timeline", RESET, "--output", "json"]).stdout
    assert max(json.loads(line)["detail"].get("furthest_back") or 0 for line in events.splitlines()) == HIGH


def test_answers_become_tables_of_arrow_and_pandas(warehouse: Path):
    opened = Warehouse(warehouse)
    history = opened.offset_history(RESET, "orders")
    assert {row["delta"] for row in history.to_arrow().to_pylist()} == {row.delta for row in history}
    assert len(history.to_pandas()) == len(history)
    for name in saved_queries():
        found = opened.sql(query=name)
        assert found.to_arrow().num_rows == len(found.to_pandas()) == len(found)


def test_pages_have_all_digits(warehouse: Path, tmp_path: Path):
    file = tmp_path / "page.html"
    assert ask(warehouse, ["report", RESET, "--out", str(file)]).exit_code == 0
    page = Page(file.read_text("utf-8"))
    drawn = {int(one) for one in page.column("offset-lines", "offset")[0] if one is not None}
    assert drawn == {one for one in OFFSETS if one >= 0}
    assert all(abs(one) <= 2**53 for one in numbers(page.data))
    assert f"from {HIGH:,} to 0" in page.column("offset-ends", "text")
    assert f"between 0 and {HIGH:,}" in page.column("offset-lines", "note")[0]


def numbers(data: object) -> list[int | float]:
    match data:
        case dict():
            return [one for value in data.values() for one in numbers(value)]
        case list():
            return [one for value in data for one in numbers(value)]
        case int() | float():
            return [data]
    return []


def test_one_page_that_cannot_be_drawn_keeps_no_other(warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from coordinator_replay.report import site

    draw = site.life_page

    def break_one(opened, life, *rest, **more):
        if life.group == RESET:
            raise OverflowError("something that no page can show")
        return draw(opened, life, *rest, **more)

    monkeypatch.setattr(site, "life_page", break_one)
    result = ask(warehouse, ["report", "--out", f"{tmp_path}/fleet/"])
    assert result.exit_code == 0
    assert f"The page of group '{RESET}' could not be drawn (OverflowError: something that no page can show)" in (
        " ".join(result.output.split())
    )
    index = (tmp_path / "fleet" / "index.html").read_text("utf-8")
    for group in (RESET, LIVELY, PENDING):
        assert f"groups/{site.page_name(group)}" in index
        assert (tmp_path / "fleet" / "groups" / site.page_name(group)).is_file()
    said = Page((tmp_path / "fleet" / "groups" / site.page_name(RESET)).read_text("utf-8")).text
    assert "could not be drawn" in said
