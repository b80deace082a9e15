"""The stories in examples/scripts: ours answers what Kafka's own coordinator answered, and each is explained."""

import json
from pathlib import Path

import pytest

from tests.samples import DATA
from tests.simulation.coordinator.recorded_scripts import first_difference, run

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "scripts"
STORIES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))


@pytest.mark.parametrize("story", STORIES)
def test_a_story_goes_as_in_kafka(story: str) -> None:
    script = (FOLDER / f"{story}.jsonl").read_text().splitlines()
    kafka = [json.loads(line) for line in (DATA / "coordinator" / "examples" / f"{story}.out.jsonl").open()]
    difference = first_difference(script, kafka, run(script))
    assert difference is None, str(difference)


@pytest.mark.parametrize("story", STORIES)
def test_a_story_says_what_happens(story: str) -> None:
    commands = [json.loads(line) for line in (FOLDER / f"{story}.jsonl").open()]
    assert sum("note" in command for command in commands) >= 3
    assert f"`{story}.jsonl`" in (FOLDER / "README.md").read_text()


def test_there_are_ten_stories() -> None:
    assert len(STORIES) == 10
