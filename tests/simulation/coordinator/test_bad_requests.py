"""Requests that can't be: one sentence says what is wrong, and the coordinator stays as it was."""

import json
from typing import Any

import pytest

from coordinator_replay.errors import UsageError
from coordinator_replay.simulation.coordinator import Coordinator, Request
from coordinator_replay.simulation.coordinator.script import ScriptRun
from tests.simulation.coordinator.recorded_scripts import commands

JOIN = {"groupId": "g", "memberId": "", "sessionTimeoutMs": 10_000, "protocolType": "consumer"}


@pytest.mark.parametrize(
    ("api", "body", "complaint"),
    [
        ("Nope", {}, "unknown request 'Nope'"),
        ("JoinGroup", {**JOIN, "protocols": [{"name": "range", "metadata": "no base64"}]}, "is not of type bytes"),
        ("JoinGroup", {**JOIN, "protocols": {"name": "range"}}, "is not a list"),
        ("JoinGroup", {**JOIN, "sessionTimeoutMs": 2**31}, "is not of type int32"),
        ("JoinGroup", {**JOIN, "groupId": None}, "must not be null"),
        ("SyncGroup", {"group": "g"}, "unknown field 'group'"),
        ("Heartbeat", {"groupId": "g", "generationId": "1"}, "is not of type int32"),
        ("LeaveGroup", {"groupId": "g", "members": [1]}, "is not an object"),
    ],
)
def test_a_malformed_request_is_refused_before_anything_changes(api: str, body: dict[str, Any], complaint: str) -> None:
    coordinator = Coordinator(now_ms=5)
    with pytest.raises(UsageError, match=complaint):
        coordinator.handle(Request(api, body), 5)
    assert coordinator.dump() == {}
    assert coordinator.end_offset == 0


def test_time_does_not_go_back() -> None:
    coordinator = Coordinator(now_ms=5)
    with pytest.raises(UsageError, match="time goes back"):
        coordinator.handle(Request("Heartbeat", {"groupId": "g"}), 4)
    with pytest.raises(UsageError, match="time goes back"):
        coordinator.advance(4)
    assert coordinator.now_ms == 5


BAD_LINES = [
    "nonsense",
    '{"request": "Fetch"}',
    '{"advance_ms": -1}',
    '{"config": {}}',
    '{"topics": [{"name": "foo", "id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 1}]}',
    '{"topics": [{"name": "bar", "id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 1000000000}]}',
    '{"groupConfig": {"consumer.session.timeout.ms": "soon"}, "group": "g"}',
    '{"endTxn": {"producerId": 1, "producerEpoch": 99999, "commit": true}}',
    '{"request": "ConsumerGroupHeartbeat", "group": "g", "body": {"memberId": "A", "memberEpoch": 4294967296}}',
    '{"request": "Heartbeat", "group": "g", "body": {"memberId": "A", "generationId": "2"}}',
    '{"request": "TxnOffsetCommit", "group": "g", "body": {"producerId": 1, "producerEpoch": 40000}}',
    '{"request": "OffsetCommit", "group": "g", "version": 99}',
]
"""Lines that can't be run, after the script of the next test: foo has four partitions there."""


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_leaves_everything_as_it_was(line: str) -> None:
    run = ScriptRun()
    for good in commands("01-k848-join-leave")[:12]:
        run.run(good)
    before = _all_of(run)
    with pytest.raises(UsageError) as refused:
        run.run(line)
    assert "\n" not in str(refused.value)
    assert _all_of(run) == before
    assert json.loads(run.run('{"note": "the next line"}'))["i"] == 12


@pytest.mark.parametrize(
    ("epoch", "error"), [(99, "FENCED_MEMBER_EPOCH"), (-3, "INVALID_REQUEST"), (-(2**31), "INVALID_REQUEST")]
)
def test_epochs_that_no_member_can_have_are_answered_with_kafkas_errors(epoch: int, error: str) -> None:
    run = ScriptRun()
    for good in commands("01-k848-join-leave")[:12]:
        run.run(good)
    before = _all_of(run)
    body = {"memberId": "A", "memberEpoch": epoch}
    answer = json.loads(run.run(json.dumps({"request": "ConsumerGroupHeartbeat", "group": "g", "body": body})))
    assert [event.get("error") for event in answer["out"]] == [error]
    assert _all_of(run) == before


def _all_of(run: ScriptRun) -> tuple[Any, ...]:
    """Inner state, timers, log and topics."""
    coordinator = run.coordinator
    assert coordinator is not None
    log = (coordinator.now_ms, coordinator.end_offset, len(run.written))
    return coordinator.dump(), coordinator.timers(), log, dict(coordinator.topics.by_id)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"assign": "nope", "topics": {}, "members": {}}', "assign is 'nope'"),
        ('{"assign": "range", "topics": {"foo": -1}, "members": {}}', "is not a number of partitions"),
        ('{"assign": "range", "topics": {}, "members": {"m": {}}}', "must have a list of topics"),
        ('{"assign": "range", "topics": {}, "members": {"m": {"topics": [], "generation": "x"}}}', "whole number"),
        ('{"assign": "range", "topics": {}, "members": {"m": {"topics": [], "owned": {"foo": 1}}}}', "lists of partit"),
        ('{"assign": "range", "topics": {}, "members": {"m": {"topics": [], "rack": 1}}}', "rack must be text"),
        ('{"assign": "range", "topics": {"foo": 1}, "racks": {"foo": 1}, "members": {}}', "list of each partition"),
    ],
)
def test_a_malformed_assign_command_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        ScriptRun().run(line)
