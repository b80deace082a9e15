"""A recorded log, written again on a broker whose cleaner is at work: random rolls and rounds, and random copies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from tests.cleaner.batches import Batch
from tests.cleaner.broker_log import BrokerLog, recorded_batches, write_dump
from tests.cleaner.rounds import Round, clean

_DAY_MS = 86_400_000


@dataclass(slots=True)
class RecordedPartition:
    """A log partition that is written batch by batch.

    Attributes:
        batches: All that will ever be written to it.
        log: What there is of it now.
        at: How many batches have been written.
        replaced: Files of before the last round, as they linger for a minute under ``.deleted``.
    """

    batches: Sequence[Batch]
    log: BrokerLog = field(default_factory=BrokerLog)
    at: int = 0
    replaced: dict[str, bytes] = field(default_factory=dict)

    def write(self, until: int, random: Random, *, roll: float) -> None:
        """Write batches up to the ``until``-th; segments roll by chance."""
        for batch in self.batches[self.at : until]:
            if random.random() < roll:
                self.log.roll()
            self.log.append(batch)
        self.at = max(self.at, until)

    def clean(self, how: Round) -> None:
        """Let the cleaner do a round; what it replaces lingers."""
        before = self.log.files()
        if clean(self.log, how):
            after = self.log.files()
            self.replaced = {name: data for name, data in before.items() if after.get(name) != data}

    def clean_randomly(self, random: Random) -> None:
        """A round of any kind: a small map, small segments, stopped, with or without the removal of tombstones."""
        records = sum(len(batch.records) for batch in self.log.batches)
        self.clean(
            Round(
                now_ms=self.log.now_ms + random.choice([0, 0, 1000, 2 * _DAY_MS]),
                delete_retention_ms=random.choice([0, 500, _DAY_MS]),
                map_slots=random.choice([None, None, random.randint(1, max(1, records))]),
                segment_bytes=random.choice([1, 2000, 100 << 20]),
                stop_after=random.choice([None, None, None, 0, 1, 2]),
                forgotten_producers=frozenset(self.log.producers) if random.random() < 0.2 else frozenset(),
            )
        )

    def write_randomly(self, until: int, random: Random) -> None:
        """Write up to the ``until``-th batch, with rounds of the cleaner in between and at the end."""
        roll = random.choice([0.02, 0.1, 0.3])
        for step in sorted(random.randint(self.at, until) for _ in range(random.randint(0, 3))):
            self.write(step, random, roll=roll)
            self.clean_randomly(random)
        self.write(until, random, roll=roll)
        if random.random() < 0.4:
            self.log.roll()
        for _ in range(random.randint(1, 3)):
            self.clean_randomly(random)


@dataclass(slots=True)
class RecordedLog:
    """All log partitions of a recorded dump; see ``recorded_log``."""

    partitions: dict[str, RecordedPartition]

    def write_randomly(self, share: float, random: Random) -> None:
        """Write up to a share of what was recorded (1.0: all of it)."""
        for one in self.partitions.values():
            one.write_randomly(round(share * len(one.batches)), random)

    def write_all(self) -> None:
        """Write all that was recorded into one segment each."""
        for one in self.partitions.values():
            one.write(len(one.batches), Random(0), roll=0)

    def copy(self) -> "RecordedLog":
        """The log as it is now."""
        return RecordedLog(
            {
                name: RecordedPartition(one.batches, one.log.copy(), one.at, dict(one.replaced))
                for name, one in self.partitions.items()
            }
        )

    def files(self) -> dict[str, dict[str, bytes]]:
        """What a copy holds that is taken in one moment, by partition folder."""
        return {name: one.log.files() for name, one in self.partitions.items()}

    def damage(
        self, random: Random, *, share: float, has_keys: bool = True, since: Mapping[str, int] | None = None
    ) -> None:
        """Make the values of some records unreadable; without ``has_keys`` the keys of some of them, too.

        Args:
            random: which of them.
            share: how many.
            has_keys: whether keys stay as they are.
            since: by partition, the offset that the first of them may have: what a dump had before stays as it was.
        """
        for name, one in self.partitions.items():
            begin = 0 if since is None else since[name]
            for segment in one.log.segments:
                segment.batches = [
                    _damaged(batch, random, share, has_keys=has_keys) if batch.base_offset >= begin else batch
                    for batch in segment.batches
                ]

    def dump(self, folder: Path, random: Random | None = None) -> Path:
        """Copy all of it in one moment; with ``random`` also files that are not part of the log."""
        files = self.files()
        if random is not None:
            for name, one in self.partitions.items():
                if random.random() < 0.3:
                    files[name] |= {f"{file}.deleted": data for file, data in one.replaced.items()}
                if random.random() < 0.2:
                    segment = random.choice(one.log.segments)
                    files[name][f"{segment.name}.log.cleaned"] = segment.data[: random.randint(0, segment.size)]
        return write_dump(folder, files, random)

    def written(self, folder: Path) -> Path:
        """All that has been written so far, as if nothing had ever been cleaned; one segment for each partition."""
        files = {
            name: {f"{0:020d}.log": b"".join(batch.raw for batch in one.batches[: one.at])}
            for name, one in self.partitions.items()
        }
        return write_dump(folder, files)


def _damaged(batch: Batch, random: Random, share: float, *, has_keys: bool) -> Batch:
    """A batch of which some records can't be decoded."""
    if batch.is_control or batch.magic < 2 or not batch.records:
        return batch
    records = []
    for record in batch.records:
        key, value = record.key or b"", record.value
        if value is not None and random.random() < share:
            value = random.choice([value[:-1], value[: len(value) // 2], b"", b"\x7f\xff", value + b"\x00"])
            if not has_keys and random.random() < 0.5:
                key = random.choice([key[:1], key[: len(key) // 2], key + b"\x00"])
        records.append(replace(record, key=key, value=value))
    if records == list(batch.records):
        return batch
    return batch.thinned(records, batch.delete_horizon_ms)


def recorded_log(segments: Path | str) -> RecordedLog:
    """The log that a dump recorded in full, nothing of it written yet."""
    return RecordedLog({name: RecordedPartition(batches) for name, batches in recorded_batches(Path(segments)).items()})


def dump_with_gaps(folder: Path, log: RecordedLog, random: Random) -> Path:
    """A copy that lacks a segment of each log partition that has several: the first, or one whose index is there."""
    dump = log.dump(folder)
    for partition in sorted(dump.iterdir()):
        files = sorted(partition.glob("*.log"))
        if len(files) > 1:
            lost = random.choice(files[:-1])
            lost.unlink()
            if lost != files[0]:
                lost.with_suffix(".index").write_bytes(b"")
    return dump


def dump_torn(folder: Path, log: RecordedLog, later: dict[str, dict[str, bytes]], random: Random) -> Path:
    """A copy whose files were read one after the other while the cleaner swapped them.

    Names are listed first; up to some file the content is that of the beginning, from there on that of ``later``.
    Of a file that has gone by then the copy has the index, but for the last one, which no cleaner has taken. Or the
    copy is of a broker that stopped in mid-swap.

    Args:
        folder: where to.
        log: as it was when the copy began.
        later: ``RecordedLog.files`` of when it ended.
        random: decides where.
    """
    torn: dict[str, dict[str, bytes]] = {}
    for name, files in log.files().items():
        names = sorted(files)
        turn = random.randint(0, len(names))
        after = later[name]
        if random.random() < 0.3:
            swapped = {f"{one}.swap": data for one, data in after.items() if files.get(one, data) != data}
            torn[name] = files | swapped
            continue
        known = {one: files[one] if place < turn else after.get(one) for place, one in enumerate(names)}
        if known[names[-1]] is None:
            known[names[-1]] = files[names[-1]]
        torn[name] = {one: data for one, data in known.items() if data is not None}
        torn[name] |= {one.replace(".log", ".index"): b"" for one, data in known.items() if data is None}
    return write_dump(folder, torn)
