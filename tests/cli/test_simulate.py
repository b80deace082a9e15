"""simulate: scripts in, the oracle's form out, log segments that can be read again."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator_replay.cli.main import main
from tests.coordinator.recorded_scripts import FOLDER, answers, commands, first_difference

OFFSETS_AND_MARKERS = "30-offsets-transactional"


def simulate(*arguments: str, script: str | None = None) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments], input=script)


def test_answers_are_in_the_oracles_form() -> None:
    name = "01-k848-join-leave"
    result = simulate(str(FOLDER / f"{name}.jsonl"))
    assert result.exit_code == 0
    ours = [json.loads(line) for line in result.output.splitlines()]
    assert first_difference(commands(name), answers(name), ours) is None


def test_topics_are_written_beside_the_log(tmp_path: Path) -> None:
    script = '{"topics": [{"name": "foo", "id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 4}]}\n{"topics": []}'
    assert simulate("-", "--out", str(tmp_path / "out"), script=script).exit_code == 0
    lines = (tmp_path / "out" / "topics.csv").read_text().splitlines()
    assert lines == ["topic_id,topic,partition_count", "AAAAAAAAAAAAAAAAAAAAAQ,foo,4"]


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("nonsense", "line 1: not JSON"),
        ("[]", "line 1: not a JSON object"),
        ('{"note": "x"}\n\n{"hold": 1}', "line 3: no command in it"),
        ('{"request": "Fetch"}', "line 1: unknown request 'Fetch'"),
        ('{"request": "Heartbeat", "version": 99}', "line 1: Heartbeat: version 99 is not among 0 to 4"),
        ('{"request": "Heartbeat", "body": {"member": "a"}}', "line 1: Heartbeat: unknown field 'member'"),
        ('{"request": "Heartbeat", "body": {"generationId": "7"}}', "line 1: Heartbeat.generationId"),
        (
            '{"request": "ConsumerGroupHeartbeat", "group": "g", "body": {"memberId": "a", "memberEpoch": 3000000000}}',
            "line 1: ConsumerGroupHeartbeat.memberEpoch: 3000000000 is not of type int32",
        ),
        ('{"advance_ms": 5}\n{"advance_ms": -1}', "line 2: time goes back"),
        ('{"config": {"group.max.sizes": 3}}', "line 1: unknown setting 'group.max.sizes'"),
        ('{"topics": []}\n{"config": {}}', "line 2: config must come before"),
        ('{"topics": [{"name": "foo", "id": "x", "partitions": 1}]}', "line 1: topic 'foo'"),
        ('{"topics": [{"name": "foo", "partitions": 1}]}', "line 1: id must be text"),
        ('{"endTxn": {"producerId": "x"}}', "line 1: producerId must be a whole number"),
    ],
)
def test_a_bad_line_ends_the_run_with_its_number(script: str, problem: str) -> None:
    result = simulate("-", script=script)
    assert result.exit_code == 2
    assert problem in result.stderr
    assert "Traceback" not in result.stderr


def test_nothing_is_written_when_a_line_is_bad(tmp_path: Path) -> None:
    result = simulate("-", "--out", str(tmp_path / "out"), script='{"advance_ms": 1}\n{"advance_ms": "soon"}')
    assert result.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_a_log_is_never_written_over(tmp_path: Path) -> None:
    arguments = (str(FOLDER / f"{OFFSETS_AND_MARKERS}.jsonl"), "--out", str(tmp_path / "out"))
    assert simulate(*arguments).exit_code == 0
    again = simulate(*arguments)
    assert again.exit_code == 2
    assert "is there already" in again.stderr
