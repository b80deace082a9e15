"""A log partition as a broker has it on disk: segments that roll, producers, and what may be cleaned at all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.cleaner.batches import Batch, read_batches


@dataclass(slots=True)
class Segment:
    """A segment; its file is named by its base offset whatever is left in it."""

    base_offset: int
    batches: list[Batch] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(len(batch.raw) for batch in self.batches)

    @property
    def data(self) -> bytes:
        return b"".join(batch.raw for batch in self.batches)

    @property
    def name(self) -> str:
        return f"{self.base_offset:020d}"


@dataclass(slots=True)
class Producer:
    """What ``ProducerStateManager`` keeps of a producer.

    Attributes:
        last_data_offset: Last offset of its last batch of data; None after a marker with a new epoch.
    """

    epoch: int
    last_data_offset: int | None


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """A transaction that ended in an abort marker, as the transaction index has it."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class BrokerLog:
    """A log partition.

    Attributes:
        segments: The last one is active.
        end_offset: The next offset to be written.
        checkpoint: The first dirty offset, as ``cleaner-offset-checkpoint`` has it.
    """

    segments: list[Segment] = field(default_factory=lambda: [Segment(0)])
    end_offset: int = 0
    checkpoint: int = 0

    def append(self, batch: Batch) -> None:
        """Write a batch into the active segment."""
        assert batch.base_offset >= self.end_offset
        self.segments[-1].batches.append(batch)
        self.end_offset = batch.last_offset + 1

    def roll(self) -> None:
        """Begin a new active segment, unless the active one is empty."""
        if self.segments[-1].batches:
            self.segments.append(Segment(self.end_offset))

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def batches(self) -> Iterator[Batch]:
        return (batch for segment in self.segments for batch in segment.batches)

    @property
    def now_ms(self) -> int:
        """The time of the last thing that happened."""
        return max((batch.max_timestamp_ms for batch in self.batches), default=0)

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the earliest open transaction, the end where there is none."""
        opened: dict[int, int] = {}
        for batch in self.batches:
            if batch.is_control:
                opened.pop(batch.producer_id, None)
            elif batch.is_transactional:
                opened.setdefault(batch.producer_id, batch.base_offset)
        return min(opened.values(), default=self.end_offset)

    @property
    def first_uncleanable_offset(self) -> int:
        """``LogCleanerManager.cleanableOffsets``, brought down to where a segment begins (``LogToClean``)."""
        bound = min(self.last_stable_offset, self.active.base_offset)
        return max(segment.base_offset for segment in self.segments if segment.base_offset <= bound)

    @property
    def producers(self) -> dict[int, Producer]:
        """The producers whose last batch the cleaner must keep, empty at least."""
        found: dict[int, Producer] = {}
        for batch in self.batches:
            if batch.producer_id < 0:
                continue
            producer = found.setdefault(batch.producer_id, Producer(batch.producer_epoch, None))
            if producer.epoch != batch.producer_epoch:
                producer.epoch, producer.last_data_offset = batch.producer_epoch, None
            if not batch.is_control:
                producer.last_data_offset = batch.last_offset
        return found

    @property
    def aborted(self) -> list[AbortedTransaction]:
        """The aborted transactions of which there still are batches."""
        opened: dict[int, int] = {}
        found = []
        for batch in self.batches:
            if not batch.is_control:
                if batch.is_transactional:
                    opened.setdefault(batch.producer_id, batch.base_offset)
                continue
            first = opened.pop(batch.producer_id, None)
            if first is not None and batch.is_abort:
                found.append(AbortedTransaction(batch.producer_id, first, batch.last_offset))
        return sorted(found, key=lambda one: one.first_offset)

    def files(self) -> dict[str, bytes]:
        """The segment files by name."""
        return {f"{segment.name}.log": segment.data for segment in self.segments}

    def copy(self) -> "BrokerLog":
        """The log as it is now."""
        segments = [Segment(one.base_offset, list(one.batches)) for one in self.segments]
        return BrokerLog(segments, self.end_offset, self.checkpoint)


def recorded_batches(folder: Path) -> dict[str, list[Batch]]:
    """The batches of each partition folder below a dump of current segments."""
    return {
        partition.name: [batch for file in sorted(partition.glob("*.log")) for batch in read_batches(file.read_bytes())]
        for partition in sorted(folder.iterdir())
    }


def write_dump(folder: Path, files: dict[str, dict[str, bytes]], random: Random | None = None) -> Path:
    """Write the files of log partitions as a broker has them; with ``random`` also what lies beside segments.

    Args:
        folder: where to.
        files: content by name, by partition folder.
        random: decides whether there are indexes.
    """
    has_indexes = random is not None and random.random() < 0.5
    for partition, found in files.items():
        (folder / partition).mkdir(parents=True, exist_ok=True)
        for name, data in found.items():
            (folder / partition / name).write_bytes(data)
            if has_indexes and name.endswith(".log"):
                for suffix in (".index", ".timeindex"):
                    (folder / partition / name).with_suffix(suffix).write_bytes(b"")
    return folder


def surviving_records(batches: Sequence[Batch]) -> dict[int, tuple[bytes | None, bytes | None, int]]:
    """Key, value and time of every record, control records included, by offset."""
    return {
        record.offset: (record.key, record.value, record.timestamp_ms)
        for batch in batches
        for record in batch.records
        if record.offset is not None
    }
