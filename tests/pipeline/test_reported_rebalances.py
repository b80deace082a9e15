"""Rebalances of public reports, rebuilt as small logs: causes, evidence, findings and pages say what was found."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coordinator_replay.api import Warehouse
from coordinator_replay.cli.main import main
from tests.pipeline.in_process import audit_here
from tests.pipeline.test_subscriptions import simulated
from tests.samples import DATA

REPORTS = DATA / "reports"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


def of_script(folder: Path, name: str) -> Warehouse:
    """Simulate a script and audit its log."""
    log = simulated(folder / f"{name}-log", (REPORTS / "scripts" / f"{name}.jsonl").read_text().splitlines())
    audit_here(folder / name, log / "segments", topics=str(log / "topics.csv"))
    return Warehouse(folder / name)


def of_segments(folder: Path, name: str) -> Warehouse:
    audit_here(folder / name, REPORTS / name / "segments")
    return Warehouse(folder / name)


def page(warehouse: Warehouse, folder: Path, group: str) -> str:
    path = folder / f"{group}.html"
    warehouse.report(group).save(path)
    return path.read_text()


def why(folder: Path, name: str, *asked: str) -> list[str]:
    result = CliRunner().invoke(main, ["why", *asked, "--warehouse", str(folder / name)])
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def by_epoch(warehouse: Warehouse, group: str) -> dict[int, Any]:
    return {row.epoch: row for row in warehouse.rebalances(group)}


def test_a_member_that_did_not_join_again_was_removed_by_the_rebalance_timeout(folder: Path) -> None:
    warehouse = of_script(folder, "rebalance-timeout")
    row = by_epoch(warehouse, "shortreb")[3]
    assert (row.cause, row.confidence) == ("MEMBER_JOIN", "likely")
    assert row.alternatives == ["REBALANCE_TIMEOUT", "MEMBER_LEAVE", "LEADER_REJOIN"]
    assert [one.epoch for one in warehouse.why("shortreb", causes=["REBALANCE_TIMEOUT"])] == [3]
    evidence = " ".join(row.evidence)
    assert "LeaveGroup" not in evidence
    assert "largest rebalance timeout (max.poll.interval.ms) 5 s" in evidence
    members = list(warehouse.describe("shortreb"))
    assert {(one.session_timeout_ms, one.rebalance_timeout_ms) for one in members} == {(60_000, 5_000)}
    assert list(warehouse.findings(group="shortreb")) == []
    assert "could also be: REBALANCE_TIMEOUT, MEMBER_LEAVE" in page(warehouse, folder, "shortreb")


def test_a_static_member_that_comes_back_with_other_topics_begins_no_rebalance(folder: Path) -> None:
    warehouse = of_script(folder, "static-member-resubscribes")
    reasons = warehouse.why("k12759")
    assert [one.cause for one in reasons] == ["GROUP_CREATED", "MEMBER_JOIN"]
    assert any(note.startswith("Subscriptions changed without a rebalance: w2 at ") for note in reasons.notes)
    changed = [one.summary for one in warehouse.timeline("k12759") if one.event == "SUBSCRIPTION_CHANGED"]
    assert changed == ["subscribed to refunds as well, without a rebalance (KAFKA-12759)"]
    (unread,) = [row for row in warehouse.findings(group="k12759") if row.rule == "topic_unowned"]
    assert (unread.topic, str(unread.severity)) == ("refunds", "warning")
    assert "though w2 subscribed to it at the last change, possibly KAFKA-12759" in unread.message
    early = warehouse.why("k12759", end="2001-09-09T01:48:00Z")
    assert not any("without a rebalance" in note for note in early.notes)


def test_members_of_one_client_that_did_the_same_are_one_line(folder: Path) -> None:
    warehouse = of_segments(folder, "defunct-members")
    rows = by_epoch(warehouse, "k7610")
    joined, removed = (" ".join(rows[epoch].evidence) for epoch in (5, 6))
    dead = "of client app-2 on 10.0.0.2 (app-2-dead-00"
    assert f"299 members {dead}1, app-2-dead-002, app-2-dead-003 and 296 more) joined " in joined
    assert "possibly KAFKA-7610 (brokers before 2.2, or clients that send JoinGroup before version 4)" in joined
    assert f"300 members {dead}0, app-2-dead-001, app-2-dead-002 and 297 more) were removed from the group" in removed
    assert (len(rows[5].members_joined), len(rows[6].members_left)) == (300, 300)
    assert len(why(folder, "defunct-members", "k7610", "--last", "2")) < 30
    shown = page(warehouse, folder, "k7610")
    assert "joined: 300 members of app-2 on 10.0.0.2<" in shown
    assert "removed: 300 members of app-2 on 10.0.0.2<" in shown


def test_an_assignment_of_no_bytes_is_one_that_the_leader_did_not_make(folder: Path) -> None:
    warehouse = of_segments(folder, "empty-assignment")
    row = by_epoch(warehouse, "k9801")[5]
    assert (row.cause, row.confidence) == ("MEMBER_RESTART", "likely")
    evidence = " ".join(row.evidence)
    assert "has an assignment of 0 bytes (__consumer_offsets-8, offset 21): the leader's SyncGroup named no" in evidence
    assert "possibly KAFKA-9801 (brokers 2.3.0 to 2.4.1)" in evidence
    assert "KAFKA-9801" in page(warehouse, folder, "k9801")
    findings = {row.rule: row for row in warehouse.findings(group="k9801")}
    assert findings.keys() >= {"empty_assignment", "partition_unowned"}
    assert "possibly KAFKA-9801 (brokers 2.3.0 to 2.4.1)" in findings["empty_assignment"].message
    assert findings["partition_unowned"].message.endswith("had an assignment of 0 bytes at the last change")


def test_an_assignor_that_does_not_settle_is_no_members_doing(folder: Path) -> None:
    warehouse = of_segments(folder, "unowned-in-turn")
    rows = by_epoch(warehouse, "sticky")
    assert rows[11].cause == "LEADER_REJOIN"
    (fact,) = rows[11].evidence
    assert fact == (
        "members, topics and assignor are those of the generation before (__consumer_offsets-0, offset 1), "
        "the assignment is not: foo:0"
    )
    (storm,) = [one for one in warehouse.findings(group="sticky") if one.rule == "rebalance_storm"]
    assert "most often by" not in storm.message
    assert "in 401 of them nobody joined, was removed or changed, and 400 of these moved partitions" in storm.message
    assert "as if the assignor cooperative-sticky did not settle, possibly KAFKA-15106" in storm.message
    assert storm.detail["members"] == {}
    assert "did not settle" in page(warehouse, folder, "sticky")
