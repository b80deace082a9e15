"""The longest step of a partition's commits, through audits: of one run as of nights, in groups with members alone."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.pipeline.audit import Summary
from coordinator_replay.query.findings import Finding, findings_of
from coordinator_replay.query.tables import Tables
from tests.analysis.findings.test_subscription_rules import assignment, subscription
from tests.nightly import rest_at_night
from tests.pipeline.staged_rows import Row, audit_rows, commit, group_record, ms

__all__ = ["audit_rows"]

COMMITS = 40


def stable(place: int, group: str) -> Row:
    """A classic group with a member that owns partition 0."""
    member: dict[str, Any] = {"memberId": "m", "groupInstanceId": None, "clientId": "c", "clientHost": "/h"}
    member |= {"rebalanceTimeout": 60_000, "sessionTimeout": 30_000}
    member |= {"subscription": subscription(["x"]), "assignment": assignment({"x": [0]})}
    value = {"protocolType": "consumer", "generation": 1, "protocol": "range", "leader": "m", "members": [member]}
    return group_record((0, place), 0, "GroupMetadata", {"group": group}, value | {"currentStateTimestamp": ms(0)})


def log() -> Iterator[Row]:
    """Three groups that commit five offsets each five seconds: one jumps, one always does, one has no members."""
    yield stable(0, "jumps")
    yield stable(1, "fast")
    for number in range(COMMITS):
        base = 5 * number
        seconds, place = 5 * (number + 1), 10 * (number + 1)
        yield commit((0, place), seconds, ("jumps", "x", 0), base + (30_000 if number >= 20 else 0))
        yield commit((0, place + 1), seconds, ("fast", "x", 0), 30_000 * number)
        yield commit((0, place + 2), seconds, ("alone", "x", 0), base + (30_000 if number >= 20 else 0))


def jumps(warehouse: Path) -> list[Finding]:
    return findings_of(Tables(str(warehouse)), rules=["offset_jump"])


@pytest.mark.parametrize("nights", rest_at_night([1, 3], [1]))
def test_the_one_step_that_leads_far_ahead_is_found(
    audit_rows: Callable[..., Summary], tmp_path: Path, nights: int
) -> None:
    rows: list[Any] = list(log())
    for night in range(nights):
        audit_rows(tmp_path / "wh", rows[: len(rows) * (night + 1) // nights])
    [found] = jumps(tmp_path / "wh")
    assert (found.group_id, found.topic, found.partition, found.occurrences) == ("jumps", "x", 0, 1)
    assert "went ahead from 95 to 30100 on 2026-11-21T00:01:45.000Z" in found.message
    assert "its other commits go ahead by 4 on average" in found.message
