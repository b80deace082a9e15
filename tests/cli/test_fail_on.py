"""Which new findings end an audit with code 3: those of groups that are not left out."""

from collections import Counter

import click
import pytest

from coordinator_replay.cli.compute import is_failing
from coordinator_replay.cli.main import main
from coordinator_replay.cli.options import Common
from tests.pipeline.in_process import audit_here
from tests.samples import DATA


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Common, Counter[str]]:
    """The report of group k9801, whose findings are an error and warnings, and what is new by severity."""
    folder = tmp_path_factory.mktemp("audited")
    summary = audit_here(folder, DATA / "reports" / "empty-assignment" / "segments")
    common = Common(warehouse=str(folder), cluster=None, output="table", wide=False, verbose=False)
    return common, summary.new_findings


@pytest.mark.parametrize(
    ("fail_on", "excluded", "is_told"),
    [
        ("error", (), True),
        ("error", ("canary*", "other"), True),
        ("error", ("k98*",), False),
        ("info", ("other", "k9801"), False),
        (None, (), False),
    ],
)
def test_findings_of_groups_that_are_left_out_do_not_fail_an_audit(
    audited: tuple[Common, Counter[str]], fail_on: str | None, excluded: tuple[str, ...], is_told: bool
):
    common, new = audited
    assert new["error"]
    with click.Context(main.commands["audit"]):
        assert is_failing(common, new, fail_on, excluded) == is_told


def test_an_audit_without_new_findings_does_not_ask_for_earlier_ones(audited: tuple[Common, Counter[str]]):
    common, _ = audited
    assert not is_failing(common, Counter(), "info", ("other",))
