"""A finding is new until a later run has read new records, and the same however often a run is tried."""

import json
import shutil
from pathlib import Path

from click.testing import CliRunner

from coordinator_replay import Warehouse
from coordinator_replay.cli.main import main
from coordinator_replay.pipeline.findings.news import FOUND_IN_RUN, News
from tests.pipeline.in_process import audit_here, cut
from tests.pipeline.test_incremental import QUICK
from tests.samples import Sample


def ids(warehouse: Path, **asked: object) -> set[str]:
    return {one.finding_id for one in Warehouse(warehouse).findings(**asked)}  # type: ignore[arg-type]


def notes(warehouse: Path) -> list[str]:
    """Return the notes that say what new findings are new against."""
    return [note for note in Warehouse(warehouse).findings(is_new=True).notes if "that read records" in note]


def test_a_later_night_has_as_new_what_it_found_first_however_often_it_is_tried(tmp_path: Path):
    nights, warehouse = [tmp_path / "first", tmp_path / "second"], tmp_path / "warehouse"
    cut(Sample("java-clients").segments, nights, lambda batches: [0, batches // 2])
    first = audit_here(warehouse, nights[0], thresholds=QUICK)
    before = ids(warehouse)
    assert before
    assert first.new_findings == first.findings
    assert ids(warehouse, is_new=True) == before
    [note] = notes(warehouse)
    assert note.startswith(f"Run {first.run.run_id} is the only audit of cluster default that read records: all its")

    second = audit_here(warehouse, nights[1], thresholds=QUICK)
    after = ids(warehouse)
    new = ids(warehouse, is_new=True)
    assert new == after - before
    assert new
    assert after & before
    assert second.new_findings.total() == len(new) < second.findings.total()

    retried = audit_here(warehouse, nights[1], thresholds=QUICK)
    assert retried.run.run_id != second.run.run_id
    assert (retried.findings, retried.new_findings) == (second.findings, second.new_findings)
    assert ids(warehouse, is_new=True) == new
    assert notes(warehouse) == [
        f"New findings are those of run {second.run.run_id} and later runs. "
        f"The last audit before that read records is run {first.run.run_id}."
    ]
    again = audit_here(warehouse, nights[1], thresholds=QUICK, full=True)
    assert again.new_findings.total() == len(ids(warehouse, is_new=True))
    runs = {one.finding_id: one.found_in_run for one in Warehouse(warehouse).findings()}
    assert {runs[one] for one in before & set(runs)} == {first.run.run_id}
    assert {runs[one] for one in new & set(runs)} == {second.run.run_id}

    began = second.run.started_at.replace(microsecond=0)
    # The first run may have begun in the same second.
    assert ids(warehouse, since=began) == {one for one, run in runs.items() if run >= f"{began:%Y%m%dT%H%M%S}"}
    command = ["findings", "--warehouse", str(warehouse), "--new", "--output", "json"]
    shown = CliRunner().invoke(main, [*command, "--exit-code"])
    assert shown.exit_code == 0
    assert {json.loads(line)["finding_id"] for line in shown.stdout.splitlines()} == ids(warehouse, is_new=True)
    nothing = CliRunner().invoke(main, [*command, "--rule", "log_truncated", "--exit-code"])
    assert (nothing.exit_code, nothing.stdout) == (4, "")


def test_a_record_that_could_not_be_decoded_counts_in_each_try_of_the_night_that_read_it(tmp_path: Path):
    dump = shutil.copytree(Sample("transactions").segments, tmp_path / "first")
    file = max(dump.rglob("*.log"), key=lambda one: one.stat().st_size)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    first = audit_here(tmp_path / "warehouse", dump)
    assert first.new_quarantined == first.run.records_quarantined == 1
    retried = audit_here(tmp_path / "warehouse", dump)
    assert (retried.new_quarantined, retried.run.records_quarantined) == (1, 0)


def test_what_an_earlier_release_has_stored_is_not_new():
    news = News(run_id="r2", since="r2", earlier=())
    found = [{"finding_id": name, "severity": "error"} for name in ("old", "older", "first")]
    dated = news.dated(found, {"old": None, "older": "r1"})
    assert [one[FOUND_IN_RUN] for one in dated] == [None, "r1", "r2"]
    assert news.count(dated) == {"error": 1}
