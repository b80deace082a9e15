"""What the broker answered at a quiet moment is what the log before those end offsets gives.

No difference is allowed: the one checkpoint that shows a state that is never written (``expiration``, a group in
PreparingRebalance) is not a quiet one.
"""

import pytest

from coordinator_replay.engine.model import Record
from coordinator_replay.engine.replay import StateReplay
from tests.engine.broker_answers import answered, only_what_was_asked, told_of
from tests.engine.described import describe
from tests.engine.recordings import Log, lines, logs, replayed

SAMPLES = ["group-lifecycles", "expiration", "java-clients", "kafka-3.9", "transactions", "compacted"]


def _missing_below(log: Log, end: int) -> int:
    return end - sum(1 for entry in log if entry.offset < end)


def _last_gap(log: Log) -> int:
    """The offset at which the last gap of a log ends."""
    last, expected = 0, 0
    for entry in log:
        if entry.offset != expected:
            last = entry.offset
        expected = entry.offset + 1
    return last


@pytest.mark.parametrize("sample", SAMPLES)
def test_quiet_checkpoints_are_answered_as_the_broker_did(sample: str) -> None:
    parts = logs(sample)
    compared = inexact = 0
    for checkpoint in lines(sample, "checkpoints.jsonl"):
        if not checkpoint["quiet"]:
            continue
        topics = {topic["id"]: name for name, topic in checkpoint["topics"].items()}
        ends = {int(partition): end for partition, end in checkpoint["endOffsets"].items()}
        groups: dict[str, tuple[StateReplay, int]] = {}
        has_future_gaps = False
        for partition, log in parts.items():
            missing = _missing_below(log, ends[partition])
            has_future_gaps |= _last_gap(log) >= ends[partition]
            for group_id, replay in replayed(log, ends[partition]).items():
                groups[group_id] = replay, missing
        for answer in map(answered, checkpoint["groups"]):
            replay, missing = groups.pop(answer["groupId"], (None, 0))
            group = describe(replay, missing) if replay is not None else None
            if replay is None or group is None:
                assert has_future_gaps, answer
                continue
            told = only_what_was_asked(told_of(sample, replay, group, topics), answer)
            if has_future_gaps and not group.is_exact:
                inexact += 1
                continue
            assert told == answer, checkpoint["at"]
            compared += 1
        rest = {group_id: describe(replay, missing) for group_id, (replay, missing) in groups.items()}
        assert not {group_id for group_id, group in rest.items() if group is not None and group.is_exact}
    assert compared >= 14
    assert inexact == 0 or sample == "compacted"


def test_the_last_checkpoints_of_a_compacted_log_are_answered_in_full() -> None:
    parts = logs("compacted")
    checkpoints = [checkpoint for checkpoint in lines("compacted", "checkpoints.jsonl") if checkpoint["quiet"]]
    complete = [
        checkpoint
        for checkpoint in checkpoints
        if all(checkpoint["endOffsets"][str(partition)] > _last_gap(log) for partition, log in parts.items())
    ]
    assert complete
    for checkpoint in complete:
        topics = {topic["id"]: name for name, topic in checkpoint["topics"].items()}
        told = {}
        for partition, log in parts.items():
            for group_id, replay in replayed(log, checkpoint["endOffsets"][str(partition)]).items():
                group = describe(replay)
                if group is not None:
                    told[group_id] = told_of("compacted", replay, group, topics)
        answers = {answer["groupId"]: answer for answer in map(answered, checkpoint["groups"])}
        assert {name: only_what_was_asked(told[name], answers[name]) for name in told} == answers


def test_records_are_not_read_past_the_end_offset() -> None:
    log = logs("group-lifecycles")[0]
    first = next(entry for entry in log if isinstance(entry, Record))
    assert replayed(log, first.offset) == {}
