"""Makes logs for tests: hypothesis strategies of batches, each with the rows that reading it ought to give."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.log.message_sets import write_message_set
from tests.log.reading import moment
from tests.log.writer import LogEntry, write_batch, write_control

FIELD = st.none() | st.binary(max_size=40)
TIME = st.integers(0, 2**41)
BATCH_CODECS = ["none", "gzip", "snappy", "snappy-raw", "lz4", "zstd"]
SET_CODECS = BATCH_CODECS[:-1]


@dataclass(frozen=True)
class Written:
    """Bytes of one batch or message set, and the rows it stands for."""

    data: bytes
    rows: list[dict[str, Any]]
    first_offset: int
    last_offset: int


@dataclass(frozen=True)
class WrittenLog:
    """Batches one after the other."""

    entries: list[Written]

    @property
    def data(self) -> bytes:
        return b"".join(entry.data for entry in self.entries)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for entry in self.entries for row in entry.rows]

    def span(self, index: int) -> range:
        start = sum(len(entry.data) for entry in self.entries[:index])
        return range(start, start + len(self.entries[index].data))


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """The columns of a row that a batch alone decides, not what lies before it."""
    names = ("log_offset", "log_timestamp", "batch_offset", "magic", "compression", "leader_epoch", "producer_id")
    more = ("producer_epoch", "is_transactional", "control_type", "key", "value", "error_class")
    return {name: row[name] for name in names + more}


def _row(entry: LogEntry, offset: int, time: int, **batch: Any) -> dict[str, Any]:
    plain = {
        "leader_epoch": None,
        "producer_id": -1,
        "producer_epoch": -1,
        "is_transactional": False,
        "control_type": None,
        "error_class": None,
    }
    own = {"log_offset": offset, "log_timestamp": moment(time), "key": entry.key, "value": entry.value}
    return shown(plain | own | batch)


@st.composite
def _entries(draw: st.DrawFn, base_offset: int, *, smallest: int = 1) -> list[LogEntry]:
    """Records with rising offsets, sometimes with gaps as compaction leaves them."""
    offset = base_offset
    found = []
    for _ in range(draw(st.integers(smallest, 6))):
        offset += draw(st.sampled_from([0, 0, 0, 1, 5]))
        headers = draw(st.sampled_from([(), (), (("name", b"value"), ("", None))]))
        found.append(
            LogEntry(key=draw(FIELD), value=draw(FIELD), timestamp_ms=draw(TIME), offset=offset, headers=headers)
        )
        offset += 1
    return found


@st.composite
def batches(draw: st.DrawFn, base_offset: int, codecs: list[str] = BATCH_CODECS) -> Written:
    """A batch of magic 2: of data, or empty."""
    entries = draw(_entries(base_offset, smallest=0))
    codec = draw(st.sampled_from(codecs))
    append_time = draw(st.none() | TIME)
    producer_id = draw(st.sampled_from([-1, 0, 77, 2**40]))
    leader_epoch = draw(st.integers(0, 2**31 - 1))
    last_offset = (entries[-1].offset or 0 if entries else base_offset) + draw(st.sampled_from([0, 0, 4]))
    options: dict[str, Any] = {
        "producer_id": producer_id,
        "producer_epoch": -1 if producer_id < 0 else 2,
        "is_transactional": producer_id > 0,
    }
    data = write_batch(
        entries,
        base_offset=base_offset,
        last_offset=last_offset,
        codec=codec,
        leader_epoch=leader_epoch,
        append_time_ms=append_time,
        delete_horizon_ms=draw(st.none() | TIME),
        **options,
    )
    rows = [
        _row(
            entry,
            entry.offset or 0,
            entry.timestamp_ms if append_time is None else append_time,
            batch_offset=base_offset,
            magic=2,
            compression=codec.split("-")[0],
            leader_epoch=leader_epoch,
            **options,
        )
        for entry in entries
    ]
    return Written(data, rows, base_offset, last_offset)


@st.composite
def control_batches(draw: st.DrawFn, base_offset: int) -> Written:
    """A transaction marker."""
    code, name = draw(st.sampled_from([(0, "ABORT"), (1, "COMMIT"), (2, "OTHER"), (6, "OTHER")]))
    version, time = draw(st.sampled_from([0, 1])), draw(TIME)
    data = write_control(
        offset=base_offset, control_type=code, producer_id=5, producer_epoch=1, timestamp_ms=time, version=version
    )
    key = version.to_bytes(2, "big") + code.to_bytes(2, "big")
    row = _row(
        LogEntry(key=key, value=bytes(6)),
        base_offset,
        time,
        batch_offset=base_offset,
        magic=2,
        compression="none",
        leader_epoch=0,
        producer_id=5,
        producer_epoch=1,
        is_transactional=True,
        control_type=name,
    )
    return Written(data, [row], base_offset, base_offset)


@st.composite
def message_sets(draw: st.DrawFn, base_offset: int) -> Written:
    """Messages of magic 0 or 1: one alone, or some in a wrapper."""
    magic = draw(st.sampled_from([0, 1]))
    codec = draw(st.sampled_from(SET_CODECS))
    entries = draw(_entries(base_offset))
    if codec == "none":
        entries = entries[:1]
    append_time = draw(st.none() | TIME) if magic else None
    data = write_message_set(entries, base_offset=base_offset, magic=magic, codec=codec, append_time_ms=append_time)
    first = entries[0].offset or 0
    rows = [
        _row(
            entry,
            entry.offset or 0,
            -1 if magic == 0 else entry.timestamp_ms if append_time is None else append_time,
            batch_offset=first,
            magic=magic,
            compression=codec.split("-")[0],
        )
        for entry in entries
    ]
    return Written(data, rows, first, entries[-1].offset or 0)


@st.composite
def logs(draw: st.DrawFn, *, smallest: int = 0, largest: int = 8) -> WrittenLog:
    """A log of every kind of batch and message, with rising offsets."""
    entries: list[Written] = []
    # Not 0 for a message set: a wrapper of magic 1 with offset 0 means something else.
    offset = draw(st.sampled_from([1, 1000, 2**33]))
    for _ in range(draw(st.integers(smallest, largest))):
        make = draw(st.sampled_from([batches, batches, batches, control_batches, message_sets]))
        entries.append(draw(make(offset)))
        offset = entries[-1].last_offset + 1 + draw(st.sampled_from([0, 0, 3]))
    return WrittenLog(entries)
