"""What maintain and audit refuse, and with which exit code, before Spark is started."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator_replay.cli.main import main
from coordinator_replay.store.lock import one_at_a_time
from tests.query.small_warehouse import write_small_warehouse
from tests.samples import Sample


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    write_small_warehouse(tmp_path)
    return str(tmp_path)


@pytest.mark.parametrize("command", [("audit", Sample("transactions").segments), ("maintain",)])
def test_a_run_on_a_warehouse_in_use_says_so_and_fails(command: tuple[str, ...], warehouse: str):
    with one_at_a_time(warehouse, "audit"):
        done = run(*command, "--warehouse", warehouse)
    assert done.exit_code == 1
    assert "is in use by audit (process" in done.stderr
    assert "Spark" not in done.stderr


def test_a_vacuum_that_may_harm_readers_is_wrong_use(warehouse: str):
    done = run("maintain", "--warehouse", warehouse, "--vacuum-after", "1d")
    assert done.exit_code == 2
    assert "--force" in done.stderr


def test_upkeep_of_nothing_is_wrong_use_and_makes_nothing(tmp_path: Path):
    done = run("maintain", "--warehouse", str(tmp_path / "typo"))
    assert done.exit_code == 2
    assert "no warehouse" in done.stderr
    assert not (tmp_path / "typo").exists()
