"""Dumps that are tables, their lines and rows damaged by chance: an intact group beside them lives as it does alone."""

import base64
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from coordinator_replay.cli.main import main
from tests.acceptance.processes import tables
from tests.hostile import recordings
from tests.hostile.mutants import mutate, mutated_pair, recorded_pairs
from tests.hostile.questions import SHARES, ask, faults, whole_cluster
from tests.hostile.test_mutated_dumps import COMPARED, INTACT, INTACT_PARTITION, intact_life, of_intact
from tests.pipeline.in_process import audit_here

SEED = int(os.environ.get("HOSTILE_SEED", "1"))
ROWS = int(os.environ.get("HOSTILE_ROWS", "400"))
TOPIC = "__consumer_offsets"
HOSTILE_VALUES = (None, -1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63), 1.5, "1", [], {}, True, "\u0000", "\ufffd")


def envelopes(rng: random.Random, rows: int) -> Iterator[dict[str, Any]]:
    """The intact group, then so many records: recorded ones, and some that are not of any form."""
    for offset, entry in enumerate(recordings.encoded(intact_life())):
        yield envelope(INTACT_PARTITION, offset, entry.key, entry.value, entry.timestamp_ms)
    for offset in range(rows):
        key, value = rng.choice(recorded_pairs()) if rng.random() < 0.5 else mutated_pair(rng)
        yield envelope(1 + offset % 7, offset, key, value, 1_760_000_000_000 + offset)


def envelope(partition: int, offset: int, key: bytes | None, value: bytes | None, at_ms: int) -> dict[str, Any]:
    place = {"topic": TOPIC, "partition": partition, "offset": offset, "ts": at_ms}
    return {**place, "key": key, "payload": value}


def text(one: bytes | None) -> str | None:
    return None if one is None else base64.b64encode(one).decode()


def mutated_line(line: bytes, rng: random.Random) -> bytes:
    """A line with bytes changed, or with a value that no such field has."""
    if rng.random() < 0.5:
        return mutate(line, rng, rng.randbytes(16))
    told = json.loads(line)
    told[rng.choice(("partition", "offset", "ts", "key", "payload"))] = rng.choice(HOSTILE_VALUES)
    return json.dumps(told).encode()


def write_lines(folder: Path, rng: random.Random, rows: int) -> None:
    """JSON lines, a third of those that are not of the intact group damaged."""
    folder.mkdir()
    lines = []
    for told in envelopes(rng, rows):
        line = json.dumps({**told, "key": text(told["key"]), "payload": text(told["payload"])}).encode()
        is_mutated = told["partition"] != INTACT_PARTITION and rng.random() < 0.33
        lines.append(mutated_line(line, rng) if is_mutated else line)
    # Else a mutated partition could become the intact one.
    prefix = f'"partition": {INTACT_PARTITION},'.encode()
    whole = [line for place, line in enumerate(lines) if place < len(lines) - rows or prefix not in line]
    (folder / "dump.jsonl").write_bytes(b"\n".join(whole))


def write_rows(folder: Path, rng: random.Random, rows: int) -> None:
    """Parquet in the columns of Spark's Kafka source, some rows without a position, or with one that no log has."""
    folder.mkdir()
    made = []
    for told in envelopes(rng, rows):
        row = {**told, "value": told["payload"]}
        if told["partition"] != INTACT_PARTITION and rng.random() < 0.1:
            row |= rng.choice(({"partition": None}, {"offset": None}, {"partition": -7}, {"offset": -(2**63)}))
        made.append(row)
    types = {"key": pa.binary(), "value": pa.binary(), "topic": pa.string(), "partition": pa.int32()}
    columns = {name: pa.array([row[name] for row in made], type_) for name, type_ in types.items()}
    columns["offset"] = pa.array([row["offset"] for row in made], pa.int64())
    columns["timestamp"] = pa.array([row["ts"] * 1000 for row in made], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table(columns), folder / "part-0.parquet")


def audit_with_spark(warehouse: Path, *dumps: Path) -> None:
    result = CliRunner().invoke(main, ["audit", *map(str, dumps), "--warehouse", str(warehouse)])
    assert result.exit_code == 0, result.output


# By day the rows below are audited in this process, and tests/pipeline/test_audit.py quarantines lines with Spark.
@pytest.mark.long
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("share", [3, 1], ids=["a third", "all"])
def test_damaged_lines_cost_their_neighbours_nothing(share: int, tmp_path: Path) -> None:
    check_neighbours(write_lines, audit_with_spark, tmp_path, slice(0, None, share))


@pytest.mark.parametrize("share", SHARES)
def test_damaged_rows_cost_their_neighbours_nothing(share: int, tmp_path: Path) -> None:
    check_neighbours(write_rows, audit_here, tmp_path, slice(1 % share, None, share))


def check_neighbours(
    write: Callable[[Path, random.Random, int], None],
    audit: Callable[[Path, Path], Any],
    tmp_path: Path,
    questions: slice,
) -> None:
    """Audit damaged records beside an intact group, twice, and compare the group with itself alone."""
    write_rows(tmp_path / "alone", random.Random(SEED), 0)
    audit_here(tmp_path / "warehouse-alone", tmp_path / "alone")
    write(tmp_path / "dump", random.Random(SEED), ROWS)
    warehouse = tmp_path / "warehouse"
    audit(warehouse, tmp_path / "dump")
    found, expected = of_intact(warehouse), of_intact(tmp_path / "warehouse-alone")
    assert expected["group_timeline"]
    for name in COMPARED:
        assert sorted(map(recordings.without_positions, found[name])) == sorted(
            map(recordings.without_positions, expected[name])
        )
    quarantined = tables(warehouse)["quarantine"]
    assert len(quarantined) > ROWS // 20
    asked = list(whole_cluster(tmp_path))[questions]
    wrong = [fault for question in asked for fault in faults(ask(warehouse, question), question)]
    assert wrong == []
    audit(warehouse, tmp_path / "dump")
    assert len(tables(warehouse)["quarantine"]) == len(quarantined), "what has no position counts once, too"
    assert INTACT in ask(warehouse, ["groups"]).stdout
