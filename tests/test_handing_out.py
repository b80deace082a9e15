"""The files that are handed out first are there."""

from pathlib import Path

import pytest

from tests.handing_out import DEAREST, GROUPS, group_of

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("named", [*(name for names in GROUPS.values() for name in names), *DEAREST])
def test_what_is_named_is_there(named: str):
    assert [file for file in (ROOT / "tests").rglob("test_*.py") if str(file.relative_to(ROOT)).startswith(named)]


def test_a_test_goes_with_what_it_shares_a_fixture_with_and_else_with_its_file():
    assert group_of("tests/spark/test_replay.py::test_a[1]") == "spark"
    assert group_of("tests/acceptance/test_asked_log.py::test_a") == "audited"
    assert group_of("tests/acceptance/test_year.py::test_a[b::c]") == "tests/acceptance/test_year.py"
