"""What people see: help, tables and reasons on terminals of 80, 120 and 200 cells, over a warehouse with long names."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from coordinator_replay.cli import answers, incidents, output
from coordinator_replay.cli.main import main
from coordinator_replay.cli.options import Common
from tests.nightly import rest_at_night
from tests.query.small_warehouse import (
    at,
    event,
    member,
    offset,
    orders,
    owned,
    write_rows,
    write_small_warehouse,
)
from tests.simulation.what_if.variants import write_variants

WIDTHS = (80, 120, 200)

each_width = pytest.mark.parametrize("width", rest_at_night(WIDTHS, [80]))
CLIENT = "checkout-service-europe-west-consumer"
MEMBERS = [
    f"{CLIENT}-{number}-{start}-e2a9-4a6a-8288-9a03038e6a27"
    for number, start in ((1, "8d05801b"), (2, "8d05801c"), (3, "17362ead"))
]
GROUP = "checkout-service-europe-west"

ASKED = {
    "groups": ("groups",),
    "deleted": ("groups", "--deleted"),
    "unrecorded": ("groups", "--state", "PreparingRebalance"),
    "describe": ("describe", GROUP),
    "offsets": ("offsets", GROUP),
    "unstable": ("offsets", GROUP, "--require-stable"),
    "history": ("offsets", GROUP, "--history", "orders-by-customer-and-day"),
    "timeline": ("timeline", GROUP),
    "members": ("timeline", GROUP, "--members"),
    "rebalances": ("rebalances",),
    "why": ("why",),
    "consumers": ("consumers", "orders"),
    "impact": ("impact",),
    "rollouts": ("impact", "--by", "rollout"),
    "diff": ("diff", "--from", "2026-11-20T02:01"),
    "owner": ("owner", GROUP, "orders", "0"),
    "expired": ("expired",),
    "findings": ("findings",),
    "queries": ("sql", "--list"),
    "sql": ("sql", "SELECT * FROM member_timeline"),
}


WRITES = {"audit", "decode", "demo", "export", "maintain", "metrics", "report", "simulate", "trace"}
"""Commands that print no table of answers: JSON lines, files, or what they did."""

SHORT = ("--to", "2026-11-22T21:07:45Z")
"""Simulates the beginning of each life: shorter ones take less time, and look the same."""

WHAT_IF = {
    "one": ("what-if", "shop-v-new", "--set", "group.protocol=classic", *SHORT),
    "all": ("what-if", "--all", "--set", "group.protocol=consumer", *SHORT),
    "settings": ("what-if", "--list-settings"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_small_warehouse(tmp_path_factory.mktemp("screens"))
    long = {"client_id": CLIENT, "client_host": "/192.168.117.214"}
    write_rows(folder, "group_timeline", [
        event(GROUP, seq, f"02:03:{seq:02}", "MEMBER_JOINED", "Stable>Assigning", epoch=seq, member_count=seq,
              member_id=name)
        for seq, name in enumerate(MEMBERS, start=1)
    ])  # fmt: skip
    write_rows(folder, "member_timeline", [
        member(GROUP, name, "02:03", None, place, member_epoch=place, assigned=orders(*range(place, 90, 3)),
               target=orders(*range(place, 90, 3)), **long)
        for place, name in enumerate(MEMBERS)
    ])  # fmt: skip
    write_rows(folder, "partition_ownership", [owned(0, name, "02:03", group_id=GROUP) for name in MEMBERS])
    write_rows(folder, "offset_history", [
        offset("orders-by-customer-and-day", place, 10**12 + place, "02:03", group_id=GROUP, owner_member_id=name,
               metadata="left by the loader " * 3)
        for place, name in enumerate(MEMBERS)
    ])  # fmt: skip
    return folder


@pytest.fixture
def screen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    def run(width: int, *arguments: str) -> list[str]:
        monkeypatch.setattr(output, "terminal_width", lambda *, err=False: width)
        runner = CliRunner(env={"COORDINATOR_REPLAY_WAREHOUSE": str(folder), "COLUMNS": str(width), "NO_COLOR": "1"})
        result = runner.invoke(main, arguments)
        assert result.exit_code == 0, result.output
        return result.output.splitlines()

    return run


@each_width
@pytest.mark.parametrize("name", ASKED)
def test_no_line_is_wider_than_the_terminal(screen, name: str, width: int):
    shown = screen(width, *ASKED[name])
    assert shown
    assert [line for line in shown if cell_len(line) > width] == []


ANSWERING = {
    "abandoned-topics": "group_id topic partition_count last_commit_at",
    "blocking-members": "group_id client_id blocking_ms partition_count",
    "downtime-by-cause": "cause rebalances longest_commit_pause_ms",
    "flapping-groups": "group_id rebalances longest usual_cause who",
    "flapping-static-members": "group_id instance_id member_ids holders",
    "hot-committers": "group_id commits peak_per_minute",
    "inexact-groups": "group_id inexact_events log_partition log_offset",
    "jumps-ahead": "group_id topic partition at previous_offset committed_offset",
    "last-commits": "group_id state member_count last_commit_at",
    "last-to-rejoin": "group_id client rebalances behind_ms_total",
    "longest-partition-downtime": "group_id topic partition unowned_ms",
    "lost-offsets": "group_id topic partition committed_offset ended_by",
    "never-owned-partitions": "group_id topic partition what",
    "rebalance-triggers": "group_id client rebalances group_total causes",
    "rewinds": "group_id topic partition at previous_offset committed_offset what",
    "session-timeouts": "session_timeout_ms set_by members groups examples",
    "skipped-or-read-again": "group_id topic partition at previous_offset committed_offset what",
    "slow-topic-changes": "group_id topic_change changed_at noticed_at metadata_delay_ms",
    "stuck-transactions": "group_id topic partition pending_since pending_ms",
    "two-owners": "group_id topic partition member_id",
}
"""By saved query: the columns without which its title is not answered."""


@pytest.fixture(scope="module")
def answering(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse of long names, with rows for each query of ``ANSWERING``."""
    copy = tmp_path_factory.mktemp("answering") / "warehouse"
    shutil.copytree(folder, copy)
    topic = "orders-by-customer-and-day"
    held = {"instance_id": "checkout-0", "client_host": "/192.168.117.214", "session_timeout_ms": 45_000}
    write_rows(copy, "member_timeline", [
        member(GROUP, MEMBERS[0], "02:04", "02:05", 90, **held),
        member(GROUP, MEMBERS[1], "02:05", None, 91, **held),
        member("narrow", "n-1", "02:02", None, 92, subscribed_topics=["bills"]),
    ])  # fmt: skip
    write_rows(copy, "group_timeline", [event("narrow", 0, "02:02", "GROUP_CREATED", ">Stable", member_count=1)])
    write_rows(copy, "partition_ownership", [owned(0, "n-1", "02:02", group_id="narrow", topic="bills")])
    write_rows(copy, "topics", [{"cluster": "default", "topic": "bills", "topic_id": "C" * 22, "partition_count": 3}])
    write_rows(copy, "offset_history", [
        offset(topic, 9, value, f"02:{place:02}", from_offset=place, previous_offset=before, group_id=GROUP,
               owner_member_id=MEMBERS[0], group_state="Stable")
        for place, (before, value) in enumerate([(None, 10**12), (10**12, 2 * 10**12), (2 * 10**12, 7)], start=4)
    ])  # fmt: skip
    changed = [{"sentence": 0, "kind": "PARTITIONS_ADDED", "names": [topic], "count": 9, "old": "6"}]
    write_rows(copy, "rebalances", [
        {"rebalance_id": "t", "cluster": "default", "group_id": "narrow", "group_type": "consumer",
         "completed_at": at("02:10"), "metadata_delay_ms": 250_000, "facts": changed, "is_exact": True}
    ])  # fmt: skip
    return copy


@pytest.mark.parametrize("query", rest_at_night(ANSWERING, sorted(ANSWERING)[::4]))
def test_the_answer_of_a_saved_query_is_on_a_narrow_screen(screen, answering: Path, query: str):
    """In the heading of a table with rows, or below or beside the table: no column is left out, nor empty."""
    asked = ("sql", "--query", query, "--warehouse", str(answering))
    assert any(line.startswith("{") for line in screen(80, *asked, "--output", "json"))
    shown = screen(80, *asked)
    table = shown[: next(place for place, line in enumerate(shown) if line.startswith("cluster default"))]
    left_out = re.search(r"Left out: ([^.]*)\.", " ".join(line.strip() for line in table))
    hidden = set() if left_out is None else set(left_out[1].split(", "))
    missing = {name for name in ANSWERING[query].split() if name in hidden or not is_named(name, table)}
    # The rows of a group may stand below its name, which then needs no heading.
    assert missing <= ({"group_id"} if {GROUP, "payments", "narrow"} & set(table) else set())


def is_named(column: str, lines: list[str]) -> bool:
    """Return whether lines have a column's name, perhaps in a heading that goes on in the next line."""
    words = " ".join(lines).replace(":", " ").split()
    parts = column.split("_")
    halves = (("_".join(parts[:place]) + "_", "_".join(parts[place:])) for place in range(1, len(parts)))
    return column in words or any(set(pair) <= set(words) for pair in halves)


def test_the_bounds_of_a_duration_are_one_column_in_words(screen, tmp_path: Path):
    """JSON has numbers, and ``--wide`` has the columns of JSON. A column with a new name has its old one only there."""

    def rebalance(group: str, place: int, least: int | None, most: int | None) -> dict[str, Any]:
        return {
            "rebalance_id": f"{group}{place}", "cluster": "default", "group_id": group, "group_type": "classic",
            "completed_at": at("02:05"), "duration_ms_min": least, "duration_ms_max": most, "cause": "MEMBER_JOIN",
        }  # fmt: skip

    write_small_warehouse(tmp_path, rebalances=[
        rebalance("exact", 1, 1500, 1500), rebalance("exact", 2, 1400, 1400),
        rebalance("bounds", 1, 9, 14_050), rebalance("bounds", 2, 4, 800),
        rebalance("partly", 1, 9, None), rebalance("partly", 2, 4, 800),
        rebalance("later", 1, 3000, None), rebalance("later", 2, 0, 1000),
        rebalance("never", 1, 0, None), rebalance("never", 2, 0, 60_000),
        rebalance("open", 1, 9, None), rebalance("open", 2, 0, None),
        rebalance("unknown", 1, None, None), rebalance("unknown", 2, None, None),
    ])  # fmt: skip
    asked = ("sql", "--query", "flapping-groups", "--warehouse", str(tmp_path))
    shown = {words[0]: words[2:] for line in screen(80, *asked) if (words := re.split("  +", line))}
    assert [shown[group][0] for group in ("exact", "bounds", "open", "unknown")] == [
        "1.5 s", "9 ms to 14.1 s", "at least 9 ms", "-"
    ]  # fmt: skip
    wide = " ".join(screen(300, *asked))
    for words in (
        "at least 9 ms; all but 1 at most 800 ms",
        "at least 3.0 s; all but 1 at most 1.0 s",
        "  all but 1 at most 60.0 s",
    ):
        assert f"{words}  " in wide
    assert "longest_ms_min" in screen(80, *asked, "--wide")[0]
    old = ("sql", "--query", "slow-topic-changes", "--warehouse", str(tmp_path))
    assert " at " not in f"{screen(300, *old)[0]} "
    assert " at " in f"{screen(300, *old, '--wide')[0]} "


def test_a_time_without_members_is_no_handover_at_once(screen, tmp_path: Path):
    """The number 0 in JSON counts only times in which the group had members."""
    idle = owned(0, "m-1", "02:01", "02:02", released_by="GROUP_EMPTIED", unowned_ms=0, group_id="idle")
    write_small_warehouse(tmp_path, partition_ownership=[idle])
    asked = ("owner", "idle", "orders", "0", "--at", "2026-11-20T02:01:30Z", "--warehouse", str(tmp_path))
    assert screen(80, *asked)[2].endswith("GROUP_EMPTIED  no members")
    assert json.loads(screen(80, *asked, "--output", "json")[0])["unowned_ms"] == 0


def test_ids_in_a_statement_that_the_next_command_takes_are_never_cut(screen):
    run, long = "20261127T123318.389274Z", "x" * 70
    statement = f"SELECT '{run}' AS run_id, '{long}' AS member_id, '{long}' AS text"
    assert any(line.startswith(run) for line in screen(80, "sql", statement))


@pytest.mark.parametrize("days", ["TIMESTAMP '2026-11-20', NULL", "TIMESTAMP '2026-11-20', TIMESTAMP '2026-11-22'"])
def test_days_are_shown_as_dates(screen, days: str):
    shown = screen(80, "sql", f"SELECT unnest([{days}]) AS day, 7 AS rebalances")
    assert shown[0].split() == ["day", "rebalances"]
    assert shown[1].split() == ["2026-11-20", "7"]
    times = screen(80, "sql", "SELECT unnest([TIMESTAMP '2026-11-20', TIMESTAMP '2026-11-20 05:00']) AS time, 7 AS n")
    assert [line.split()[0] for line in times[2:4]] == ["00:00:00", "05:00:00"]


def test_the_offset_that_a_group_went_back_to_is_beside_the_offset_before(screen, tmp_path: Path):
    """A single row could have it below, among the columns with one value."""
    write_small_warehouse(tmp_path, offset_history=[
        offset("bakery.adm", 3, 20, "02:01", "02:02", group_id="bakery-removed", from_offset=1),
        offset("bakery.adm", 3, 7, "02:02", group_id="bakery-removed", from_offset=2, previous_offset=20,
               group_state="Stable", owner_member_id="m-1"),
    ])  # fmt: skip
    shown = screen(80, "sql", "--query", "rewinds", "--warehouse", str(tmp_path))
    table = shown[: next(place for place, line in enumerate(shown) if line.startswith(("Also", "cluster")))]
    assert {"20", "7"} <= set(" ".join(table).split())


LIMITED = {
    "a statement": ("sql", "SELECT range AS number FROM range(40)"),
    "a saved query": ("sql", "--query", "lost-offsets"),
    "expired": ("expired", "--until", "2027-12-01"),
}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with forty offsets that have expired, or will."""
    folder = write_small_warehouse(tmp_path_factory.mktemp("many"))
    lost = {"ended_by": "EXPIRED", "ended_confidence": "likely"}
    rows = [
        offset(f"topic-{place:02}", number, place, "02:03", end, group_id="simple", **ended)
        for place in range(40)
        for number, end, ended in ((0, None, {}), (1, "02:05", lost))
    ]
    write_rows(folder, "offset_history", rows)
    expirations = [{"cluster": "default", "group_id": "simple", "topic": f"topic-{place:02}", "partition": 0,
                    "status": "EXPIRED", "committed_offset": place} for place in range(40)]  # fmt: skip
    write_rows(folder, "expired_offsets", expirations)
    return folder


@pytest.mark.parametrize("name", LIMITED)
def test_a_terminal_shows_a_screen_of_an_answer_and_says_how_many_rows_follow(screen, many: Path, name: str):
    asked = (*LIMITED[name], "--warehouse", str(many))
    shown = screen(80, *asked)
    assert len(shown) <= 24
    (more,) = (line for line in shown if "--wide and --output json have them." in line)
    left = int(more.split()[0])
    assert 20 <= left < 40
    assert len(screen(80, *asked, "--wide")) >= 40
    for form in ("json", "csv"):
        assert len(screen(80, *asked, "--output", form)) >= 40


@pytest.mark.parametrize("name", LIMITED)
def test_what_a_pipe_gets_is_whole(many: Path, name: str):
    result = CliRunner().invoke(main, [*LIMITED[name], "--warehouse", str(many)])
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) >= 40
    assert "--wide and" not in result.output


def test_a_pipe_gets_all_changes(screen, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(incidents, "_MOST_CHANGES", 2)
    assert any("--wide and --output json have them." in line for line in screen(80, *ASKED["diff"]))
    monkeypatch.setattr(output, "terminal_width", lambda *, err=False: None)
    assert "have them." not in CliRunner().invoke(main, [*ASKED["diff"], "--warehouse", str(folder)]).output


def test_a_row_longer_than_a_screen_is_shown(screen):
    shown = screen(80, "sql", "SELECT repeat('so many words ', 400) AS detail")
    assert sum("so many words" in line for line in shown) > 24
    assert not any("more row" in line for line in shown)


@pytest.mark.parametrize(("proof", "is_shown"), [("true", False), ("range <> 1", True)])
def test_that_a_row_is_not_proven_has_room_before_other_columns(screen, proof: str, is_shown: bool):
    texts = ", ".join(f"repeat('{letter}', 24) AS {letter}" for letter in "abcdef")
    shown = screen(80, "sql", f"SELECT {texts}, {proof} AS is_exact FROM range(3)")
    heading = next(line for line in shown if line.startswith("a "))
    assert ("is_exact" in heading.split()) == is_shown


def test_how_sure_an_answer_is_belongs_to_it(screen):
    texts = ", ".join(f"repeat('{letter}', 14) AS {letter}" for letter in "abcde")
    shown = screen(80, "sql", f"SELECT {texts}, 'likely' AS ended_confidence, 1000 AS amount, true AS is_exact")
    assert "likely" in "\n".join(shown)
    assert "is_exact" not in shown[0]


def test_an_audit_run_accounts_for_its_records_on_a_narrow_screen(screen):
    heading = next(line for line in screen(80, "sql", "--query", "audit-runs") if line.startswith("run_id"))
    assert {"records_read", "records_decoded", "unaccounted"} <= set(heading.split())


def test_the_host_of_a_member_is_on_a_narrow_screen(screen):
    assert any("HOST" in line for line in screen(80, *ASKED["members"]))


def test_where_the_owner_of_an_offset_ran_is_on_a_narrow_screen(screen):
    shown = screen(80, "offsets", GROUP)
    assert any("192.168.117.214" in line for line in shown)
    assert any("In all rows: " in line for line in shown)


def test_who_reads_a_topic_where_and_when_is_on_a_narrow_screen(screen):
    shown = screen(80, *ASKED["consumers"])
    heading = next(line for line in shown if "PARTITIONS" in line)
    assert [word for word in heading.split() if not word.startswith(("CLIENT-", "GROUP-"))] == [
        "HOW", "HOST", "PARTITIONS", "FROM", "TO",
    ]  # fmt: skip
    assert GROUP in shown
    assert any(" two " in line for line in shown), "the static member's group.instance.id"


@pytest.mark.parametrize(
    "name",
    rest_at_night(
        ["groups", "consumers", "diff", "rebalances", "impact", "expired", "deleted"],
        ["groups", "rebalances", "impact"],
    ),
)
def test_ids_that_the_next_command_takes_are_whole_on_a_narrow_screen(screen, name: str, monkeypatch):
    monkeypatch.setattr(incidents, "_MOST_CHANGES", 100)
    monkeypatch.setattr(answers, "_SCREEN", 100)
    text = "\n".join(screen(80, *ASKED[name]))
    wide = "\n".join(screen(80, *ASKED[name], "--wide"))
    known = {group for group in (GROUP, "payments", "legacy", "simple", "zombie", "txn-only") if group in wide}
    assert known
    assert {group for group in known if group not in text} == set()


def test_what_a_saved_query_answers_is_readable_on_a_narrow_screen(screen):
    lines = screen(80, "sql", "--list")
    (place,) = (place for place, line in enumerate(lines) if line.startswith("blocking-members"))
    assert lines[place + 1].startswith("    ANSWERS: KIP-848 members that took longest to revoke")
    assert not any("…" in line for line in lines)


def test_how_long_a_rebalance_took_is_in_one_column_and_bounds_are_words(screen, tmp_path: Path):
    warehouse = write_small_warehouse(tmp_path / "warehouse")
    took = [(415, 35, 12_686), (None, 9, 2849), (None, 9, None), (None, 0, 2849), (None, None, 400_000)]
    write_rows(warehouse, "rebalances", [
        {"rebalance_id": f"r-{place}", "cluster": "default", "group_id": "timed", "group_type": "classic",
         "epoch": place, "completed_at": at(f"02:1{place}"), "completed_offset": place, "is_exact": True,
         "duration_ms": exact, "duration_ms_min": least, "duration_ms_max": most, "cause": "TOPIC_METADATA_CHANGE",
         "confidence": "certain", "members_after": 3}
        for place, (exact, least, most) in enumerate(took)
    ])  # fmt: skip
    write_rows(warehouse, "group_timeline", [event("timed", 0, "02:10", "GROUP_CREATED", ">Stable", member_count=3)])
    asked = ("rebalances", "timed", "--warehouse", str(warehouse))
    shown = [re.split(r" {2,}", line) for line in screen(80, *asked)]
    place = shown[1].index("DURATION")
    assert [row[place] for row in shown[2:7]] == [
        "415 ms", "9 ms to 2.9 s", "at least 9 ms", "at most 2.9 s", "-",
    ]  # fmt: skip
    assert {"CAUSE", "CONFIDENCE"} <= set(shown[1])
    wide = next(line for line in screen(80, *asked, "--wide") if "GROUP" in line).split()
    assert {"DURATION-MS", "AT-LEAST-MS", "AT-MOST-MS"} <= set(wide)
    assert "DURATION" not in wide


@pytest.mark.parametrize("time", ["2030-01-01", "nonsense"])
def test_no_line_of_an_error_is_wider_than_the_terminal_and_no_word_is_cut(folder, monkeypatch, time: str):
    monkeypatch.setattr(output, "terminal_width", lambda *, err=False: 80)
    runner = CliRunner(env={"COORDINATOR_REPLAY_WAREHOUSE": str(folder)})
    result = runner.invoke(main, ("timeline", GROUP, "--from", time))
    lines = result.stderr.splitlines()
    assert result.exit_code == 2
    assert max(map(cell_len, lines)) <= 80
    monkeypatch.undo()
    whole = runner.invoke(main, ("timeline", GROUP, "--from", time)).stderr
    assert len(whole.splitlines()) < len(lines)
    assert " ".join(" ".join(lines).split()) == " ".join(whole.split())


def test_every_command_that_answers_is_looked_at():
    assert {arguments[0] for arguments in (*ASKED.values(), *WHAT_IF.values())} == set(main.commands) - WRITES


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_variants(tmp_path_factory.mktemp("variants"))


@each_width
@pytest.mark.parametrize("name", rest_at_night(WHAT_IF, ["one", "settings"]))
def test_no_line_of_a_what_if_is_wider_than_the_terminal(variants, screen, name: str, width: int):
    shown = screen(width, *WHAT_IF[name], "--warehouse", str(variants))
    assert shown
    assert [line for line in shown if cell_len(line) > width] == []


def test_alternatives_are_on_a_narrow_screen(variants, screen):
    asked = ("what-if", "shop-v-dynamic", "--alternative", "group.protocol=consumer", *SHORT)
    shown = screen(80, *asked, "--alternative", "group.instance.id=per-client", "--warehouse", str(variants))
    (heading,) = (line.split() for line in shown if line.startswith("MEASURE"))
    assert heading == ["MEASURE", "RECORDED", "(2)", "(3)"]


def test_a_what_if_fits_on_a_narrow_screen_and_counts_what_it_leaves_out(variants, screen):
    asked = ("what-if", "shop-v-dynamic", "--set", "group.protocol=consumer", *SHORT, "--warehouse", str(variants))
    shown = screen(80, *asked)
    assert len(shown) <= 24
    assert shown[0].startswith("group.protocol=consumer: ")
    heading = next(place for place, line in enumerate(shown) if line.startswith("MEASURE"))
    assert [line.split("  ")[0] for line in shown[heading + 1 : heading + 4]] == [
        "rebalances", "pauses in total, ms", "partitions reassigned",
    ]  # fmt: skip
    measures, assumptions = re.fullmatch(
        r"(\d+) more measures, (\d+) more assumptions: --wide shows them\.", shown[-1]
    ).groups()
    wide = screen(80, *asked, "--wide")
    assert sum(line.split("  ")[0] in {"GROUP_CREATED", "share of the time Stable"} for line in wide) == 2
    assert int(measures) >= 2
    assert int(assumptions) >= 5


@pytest.mark.parametrize("width", rest_at_night(WIDTHS, [80]))
@pytest.mark.parametrize("name", rest_at_night(["maintain", "report", "trace"], ["maintain", "trace"]))
def test_no_line_about_what_was_written_is_wider_than_the_terminal(screen, tmp_path, monkeypatch, name, width):
    warehouse = write_small_warehouse(tmp_path / "warehouse")
    monkeypatch.chdir(tmp_path)
    out = [] if name == "maintain" else ["--out", "out.html"]
    shown = screen(width, name, *out, "--warehouse", str(warehouse))
    assert shown
    assert [line for line in shown if cell_len(line) > width] == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", sorted(main.commands))
def test_no_line_of_help_is_wider_than_the_terminal(name: str, width: int):
    # The width that click found is asked for here: a terminal of the test's own would be another one.
    program = main.make_context("coordinator-replay", [], resilient_parsing=True)
    context = click.Context(
        main.commands[name], program, name, terminal_width=min(width, main.context_settings["max_content_width"])
    )
    lines = main.commands[name].get_help(context).splitlines()
    assert [line for line in lines if cell_len(line) > width] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_list_of_commands_has_a_whole_line_for_each(width: int):
    context = click.Context(main, info_name="coordinator-replay", terminal_width=min(width, 100))
    shown = main.get_help(context).splitlines()
    assert [line for line in shown if cell_len(line) > width] == []
    for name in main.commands:
        (line,) = [line for line in shown[shown.index("What happened:") :] if line.split()[:1] == [name]]
        assert line.endswith("."), name
        assert not line.endswith("..."), name


def rows(shown: list[str], heading: str) -> list[str]:
    """The lines of the table with this heading, up to the next empty line or note."""
    place = next(place for place, line in enumerate(shown) if heading in line.split())
    kept = []
    for line in shown[place + 1 :]:
        if not line or line.startswith(("In all rows", "In these rows", "Also", "Left out", "--wide", "cluster ")):
            break
        kept.append(line)
    return kept


@pytest.mark.parametrize("width", rest_at_night(WIDTHS, [80, 120]))
@pytest.mark.parametrize(
    ("name", "heading", "count"), [("describe", "CLIENT-ID", 3), ("members", "FROM", 3), ("offsets", "TOPIC", 3)]
)
def test_each_row_has_a_line_and_shortened_ids_stay_different(
    screen, monkeypatch: pytest.MonkeyPatch, name: str, heading: str, count: int, width: int
):
    monkeypatch.setattr(answers, "_SCREEN", 100)
    # Lists of partitions and metadata go on in lines below.
    lines = [line for line in rows(screen(width, *ASKED[name]), heading) if not line.startswith(" ")]
    assert len(lines) == count
    ids = [tuple(word for word in re.split(r" {2,}", line) if word.startswith(CLIENT[:4])) for line in lines]
    # On a narrow screen clients and partitions come before the ids of members, unless all members share host and state.
    assert len(set(ids)) == (count if width > 80 or name == "describe" else 1)


@pytest.mark.parametrize("name", rest_at_night(ASKED, sorted(ASKED)[::3]))
def test_piped_answers_are_complete_whatever_the_width(folder: Path, name: str):
    told = [
        CliRunner(env={"COORDINATOR_REPLAY_WAREHOUSE": str(folder), "COLUMNS": str(width)})
        .invoke(main, ASKED[name])
        .stdout
        for width in (WIDTHS[0], WIDTHS[-1])
    ]
    assert len(set(told)) == 1
    assert "…" not in told[0]


@pytest.mark.parametrize("name", ["describe", "members", "offsets"])
def test_wide_shows_every_column_in_full(screen, name: str):
    text = "\n".join(screen(80, *ASKED[name], "--wide"))
    assert "…" not in text
    assert all(name in text for name in MEMBERS)
    assert "LOG-PARTITION" in text or "RACK-ID" in text


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of 18 groups of two members: the first has 30 events, the last a member in place of another."""
    folder = write_small_warehouse(tmp_path_factory.mktemp("crowded"))
    names = [f"crowd-{number:02}" for number in range(18)]
    write_rows(folder, "group_timeline", [
        event(name, seq, f"02:03:{seq:02}", "MEMBER_JOINED", "Stable>Assigning", epoch=seq, member_count=2,
              member_id="m")
        for name in names for seq in range(1, 31 if name == names[0] else 2)
    ])  # fmt: skip
    write_rows(folder, "member_timeline", [
        member(name, f"m-{place}", "02:03", None, place, member_epoch=1, assigned=orders(place), target=orders(place),
               is_client_inherited=name == names[-1] and place == 1)
        for name in names for place in range(2)
    ])  # fmt: skip
    write_rows(folder, "offset_history", [offset("orders", 0, 100, "02:03", group_id=name) for name in names])
    return folder


CROWDED: dict[tuple[str, ...], str] = {
    ("describe", "crowd-*"): "13 more groups",
    ("describe", "crowd-*", "--state"): "2 more groups",
    ("describe", "crowd-*", "--members"): "22 more members",
    ("describe", "crowd-*", "--offsets"): "2 more offsets",
    ("describe", "crowd-00", "crowd-01", "crowd-02"): "",
    ("timeline", "crowd-00"): "15 more events",
    ("offsets", "crowd-*"): "2 more offsets",
}
"""Questions about many rows, and how many a screen leaves out."""


@pytest.mark.parametrize("asked", rest_at_night(CROWDED, list(CROWDED)[2::2]), ids=" ".join)
def test_an_answer_about_many_rows_fits_on_a_screen_and_counts_the_others(
    crowded: Path, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...]
):
    monkeypatch.setattr(output, "terminal_width", lambda *, err=False: 80)
    shown = _told(crowded, *asked)
    assert len(shown) < 24
    counts = [line for line in shown if _MORE.match(line)]
    assert counts[:1] == ([f"{CROWDED[asked]}: --wide and --output json have them."] if CROWDED[asked] else [])


_MORE = re.compile(r"\d+ more ")


def _told(folder: Path, *arguments: str) -> list[str]:
    runner = CliRunner(env={"COORDINATOR_REPLAY_WAREHOUSE": str(folder), "COLUMNS": "80", "NO_COLOR": "1"})
    result = runner.invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


@pytest.mark.parametrize(
    ("shown", "is_said"),
    [
        pytest.param([], False, marks=pytest.mark.long),
        (["--state"], False),
        (["--members", "--wide"], True),
    ],
)
def test_a_note_on_a_member_stands_beside_members_alone(
    crowded: Path, monkeypatch: pytest.MonkeyPatch, shown: list[str], is_said: bool
):
    monkeypatch.setattr(output, "terminal_width", lambda *, err=False: 80)
    assert (
        any("crowd-17: Client id and host" in line for line in _told(crowded, "describe", "crowd-*", *shown)) is is_said
    )


@pytest.mark.parametrize("width", [80, None])
def test_a_pipe_and_wide_get_all_events(crowded: Path, monkeypatch: pytest.MonkeyPatch, width: int | None):
    monkeypatch.setattr(output, "terminal_width", lambda *, err=False: width)
    shown = _told(crowded, "timeline", "crowd-00", *(["--wide"] if width else []))
    assert sum("MEMBER_JOINED" in line for line in shown) == 30
    assert not any(_MORE.match(line) for line in shown)


@pytest.mark.parametrize(("sentences", "lines"), [([], 16), (["short"], 16), (["long " * 40], 14), (["a"] * 99, 5)])
def test_notes_beside_a_table_take_their_lines_from_it(
    monkeypatch: pytest.MonkeyPatch, sentences: list[str], lines: int
):
    monkeypatch.setattr(output, "terminal_width", lambda *, err=False: 80)
    printed: list[float] = []

    def keep(columns: object, rows: list[object], *, most_lines: float, **_: object) -> int:
        printed.append(most_lines)
        return len(rows)

    monkeypatch.setattr(answers, "print_table", keep)
    common = Common(warehouse="", cluster=None, output="table", wide=False, verbose=False)
    answers.print_screen(common, [], [[]], "row", sentences)
    assert printed == [lines]
