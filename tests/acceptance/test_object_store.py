"""Dump and warehouse behind an S3 API end in the tables and answers of folders on this machine.

Stages run in this process; ``test_spark_audits_into_an_object_store`` lets Spark run them.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner
from pyarrow import fs

from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.cli.main import main
from coordinator_replay.errors import LockedError
from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.pipeline.audit import Summary
from coordinator_replay.store.lock import one_at_a_time
from tests.acceptance.processes import audited
from tests.pipeline.in_process import FEW_BUCKETS, audit, audit_here, contents, cut
from tests.samples import Sample

__all__ = ["audit"]

QUICK = Thresholds(stuck_ms=2000, storm_rebalances=6, silent_ms=5000, patience=1, never_committed_ms=5000)
"""So that lives of seconds have findings."""

Audit = Callable[..., Summary]

SAMPLE = Sample("transactions")


def upload(folder: Path | str, uri: str) -> str:
    """Copy a folder's files to an object store, under their names; where they are now."""
    target, path = open_filesystem(uri)
    fs.copy_files(str(folder), path, source_filesystem=fs.LocalFileSystem(), destination_filesystem=target)
    return uri


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The log in two parts, as two nights would bring them."""
    folder = tmp_path_factory.mktemp("nights")
    slices = [folder / f"night-{number}" for number in (1, 2)]
    cut(SAMPLE.segments, slices)
    return slices


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse on this machine, after one run over everything; nobody changes it."""
    folder = tmp_path_factory.mktemp("whole") / "warehouse"
    audit_here(folder, SAMPLE.segments, thresholds=QUICK)
    return folder


@pytest.fixture(scope="module")
def uploaded(nights: Sequence[Path], object_store: str) -> list[str]:
    """The two nights in an object store."""
    return [upload(night, f"{object_store}/{uuid4()}/{night.name}") for night in nights]


@pytest.fixture(scope="module")
def there(uploaded: Sequence[str], object_store: str) -> str:
    """A warehouse in an object store, after two nights."""
    uri = f"{object_store}/{uuid4()}/it's a warehouse"
    for night in uploaded:
        audit_here(uri, night, thresholds=QUICK)
    return uri


def test_nights_end_in_the_tables_of_one_run_on_this_machine(whole: Path, there: str, uploaded: Sequence[str]):
    assert contents(there) == contents(whole)
    again = audit_here(there, *uploaded, thresholds=QUICK)
    assert any("nothing new" in note for note in again.run.notes)


@pytest.mark.long
def test_nights_one_of_which_is_late_end_in_the_tables_of_one_run(
    audit: Audit, whole: Path, uploaded: Sequence[str], s3: str
):
    for night in reversed(uploaded):
        audit(f"{s3}/warehouse", night, thresholds=QUICK)
    assert contents(f"{s3}/warehouse") == contents(whole)


@pytest.mark.long
def test_copies_of_a_log_are_one(audit: Audit, whole: Path, s3: str):
    copies = [upload(SAMPLE.segments, f"{s3}/broker-{number}") for number in (1, 2)]
    done = audit(f"{s3}/warehouse", *copies, thresholds=QUICK)
    assert done.run.duplicates_dropped == done.run.records_decoded + done.run.control_records
    assert contents(f"{s3}/warehouse") == contents(whole)


def test_two_audits_at_once_are_one_after_the_other(s3: str):
    with one_at_a_time(f"{s3}/warehouse", "audit"):
        began = time.monotonic()
        with pytest.raises(LockedError, match="in use by audit"), one_at_a_time(f"{s3}/warehouse", "audit"):
            pytest.fail("it was let in")
        assert time.monotonic() - began < 30
    with one_at_a_time(f"{s3}/warehouse", "maintain"):
        pass


def ask(*arguments: str) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def without_runs(answer: str) -> str:
    """An answer without the run that first stored a finding: each warehouse has runs of its own."""
    return re.sub(r'"found_in_run":"[^"]*"', "", answer)


@pytest.mark.parametrize(
    ("share", "is_maintained", "pages"),
    [(4, False, ("report",)), pytest.param(1, True, ("report", "trace"), marks=pytest.mark.long)],
    ids=["a quarter", "all"],
)
def test_every_command_answers_as_on_this_machine(
    share: int, is_maintained: bool, pages: Sequence[str], whole: Path, there: str, tmp_path: Path
):
    if is_maintained:
        kept = json.loads(ask("maintain", "--warehouse", there, "--output", "json").splitlines()[0])
        assert kept["table"]
    groups = [
        json.loads(line)["group_id"]
        for line in ask("groups", "--warehouse", str(whole), "--output", "json").splitlines()
    ]
    questions: list[tuple[str, ...]] = [
        ("groups",),
        ("findings",),
        ("expired",),
        ("rebalances",),
        ("why",),
        ("sql", "SELECT cluster, bucket, is_open, count(*) FROM offset_history GROUP BY ALL ORDER BY ALL"),
        ("sql", "SELECT case_id, count(*) FROM event_log GROUP BY ALL ORDER BY ALL"),
    ]
    for group in groups[:1]:
        questions += [(command, group) for command in ("describe", "timeline", "offsets", "rebalances")]
    first = "SELECT group_id, topic, partition FROM partition_ownership ORDER BY ALL LIMIT 1"
    owned = json.loads(ask("sql", "--warehouse", str(whole), first, "--output", "json"))
    questions.append(("owner", owned["group_id"], owned["topic"], str(owned["partition"])))
    for question in questions[::share]:
        command, *rest = question
        here, far = (ask(command, *rest, "--warehouse", place, "--output", "json") for place in (str(whole), there))
        assert without_runs(far) == without_runs(here), question
        assert far or command == "expired", question
    for command in pages:
        ask(command, "--warehouse", there, "--out", str(tmp_path / command))
        assert (tmp_path / command).exists()


@pytest.mark.long
@pytest.mark.spark
def test_spark_audits_into_an_object_store(whole: Path, uploaded: Sequence[str], s3: str, tmp_path: Path):
    # A process of its own: Spark's workers find the store by the environment that their JVM was started in.
    for number, night in enumerate(uploaded):
        audited(night, f"{s3}/by-spark", tmp_path / f"run-{number}", "--buckets", str(FEW_BUCKETS))
    assert contents(f"{s3}/by-spark") == contents(whole)
