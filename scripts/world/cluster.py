"""Random lives as the groups of one cluster. Each life has its own log partition, so one audit reads many lives."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

from coordinator_replay.query.group_partitions import log_partition_of
from coordinator_replay.simulation.simulated_log import TOPICS, write_log
from scripts.world.life import Life
from scripts.world.mixes import Mix

PARTITIONS = 50
"""Number of log partitions."""

MOST_LIVES = 40
"""Largest number of lives of a cluster."""

TRIGGERS_A_LIFE = 12


def _names() -> list[str]:
    """Return names of groups that hash to different log partitions."""
    by_partition: dict[int, str] = {}
    numbers = count()
    while len(by_partition) < MOST_LIVES:
        name = f"g{next(numbers)}"
        by_partition.setdefault(log_partition_of(name, PARTITIONS), name)
    return list(by_partition.values())


NAMES = _names()


class Cluster(NamedTuple):
    """Lives of groups that have the same retention.

    Attributes:
        lives: lives by seed.
        retention_minutes: offsets.retention.minutes.
    """

    lives: dict[int, Life]
    retention_minutes: int

    def write(self, folder: Path) -> None:
        """Write the log partitions below ``segments``, and the list of topics next to this folder."""
        lists = []
        for seed, life in self.lives.items():
            alone = folder / f"life-{seed}"
            segment = write_log(alone, life.results, life.topics)
            place = folder / "segments" / f"__consumer_offsets-{log_partition_of(life.group, PARTITIONS)}"
            place.parent.mkdir(parents=True, exist_ok=True)
            segment.parent.rename(place)
            lists.append((alone / TOPICS).read_text(encoding="utf-8").splitlines())
        lines = [*lists[0][:1], *(line for found in lists for line in found[1:])]
        (folder / TOPICS).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def clusters(seeds: Iterable[int], mix: Mix) -> Iterator[Cluster]:
    """Yield lives in clusters."""
    waiting: defaultdict[int, dict[int, Life]] = defaultdict(dict)
    for seed in seeds:
        # A life is the same with any name of the group.
        retention = Life(seed, mix).retention_minutes
        lives = waiting[retention]
        lives[seed] = Life(seed, mix, NAMES[len(lives)]).run(TRIGGERS_A_LIFE).expire()
        if len(lives) == MOST_LIVES:
            yield Cluster(waiting.pop(retention), retention)
    yield from (Cluster(lives, retention) for retention, lives in waiting.items())
