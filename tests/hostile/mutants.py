"""Recorded bytes, damaged on purpose: by seed, so that whatever is found can be made again."""

import io
import random
import struct
from functools import cache
from pathlib import Path

import pyarrow as pa
from crc32c import crc32c

from coordinator_replay.log.schema import LOG_RECORD
from coordinator_replay.log.segment import read_segment
from tests.log.batch_spans import walk_batches
from tests.samples import NAMES, Sample

HOSTILE = (
    *(struct.pack(">i", number) for number in (-1, -2, 2**31 - 1, -(2**31), 0x00FFFFFF, 1_000_000)),
    *(struct.pack(">h", number) for number in (-1, 32767, -32768, 99)),
    *(struct.pack(">q", number) for number in (-1, 2**63 - 1, -(2**63), 2**62)),
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80" * 11,
    b"\x00",
    b"\x01",
    b"\xff",
    b"\xed\xa0\x80",
    b"\x1b[2J",
    b"=cmd|' /C calc'!A0",
    b"<script>",
    b"../../",
    b"\x00" * 64,
)
"""What attackers write where lengths, counts and names stand."""


def segments() -> list[Path]:
    return [
        path for name in NAMES for path in sorted(Path(Sample(name).segments).rglob("*.log")) if path.stat().st_size
    ]


@cache
def recorded_batches() -> tuple[bytes, ...]:
    """Every batch and message set of the samples."""
    found = []
    for path in segments():
        data = path.read_bytes()
        for spans in walk_batches(data):
            found += [data[start : start + size] for start, size in zip(spans.positions, spans.sizes, strict=True)]
    return tuple(dict.fromkeys(found))


@cache
def recorded_pairs() -> tuple[tuple[bytes, bytes | None], ...]:
    """Every key and value of the samples."""
    found: dict[tuple[bytes, bytes | None], None] = {}
    for path in segments():
        for part in read_segment(io.BytesIO(path.read_bytes()), source="s", log_partition=0):
            keys, values = part.records.column("key").to_pylist(), part.records.column("value").to_pylist()
            control = part.records.column("control_type").to_pylist()
            found.update(
                dict.fromkeys(
                    (key, value)
                    for key, value, type_ in zip(keys, values, control, strict=True)
                    if type_ is None and key is not None
                )
            )
    return tuple(found)


def mutate(data: bytes, rng: random.Random, other: bytes) -> bytes:
    """The bytes with one to four changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(8):
            case 0 if at < len(data):
                data = data[:at] + bytes((data[at] ^ (1 << rng.randrange(8)),)) + data[at + 1 :]
            case 1 if at < len(data):
                data = data[:at] + bytes((rng.randrange(256),)) + data[at + 1 :]
            case 2:
                data = data[:at]
            case 3:
                data = data + rng.randbytes(rng.choice((1, 2, 7, 200)))
            case 4:
                data = data[:at] + data[at + rng.choice((1, 2, 4, 16)) :]
            case 5:
                data = data[:at] + data[at : at + 40] + data[at:]
            case 6:
                data = data[:at] + other[rng.randrange(len(other) + 1) :][:60] + data[at:]
            case _:
                hostile = rng.choice(HOSTILE)
                data = data[:at] + hostile + data[at + len(hostile) :]
    return data


def mutated_batch(rng: random.Random) -> bytes:
    """A batch that was damaged; half of them have their length and checksum put right again, as a forger would."""
    batches = recorded_batches()
    data = bytearray(mutate(rng.choice(batches), rng, rng.choice(batches)))
    if len(data) > 61 and data[16] == 2 and rng.random() < 0.5:
        data[8:12] = struct.pack(">i", len(data) - 12)
        data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    return bytes(data)


def mutated_pair(rng: random.Random) -> tuple[bytes | None, bytes | None]:
    """A key and a value of which one, or both, were damaged; sometimes of two different records."""
    pairs = recorded_pairs()
    key, value = rng.choice(pairs)
    other_key, other_value = rng.choice(pairs)
    match rng.randrange(8):
        case 0:
            return mutate(key, rng, other_key), value
        case 1:
            return key, other_value
        case 2:
            return mutate(key, rng, other_key), mutate(value or b"", rng, other_key)
        case _:
            return key, mutate(value or other_value or b"", rng, other_value or other_key)


def log_records(pairs: list[tuple[bytes | None, bytes | None]]) -> pa.RecordBatch:
    """Keys and values as records of a log, one after the other."""
    count = len(pairs)
    columns = {
        "log_partition": pa.array([0] * count, pa.int32()),
        "log_offset": pa.array(range(count), pa.int64()),
        "key": pa.array([key for key, _ in pairs], pa.binary()),
        "value": pa.array([value for _, value in pairs], pa.binary()),
        "source": pa.array(["fuzz"] * count),
    }
    return pa.RecordBatch.from_arrays(
        [columns.get(field.name, pa.nulls(count, field.type)) for field in LOG_RECORD], schema=LOG_RECORD
    )
