"""One rebalance in words."""

from dataclasses import replace

import pytest

from coordinator_replay.cli.reasons import print_reason
from coordinator_replay.query.rebalances import Rebalance, rebalances_of
from coordinator_replay.query.tables import Tables
from tests.query.small_warehouse import write_small_warehouse


@pytest.fixture(scope="module")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Rebalance:
    folder = tmp_path_factory.mktemp("warehouse")
    write_small_warehouse(folder)
    (rebalance,) = [row for row in rebalances_of(Tables(str(folder)), "legacy") if row.duration_ms_min]
    return rebalance


def test_a_sync_is_told_with_the_limit_of_the_whole(classic: Rebalance, capsys: pytest.CaptureFixture[str]):
    print_reason(classic)
    assert "sync took 40 ms, the whole rebalance at most 60,000 ms;" in capsys.readouterr().out
    print_reason(replace(classic, duration_ms_max=None))
    assert "sync took 40 ms; its join phase" in capsys.readouterr().out


@pytest.mark.parametrize("least_ms", [0, None])
def test_no_sync_is_told_where_the_log_bounds_it_from_neither_side(
    classic: Rebalance, capsys: pytest.CaptureFixture[str], least_ms: int | None
):
    print_reason(replace(classic, duration_ms_min=least_ms, duration_ms_max=None))
    text = capsys.readouterr().out
    assert "the log does not show how long it took" in text
    assert "sync" not in text
