"""Every question that the program answers, asked in this process; what no answer may be."""

import json
import unicodedata
from collections.abc import Iterator
from itertools import cycle, product
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator_replay.cli.main import main
from coordinator_replay.query.saved import saved_queries

FORMS = ("table", "json", "csv")


def whole_cluster(folder: Path, *, in_all_forms: bool = False) -> Iterator[list[str]]:
    """Questions about all groups at once, each in one form in turn or in all of them."""
    questions = [[command] for command in ("groups", "findings", "expired", "rebalances", "why", "impact")]
    questions += [["sql", "--query", name] for name in saved_queries()]
    for question, form in product(questions, FORMS) if in_all_forms else zip(questions, cycle(FORMS)):
        yield [*question, "--output", form]
    yield ["diff", "--from", "-1m"]
    yield ["diff", "--from", "-1m", "--output", "csv"]
    yield ["diff", "--from", "-1m", "--to", "now", "--wide"]
    yield ["impact", "--from", "-1h", "--output", "json"]
    yield ["metrics"]
    yield ["metrics", "--openmetrics", "--groups", ".*[0-3]", "--limit", "3"]
    yield ["findings", "--new"]
    yield ["findings", "--since", "2020-01-01", "--output", "json"]
    yield ["rebalances", "--last", "3"]
    yield ["groups", "--at", "now", "--wide"]
    yield ["groups", "--deleted", "--output", "json"]
    yield ["sql", "FROM group_timeline", "--output", "json"]
    yield ["sql", "FROM offset_history", "--output", "json"]
    yield ["report", "--out", str(folder / "fleet.html")]
    yield ["trace", "--out", str(folder / "fleet.json")]


SHARES = [pytest.param(6, id="a sixth"), pytest.param(1, id="all", marks=pytest.mark.long)]
"""One of how many questions is asked; each of the tests by day begins at another one, so together they ask most."""


def one_group(group: str, folder: Path, topic: str = "orders") -> Iterator[list[str]]:
    """Questions about a group; its id comes last, behind the sign that it is no option."""
    for command in ("describe", "offsets", "timeline", "why", "rebalances", "expired"):
        yield [command, "--output", "json", "--", group]
        yield [command, "--", group]
    yield ["describe", "--at", "now", "--output", "csv", "--", group]
    yield ["why", "--at", "now", "--", group]
    yield ["offsets", "--require-stable", "--reset-file", str(folder / "reset.csv"), "--", group]
    yield ["offsets", f"--history={topic}", "--", group]
    yield ["consumers", "--output", "json", "--", topic]
    yield ["consumers", "--from", "-1h", "--", topic]
    yield ["owner", "--output", "json", "--", group, topic, "0"]
    yield ["owner", "--from", "-1d", "--", group, topic, "0"]
    yield ["owner", "--at", "now", "--", group, topic, "2147483647"]
    yield ["findings", f"--group={group}", "--output", "json"]
    yield ["timeline", "--members", "--", group]
    yield ["report", "--out", str(folder / "group.html"), "--", group]
    yield ["trace", "--out", str(folder / "group.json"), "--", group]


def what_if(group: str = "") -> list[str]:
    """What the life of a group, or of each, would have been under another setting: simulated, so it takes its time."""
    return [
        "what-if",
        "--set",
        "session.timeout.ms=60000",
        "--output",
        "json",
        *(["--", group] if group else ["--all"]),
    ]


def ask(warehouse: Path, question: list[str], cluster: str = "default") -> Result:
    command, *rest = question
    return CliRunner().invoke(main, [command, "--warehouse", str(warehouse), "--cluster", cluster, *rest])


def is_harmless(text: str) -> bool:
    """Whether a terminal shows a text and does nothing else: no controls, no invisible marks, no turned lines."""
    return not any(unicodedata.category(one) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and one != "\n" for one in text)


def faults(result: Result, question: list[str]) -> list[str]:
    """What is wrong with an answer; an error in a sentence is none."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return [f"{question}: {result.exception!r}"]
    found = []
    if "Traceback" in result.output or "unexpected" in result.output:
        found.append(f"{question}: {result.output[:500]}")
    if result.exit_code and not result.output.strip().splitlines()[-1].startswith("Error: "):
        found.append(f"{question}: exit code {result.exit_code} without a sentence: {result.output[-500:]!r}")
    if "csv" not in question and not is_harmless(result.output):
        found.append(f"{question}: characters that a terminal obeys")
    if result.exit_code == 0 and "json" in question:
        for line in result.stdout.splitlines():
            json.loads(line)
    return found
