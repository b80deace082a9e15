"""The engine against a broker of today's making: the lab's groups are judged by what the broker said of them."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.replay import StateReplay
from scripts.reasons.judge import judge
from scripts.reasons.sample import Sample
from tests.brokers import need_kafka
from tests.engine.broker_answers import Answer, answered, only_what_was_asked, told_of
from tests.engine.described import describe
from tests.engine.recordings import by_group, lines, logs, replayed

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

from lab.lives import LIVES

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.kafka, pytest.mark.long]
"""By day, recorded samples judge the engine; see tests/engine/test_against_the_broker.py."""

NEVER_WRITTEN = {"PreparingRebalance", "CompletingRebalance"}
"""States of classic groups of which the log tells only when they are over."""


def run_lab(folder: Path, names: Sequence[str]) -> str:
    """The folder of a lab, as the tests of recorded samples name theirs."""
    need_kafka()
    path = f"{ROOT}:{ROOT / 'scripts'}:{ROOT / 'scripts' / 'kafka'}"
    command = [sys.executable, "-m", "lab", "--out", str(folder), "--lives", ",".join(names)]
    run = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return str(folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run_lab(tmp_path_factory.mktemp("lab"), tuple(LIVES))


def known_moments(lab: str) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Checkpoints, with each log partition that nothing was written to while the broker was asked, and its end."""
    for checkpoint in lines(lab, "checkpoints.jsonl"):
        for partition, end in checkpoint["endOffsets"].items():
            if checkpoint["endOffsetsAfter"].get(partition) == end:
                yield checkpoint, int(partition), end


def is_told_by_the_log(answer: Answer) -> bool:
    """Whether a group's answer rests on records; a classic group that its first member is joining has none yet."""
    return answer["state"] not in NEVER_WRITTEN and bool(answer["members"] or answer["offsets"])


def favourite_assignors(replay: StateReplay) -> set[str]:
    """The assignors that most members prefer; between several the broker's choice hangs on the order of a hash map."""
    preferred = replay.group.assignors if isinstance(replay.group, ConsumerGroup) else {}
    return {name for name, count in preferred.items() if count == max(preferred.values())}


def compare(lab: str) -> dict[str, int]:
    """Hold every answer against the engine; how many were compared of each group."""
    parts = logs(lab)
    compared: dict[str, int] = {}
    for checkpoint, partition, end in known_moments(lab):
        topics = {topic["id"]: name for name, topic in checkpoint["topics"].items()}
        replays = replayed(parts.get(partition, ()), end)
        living = {group_id for group_id, replay in replays.items() if describe(replay) is not None}
        answers = {answer["groupId"]: answer for answer in map(answered, checkpoint["groups"])}
        assert living <= set(answers), checkpoint["at"]
        here = set(by_group(parts.get(partition, ())))
        for group_id in here & set(answers):
            answer = answers[group_id]
            if not is_told_by_the_log(answer):
                continue
            group = describe(replays[group_id]) if group_id in replays else None
            assert group is not None, (checkpoint["at"], answer)
            told = only_what_was_asked(told_of(lab, replays[group_id], group, topics), answer)
            if answer["assignor"] in favourite_assignors(replays[group_id]):
                told["assignor"] = answer["assignor"]
            assert told == answer, checkpoint["at"]
            compared[group_id] = compared.get(group_id, 0) + 1
    return compared


def check_lab(lab: str, names: Sequence[str]) -> None:
    said = [(line["group"], line["text"]) for line in lines(lab, "broker-log.jsonl")]
    for name in names:
        proof = LIVES[name].leaves
        assert proof is None or any(proof in text and group in (name, None) for group, text in said), name
    compared = compare(lab)
    assert set(compared) == set(names)
    assert min(compared.values()) >= 3, compared


def test_groups_of_every_scripted_life_are_what_the_broker_said(whole: str):
    check_lab(whole, tuple(LIVES))


def test_the_lab_ends_at_rest(whole: str):
    last = lines(whole, "checkpoints.jsonl")[-1]
    assert last["label"] == "end"
    assert last["quiet"]
    assert {group["groupId"] for group in last["groups"]} <= set(LIVES)


def check_reasons(lab: str) -> None:
    verdicts = judge(Sample(Path(lab)))
    assert [one for one in verdicts if one.row is None or one.truth is None] == []
    assert [one for one in verdicts if one.row and one.row["confidence"] == "certain" and not one.is_exact] == []
    assert sum(one.is_right for one in verdicts) >= 0.95 * len(verdicts)


def test_reasons_of_every_scripted_life_are_those_the_broker_logged(whole: str):
    check_reasons(whole)
