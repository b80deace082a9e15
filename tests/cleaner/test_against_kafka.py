"""The model of the log cleaner against Kafka's own over the same segments: what is left is the same, field by field."""

import subprocess
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.cleaner.batches import read_batches
from tests.cleaner.broker_log import write_dump
from tests.cleaner.recorded_log import recorded_log
from tests.cleaner.rounds import Round, clean
from tests.kafka_judge import java_command
from tests.nightly import rest_at_night
from tests.samples import NAMES, Sample

ROUNDS = 3


def left(folder: Path):
    """The batches of the segments in a folder, their bytes aside: compression is each library's own."""
    files = sorted(folder.glob("*.log"))
    return {file.stem: [replace(batch, raw=b"") for batch in read_batches(file.read_bytes())] for file in files}


WRITTEN = [name for name in NAMES if name != "compacted"]
HALVES = [WRITTEN[::2], WRITTEN[1::2]]


@pytest.mark.kafka
@pytest.mark.parametrize(
    "names", rest_at_night([WRITTEN[::2], WRITTEN[1::2]], [WRITTEN[::2]]), ids=["half", "the others"]
)
def test_rounds_leave_what_kafkas_own_cleaner_leaves(names: list[str], tmp_path: Path):
    """Several rounds, each of the model's and of Kafka's cleaner over what the model left of the round before."""
    arguments: list[str] = []
    expected: dict[Path, tuple[int, dict]] = {}
    for name in names:
        random = Random(name)
        for partition, one in recorded_log(Sample(name).segments).partitions.items():
            if not one.batches:
                continue
            for number in range(ROUNDS):
                one.write(len(one.batches) * (number + 1) // ROUNDS, random, roll=0.2)
                if random.random() < 0.5:
                    one.log.roll()
                records = sum(len(batch.records) for batch in one.log.batches)
                how = Round(
                    now_ms=one.log.now_ms + random.choice([0, 100_000]),
                    delete_retention_ms=random.choice([0, 1000, 86_400_000]),
                    map_slots=random.choice([records + 1, random.randint(1, records + 1)]),
                )
                folder = write_dump(tmp_path / name / str(number), {partition: one.log.files()}) / partition
                facts = (one.log.checkpoint, how.now_ms, how.delete_retention_ms, how.map_slots)
                arguments += [str(folder), *map(str, facts)]
                clean(one.log, how)
                ours = write_dump(tmp_path / "ours" / name / str(number), {partition: one.log.files()}) / partition
                expected[folder] = (one.log.checkpoint, left(ours))
    answer = subprocess.run(
        java_command("coordinatorreplay.CleanLog", *arguments), capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    ends = dict(zip(expected, map(int, answer.stdout.split()), strict=True))
    for folder, (checkpoint, batches) in expected.items():
        assert (folder, ends[folder]) == (folder, checkpoint)
        found = left(folder)
        assert list(found) == list(batches), folder
        for segment, ours in batches.items():
            assert found[segment] == ours, (folder, segment)
