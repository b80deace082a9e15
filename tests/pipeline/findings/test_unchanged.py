"""Nights that evaluate only groups whose findings may have changed end in the tables of nights that evaluate all."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from coordinator_replay.pipeline.findings import stage
from coordinator_replay.pipeline.options import ExpiryOptions
from coordinator_replay.simulation.simulated_log import TOPICS
from scripts.world.cluster import MOST_LIVES, NAMES, TRIGGERS_A_LIFE, Cluster
from scripts.world.life import Life
from scripts.world.mixes import FLEET, UNIFORM, Mix
from tests.cleaner.recorded_log import recorded_log
from tests.completeness.simulated_nights import FEW
from tests.nightly import rest_at_night
from tests.pipeline.in_process import audit_here, contents, cut
from tests.pipeline.test_incremental import COMPLETE, QUICK
from tests.samples import Sample

Audits = Sequence[Callable[[Path], object]]
"""Audits of nights, each a function that takes the warehouse."""


class Counted:
    """``unchanged_groups``, which counts the groups that it finds; or none at all."""

    def __init__(self, *, finds_none: bool = False) -> None:
        self.finds_none = finds_none
        self.count = 0
        self.find = stage.unchanged_groups

    def __call__(self, *arguments: Any) -> pa.Array:
        found = self.find(*arguments)
        self.count += len(found)
        return found.slice(0, 0) if self.finds_none else found


def both(folder: Path, audits: Audits, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run audits with and without evaluating every group, compare all tables after each, and return how many stood."""
    some, every = Counted(), Counted(finds_none=True)
    for number, run in enumerate(audits):
        for name, finder in (("some", some), ("every", every)):
            monkeypatch.setattr(stage, "unchanged_groups", finder)
            run(folder / name)
            monkeypatch.setattr(stage, "unchanged_groups", finder.find)
        found, expected = contents(folder / "some"), contents(folder / "every")
        for table, rows in expected.items():
            assert found[table] == rows, (number, table)
    return some.count


def nights_of(segments: Path, folder: Path, count: int, **options: Any) -> Audits:
    """Audits of a dump that is cut into nights."""
    parts = [folder / f"part-{number}" for number in range(count)]
    cut(segments, parts, lambda batches: [batches * number // count for number in range(count)])
    return [partial(_audit, dump=part, **options) for part in parts if part.exists()]


def _audit(warehouse: Path, dump: Path, **options: Any) -> None:
    audit_here(warehouse, dump, **options)


@pytest.mark.parametrize("name", rest_at_night(COMPLETE, ["expiration"]))
def test_the_tables_of_a_sample_are_those_of_nights_that_evaluate_every_group(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audits = nights_of(Sample(name).segments, tmp_path, 5, thresholds=QUICK)
    both(tmp_path, [*audits, audits[-1]], monkeypatch)


def nights_of_lives(cluster: Cluster, folder: Path, random: Random) -> Audits:
    """Audits of nights of simulated lives, which end at different times. The cleaner takes records in between."""
    cluster.write(folder / "log")
    log = recorded_log(folder / "log" / "segments")
    times = {name: [batch.max_timestamp_ms for batch in one.batches] for name, one in log.partitions.items()}
    ends = sorted(max(of_partition) for of_partition in times.values())
    expiry = ExpiryOptions(retention_ms=cluster.retention_minutes * 60_000)
    options = {"topics": str(folder / "log" / TOPICS), "expiry": expiry, "thresholds": FEW}
    audits: list[Callable[[Path], object]] = []
    for number, until_ms in enumerate([*ends[1:], ends[-1]]):
        for name, one in log.partitions.items():
            one.write(bisect_right(times[name], until_ms), random, roll=0.2)
            if random.random() < 0.3:
                one.clean_randomly(random)
        dump = log.dump(folder / f"dump-{number}", random)
        audits.append(partial(_audit, dump=dump, **options))
    return audits


def _check_lives(mix: Mix, seeds: range, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check lives of one cluster, so that some end while others go on."""
    settings = {"offsets.retention.minutes": 10}
    lives = {
        seed: Life(seed, mix, name, settings).run(TRIGGERS_A_LIFE).expire()
        for seed, name in zip(seeds, NAMES, strict=False)
    }
    assert both(folder, nights_of_lives(Cluster(lives, 10), folder, Random(f"{mix.name} {seeds}")), monkeypatch)


def test_the_tables_of_lives_are_those_of_nights_that_evaluate_every_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _check_lives(UNIFORM, range(6), tmp_path, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("mix", [UNIFORM, FLEET])
def test_the_tables_of_many_lives_are_those_of_nights_that_evaluate_every_group(
    mix: Mix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _check_lives(mix, range(100, 100 + MOST_LIVES), tmp_path, monkeypatch)
