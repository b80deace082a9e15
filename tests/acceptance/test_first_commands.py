"""Each question of the cookbook at its first command, as it is shown on a terminal of 80 cells.

What is shown there is held against the brokers by the other tests of this folder. Here: that the answer, with what the
journals of the recordings name, is in sight. Lists (of records' kinds, of reasons one by one) may be longer.
"""

import json
import re
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
    3: (LIFE, "sql --query slow-topic-changes", r"shop-new\b"),
    4: (JAVA, "sql --query rebalance-triggers", r"bakery-bounce +b"),
    5: (LIFE, "sql --query flapping-groups", r"shop-billing\b"),
    6: (LIFE, "groups --state PreparingRebalance", "brokers' logs"),
    7: (JAVA, "sql --query blocking-members", r"hold-1\b"),
    8: ("expiration", "offsets shop-stale", r"shop\.stale:0-2 expired"),
    9: ("expiration", "expired shop-stale", r"shop\.stale +2 +20 +EXPIRED"),
    10: (LIFE, "offsets shop-billing --at 2026-11-21T08:33:00", r"shop\.orders"),
    11: (JAVA, "offsets bakery-removed --history bakery.adm:3", r"\b20\b"),
    12: (LIFE, "sql --query manual-offset-changes", r"shop-trim\b"),
    13: ("transactions", "sql --query stuck-transactions", r"bank-eos +bank\.ledger +2 +09:03:22 +\d+ +2\b"),
    14: (LIFE, "sql --query flapping-static-members", r"app-0\b"),
    15: (LIFE, "owner shop-new shop.ship 3 --at 2026-11-21T08:33:00", r"\bnew-\d"),
    16: (LIFE, "sql --query what-fills-the-topic", r"shop-wide\b"),
    17: (LIFE, "sql --query last-commits", r"shop-simple\b"),
    18: (LIFE, "sql --query hot-committers", r"shop-simple\b"),
    19: (LIFE, "sql --query abandoned-topics", r"shop-new +shop\.ship2 +2\b"),
    20: (LIFE, "groups --type consumer", r"shop-newstatic\b"),
    22: (LIFE, "sql --query undecoded-records", "No rows"),
    23: (LIFE, "sql --query deleted-and-back", "No rows"),
    24: (LIFE, "groups", r"shop-billing\b"),
    25: (LIFE, "sql --query inexact-groups", "No rows"),
    27: (LIFE, "consumers shop.orders", r"billing-3\b"),
    28: (LIFE, "impact --from 08:33:20 --to 08:33:40", r"3 of 9 groups concerned"),
    29: (LIFE, "diff --from 2026-11-21T08:33 --to 2026-11-21T08:33:40", r"shop-eos +group +added +1 +Stable"),
    30: (LIFE, "findings --new", r"shop\.kept-0 rewound from 4 to 1"),
    31: (LIFE, "sql --query classic-protocol-groups", r"shop-billing\b"),
    32: (LIFE, "describe shop-share --at 2026-11-21T08:34:26", r"\bsh-2\b"),
    33: (LIFE, "describe shop-streams --at 2026-11-21T08:34:02.280", r"\bst-2\b"),
    34: (LIFE, "sql --query log-partition-growth", r"shop-wide\b"),
    35: (f"{JAVA},{PREVIEW}", "diff", r"bakery-holders\b"),
    36: (LIFE, "impact --from 08:33:20 --to 08:33:40", r"3 of 9 groups concerned, 6\s+rebalances"),
    37: (LIFE, "impact --by rollout", r"shop-migrate\b"),
    38: (LIFE, "groups --client new-*", r"shop-new\b"),
    39: (JAVA, "sql --query last-to-rejoin", r"hold-1\b"),
    40: (LIFE, "sql --query jumps-ahead", "No rows"),
}
"""By number: the cluster, the command, and what must be in sight. 21 asks for a list, and 26 for a simulation."""


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
