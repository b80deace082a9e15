"""Questions that people ask of a Kafka cluster, each by the command a user tries first.

The answers are held against what the brokers of the recorded dumps logged and what was done to the clients at the
time, never against what the program printed before. Here are the questions about reasons of rebalances and about lost
offsets.
"""

import json
import re
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from scripts.reasons.durations import durations
from scripts.reasons.logged_truth import Truth, Witness
from scripts.reasons.sample import Sample as Recording
from tests.acceptance.conftest import AUDITED, Ask, Told
from tests.acceptance.recorded import CLOCK, at, decoded
from tests.samples import Sample, lines

CLOCK_MS = 3
"""Records, log lines and the journal of one moment are stamped so far apart."""

UNRELEASED = {"ConsumerGroupCurrentMemberAssignment": 2, "StreamsGroupCurrentMemberAssignment": 3}
"""UNRELEASED_PARTITIONS and UNRELEASED_TASKS in Kafka's records: the member waits for what others have to give up."""

HEARTBEATS_MS = 1000
"""Members of the recorded groups have sent a heartbeat by then, and with it their state went to the log."""


def logged(name: str) -> list[Truth]:
    recording = Recording(Sample(name).folder)
    return Witness(recording.journal, recording.clients()).read(recording.broker_log)


def journal(name: str, action: str) -> list[dict[str, Any]]:
    return [one for one in lines(Sample(name).folder / "journal.jsonl") if one["action"] == action]


# --- how often, how long, why, and who -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", AUDITED)
def test_which_members_timed_out(ask: Ask, name: str):
    wanted = {(one.group, one.epoch) for one in logged(name) if one.cause == "SESSION_TIMEOUT"}
    rows = ask(name, "rebalances", "--cause", "SESSION_TIMEOUT")
    assert wanted <= {(row["group_id"], row["epoch"]) for row in rows}
    assert {(row["group_id"], row["epoch"]) for row in rows if row["cause"] == "SESSION_TIMEOUT"} <= wanted
    assert all("SESSION_TIMEOUT" in (row["cause"], *_listed(row["alternatives"])) for row in rows)
    assert name == "java-clients" or wanted


@pytest.mark.parametrize("name", AUDITED)
def test_why_did_a_group_rebalance(ask: Ask, name: str):
    truths = logged(name)
    rows = {group: ask(name, "why", group) for group in {truth.group for truth in truths}}
    for truth in truths:
        told = [row for row in rows[truth.group] if row["epoch"] == truth.epoch]
        causes = {cause for row in told for cause in (row["cause"], *_listed(row["alternatives"]))}
        assert causes & set(map(str, truth.accepted)), truth


def _listed(value: Any) -> list[str]:
    return json.loads(value) if isinstance(value, str) else list(value or ())


def test_which_client_restarts_again_and_again(ask: Ask):
    """Group bakery-bounce: both clients were restarted with other assignor lists, and nobody else was."""
    restarted = {act["member"] for act in journal("java-clients", "restart") if act["group"] == "bakery-bounce"}
    rows = ask("java-clients", "sql", "--query", "rebalance-triggers", "--param", "group=bakery-bounce")
    assert {row["client"] for row in rows if row["rebalances"] > 1} == restarted


@pytest.mark.parametrize("name", AUDITED)
def test_how_many_rebalances_were_there_and_how_long(ask: Ask, name: str):
    rows = ask(name, "rebalances")
    assert Counter(row["group_id"] for row in rows) == Counter(one.group for one in logged(name))
    took = durations(lines(Sample(name).folder / "broker-log.jsonl"))
    compared = 0
    for row in rows:
        known = took.get((row["group_id"], row["epoch"]))
        if row["group_type"] == "classic" and known is not None:
            assert row["duration_ms"] is None
            assert row["duration_ms_min"] <= known + CLOCK_MS
            assert row["duration_ms_max"] is None or known <= row["duration_ms_max"] + CLOCK_MS
            compared += 1
    assert compared > 5


def test_how_long_was_a_classic_rebalance_with_one_bound_only(told: Told):
    text = told("group-lifecycles", "why", "shop-billing")
    assert re.search(r"sync took \d+ ms, the whole rebalance at most [\d,]+ ms; its join phase is not on record", text)
    assert "generation 4" in text
    assert not re.search(r"(?<!sync )took \d+ ms", text)
    # A group without members has subscribed to nothing: while it was Empty, no partition lacked an owner.
    assert "the group is Empty" in text
    assert "without an owner" not in text


# --- topics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", AUDITED)
def test_do_subscriptions_alternate_where_one_changed_once(ask: Ask, name: str):
    changes = Counter(act["member"] for act in journal(name, "subscription_changed"))
    assert all(count == 1 for count in changes.values())
    assert ask(name, "sql", "--query", "alternating-subscriptions") == []


@pytest.mark.parametrize("name", ["group-lifecycles", "kafka-3.9"])
def test_which_client_changed_its_subscription(ask: Ask, name: str):
    for act in journal(name, "subscription_changed"):
        earlier = [one for one in lines(Sample(name).folder / "journal.jsonl") if one["at"] < act["at"]]
        before = [one["topics"] for one in earlier if one.get("member") == act["member"] and "topics" in one][-1]
        (topic,) = set(act["topics"]) - set(before)
        facts = [fact for row in ask(name, "why", act["group"]) for fact in _listed(row["evidence"])]
        said = [fact for fact in facts if f"(client {act['member']} on " in fact and f" subscribed to {topic} " in fact]
        assert len(said) == 1, act


@pytest.mark.parametrize("name", AUDITED)
def test_when_did_a_group_notice_new_partitions(ask: Ask, name: str):
    rows = ask(name, "sql", "--query", "slow-topic-changes")
    for act in journal(name, "partitions_increased"):
        said = f"partitions of {act['topic']} increased from"
        found = [row for row in rows if any(said in fact for fact in _listed(row["evidence"]))]
        assert found, act
        assert any(f"to {act['partitions']}" in fact for row in found for fact in _listed(row["evidence"]))
        for row in found:
            noticed = at(row["noticed_at"]) - at(act["at"])
            assert abs(noticed - timedelta(milliseconds=row["metadata_delay_ms"])) < CLOCK, row
            assert abs(at(row["changed_at"]) - at(act["at"])) < CLOCK, row


# --- who blocks ------------------------------------------------------------------------------------------------------


def test_which_member_did_not_revoke_and_who_waited(told: Told):
    """Client hold-1 of bakery-holders takes 15 s to give partitions up; hold-2 and hold-3 join and wait."""
    clients = Recording(Sample("java-clients").folder).clients()
    text = told("java-clients", "why", "bakery-holders")
    lines_of = [line for line in text.splitlines() if "held up by member" in line]
    assert lines_of and all("client" not in line or "(hold-1 on " in line for line in lines_of)
    waited = {client for member_id, client in clients.items() if any(f"{member_id} waited" in one for one in lines_of)}
    assert waited and waited <= {"hold-2", "hold-3"}
    assert any("waited 9,404 ms for bakery.hold:4-6" in line for line in lines_of)
    assert any("waited 16,048 ms for bakery.hold:3" in line for line in lines_of)


@pytest.mark.parametrize("name", AUDITED)
def test_were_the_members_that_waited_in_the_group(told: Told, name: str):
    joined: dict[tuple[str, str], int] = {}
    assigned: dict[tuple[str, str], int] = {}
    unreleased = {
        (record["key"]["groupId"], record["key"]["memberId"])
        for kind, state in UNRELEASED.items()
        for record in decoded(name, kind)
        if record.get("value") and record["value"]["state"] == state
    }
    for line in lines(Sample(name).folder / "broker-log.jsonl"):
        joins = re.search(r"ember (\S+) (?:with instance id \S+ )?joins the \w+ group", line["text"])
        target = re.search(r"Computed a new target assignment for epoch (\d+) ", line["text"])
        if joins is not None:
            joined.setdefault((line["group"], joins[1]), line["at"])
        if target is not None:
            assigned[line["group"], target[1]] = line["at"]
    compared = 0
    for block in told(name, "why").split("\n\n"):
        head = re.match(r"\S+  (\S+)  epoch (\d+)  ", block)
        waits = re.findall(r"(\S+) waited ([\d,]+) ms for ", block) if "held up by member" in block else []
        for member_id, waited in waits if head is not None else ():
            if (head[1], member_id) in joined and (head[1], head[2]) in assigned:
                assert joined[head[1], member_id] <= assigned[head[1], head[2]] + CLOCK_MS, block
                is_long = int(waited.replace(",", "")) > HEARTBEATS_MS
                assert (head[1], member_id) in unreleased or not is_long, block
                compared += 1
    assert compared > 1


# --- where did the offsets go ----------------------------------------------------------------------------------------


def test_what_removed_offsets_of_a_deleted_topic_or_by_an_admin(ask: Ask):
    rows = ask("group-lifecycles", "sql", "--query", "lost-offsets")
    for act in journal("group-lifecycles", "topic_deleted"):
        removed = [row for row in rows if row["topic"] == act["topic"]]
        assert {row["ended_by"] for row in removed} == {"DELETED"}
        assert {row["group_id"] for row in removed} == {act["group"]}
    (deleted,) = [act for act in journal("java-clients", "admin") if act["what"] == "delete-offsets"]
    topic, partition = deleted["args"]
    rows = ask("java-clients", "sql", "--query", "lost-offsets", "--param", f"group={deleted['group']}")
    assert (topic, int(partition), "DELETED") in {(row["topic"], row["partition"], row["ended_by"]) for row in rows}


def test_which_offsets_did_the_broker_expire(ask: Ask, expired: str):
    """What the broker no longer answered at the end was deleted with its group, or it expired."""
    checkpoints = [one for one in lines(Sample(expired).folder / "checkpoints.jsonl") if one["quiet"]]
    deleted = {act["group"] for act in journal(expired, "group_deleted")}
    kept = _committed(checkpoints[-1])
    gone = {key for one in checkpoints for key in _committed(one)} - kept
    found = {
        (row["group_id"], row["topic"], row["partition"]) for row in ask(expired, "expired", "--status", "EXPIRED")
    }
    assert found == {key for key in gone if key[0] not in deleted}
    assert found


def _committed(checkpoint: dict[str, Any]) -> set[tuple[str, str, int]]:
    return {
        (group["groupId"], *_topic_partition(name))
        for group in checkpoint["groups"]
        for name in group.get("offsets") or {}
    }


def _topic_partition(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


# --- rewinds and resets ----------------------------------------------------------------------------------------------


def test_did_an_offset_go_back_while_members_consumed(ask: Ask):
    (found,) = ask("java-clients", "findings", "--rule", "offset_rewind")
    commits = [
        one["value"]["offset"]
        for one in lines(Sample("java-clients").folder / "decoded.jsonl")
        if one.get("kind") == "OffsetCommit"
        and not one.get("tombstone")
        and (one["key"]["group"], one["key"]["topic"], one["key"]["partition"])
        == (found["group_id"], found["topic"], found["partition"])
    ]
    back = [(old, new) for old, new in pairwise(commits) if new < old]
    assert f"rewound from {back[-1][0]} to {back[-1][1]}" in found["message"]


def test_were_offsets_of_a_group_without_members_reset(ask: Ask):
    (reset,) = journal("group-lifecycles", "offsets_reset")
    rows = ask("group-lifecycles", "sql", "--query", "manual-offset-changes", "--param", f"group={reset['group']}")
    found = [row for row in rows if row["topic"] == reset["topic"] and "moved back" in row["what"]]
    assert len(found) == 1 and found[0]["furthest_back"] > 0
    rewinds = ask("group-lifecycles", "findings", "--rule", "offset_rewind")
    assert (reset["group"], reset["topic"]) in {(finding["group_id"], finding["topic"]) for finding in rewinds}


# --- unstable offsets ------------------------------------------------------------------------------------------------


def test_which_offsets_wait_for_an_open_transaction(ask: Ask):
    (left_open,) = [act for act in journal("kafka-3.9", "txn_offsets") if act["outcome"] == "open"]
    rows = ask("kafka-3.9", "offsets", left_open["group"], "--require-stable")
    assert sum(row["is_unstable"] for row in rows) == len(left_open["offsets"])
