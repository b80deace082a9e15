"""A check that cost grows no faster than size: one quantity is doubled three times, and the last doubling is judged."""

import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.generations import BEGIN_MS, generation, row
from benchmarks.measured import Measured, Setting
from benchmarks.questions import QUESTIONS
from coordinator_replay.log.dump import find_dump
from coordinator_replay.log.writer import LogEntry, write_records
from coordinator_replay.pipeline.groups.replay import InputRow, ReplayContext, replay_groups
from coordinator_replay.pipeline.read.decode import FileShare, decode_files
from coordinator_replay.pipeline.stage import together
from coordinator_replay.records.plain import encode_key, encode_value

_WANTED = 2.5
_DOUBLINGS = 3


def _replay(rows: list[InputRow]) -> Callable[[], object]:
    return lambda: deque(replay_groups(rows, ReplayContext(cluster="growth")), maxlen=0)


def members(count: int, _work: Path) -> Callable[[], object]:
    """Return a replay of four generations: all members with a partition each, none, all again, none again."""
    one = {f"member-{n:06}": range(n, n + 1) for n in range(count)}
    return _replay([generation(1, one), generation(2, {}), generation(3, one), generation(4, {})])


def partitions(count: int, _work: Path) -> Callable[[], object]:
    """Return a replay of four generations: one member with all partitions, none, the member again, none again."""
    one = {"member": range(count)}
    return _replay([generation(1, one), generation(2, {}), generation(3, one), generation(4, {})])


def groups(count: int, _work: Path) -> Callable[[], object]:
    """Return a replay of groups with a single record each."""
    names = (f"group-{n:06}" for n in range(count))
    kind = "ConsumerGroupMetadata"
    return _replay([row(name, n, kind, {"groupId": name}, {"epoch": 1}) for n, name in enumerate(names)])


def files(count: int, work: Path) -> Callable[[], object]:
    """Return a call that decodes segments with a single commit each."""
    return _decode(count, work, ranges=())


def ranges(count: int, work: Path) -> Callable[[], object]:
    """Return a call that decodes segments. Earlier audits have read a range of offsets after each segment."""
    return _decode(count, work, ranges=[(offset, offset) for offset in range(1, 2 * count, 2)])


def _decode(count: int, work: Path, ranges: Sequence[tuple[int, int]]) -> Callable[[], object]:
    """Return a call that decodes segments with a single commit each, at every other offset."""
    folder = work / f"growth-{count}"
    shutil.rmtree(folder, ignore_errors=True)
    place = folder / "dump" / "__consumer_offsets-0"
    place.mkdir(parents=True)
    key = encode_key("OffsetCommit", {"group": "group", "topic": "orders", "partition": 0})
    value = {"offset": 1, "leaderEpoch": -1, "metadata": "", "commitTimestamp": BEGIN_MS}
    encoded = encode_value("OffsetCommit", 3, value)
    for offset in range(0, 2 * count, 2):
        entry = LogEntry(key=key, value=encoded, timestamp_ms=BEGIN_MS, offset=offset)
        (place / f"{offset:020}.log").write_bytes(write_records([entry]))
    audited = {0: [(low, high + 1) for low, high in ranges]}

    def decode() -> None:
        dump = find_dump([str(folder / "dump")])
        shares = [FileShare(file=file, skip=ranges, audited=audited) for file in dump.segments]
        for task in together(shares, lambda share: share.file.size, 2):
            decode_files(task, folder=str(folder / "staged"), buckets=8)

    return decode


GROWING: Mapping[str, tuple[Callable[[int, Path], Callable[[], object]], int]] = {
    "members": (members, 500),
    "partitions": (partitions, 12_500),
    "groups": (groups, 5_000),
    "files": (files, 250),
    "ranges": (ranges, 250),
    **QUESTIONS,
}
"""The quantities that are doubled, each with the function that makes the measured call, and with its first number."""


def _times(setting: Setting, name: str) -> Iterator[float]:
    make, first = GROWING[name]
    make(first, setting.work)()
    for doubling in range(_DOUBLINGS + 1):
        run = make(first << doubling, setting.work)
        yield min(_cpu_seconds(run) for _ in range(max(setting.repeat, 2)))


def _cpu_seconds(run: Callable[[], object]) -> float:
    """Return the CPU time of a call, which does not depend on other work of the machine."""
    began = time.process_time()
    run()
    return time.process_time() - began


def growth(setting: Setting) -> Measured:
    """Measure the largest of four sizes against half of this size, and return the quantity that grows fastest."""
    worst = (0.0, 0.0, 0.0, "")
    for name in GROWING:
        times = list(_times(setting, name))
        sys.stderr.write(f"growth: {name}: {', '.join(f'{one:.2f}' for one in times)} s\n")
        worst = max(worst, (times[-1] / times[-2], times[-1], times[-2], name))
    ratio, ours, half, name = worst
    return Measured(
        name="growth",
        ours=f"twice as many {name}",
        baseline=f"half as many {name}",
        ours_seconds=ours,
        baseline_seconds=half,
        ratio=ratio,
        wanted=f"<= {_WANTED} x the half",
        holds=ratio <= _WANTED,
    )
