"""Dumps damaged by chance, each audited as a whole beside an intact log partition that must come out as it would alone.

A handful belongs to every test run, ten thousand to the long one: HOSTILE_DUMPS sets another number, HOSTILE_SEED
another beginning. Each dump is made from the seed and its number alone, so that whatever is found can be made again.
"""

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from coordinator_replay.errors import InputError
from tests.acceptance.processes import tables
from tests.hostile import recordings
from tests.hostile.mutants import mutate, mutated_batch, mutated_pair, recorded_batches
from tests.hostile.questions import ask, faults, whole_cluster
from tests.pipeline import in_process

audit = in_process.audit

LONG = int(os.environ.get("HOSTILE_DUMPS", "10000"))
SEED = int(os.environ.get("HOSTILE_SEED", "1"))
FIRST = int(os.environ.get("HOSTILE_FIRST", "0"))
"""The number of the first dump, to begin where another run ended."""

NIGHTS = 4
"""Dumps that one warehouse takes, one after the other."""

ASKED = 20
"""Of so many warehouses, one is asked every question; by day every ninth question."""

SLOW = 10
QUICK_SECONDS = 2.0
"""What an audit of so small a dump may take in any case, in seconds of processor time."""

MOST_MEMORY_KB = 1 << 20
"""By how much the memory of the process may rise at its peak; what other tests have left in it aside."""

INTACT = "intact"
INTACT_PARTITION = 0
COMPARED = ("group_timeline", "member_timeline", "partition_ownership", "rebalances", "offset_history", "quarantine")


def intact_life() -> recordings.Life:
    """A group with classic members, commits and rebalances."""
    life = max((one for one in recordings.recorded_lives() if len(one) <= 60), key=len)
    return recordings.with_topics_of_its_own(recordings.renamed(life, INTACT))


def forged_batch(rng: random.Random, base: int) -> bytes:
    """A batch with everything right but the records in it."""
    pairs = [mutated_pair(rng) for _ in range(rng.randint(1, 20))]
    at_ms = rng.choice((1_760_000_000_000, 0, -1, 2**62, *recordings.TIMES))
    entries = [recordings.LogEntry(key=key, value=value, timestamp_ms=at_ms) for key, value in pairs]
    return recordings.write_batch(
        entries, base_offset=base, codec=rng.choice(("none", "gzip", "snappy", "lz4", "zstd"))
    )


def mutated_file(rng: random.Random) -> bytes:
    """What a segment may hold: recorded batches, damaged ones, forged ones, zeros, or no segment at all."""
    parts = []
    for _ in range(rng.choice((0, 1, 2, 5, 12))):
        match rng.randrange(8):
            case 0 | 1:
                parts.append(rng.choice(recorded_batches()))
            case 2 | 3 | 4:
                parts.append(mutated_batch(rng))
            case 5 | 6:
                parts.append(forged_batch(rng, rng.choice((0, 7, 1000, 2**40, 2**63 - 100))))
            case _:
                parts.append(bytes(rng.choice((1, 61, 4096))))
    data = b"".join(parts)
    return mutate(data, rng, rng.randbytes(64)) if rng.random() < 0.3 else data


def write_mutated(folder: Path, rng: random.Random, night: int) -> None:
    """Log partitions with damaged segments, besides files and folders that are none.

    Each night has log partitions of its own: other records at the same offsets are another log, which is refused.
    """
    for partition in rng.sample((1, 2, 17, 49, 2**31 - 1), rng.choice((1, 1, 1, 2))):
        place = folder / f"__consumer_offsets-{partition ^ night << 8}"
        place.mkdir(parents=True)
        for base in rng.sample((0, 5, 1000, 2**40, 10**19), rng.choice((1, 1, 2, 3))):
            suffix = rng.choice(("log", "log", "log", "log", "log.deleted", "index", "log.swap"))
            (place / f"{base:020}.{suffix}").write_bytes(mutated_file(rng))
    if rng.random() < 0.1:
        (folder / rng.choice(("__consumer_offsets-x", "__consumer_offsets--1", "other-0"))).mkdir()


def write_part_of_intact(folder: Path, night: int) -> None:
    """The part of the intact log that one night adds."""
    entries = list(recordings.encoded(intact_life()))
    first, end = (len(entries) * edge // NIGHTS for edge in (night, night + 1))
    place = folder / f"__consumer_offsets-{INTACT_PARTITION}"
    place.mkdir(parents=True)
    batch = recordings.write_batch(entries[first:end], base_offset=first)
    (place / f"{first:020}.log").write_bytes(batch)


def of_intact(warehouse: Path) -> dict[str, list[str]]:
    """What the tables hold of the intact log partition; runs and folders aside."""
    found = tables(warehouse)
    return {
        name: [row for row in found[name] if f"'log_partition': {INTACT_PARTITION}," in row or f"'{INTACT}'" in row]
        for name in COMPARED
    }


def memory_kb(name: str) -> int:
    """What Linux says of the memory of this process; 0 elsewhere."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


def forget_peak() -> int:
    """Let the peak of memory count from now on, and tell what is in use."""
    forget = Path("/proc/self/clear_refs")
    if forget.exists():
        forget.write_text("5")
    return memory_kb("VmRSS")


class Tried:
    """What came of the dumps so far."""

    def __init__(self, audit: Callable[..., Any], folder: Path, share: int) -> None:
        self.audit = audit
        self.share = share
        self.folder = folder
        self.wrong: list[str] = []
        self.seconds: list[float] = []
        self.refused = 0
        alone = folder / "alone"
        for night in range(NIGHTS):
            # The first audit compiles what all of them run: its time tells nothing.
            write_part_of_intact(folder / f"alone-{night}", night)
            audit(alone, folder / f"alone-{night}", include_deleted=True)
        self.expected = of_intact(alone)
        assert self.expected["group_timeline"]
        assert self.expected["offset_history"] or self.expected["rebalances"]

    def warehouse(self, number: int) -> None:
        """Fill a warehouse with damaged dumps, and look at what it says of the intact partition."""
        warehouse = self.folder / f"warehouse-{number}"
        for night in range(NIGHTS):
            dump = self.folder / f"dump-{number}-{night}"
            write_part_of_intact(dump, night)
            write_mutated(dump, random.Random(f"{SEED}-{number}-{night}"), night)
            began = time.process_time()
            try:
                self.audit(warehouse, dump, include_deleted=True)
            except InputError:
                self.refused += 1
            except BaseException as problem:
                if isinstance(problem, KeyboardInterrupt):
                    raise
                self.wrong.append(f"dump {number}-{night}: {problem!r}")
            self.seconds.append(time.process_time() - began)
            shutil.rmtree(dump)
        try:
            found = of_intact(warehouse)
        except Exception as problem:  # noqa: BLE001 - whatever it is, the other dumps are looked at
            self.wrong.append(f"warehouse {number} can't be read: {problem!r}")
            return
        self.wrong += [f"warehouse {number}: {name}" for name in COMPARED if found[name] != self.expected[name]]
        if number % ASKED == 0:
            for question in list(whole_cluster(self.folder))[2 :: self.share]:
                self.wrong += [f"warehouse {number}: {fault}" for fault in faults(ask(warehouse, question), question)]
        shutil.rmtree(warehouse)

    def slow(self) -> list[str]:
        """The dumps that took ten times as long as their neighbours."""
        usual = max(median(self.seconds), QUICK_SECONDS / SLOW)
        return [
            f"dump {FIRST + place // NIGHTS}-{place % NIGHTS}: {seconds:.1f} s, {usual:.2f} s is usual"
            for place, seconds in enumerate(self.seconds)
            if seconds > SLOW * usual
        ]


@pytest.mark.parametrize(
    ("dumps", "share"), [(NIGHTS, 18), pytest.param(LONG, 1, marks=[pytest.mark.long, pytest.mark.timeout(6 * 3600)])]
)
def test_damaged_dumps_cost_their_neighbours_nothing(
    dumps: int, share: int, audit: Callable[..., Any], tmp_path: Path
) -> None:
    before = forget_peak()
    tried = Tried(audit, tmp_path, share)
    for number in range(FIRST, FIRST + dumps // NIGHTS):
        tried.warehouse(number)
        if number % 50 == 0 or tried.wrong:
            print(number, f"{sum(tried.seconds):.0f} s", tried.wrong, tried.slow(), flush=True)
    assert tried.wrong == []
    assert tried.slow() == []
    assert tried.refused == 0
    assert memory_kb("VmHWM") - before < MOST_MEMORY_KB
