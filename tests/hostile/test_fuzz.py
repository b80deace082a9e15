"""A million damaged inputs: the only answers are a record, a quarantine row or a note, and neighbours stay whole.

Inputs are recorded bytes, changed by seed and read many at a time, each between intact ones. The short run takes some
seconds and is part of every test run; the long one (``scripts/test --long tests/hostile``) looks at a million of each:
FUZZ_INPUTS sets another number, FUZZ_SEED another beginning.
"""

import io
import json
import os
import random
import resource
from collections.abc import Iterator
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from crc32c import crc32c

from coordinator_replay.analysis.findings.evaluate import Evaluator
from coordinator_replay.analysis.findings.evidence import TABLE, Evidence
from coordinator_replay.analysis.findings.thresholds import DEFAULTS
from coordinator_replay.analysis.group_life import GroupReplay
from coordinator_replay.engine.model import Record
from coordinator_replay.log.schema import LOG_RECORD
from coordinator_replay.log.segment import read_segment
from coordinator_replay.pipeline.lines import decode_lines
from coordinator_replay.records.blobs import open_blobs
from coordinator_replay.records.decoder import Decoded, decode_records
from tests.hostile.mutants import log_records, mutated_batch, mutated_pair, recorded_pairs
from tests.log.writer import LogEntry, write_batch

LONG = int(os.environ.get("FUZZ_INPUTS", "1000000"))
SEED = int(os.environ.get("FUZZ_SEED", "2026"))
MOST_MEMORY_KB = 1_000_000
"""By how much a test may raise the peak of the process, which has run others."""

TIMES = (0, 1, 1000, 1_795_249_931_062, 253_402_300_799_999, -1)


def sizes(short: int) -> list[object]:
    return [short, pytest.param(LONG, marks=[pytest.mark.long, pytest.mark.timeout(7200)])]


def portions(total: int, most: int) -> Iterator[tuple[random.Random, int]]:
    for start in range(0, total, most):
        yield random.Random(f"{SEED}-{start}"), min(most, total - start)


def peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.fixture(autouse=True)
def memory_is_bounded() -> Iterator[None]:
    before = peak_kb()
    yield
    assert peak_kb() - before < MOST_MEMORY_KB


def sentinel(number: int) -> bytes:
    entries = [LogEntry(key=b"sentinel %d" % number, value=b"whole", timestamp_ms=1)]
    return write_batch(entries, base_offset=number, codec=("none", "gzip", "zstd")[number % 3])


def is_whole(data: bytes) -> bool:
    """Whether data begins with as many bytes as its length says, of the checksum that they say."""
    end = int.from_bytes(data[8:12], signed=True) + 12
    if len(data) < max(end, 22) or end < 22:
        return False
    if data[16] == 2:
        return crc32c(data[21:end]) == int.from_bytes(data[17:21])
    return crc32(data[16:end]) == int.from_bytes(data[12:16])


def apart(batch: bytes, following: bytes) -> bytes:
    """A batch that can't borrow what it was cut by from what follows: a byte stands between that makes it no whole.

    One cut before zeros becomes whole by the zeros of the next batch, and one whose last bytes are a number and zeros
    by that number and these.
    """
    claimed = int.from_bytes(batch[8:12], signed=True) + 12 if len(batch) >= 12 else 0
    if claimed == len(batch):
        return batch
    cut = batch + b"\x7e"
    return batch + b"\x81" if claimed > len(batch) and is_whole(cut + following) else cut


def between_sentinels(rng: random.Random, count: int) -> bytes:
    """Damaged batches, each before an intact one that has its number."""
    return b"".join(apart(mutated_batch(rng), sentinel(number)) + sentinel(number) for number in range(count))


@pytest.mark.parametrize("inputs", sizes(2_000))
def test_the_reader_tells_of_every_damaged_batch_and_keeps_its_neighbours(inputs: int) -> None:
    for rng, count in portions(inputs, 500):
        data = between_sentinels(rng, count)
        parts = list(read_segment(io.BytesIO(data), source="fuzz", log_partition=0))
        keys = []
        for part in parts:
            assert part.records.schema == LOG_RECORD
            part.records.validate(full=True)
            keys += part.records.column("key").to_pylist()
        found = [key for key in keys if key is not None and key.startswith(b"sentinel ")]
        assert found == [b"sentinel %d" % number for number in range(count)]
        assert parts[-1].coverage is not None


def spread(decoded: Decoded, count: int) -> np.ndarray:
    """How often each row came out, in whatever form."""
    rows = np.concatenate([decoded.commit_rows, decoded.group_rows, decoded.quarantine_rows])
    return np.bincount(rows.astype(np.int64), minlength=count)


def whole_rows(decoded: Decoded, count: int) -> list[pa.Table]:
    """What was made of the rows that were not damaged: those of even number."""
    tables = []
    for rows, batch in ((decoded.commit_rows, decoded.commits), (decoded.group_rows, decoded.groups)):
        table = pa.table(batch).append_column("row", pa.array(rows, pa.int64()))
        tables.append(table.filter(pa.array(rows % 2 == 0)).sort_by("row"))
    return tables


@pytest.mark.parametrize("inputs", sizes(10_000))
def test_the_decoder_makes_one_row_of_every_damaged_record_and_keeps_its_neighbours(inputs: int) -> None:
    intact = recorded_pairs()
    for rng, count in portions(inputs, 20_000):
        whole = [rng.choice(intact) for _ in range(count)]
        pairs = [pair for one in whole for pair in (one, mutated_pair(rng))]
        decoded = decode_records(log_records(pairs))
        assert (spread(decoded, len(pairs)) == 1).all()
        assert not (decoded.quarantine_rows % 2 == 0).any()
        for batch in (decoded.commits, decoded.groups, decoded.quarantine):
            batch.validate(full=True)
        doubled = [pair for one in whole for pair in (one, one)]
        alone = decode_records(log_records(doubled))
        for mixed, expected in zip(whole_rows(decoded, len(pairs)), whole_rows(alone, len(pairs)), strict=True):
            assert mixed.equals(expected)


def as_record(row: dict[str, object], offset: int, rng: random.Random) -> Record:
    value = None if row["value_json"] is None else json.loads(str(row["value_json"]))
    return Record(
        kind=str(row["kind"]),
        key=json.loads(str(row["key_json"])),
        value=open_blobs(str(row["kind"]), value),
        partition=0,
        offset=offset,
        timestamp_ms=rng.choice(TIMES) if rng.random() < 0.1 else 1_795_249_931_062 + offset,
        missing_before=offset // 100,
        value_version=row["value_version"],  # type: ignore[arg-type]  # smallint or null
    )


@pytest.mark.parametrize("inputs", sizes(2_000))
def test_the_engine_and_the_rules_swallow_whatever_decodes(inputs: int) -> None:
    """Damaged records that can still be decoded, among intact ones of the same groups, in an order nobody wrote."""
    intact = [pair for pair in recorded_pairs() if pair[0][:2] not in (b"\x00\x00", b"\x00\x01")]
    fed = 0
    for rng, _ in portions(100 * inputs, 4000):
        if fed >= inputs:
            break
        pairs = [pair for _ in range(2000) for pair in (mutated_pair(rng), rng.choice(intact))]
        lives: dict[str, GroupReplay] = {}
        evidence: dict[str, list[dict[str, object]]] = {}
        for offset, row in enumerate(decode_records(log_records(pairs)).groups.to_pylist()):
            group_id = row["group_id"]
            if group_id not in lives:
                lives[group_id] = GroupReplay("fuzz", group_id)
            elif rng.random() < 0.002:
                lives[group_id] = GroupReplay.restore(json.loads(json.dumps(lives[group_id].snapshot())))
            rows = lives[group_id].feed(as_record(row, offset, rng))
            evidence.setdefault(group_id, []).extend(told for name, told in rows if name == TABLE)
            fed += 1
        for group_id, life in lives.items():
            rows = list(life.finish())
            json.dumps(rows)
            check_findings(group_id, [*evidence[group_id], *(row for name, row in rows if name == TABLE)])


def check_findings(group_id: str, evidence: list[dict[str, object]]) -> None:
    evaluator = Evaluator("fuzz", group_id, 1_795_249_999_999, DEFAULTS)
    evidence.sort(key=lambda row: (row["tag"], row["at"], row["name"], row["seq"]))
    rows = [row for row in evidence if row["tag"] != Evidence.STATE]
    findings = [one for row in rows for one in evaluator.add(Evidence(row["tag"]), json.loads(str(row["detail"])))]
    json.dumps([*findings, *evaluator.finish()])


def test_lines_of_damaged_records_are_json_one_for_each() -> None:
    rng = random.Random(SEED)
    records = log_records([mutated_pair(rng) for _ in range(4000)])
    lines = decode_lines(records).to_pylist()
    assert len(lines) == 4000
    for line in lines:
        assert "\n" not in line
        json.loads(line)
