"""Audits that die at any moment, or find the disk full: nothing of it is left once the next one has run.

Twenty kills in five chains: several in a row on one warehouse, then a run that nobody disturbs. Moments are fractions
of the time that an undisturbed run took, drawn once from a seed.
"""

import random
import shutil
from dataclasses import dataclass
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

SEED = 20261121
CHAINS = 5
VICTIMS = ("all",) * 12 + ("worker",) * 4 + ("jvm",) * 4
EARLIEST = 0.15
"""Before that, Python is being started."""


def kills() -> list[tuple[float, str]]:
    """Moments spread evenly over a run's length, each with what is killed."""
    chance = random.Random(SEED)
    count = len(VICTIMS)
    moments = [EARLIEST + (1 - EARLIEST) * (turn + chance.random()) / count for turn in range(count)]
    victims = list(VICTIMS)
    chance.shuffle(moments)
    chance.shuffle(victims)
    return list(zip(moments, victims, strict=True))


@dataclass(frozen=True)
class Night:
    """An audit as it goes undisturbed.

    Attributes:
        held: the warehouse that it goes on from; None: it is the first.
        after: the tables that it leaves.
        seconds: how long it takes.
    """

    dump: Path
    held: Path | None
    after: dict[str, list[str]]
    seconds: float

    def begin(self, warehouse: Path) -> None:
        shutil.rmtree(warehouse, ignore_errors=True)
        if self.held is not None:
            shutil.copytree(self.held, warehouse)


@pytest.fixture(scope="module")
def nights(tmp_path_factory) -> tuple[Night, Night]:
    """A log with transactions, groups of all types and a damaged batch in each half, audited in two nights."""
    folder = tmp_path_factory.mktemp("nights")
    slices = [folder / f"night-{number}" for number in (1, 2)]
    cut(Sample("group-lifecycles").segments, slices)
    for night in slices:
        damaged = max(night.rglob("*.log"), key=lambda file: (file.stat().st_size, file.name))
        raw = bytearray(damaged.read_bytes())
        raw[len(raw) // 2] ^= 0xFF
        damaged.write_bytes(raw)
    warehouse, held = folder / "warehouse", folder / "held"
    seconds = audited(slices[0], warehouse, folder / "first")
    first = Night(slices[0], None, tables(warehouse), seconds)
    shutil.copytree(warehouse, held)
    seconds = audited(slices[1], warehouse, folder / "second")
    second = Night(slices[1], held, tables(warehouse), seconds)
    there = {name for name, rows in second.after.items() if rows}
    assert there >= {"offset_commits", "group_records", "control_records", "quarantine", "pending_offsets", "findings"}
    return first, second


def strike(night: Night, warehouse: Path, folder: Path, moment: float, victim: str) -> str:
    """Start an audit and kill at a moment; earlier, if it was done before. Says what became of it."""
    while True:
        audit = Audit(night.dump, warehouse, folder)
        if not audit.is_over_within(moment * night.seconds):
            break
        assert audit.end() == 0, audit.told()
        check_same(warehouse, night.after)
        night.begin(warehouse)
        moment *= 0.9
    step = audit.told().strip().splitlines()[-1:]
    if victim == "all":
        audit.kill_all()
        return f"{victim} at {moment:.2f} in {step}"
    audit.kill_jvm() if victim == "jvm" else audit.kill_worker()
    code = audit.end()
    if code == 0:
        # It had got all it needed of what was killed: the next kill is to meet a run that has something to do.
        check_same(warehouse, night.after)
        night.begin(warehouse)
    else:
        assert code == 1, audit.told()
        audit.last_sentence()
    return f"{victim} at {moment:.2f} in {step}: code {code}, {audit.told().strip().splitlines()[-1]}"


@pytest.mark.parametrize("chain", range(CHAINS))
def test_what_killed_runs_leave_is_made_up_for(chain, nights, tmp_path):
    night = nights[1 - chain % 2]
    warehouse = tmp_path / "warehouse"
    night.begin(warehouse)
    for number, (moment, victim) in enumerate(kills()[chain::CHAINS]):
        print(strike(night, warehouse, tmp_path / f"run-{number}", moment, victim))
    audited(night.dump, warehouse, tmp_path / "undisturbed")
    check_same(warehouse, night.after)
    assert [run["status"] for run in ledger(warehouse)] == ["done"] * len(ledger(warehouse))


@pytest.mark.parametrize("step", ["reading and decoding", "replaying groups"])
def test_a_full_disk_is_told_in_a_sentence_and_made_up_for(step, nights, tmp_path):
    night = nights[1]
    warehouse = tmp_path / "warehouse"
    night.begin(warehouse)
    audit = Audit(night.dump, warehouse, tmp_path / "full")
    audit.reaches(step)
    audit.fill_disk()
    assert audit.end() == 1, audit.told()
    said = audit.last_sentence()
    print(said)
    assert "File too large" in said
    audited(night.dump, warehouse, tmp_path / "undisturbed")
    check_same(warehouse, night.after)
