"""Requests that can't be: one sentence says what is wrong, and the coordinator stays as it was."""

from typing import Any

import pytest

from coordinator_replay.coordinator import Coordinator, Request
from coordinator_replay.coordinator.script import ScriptRun
from coordinator_replay.errors import UsageError

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
    assert coordinator.group_ids() == []
    assert coordinator.end_offset == 0


def test_time_does_not_go_back() -> None:
    coordinator = Coordinator(now_ms=5)
    with pytest.raises(UsageError, match="time goes back"):
        coordinator.handle(Request("Heartbeat", {"groupId": "g"}), 4)
    with pytest.raises(UsageError, match="time goes back"):
        coordinator.advance(4)
    assert coordinator.now_ms == 5


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
