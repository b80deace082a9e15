"""Thresholds as they are typed."""

import pytest
from click.testing import CliRunner

from coordinator_replay.cli.main import main
from coordinator_replay.cli.thresholds import parse_threshold
from coordinator_replay.errors import UsageError


@pytest.mark.parametrize(
    "text", ["stuck", "stuck=", "stuck=soon", "stuk=1m", "storm-rebalances=1m", "=3", "size-percent=-1"]
)
def test_what_is_no_threshold_is_refused(text):
    with pytest.raises(UsageError):
        parse_threshold(text)


def test_a_threshold_that_does_not_exist_ends_an_audit_before_it_begins(tmp_path):
    (tmp_path / "a.log").write_bytes(b"")
    place = ["audit", str(tmp_path), "--warehouse", str(tmp_path / "w")]
    result = CliRunner().invoke(main, [*place, "--threshold", "stuk=1m"])
    assert result.exit_code == 2
    assert "storm-rebalances" in result.output
    result = CliRunner().invoke(main, [*place, "--threshold", "stuck=0s"])
    assert result.exit_code == 2
    assert "at least 1" in result.output
