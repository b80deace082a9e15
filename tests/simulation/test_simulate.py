"""simulate: scripts in, the oracle's form out, log segments that can be read again."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator_replay.cli.main import main
from coordinator_replay.simulation.coordinator.coordinator import HANDLERS
from coordinator_replay.simulation.coordinator.script import COMMANDS
from tests.simulation.coordinator.recorded_scripts import FOLDER, answers, commands, first_difference

ORACLE = Path(__file__).parents[2] / "scripts/kafka/src/org/apache/kafka/coordinator/group"
OFFSETS_AND_MARKERS = "30-offsets-transactional"


def simulate(*arguments: str, script: str | None = None) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments], input=script)


def test_answers_are_in_the_oracles_form() -> None:
    name = "01-k848-join-leave"
    result = simulate(str(FOLDER / f"{name}.jsonl"))
    assert result.exit_code == 0
    ours = [json.loads(line) for line in result.output.splitlines()]
    assert first_difference(commands(name), answers(name), ours) is None


def test_all_commands_and_requests_of_the_oracle_are_there() -> None:
    commands = re.findall(r'case "(\w+)"', (ORACLE / "CoordinatorOracle.java").read_text())
    requests = re.findall(r'case "(\w+)"', (ORACLE / "OracleRequests.java").read_text())
    assert {*commands, "config", "assign", "note"} == COMMANDS.keys()
    assert set(requests) == HANDLERS.keys()


def test_topics_are_written_beside_the_log(tmp_path: Path) -> None:
    script = '{"topics": [{"name": "foo", "id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 4}]}\n{"topics": []}'
    assert simulate("-", "--out", str(tmp_path / "out"), script=script).exit_code == 0
    lines = (tmp_path / "out" / "topics.csv").read_text().splitlines()
    assert lines == ["topic_id,topic,partition_count", "AAAAAAAAAAAAAAAAAAAAAQ,foo,4"]


def test_the_truth_is_written_as_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "truth.jsonl"
    name = "01-k848-join-leave"
    answers = simulate(str(FOLDER / f"{name}.jsonl")).output
    assert simulate(str(FOLDER / f"{name}.jsonl"), "--truth", str(file)).output == answers
    told = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    epochs = [event for event in told if event["event"] == "epoch"]
    assert epochs[0]["trigger"]["name"] == "ConsumerGroupHeartbeat"
    assert [event["epoch"] for event in epochs] == list(range(2, 2 + len(epochs)))
    result = simulate(str(FOLDER / f"{name}.jsonl"), "--truth", str(tmp_path / "none" / "truth.jsonl"))
    assert result.exit_code == 2
    assert "can't be written" in result.output


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("nonsense", "line 1: not JSON"),
        ("[]", "line 1: not a JSON object"),
        ('{"note": "x"}\n\n{"hold": 1}', "line 3: it has no command"),
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
        (
            '{"endTxn": {"producerId": 1, "producerEpoch": 40000}}',
            "line 1: producerEpoch is 40000; it must be a number",
        ),
        ('{"endTxn": {"producerId": 1, "producerEpoch": 0}}', "line 1: commit must be true or false"),
        ('{"advance_ms": 1}\n{"advance_ms": 9000000000000000}', "line 2: advance_ms is 9000000000000000; at most"),
        ('{"dump": 1}', "line 1: dump is 1; it must be true"),
        ('{"request": "Heartbeat", "grp": "g"}', "line 1: unknown field 'grp' in a line with request"),
        ('{"topics": [{"name": "foo", "partition": 1}]}', "line 1: unknown field 'partition' in a topic"),
        ('{"request": "Heartbeat", "client": {"id": 1}}', "line 1: id must be text"),
        ('{"note": "\\ud800"}', "line 1: a text in it is not Unicode"),
        ("[" * 100_000, "line 1: not JSON"),
    ],
)
def test_a_bad_line_ends_the_run_with_its_number(script: str, problem: str) -> None:
    result = simulate("-", script=script)
    assert result.exit_code == 2
    assert problem in result.stderr
    assert "Traceback" not in result.stderr


def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_bytes(b'{"note": "fine"}\n{"note": "\xff"}\n')
    result = simulate(str(script))
    assert result.exit_code == 2
    assert "line 2: a text in it is not Unicode" in result.stderr


def test_nothing_is_written_when_a_line_is_bad(tmp_path: Path) -> None:
    result = simulate("-", "--out", str(tmp_path / "out"), script='{"advance_ms": 1}\n{"advance_ms": "soon"}')
    assert result.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_a_log_is_never_written_over(tmp_path: Path) -> None:
    arguments = (str(FOLDER / f"{OFFSETS_AND_MARKERS}.jsonl"), "--out", str(tmp_path / "out"))
    assert simulate(*arguments).exit_code == 0
    again = simulate(*arguments)
    assert again.exit_code == 2
    assert "already exists" in again.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_not_told_as_a_fault_of_the_script() -> None:
    script = str(FOLDER / f"{OFFSETS_AND_MARKERS}.jsonl")
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "coordinator_replay", "simulate", script]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "can't be read" not in done.stderr
    assert "Traceback" not in done.stderr
