"""Streams groups, share groups and groups in migration, as ``describe`` shows them and as a broker described them."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coordinator_replay.cli.main import main
from coordinator_replay.query.answers.describe import describe
from coordinator_replay.query.tables import Tables
from coordinator_replay.times import moment_text
from tests.acceptance.recorded import answered, decoded
from tests.pipeline.audited_once import AuditedOnce
from tests.query.small_warehouse import timeline, write_small_warehouse
from tests.samples import Sample

LIFE = "group-lifecycles"


@pytest.fixture(scope="module")
def warehouse(audited_once: AuditedOnce) -> Path:
    """The life of sixteen groups, audited."""
    metadata = str(Sample(LIFE).folder / "cluster-metadata")
    return audited_once(Sample(LIFE).segments, cluster_metadata=metadata).warehouse


def described(warehouse: Path, group: str, at: str | int) -> tuple[dict[str, Any], str]:
    """What ``describe`` answers, and what it says beside it."""
    asked = ["describe", group, "--at", str(at), "--warehouse", str(warehouse), "--output", "json"]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), " ".join(result.stderr.split())


def tasks_of(member: dict[str, Any], prefix: str = "") -> str:
    """A member's tasks as the broker's own tools write them."""
    kinds = (
        ",".join(
            f"{one['subtopology_id']}_{number}"
            for one in member[f"{prefix}{kind}_tasks"]
            for number in one["partitions"]
        )
        for kind in ("active", "standby", "warmup")
    )
    return "(activeTasks={}, standbyTasks={}, warmupTasks={})".format(*kinds)


def answers_of(group: str) -> list[tuple[str, dict[str, Any]]]:
    return [(time, groups[group]) for time, groups in answered(LIFE) if group in groups]


def test_tasks_and_epochs_of_a_streams_group_are_those_of_the_broker(warehouse: Path):
    answers = answers_of("shop-streams")
    assert {len(answer["members"]) for _, answer in answers} == {0, 1}
    for time, answer in answers:
        found, _ = described(warehouse, "shop-streams", time)
        assert (found["topology_epoch"], found["state"]) == (answer["topologyEpoch"], answer["state"])
        members = {
            one["member_id"]: (one["process_id"], one["member_epoch"], tasks_of(one), tasks_of(one, "target_"))
            for one in found["members"]
        }
        assert members == {
            one["memberId"]: (one["processId"], one["memberEpoch"], one["assignment"], one["target"])
            for one in answer["members"]
        }


def test_tasks_that_a_member_must_give_up_are_shown_until_it_has(warehouse: Path):
    """While two members reconcile: what the record of the one says, and what the other waits for."""
    pending = [
        record
        for record in decoded(LIFE, "StreamsGroupCurrentMemberAssignment")
        if not record.get("tombstone") and record["value"]["activeTasksPendingRevocation"]
    ]
    assert pending
    for record in pending:
        found, _ = described(warehouse, "shop-streams", record["timestamp"])
        (member,) = (one for one in found["members"] if one["member_id"] == record["key"]["memberId"])
        wanted = {one["subtopologyId"]: one["partitions"] for one in record["value"]["activeTasksPendingRevocation"]}
        shown = {one["subtopology_id"]: one["partitions"] for one in member["active_tasks_pending_revocation"]}
        assert (shown, member["member_state"]) == (wanted, "UNREVOKED_TASKS")


def test_a_streams_group_that_is_not_ready_names_the_topics_that_did_not_exist(warehouse: Path):
    (topology,) = (one["value"] for one in decoded(LIFE, "StreamsGroupTopology") if not one.get("tombstone"))
    internal = {
        topic["name"]
        for one in topology["subtopologies"]
        for topic in (*one["stateChangelogTopics"], *one["repartitionSourceTopics"])
    }
    first, validated, *_ = decoded(LIFE, "StreamsGroupMetadata")
    assert "validatedTopologyEpoch" not in first["value"]
    found, note = described(warehouse, "shop-streams", first["timestamp"])
    assert (found["state"], found["validated_topology_epoch"]) == ("NotReady", None)
    assert {word.strip(".,") for word in note.split()} >= internal
    found, note = described(warehouse, "shop-streams", validated["timestamp"])
    assert (found["validated_topology_epoch"], "NotReady" in note) == (0, False)


def test_a_group_that_is_assigning_or_reconciling_says_since_when_and_what_it_waits_for(warehouse: Path):
    _, note = described(warehouse, "shop-streams", "2026-11-21T08:33:42Z")
    assert (
        "Assigning since 2026-11-21T08:33:41.603Z: epoch 3 has no target assignment yet; the newest target "
        "assignment is of epoch 1. The group left this state at 2026-11-21T08:33:44.035Z." in note
    )
    _, note = described(warehouse, "shop-streams", "2026-11-21T08:33:44.1Z")
    assert (
        "Reconciling since 2026-11-21T08:33:44.035Z: 1 of 1 member does not have the target assignment of epoch 3 yet: "
        "st-1-StreamThread-1-consumer (at epoch 1). The group left this state at " in note
    )
    for at in ("08:33:00.2Z", "08:33:00.3Z", "08:33:03.66Z"):
        found, note = described(warehouse, "shop-new", f"2026-11-21T{at}")
        behind = [one for one in found["members"] if one["member_state"] != "STABLE" or one["member_epoch"] != 4]
        assert behind
        assert f"{len(behind)} of {len(found['members'])} members " in note
        for one in behind:
            state = [] if one["member_state"] == "STABLE" else [one["member_state"]]
            epoch = [] if one["member_epoch"] == 4 else [f"at epoch {one['member_epoch']}"]
            assert f"{one['client_id']} ({', '.join([*state, *epoch])})" in note
    _, note = described(warehouse, "shop-share", "2026-11-21T08:34:31Z")
    assert "this state" not in note


def test_a_group_that_is_assigning_at_the_end_of_the_log_is_not_said_to_leave_this_state(tmp_path: Path):
    began = timeline()[0] | {"group_id": "late", "to_state": "Assigning", "epoch": 4, "assignment_epoch": 3}
    told = {}
    for name, proof in (("whole", True), ("cut", False)):
        row = began | {"is_exact": proof, "is_state_exact": proof}
        folder = write_small_warehouse(tmp_path / name, group_timeline=[row])
        (told[name],) = [
            note for note in describe(Tables(str(folder)), "late", None).notes if note and note.startswith("Assigning")
        ]
    since = moment_text(began["log_timestamp"])
    newest = "the newest target assignment is of epoch 3."
    assert told == {
        "whole": f"Assigning since {since}: epoch 4 has no target assignment yet; {newest}",
        "cut": f"Assigning since {since} or earlier: epoch 4 has no target assignment on record; {newest}",
    }


def test_members_of_a_share_group_have_what_the_broker_answered(warehouse: Path):
    answers = answers_of("shop-share")
    assert answers
    for time, answer in answers:
        found, _ = described(warehouse, "shop-share", time)
        assert {
            one["member_id"]: {
                f"{topic['topic']}-{n}" for topic in one["current_assignment"] for n in topic["partitions"]
            }
            for one in found["members"]
        } == {one["memberId"]: set(one["assignment"]) for one in answer["members"]}


def test_a_share_group_shows_which_partitions_the_share_coordinator_has_initialized(warehouse: Path):
    for record in decoded(LIFE, "ShareGroupStatePartitionMetadata"):
        found, _ = described(warehouse, "shop-share", record["timestamp"])
        newest = [
            one["value"]
            for one in decoded(LIFE, "ShareGroupStatePartitionMetadata")
            if one["timestamp"] <= record["timestamp"]
        ][-1]
        for what in ("initialized", "initializing"):
            shown = {one["topic"]: one["partitions"] for one in found[f"{what}_topics"]}
            assert shown == {one["topicName"]: one["partitions"] for one in newest[f"{what}Topics"]}


def test_offsets_of_a_share_group_say_where_they_are(warehouse: Path):
    result = CliRunner().invoke(main, ["offsets", "shop-share", "--warehouse", str(warehouse)])
    assert "__share_group_state" in result.stderr
    assert "no committed offset" not in result.stderr.lower()


def test_members_of_a_group_in_migration_are_upgraded_once_they_use_the_consumer_protocol(warehouse: Path):
    joined = [
        record for record in decoded(LIFE, "ConsumerGroupMemberMetadata") if record["key"]["groupId"] == "shop-migrate"
    ]
    classic = {
        one["key"]["memberId"]: bool(one["value"].get("classicMemberMetadata"))
        for one in joined
        if not one.get("tombstone")
    }
    assert set(classic.values()) == {True, False}
    seen = set()
    for record in joined:
        found, _ = described(warehouse, "shop-migrate", record["timestamp"])
        for member in found["members"]:
            if found["group_type"] == "consumer":
                assert member["is_upgraded"] is not classic[member["member_id"]]
                seen.add(member["member_id"])
    assert seen == set(classic)


def test_only_a_group_with_classic_members_has_the_column_upgraded(warehouse: Path):
    moved = next(
        one
        for one in decoded(LIFE, "ConsumerGroupMemberMetadata")
        if (one.get("value") or {}).get("classicMemberMetadata")
    )
    for group, at, is_shown in (("shop-migrate", moved["timestamp"], True), ("shop-wide", "now", False)):
        result = CliRunner().invoke(main, ["describe", group, "--at", str(at), "--warehouse", str(warehouse)])
        assert ("UPGRADED" in result.stdout) is is_shown
