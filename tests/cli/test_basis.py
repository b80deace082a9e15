"""The line that says what an answer stands on, in a terminal and beside JSON and CSV."""

from datetime import timedelta
from itertools import cycle, product
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator_replay.cli import clock
from coordinator_replay.cli.main import main
from tests.nightly import rest_at_night
from tests.query.small_warehouse import at, offset, write_rows, write_small_warehouse

LINE = "cluster default, log up to 2026-11-20T02:20:00Z (2 d ago)\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_warehouse(tmp_path_factory.mktemp("warehouse"))


FORMS = ("table", "json", "csv")
WORDS = [
    ["groups"], ["groups", "--deleted"], ["describe", "payments"], ["offsets", "payments"],
    ["describe", "--all-groups"], ["describe", "--all-groups", "--state"],
    ["timeline", "payments"],
    ["rebalances"], ["why"], ["owner", "payments", "orders", "0"], ["expired"], ["findings"],
    ["consumers", "orders"], ["impact"], ["diff", "--from", "02:01"],
    ["sql", "SELECT 1"], ["sql", "--query", "audit-runs"],
]  # fmt: skip


# By day each command has one of the forms.
@pytest.mark.parametrize("asked", rest_at_night(product(WORDS, FORMS), [*zip(WORDS, cycle(FORMS))]), ids=str)
def test_every_answer_says_once_what_it_stands_on(
    monkeypatch: pytest.MonkeyPatch, folder: Path, asked: tuple[list[str], str]
):
    words, form = asked
    monkeypatch.setattr(clock, "now", lambda: at("02:20") + timedelta(days=2, hours=1))
    runner = CliRunner(env={"COORDINATOR_REPLAY_WAREHOUSE": str(folder)})
    told = runner.invoke(main, [*words, "--output", form])
    assert told.exit_code == 0, told.output
    assert told.stderr.count(LINE) == 1
    assert "log up to" not in told.stdout


def test_a_row_that_is_not_proven_brings_the_column_exact(tmp_path: Path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "offset_history", [offset("logs", 0, 1, "02:05", group_id="odd", is_exact=False)])
    runner = CliRunner(env={"COORDINATOR_REPLAY_WAREHOUSE": str(folder)})
    told = [runner.invoke(main, ["offsets", group]).stdout.splitlines()[0].split() for group in ("simple", "odd")]
    assert ["EXACT" in heading for heading in told] == [False, True]
