"""Each question of the cookbook at its first command, as it is shown on a terminal of 80 cells.

What is shown there is held against the brokers by the other tests of this folder. Here: that the answer, with what the
journals of the recordings name, is in sight. Lists (of records' kinds, of reasons one by one) may be longer.
"""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from coordinator_replay.cli import ask, output
from coordinator_replay.cli.main import main
from tests.samples import Sample

CELLS, LINES = 80, 24
LIFE, JAVA, PREVIEW = "group-lifecycles", "java-clients", "kafka-3.9"

QUESTIONS = {
    1: (LIFE, "rebalances shop-billing", "LEAVE_OR_TIMEOUT"),
    2: (LIFE, "sql --query alternating-subscriptions", "No rows"),
    3: (LIFE, "sql --query slow-topic-changes", r"shop-new +shop\.ship partitions 6 to 9 +08:33:21 +08:33:21 +\d+"),
    4: (JAVA, "sql --query rebalance-triggers", r"bakery-bounce +b"),
    5: (LIFE, "sql --query flapping-groups", r"shop-new +(9 +)?3\.5 s[\s\S]*who: joined new-1 \(2\)"),
    6: (LIFE, "groups --state PreparingRebalance", "brokers' logs"),
    7: (JAVA, "sql --query blocking-members", r"hold-1\b"),
    8: ("expiration", "offsets shop-stale", r"shop\.stale:0-2 expired"),
    9: ("expiration", "expired shop-stale", r"shop\.stale +2 +EXPIRED[\s\S]*OFFSET 20"),
    10: (LIFE, "offsets shop-billing --at 2026-11-21T08:33:00", r"shop\.orders .* /127\.0\.0\.1 +billing-1"),
    11: (JAVA, "offsets bakery-removed --history bakery.adm:3", r"\b20\b"),
    12: (LIFE, "sql --query manual-offset-changes", r"shop-trim\b"),
    13: ("transactions", "sql --query stuck-transactions", r"bank-eos +bank\.ledger +2 +09:03:22 +\d+ +2\b"),
    14: (LIFE, "sql --query flapping-static-members", r"app-1 +3 [\s\S]*holders: 2026-11-21T08:32:13Z to 2026"),
    15: (LIFE, "owner shop-new shop.ship 3 --at 2026-11-21T08:33:00", r"\bnew-\d"),
    16: (LIFE, "sql --query what-fills-the-topic", r"shop-wide\b"),
    17: (LIFE, "sql --query last-commits", r"shop-simple\b"),
    18: (LIFE, "sql --query hot-committers", r"shop-simple\b"),
    19: (LIFE, "sql --query abandoned-topics", r"shop-new +shop\.ship2 +2\b"),
    20: (LIFE, "groups --type consumer", r"shop-newstatic\b"),
    22: (LIFE, "sql --query undecoded-records", "No rows"),
    23: (LIFE, "sql --query deleted-and-back", "No rows"),
    24: (LIFE, "groups", r"shop-billing\b"),
    25: (LIFE, "sql --query loading-risks", r"No reason is on record[\s\S]*Brokers' logs were not audited"),
    27: (LIFE, "consumers shop.orders", r"billing-1 .* 08:32:36[\s\S]*billing-1 .* 08:32:39 +-"),
    28: (LIFE, "impact --from 08:33:20 --to 08:33:40", r"3 of 9 groups concerned"),
    29: (LIFE, "diff --from 2026-11-21T08:33 --to 2026-11-21T08:33:40", r"shop-eos +group +added +1 +Stable"),
    30: (LIFE, "findings --new", r"shop\.kept-0 rewound from 4 to 1"),
    31: (LIFE, "sql --query classic-protocol-groups", r"shop-billing\b[\s\S]*obstacle .none on record"),
    32: (LIFE, "describe shop-share --at 2026-11-21T08:34:26", r"\bsh-2\b"),
    33: (LIFE, "describe shop-streams --at 2026-11-21T08:34:02.280", r"\bst-2\b"),
    34: (LIFE, "sql --query log-partition-growth", r"shop-wide\b"),
    35: (f"{JAVA},{PREVIEW}", "diff", r"bakery-holders\b"),
    36: (LIFE, "impact --from 08:33:20 --to 08:33:40", r"3 of 9 groups concerned, 6\s+rebalances"),
    37: (LIFE, "impact --by rollout", r"The highest cost on record of [\s\S]*shop-migrate\b"),
    38: (LIFE, "groups --client new-*", r"shop-new\b"),
    39: (JAVA, "sql --query last-to-rejoin", r"hold-1\b"),
    40: (LIFE, "sql --query skipped-or-read-again", r"shop-trim +shop\.kept +0 +08:33:42 +4 +1\b"),
}
"""By number: the cluster, the command, and what must be in sight. 21 asks for a list, and 26 for a simulation."""


ON_CALL = {
    "which deploy cost most downtime": (LIFE, "impact --by rollout", r"shop-migrate\b"),
    "who loses offsets up to a date": ("expiration", "expired --until 2027-01-01", r"2027-01-02T00:00"),
    "who is still on the classic protocol": (LIFE, "sql --query classic-protocol-groups", r"shop-billing\b"),
    "what changed from a minute on in which the log begins": (
        LIFE,
        "diff --from 08:32 --to 08:33",
        r"shop-billing +group +added[\s\S]*begins only at 2026-11-21T08:32:12\.647Z",
    ),
    "who is always last to rejoin": (JAVA, "sql --query last-to-rejoin", r"hold-1\b"),
    "did our consumer skip messages": (LIFE, "sql --query jumps-ahead", "No rows"),
    "did our consumer read messages again": (LIFE, "sql --query rewinds", r"shop-trim +shop\.kept +0"),
    "a graph for the post-mortem": (
        LIFE,
        "report shop-billing --out {folder}/x.svg --mark 08:33=deploy",
        r"Wrote\s+\S+/x\.svg",
    ),
    "which groups run on a host": (LIFE, "groups --host 127.0.0.1", r"shop-new\b"),
    "all groups of a client id": (LIFE, "groups --client billing-*", r"shop-billing\b"),
    "SQL of one's own": (
        LIFE,
        "sql 'SELECT topic, count(*) AS owners FROM current_owners WHERE cluster = $cluster GROUP BY topic'",
        r"shop\.orders +\d",
    ),
    "offsets of all groups as of a time": (
        LIFE,
        "offsets --all-groups --at 08:33:00 --reset-file {folder}/all.csv",
        r"Wrote 58\s+partitions",
    ),
    "put back the offsets of a deleted group": (
        LIFE,
        "offsets shop-doomed --before-removal --reset-file {folder}/doomed.csv",
        r"shop\.simple +2 +5\b[\s\S]*Wrote 3\s+partitions",
    ),
    "what are all groups like": (LIFE, "describe --all-groups", r"CURRENT-ASSIGNMENT[\s\S]*shop\.orders:0-3"),
    "which session timeouts do we use": (
        LIFE,
        "sql --query session-timeouts",
        r"4000 +members[\s\S]*- +brokers or group[\s\S]*If set_by is members, the members\s+send",
    ),
    "show it in local time": (LIFE, "rebalances shop-billing --zone Europe/Berlin", r"09:3\d:\d\d"),
}
"""Questions of a newcomer on call, likewise; a longer answer says how many lines more there are."""


@pytest.fixture
def typed_at_80(audited: Path, expired: str, transactional: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Types a command on a terminal of 80 cells, and returns what it shows."""

    def run(cluster: str, *command: str) -> str:
        for module in (output, ask):
            monkeypatch.setattr(module, "terminal_width", lambda *, err=False: CELLS)
        runner = CliRunner(env={"COORDINATOR_REPLAY_WAREHOUSE": str(audited), "COLUMNS": str(CELLS), "NO_COLOR": "1"})
        result = runner.invoke(main, [*command, "--cluster", cluster])
        assert result.exit_code == 0, result.output
        return result.output

    return run


@pytest.mark.parametrize("question", ON_CALL)
def test_a_newcomers_question_is_answered_by_one_command(typed_at_80, tmp_path: Path, question: str):
    cluster, command, wanted = ON_CALL[question]
    shown = typed_at_80(cluster, *shlex.split(command.format(folder=tmp_path)))
    lines = shown.splitlines()
    # The test's folder has a long name, which is never cut.
    assert [line for line in lines if cell_len(line) > CELLS and str(tmp_path) not in line] == []
    assert len(lines) <= LINES or re.search(r"^[\d,]+ more \w+: --wide", shown, re.MULTILINE), shown
    assert re.search(wanted, shown), shown


@pytest.mark.parametrize("number", QUESTIONS)
def test_the_answer_is_on_one_screen(
    audited: Path, expired: str, transactional: str, monkeypatch: pytest.MonkeyPatch, number: int
):
    cluster, command, wanted = QUESTIONS[number]
    for module in (output, ask):
        monkeypatch.setattr(module, "terminal_width", lambda *, err=False: CELLS)
    runner = CliRunner(env={"COORDINATOR_REPLAY_WAREHOUSE": str(audited), "COLUMNS": str(CELLS), "NO_COLOR": "1"})
    result = runner.invoke(main, [*command.split(), "--cluster", cluster])
    assert result.exit_code == 0, result.output
    shown = result.output.splitlines()
    assert [line for line in shown if cell_len(line) > CELLS] == []
    assert len(shown) <= LINES, result.output
    assert re.search(wanted, result.output), result.output


def test_each_record_of_a_file_is_a_line_with_its_kind_and_group():
    (segment,) = (Sample(LIFE).folder / "segments" / "__consumer_offsets-1").glob("*.log")
    result = CliRunner().invoke(main, ["decode", str(segment)])
    assert result.exit_code == 0, result.output
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["log_offset"] for one in records] == list(range(len(records)))
    assert {("shop-doomed", "OffsetCommit")} <= {(one.get("group_id"), one.get("kind")) for one in records}


def test_every_question_of_the_cookbook_has_a_first_command_here():
    text = (Path(__file__).parents[2] / "docs" / "cookbook.md").read_text(encoding="utf-8")
    numbers = {int(number) for number in re.findall(r"^### (\d+)\.", text, re.MULTILINE)}
    assert numbers - QUESTIONS.keys() == {21, 26}
