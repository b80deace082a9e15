"""Two audits that are started at once on one warehouse: one after the other, or one of them not at all."""

from pathlib import Path

import pytest

from tests.acceptance.processes import Audit, audited, check_same, ledger, tables
from tests.pipeline.test_incremental import cut
from tests.samples import Sample

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux for an audit's processes"),
]

SAMPLE = Sample("group-lifecycles")


@pytest.fixture(scope="module")
def halves(tmp_path_factory) -> list[Path]:
    slices = [tmp_path_factory.mktemp("halves") / f"half-{number}" for number in (1, 2)]
    cut(SAMPLE.segments, slices)
    return slices


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict[str, list[str]]:
    """The tables of one run over everything."""
    folder = tmp_path_factory.mktemp("whole")
    audited(SAMPLE.segments, folder / "warehouse", folder / "run")
    return tables(folder / "warehouse")


def together(dumps, warehouse, folder, *options):
    """Two audits, started at the same moment."""
    return [Audit(dump, warehouse, folder / f"run-{number}", *options) for number, dump in enumerate(dumps)]


def test_of_two_that_do_not_wait_one_says_who_is_at_work_and_changes_nothing(halves, whole, tmp_path):
    warehouse = tmp_path / "warehouse"
    audits = together(halves, warehouse, tmp_path)
    codes = [audit.end() for audit in audits]
    assert sorted(codes) == [0, 1], [audit.told() for audit in audits]
    worked, refused = audits[codes.index(0)], audits[codes.index(1)]
    said = refused.last_sentence()
    assert f"is in use by audit (process {worked.process.pid} on " in said
    assert "--wait" in said
    assert len(refused.told().splitlines()) == 1
    alone = tmp_path / "alone"
    audited(halves[codes.index(0)], alone, tmp_path / "run-alone")
    check_same(warehouse, tables(alone))
    assert len(ledger(warehouse)) == 1
    # Started again, the one that was sent away ends in the tables of one run over everything.
    audited(halves[codes.index(1)], warehouse, tmp_path / "again")
    check_same(warehouse, whole)


@pytest.mark.parametrize("what", ["halves of a dump", "one dump"])
def test_two_that_wait_for_each_other_leave_the_tables_of_one_run_over_everything(what, halves, whole, tmp_path):
    warehouse = tmp_path / "warehouse"
    dumps = halves if what == "halves of a dump" else [SAMPLE.segments] * 2
    audits = together(dumps, warehouse, tmp_path, "--wait", "10m")
    codes = [audit.end() for audit in audits]
    assert codes == [0, 0], [audit.told() for audit in audits]
    assert sum("waiting for audit (process " in audit.told() for audit in audits) == 1
    check_same(warehouse, whole)
    first, second = ledger(warehouse)
    assert first["finished_at"] <= second["started_at"]
    if what == "one dump":
        assert second["records_read"] == 0
