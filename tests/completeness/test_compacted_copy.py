"""What the cleaner left of a life: each answer of the copy is that of the whole log, or says that it is open."""

from pathlib import Path
from random import Random

import pytest

from coordinator_replay import Warehouse
from tests.cleaner.recorded_log import dump_torn, dump_with_gaps, recorded_log
from tests.completeness.exports import write_export
from tests.completeness.held import open_held
from tests.completeness.judge import Judge
from tests.completeness.proof import NoProof, read_proofs
from tests.completeness.verdicts import Tally, Verdict
from tests.completeness.whole_logs import COMPLETE, metadata
from tests.pipeline.in_process import audit

__all__ = ["audit"]


def judge_copies(judge: Judge, name: str, seeds: range, audit, folder: Path, count: int) -> Tally:
    """Compact a sample at random and hold what the copies answer against the whole log."""
    tally = Tally()
    for seed in seeds:
        random = Random(f"{name} {seed}")
        life = recorded_log(COMPLETE[name].segments)
        life.write_randomly(1.0, random)
        dump = life.dump(folder / f"dump-{seed}", random)
        has_deleted = random.random() < 0.3
        audit(folder / f"copy-{seed}", dump, cluster_metadata=metadata(name), include_deleted=has_deleted)
        copy = open_held(folder / f"copy-{seed}")
        judge.judge(copy, read_proofs(dump), tally, random, count=count, name=f"{name} seed {seed}")
    return tally


def judge_torn(judge: Judge, name: str, seeds: range, audit, folder: Path, count: int) -> Tally:
    """The same with copies whose files are of different moments; of these nothing is asked but to be right or open."""
    tally = Tally()
    for seed in seeds:
        random = Random(f"torn {name} {seed}")
        life = recorded_log(COMPLETE[name].segments)
        life.write_randomly(1.0, random)
        # Nothing is written while the cleaner works: a copy that ends earlier tells of an earlier end.
        before = life.copy()
        life.write_randomly(1.0, random)
        dump = dump_torn(folder / f"dump-{seed}", before, life.files(), random)
        audit(folder / f"copy-{seed}", dump, cluster_metadata=metadata(name))
        copy = open_held(folder / f"copy-{seed}")
        proofs = {partition: NoProof(one) for partition, one in judge.proofs.items()}
        judge.judge(copy, proofs, tally, random, count=count, name=f"{name} torn, seed {seed}")
    return tally


def judge_gaps(judge: Judge, name: str, seeds: range, audit, folder: Path, count: int) -> Tally:
    """The same with copies that lack a segment: the first one, or one whose index is still there."""
    tally = Tally()
    for seed in seeds:
        random = Random(f"gap {name} {seed}")
        life = recorded_log(COMPLETE[name].segments)
        life.write_randomly(1.0, random)
        dump = dump_with_gaps(folder / f"dump-{seed}", life, random)
        audit(folder / f"copy-{seed}", dump, cluster_metadata=metadata(name))
        copy = open_held(folder / f"copy-{seed}")
        proofs = {partition: NoProof(one) for partition, one in judge.proofs.items()}
        judge.judge(copy, proofs, tally, random, count=count, name=f"{name} gap, seed {seed}")
    return tally


def judge_exports(judge: Judge, name: str, seeds: range, audit, folder: Path, count: int) -> Tally:
    """The same with what a consumer reads of a compacted log; nothing is asked of it but to be right or open."""
    tally = Tally()
    for seed in seeds:
        random = Random(f"export {name} {seed}")
        life = recorded_log(COMPLETE[name].segments)
        for night, share in enumerate([1.0] if random.random() < 0.4 else [random.uniform(0.2, 0.9), 1.0]):
            life.write_randomly(share, random)
            dump = write_export(folder / f"dump-{seed}-{night}", life)
            audit(folder / f"copy-{seed}", dump, cluster_metadata=metadata(name))
        copy = open_held(folder / f"copy-{seed}")
        proofs = {partition: NoProof(one) for partition, one in judge.proofs.items()}
        judge.judge(copy, proofs, tally, random, count=count, name=f"{name} export, seed {seed}")
    return tally


def shown(tally: Tally) -> str:
    """The shares and the first faults."""
    return "\n".join([tally.shares(), *map(str, tally.faults[:40])])


@pytest.mark.long
def test_a_compacted_copy_answers_as_the_whole_log_or_says_that_it_is_open(judge_of, audit, tmp_path):
    tally = judge_copies(judge_of("transactions"), "transactions", range(1), audit, tmp_path, count=1)
    print(tally.shares())
    assert not tally.of(Verdict.WRONG), shown(tally)
    assert not tally.of(Verdict.NEEDLESS), shown(tally)


def test_an_export_says_which_findings_rest_on_commits_that_may_have_been_aborted(audit, tmp_path):
    life = recorded_log(COMPLETE["transactions"].segments)
    life.write_randomly(1.0, Random("export transactions"))
    audit(tmp_path / "wh", write_export(tmp_path / "dump", life))
    found = Warehouse(str(tmp_path / "wh")).findings(rules=["offset_rewind"], group="bank-mixed")
    assert [one.is_proven for one in found] == [False] * len(found) != []
    assert "may belong to aborted transactions" in " ".join(found.notes)


@pytest.mark.long
@pytest.mark.parametrize("name", list(COMPLETE))
def test_many_copies_that_lack_a_segment_answer_as_the_whole_log_or_say_that_they_are_open(
    name, judge_of, audit, tmp_path
):
    tally = judge_gaps(judge_of(name), name, range(100, 112), audit, tmp_path, count=4)
    print(tally.shares())
    assert not tally.of(Verdict.WRONG), shown(tally)


@pytest.mark.long
@pytest.mark.parametrize("name", list(COMPLETE))
def test_many_exports_answer_as_the_whole_log_or_say_that_they_are_open(name, judge_of, audit, tmp_path):
    tally = judge_exports(judge_of(name), name, range(100, 112), audit, tmp_path, count=4)
    print(tally.shares())
    assert not tally.of(Verdict.WRONG), shown(tally)


@pytest.mark.long
@pytest.mark.parametrize("name", list(COMPLETE))
def test_many_compacted_copies_answer_as_the_whole_log_or_say_that_they_are_open(name, judge_of, audit, tmp_path):
    tally = judge_copies(judge_of(name), name, range(100, 120), audit, tmp_path, count=6)
    print(tally.shares())
    assert not tally.of(Verdict.WRONG), shown(tally)
    assert not tally.of(Verdict.NEEDLESS), shown(tally)


@pytest.mark.long
@pytest.mark.parametrize("name", list(COMPLETE))
def test_many_torn_copies_answer_as_the_whole_log_or_say_that_they_are_open(name, judge_of, audit, tmp_path):
    tally = judge_torn(judge_of(name), name, range(100, 115), audit, tmp_path, count=4)
    print(tally.shares())
    assert not tally.of(Verdict.WRONG), shown(tally)
