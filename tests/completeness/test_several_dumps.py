"""Two and three dumps of one life, the later ones compacted further, audited into one warehouse in any order.

The end is that of the newest dump alone and of the whole log, nothing that ended between two dumps is alive, and what
one dump proves of its time stays proven.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from coordinator_replay import Warehouse
from coordinator_replay.pipeline.bucket_share import Action
from tests.cleaner.recorded_log import dump_with_gaps, recorded_log
from tests.completeness.exports import write_export
from tests.completeness.held import open_held
from tests.completeness.judge import Judge
from tests.completeness.proof import PartitionProof, Proofs, TogetherProof, read_proofs
from tests.completeness.test_compacted_copy import shown
from tests.completeness.verdicts import Tally, Verdict
from tests.completeness.whole_logs import COMPLETE, metadata
from tests.pipeline.in_process import audit, contents
from tests.pipeline.test_plan import planned

__all__ = ["audit"]


RUNS: dict[str, Callable[[list[Path]], list[list[Path]]]] = {
    "in order": lambda dumps: [[dump] for dump in dumps],
    "in order, the last twice": lambda dumps: [[dump] for dump in [*dumps, dumps[-1]]],
    "newest first": lambda dumps: [[dump] for dump in reversed(dumps)],
    "at once, as copies of several brokers": lambda dumps: [dumps],
}
"""How dumps of one life come into a warehouse: the runs, each with what it reads."""


def together(whole: dict[int, PartitionProof], dumps: list[Path]) -> Proofs:
    """What dumps of one life prove, each of its own time; the last one is the newest."""
    each = [read_proofs(dump) for dump in dumps]
    return {
        partition: TogetherProof(whole[partition], [one[partition] for one in each if partition in one])
        for partition in each[-1]
    }


def judge_nights(judge: Judge, name: str, seeds: range, audit, folder: Path, count: int) -> Tally:
    """Dump a sample's life several times while the cleaner works, and audit all of that into one warehouse."""
    tally = Tally()
    for seed in seeds:
        random = Random(f"nights {name} {seed}")
        life = recorded_log(COMPLETE[name].segments)
        dumps = []
        for night, share in enumerate([*sorted(random.uniform(0.2, 0.9) for _ in range(random.choice([1, 1, 2]))), 1]):
            life.write_randomly(share, random)
            is_whole = night == 0 and random.random() < 0.4
            into = folder / f"dump-{seed}-{night}"
            dumps.append(life.written(into) if is_whole else life.dump(into))
        order = random.choice(list(RUNS))
        for run in RUNS[order](dumps):
            audit(folder / f"nights-{seed}", *run, cluster_metadata=metadata(name))
        is_full = random.random() < 0.3
        if is_full:
            audit(folder / f"nights-{seed}", dumps[-1], cluster_metadata=metadata(name), full=True)
        told = f"{name} seed {seed}, {len(dumps)} dumps {order}{', --full' if is_full else ''}"
        nights = open_held(folder / f"nights-{seed}")
        judge.judge(nights, together(judge.proofs, dumps), tally, random, count=count, name=told)
    return tally


def test_nights_end_as_the_newest_dump_and_keep_what_earlier_ones_prove(judge_of, audit, tmp_path):
    tally = judge_nights(judge_of("transactions"), "transactions", range(2, 3), audit, tmp_path, count=1)
    print(tally.shares())
    assert not tally.of(Verdict.WRONG), shown(tally)
    assert not tally.of(Verdict.NEEDLESS), shown(tally)


@pytest.mark.long
@pytest.mark.parametrize("is_first_whole", [False, True])
def test_a_dump_with_the_segments_that_another_one_lacks_leaves_no_gap(is_first_whole, judge_of, audit, tmp_path):
    random, life = Random("gapthen transactions 0"), recorded_log(COMPLETE["transactions"].segments)
    life.write_randomly(1.0, random)
    dumps = [dump_with_gaps(tmp_path / "lacking", life, random), life.dump(tmp_path / "all", random)]
    for dump in reversed(dumps) if is_first_whole else dumps:
        audit(tmp_path / "wh", dump, cluster_metadata=metadata("transactions"))
    warehouse = open_held(tmp_path / "wh")
    tally = judge_of("transactions").judge(warehouse, read_proofs(dumps[1]), Tally(), random, count=1)
    assert not tally.of(Verdict.WRONG), shown(tally)
    assert not tally.of(Verdict.NEEDLESS), shown(tally)
    assert list(warehouse.sql("SELECT DISTINCT len(gaps) FROM log_partitions")) == [(0,)]


def nights_of(kind: str, name: str, seed: int, folder: Path) -> list[Path]:
    """Four dumps of a life: the cleaner works up to the second; exports go on where the one before ended."""
    random, life, ends, dumps = (
        Random(f"{kind} {name} {seed}"),
        recorded_log(COMPLETE[name].segments),
        {},
        list[Path](),
    )
    for night, share in enumerate([*sorted(random.uniform(0.1, 0.9) for _ in range(3)), 1.0]):
        if night < 2:
            life.write_randomly(share, random)
        for one in life.partitions.values():
            one.write(round(share * len(one.batches)), random, roll=0.1)
        if kind == "damaged" and night in (1, 2):
            life.damage(random, share=0.02, has_keys=random.random() < 0.6, since=ends)
        into = folder / f"dump-{night}"
        dumps.append(write_export(into, life, ends) if kind == "exports" else life.dump(into))
        ends = {place: one.log.end_offset for place, one in life.partitions.items()}
    return dumps


@pytest.mark.parametrize(
    ("kind", "name", "seed"),
    [
        ("exports", "transactions", 0),
        *(
            pytest.param(kind, name, seed, marks=pytest.mark.long)
            for kind in ("exports", "segments", "damaged")
            for name in COMPLETE
            for seed in range(4)
        ),
    ],
)
def test_nights_of_a_log_that_is_not_whole_end_in_the_tables_of_a_rebuild(kind, name, seed, audit, tmp_path):
    dumps = nights_of(kind, name, seed, tmp_path)
    for dump in dumps:
        audit(tmp_path / "nights", dump, cluster_metadata=metadata(name))
    nights = contents(tmp_path / "nights")
    audit(tmp_path / "nights", dumps[-1], cluster_metadata=metadata(name), full=True)
    for table, rows in contents(tmp_path / "nights").items():
        assert nights[table] == rows, table


def test_exports_that_go_on_rebuild_nothing_where_offsets_are_missing(audit, tmp_path):
    *before, last = nights_of("exports", "transactions", 0, tmp_path)
    for dump in before:
        audit(tmp_path / "wh", dump, cluster_metadata=metadata("transactions"))
    options = {"cluster_metadata": metadata("transactions")}
    assert {action for action, _ in planned(tmp_path / "wh", last, **options)} == {Action.CONTINUE}
    audit(tmp_path / "wh", last, **options)
    ranges = Warehouse(str(tmp_path / "wh")).sql("SELECT max(len(complete_ranges)) FROM log_partitions")
    assert next(iter(ranges))[0] > 1


@pytest.mark.long
@pytest.mark.parametrize("name", list(COMPLETE))
def test_many_nights_end_as_the_newest_dump_and_keep_what_earlier_ones_prove(name, judge_of, audit, tmp_path):
    tally = judge_nights(judge_of(name), name, range(100, 115), audit, tmp_path, count=4)
    print(tally.shares())
    assert not tally.of(Verdict.WRONG), shown(tally)
    assert not tally.of(Verdict.NEEDLESS), shown(tally)
