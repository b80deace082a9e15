"""Questions about silent groups, static members, owners and groups without use.

Each by the command tried first; the answers are held against what the brokers answered and logged at the time, what was
done to the clients, and what Kafka's own classes decoded.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

import pytest

from scripts.reasons.logged_truth import EMPTIED, STARTS, SYNCED
from tests.acceptance.conftest import AUDITED, Ask, Typed
from tests.acceptance.recorded import answered, at, broker_log, decoded, journal, last_answer
from tests.acceptance.test_checkpoints import SHARES
from tests.samples import Sample, lines

LONG_MS = 100
"""Records and lines of the broker's log are stamped a few milliseconds apart: shorter rebalances have no middle."""


# --- does it hang ----------------------------------------------------------------------------------------------------


class Running(NamedTuple):
    """A rebalance of a classic group that the broker logged from its begin to its end."""

    group: str
    middle: str
    generation: int
    next_generation: int


def running(name: str) -> Iterator[Running]:
    """Rebalances that took long enough to be asked about while they went on."""
    began: dict[str, tuple[int, int]] = {}
    for line in broker_log(name):
        starts = STARTS.search(line["text"])
        over = SYNCED.search(line["text"]) or EMPTIED.search(line["text"])
        if starts is not None:
            began.setdefault(starts["group"], (line["at"], int(starts["old"])))
        elif over is not None and over["group"] in began:
            from_ms, generation = began.pop(over["group"])
            if line["at"] - from_ms >= LONG_MS:
                middle = at((from_ms + line["at"]) // 2).isoformat()
                yield Running(over["group"], middle, generation, int(over["epoch"]))


@SHARES
@pytest.mark.parametrize("name", AUDITED)
def test_which_state_does_a_rebalancing_group_show(ask: Ask, name: str, share: int):
    compared = 0
    for one in list(running(name))[::-share]:
        if one.generation == 0:
            continue
        (group,) = ask(name, "describe", one.group, "--at", one.middle)
        if group["group_type"] == "classic":
            assert (one, group["epoch"]) == (one, one.generation)
            assert group["state"] in ("Stable", "Empty")
            compared += 1
    assert compared > 3 // share


def test_which_groups_hang(typed: Typed, expired: str):
    """The broker was asked while a group of three was in PreparingRebalance."""
    (asked, hanging) = next(
        (checkpoint, group)
        for checkpoint in lines(Sample(expired).folder / "checkpoints.jsonl")
        for group in checkpoint["groups"]
        if group["state"] == "PreparingRebalance"
    )
    time = at(asked["at"]).isoformat()
    result = typed(expired, "groups", "--state", "PreparingRebalance", "--at", time)
    assert result.stdout == ""
    assert "a classic group writes no record until its rebalance is over" in result.stderr
    assert hanging["groupId"] in typed(expired, "groups", "--state", "Stable", "--at", time).stdout


@pytest.mark.parametrize("name", AUDITED)
def test_since_which_generation_is_a_group_silent(ask: Ask, name: str):
    logged: dict[str, int] = {}
    for line in broker_log(name):
        over = SYNCED.search(line["text"]) or EMPTIED.search(line["text"])
        if over is not None:
            logged[over["group"]] = int(over["epoch"])
    last = last_answer(name)
    rows = {row["group_id"]: row["epoch"] for row in ask(name, "sql", "--query", "last-commits")}
    classic = {group for group in logged if group in last and last[group]["type"] == "Classic"}
    assert {group: rows[group] for group in classic} == {group: logged[group] for group in classic}
    assert len(classic) > 1


# --- is it dead ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", AUDITED)
def test_when_did_each_group_commit_last(ask: Ask, name: str):
    rows = {row["group_id"]: row for row in ask(name, "sql", "--query", "last-commits")}
    last = last_answer(name)
    assert set(rows) == set(last)
    for group_id, group in last.items():
        row = rows[group_id]
        answered = (group["state"], len(group.get("members") or ()))
        assert (group_id, row["state"], row["member_count"]) == (group_id, *answered)
        committed = row["last_commit_at"] and at(row["last_commit_at"])
        assert (group_id, committed) == (group_id, newest_commit(name, group_id, group))


def newest_commit(name: str, group_id: str, group: dict[str, Any]) -> Any:
    """When the newest of the offsets was committed that the broker answered for a group."""
    newest = []
    for partition, stored in (group.get("offsets") or {}).items():
        commits = [
            record["value"]["commitTimestamp"]
            for record in decoded(name, "OffsetCommit")
            if record.get("value")
            and record["key"]["group"] == group_id
            and f"{record['key']['topic']}-{record['key']['partition']}" == partition
            and record["value"]["offset"] == stored["offset"]
        ]
        newest.append(commits[-1])
    return at(max(newest)) if newest else None


# --- static members --------------------------------------------------------------------------------------------------

JOINS = (
    re.compile(
        r"Static member with groupInstanceId=(?P<instance>\S+) and unknown member id joins .* Created a new member"
    ),
    re.compile(r"Static member \S+ with instance id (?P<instance>\S+) joins the consumer group"),
)
REPLACES = (
    re.compile(
        r"Static member with groupInstanceId=(?P<instance>\S+) .* Replacing previously mapped member (?P<old>\S+) "
    ),
    re.compile(
        r"Static member with instance id (?P<instance>\S+) re-joins .* to replace the existing member (?P<old>\S+)\."
    ),
)


def matched(name: str, patterns: tuple[re.Pattern[str], ...]) -> Iterator[tuple[int, str, dict[str, str]]]:
    """Time, group and named parts of each line of the broker's log that one of the patterns describes."""
    for line in broker_log(name):
        for found in filter(None, (pattern.search(line["text"]) for pattern in patterns)):
            yield line["at"], line["group"], found.groupdict()


@pytest.mark.parametrize("name", AUDITED)
def test_which_instance_ids_had_several_members(ask: Ask, name: str):
    joined = Counter((group, found["instance"]) for _, group, found in matched(name, JOINS + REPLACES))
    rows = ask(name, "sql", "--query", "flapping-static-members")
    found = {(row["group_id"], row["instance_id"]): row["member_ids"] for row in rows}
    assert found == {key: count for key, count in joined.items() if count > 1}
    assert found or name != "group-lifecycles"


def test_which_static_member_replaced_which(ask: Ask):
    name = "group-lifecycles"
    replaced = list(matched(name, REPLACES))
    assert len(replaced) >= 3
    for at_ms, group, logged in replaced:
        events = [row for row in ask(name, "timeline", group) if row["event"] == "MEMBER_REPLACED"]
        (event,) = [row for row in events if row["detail"]["member_ids"][0] == logged["old"]]
        assert event["instance_id"] == logged["instance"]
        assert abs(at(event["log_timestamp"]) - at(at_ms)).total_seconds() < 0.1
        intervals = [
            row for row in ask(name, "timeline", group, "--members") if row["instance_id"] == logged["instance"]
        ]
        (before,) = [row for row in intervals if row["member_id"] == logged["old"]][-1:]
        assert before["valid_to"] == event["log_timestamp"]
        assert event["member_id"] in {row["member_id"] for row in intervals}


def test_is_the_host_of_a_replaced_classic_member_proven(ask: Ask, typed: Typed):
    """The coordinator keeps the host of the first; of KIP-848 groups each member's own host is on record."""
    name = "group-lifecycles"
    hosts: dict[tuple[str, str], set[str]] = defaultdict(set)
    for record in decoded(name, "ConsumerGroupMemberMetadata"):
        if record.get("value") and record["value"]["instanceId"]:
            hosts[record["key"]["groupId"], record["value"]["instanceId"]].add(record["value"]["clientHost"])
    rows = {
        (row["group_id"], row["instance_id"]): row for row in ask(name, "sql", "--query", "flapping-static-members")
    }
    assert {key: row["hosts"] for key, row in rows.items()} == {key: len(hosts.get(key, ())) or None for key in rows}
    at_ms, group, found = next(one for one in matched(name, REPLACES) if (one[1], one[2]["instance"]) not in hosts)
    result = typed(name, "describe", group, "--at", at(at_ms + 100).isoformat())
    (member,) = [one for one in json.loads(result.stdout)["members"] if one["instance_id"] == found["instance"]]
    assert f"Client id and host of {member['member_id']} may be those of an earlier process" in result.stderr


# --- owners ----------------------------------------------------------------------------------------------------------


def assignments(group: dict[str, Any]) -> dict[str, list[str]]:
    """The partitions of each member, as the broker answered them."""
    listed = {member["memberId"]: member["assignment"] for member in group.get("members") or ()}
    return {member_id: names for member_id, names in listed.items() if isinstance(names, list)}


@pytest.mark.parametrize("name", AUDITED)
def test_who_owned_a_partition(ask: Ask, name: str):
    time, groups = list(answered(name))[-1]
    compared = 0
    for group_id, group in groups.items():
        for member_id, partitions in assignments(group).items():
            for partition in partitions[:1]:
                topic, _, number = partition.rpartition("-")
                owners = ask(name, "owner", group_id, topic, number, "--at", time)
                wanted = {owner for owner, names in assignments(group).items() if partition in names}
                assert (partition, {owner["member_id"] for owner in owners}) == (partition, wanted)
                assert member_id in wanted
                compared += 1
    assert compared > 3


@pytest.mark.parametrize("name", ["group-lifecycles", "kafka-3.9"])
def test_does_an_empty_group_own_partitions(typed: Typed, name: str):
    owned: dict[str, str] = {}
    asked = 0
    for time, groups in answered(name):
        for group_id, group in groups.items():
            partitions = [partition for held in assignments(group).values() for partition in held]
            if partitions:
                owned[group_id] = partitions[0]
            elif group["state"] == "Empty" and group_id in owned:
                topic, _, number = owned.pop(group_id).rpartition("-")
                result = typed(name, "owner", group_id, topic, number, "--at", time)
                rows = [json.loads(line) for line in result.stdout.splitlines()]
                assert not any(row["is_owner"] for row in rows)
                assert "No member owned it at that time. The last owner was " in result.stderr
                asked += 1
    assert asked


@pytest.mark.parametrize("name", AUDITED)
def test_did_a_partition_have_two_owners(ask: Ask, name: str):
    for _, groups in answered(name):
        for group in (one for one in groups.values() if one["type"] in ("Classic", "Consumer")):
            for one, other in combinations(assignments(group).values(), 2):
                assert not set(one) & set(other)
    assert ask(name, "sql", "--query", "two-owners") == []


@pytest.mark.parametrize("name", AUDITED)
def test_which_owned_partitions_have_no_commits(ask: Ask, name: str):
    last = last_answer(name)
    rows = ask(name, "sql", "--query", "owned-but-silent", "--param", "threshold=1")
    for row in rows:
        partition = f"{row['topic']}-{row['partition']}"
        group = last[row["group_id"]]
        assert partition in assignments(group)[row["member_id"]]
        stored = group["offsets"].get(partition)
        assert (row["committed_offset"] is None) == (stored is None)
        if stored is not None:
            own = newest_commit(name, row["group_id"], {"offsets": {partition: stored}})
            assert (row["committed_offset"], at(row["last_commit_at"])) == (stored["offset"], own)
            behind = newest_commit(name, row["group_id"], group) - own
            assert 0 < row["silent_ms"] <= behind.total_seconds() * 1000
    assert rows or name == "kafka-3.9"


# --- topics that a group left ----------------------------------------------------------------------------------------


def subscriptions(name: str) -> dict[tuple[str, str], list[str]]:
    """The topics that the journal has each client subscribe to last."""
    found: dict[tuple[str, str], list[str]] = {}
    for act in journal(name):
        if "topics" in act and act.get("member"):
            found[act["group"], act["member"]] = act["topics"]
    return found


@pytest.mark.parametrize("name", AUDITED)
def test_which_topics_have_offsets_and_no_subscriber(ask: Ask, name: str):
    subscribed = subscriptions(name)
    wanted = set()
    for group_id, group in last_answer(name).items():
        clients = {member["clientId"] for member in group.get("members") or ()}
        if not clients or group["type"] in ("Share", "Streams"):
            continue
        names = [topic for client in clients for topic in subscribed.get((group_id, client), [r"^.*"])]
        topics = {partition.rpartition("-")[0] for partition in group["offsets"]}
        left = {topic for topic in topics if not any(is_subscribed(one, topic) for one in names)}
        wanted |= {(group_id, topic) for topic in left}
    rows = ask(name, "sql", "--query", "abandoned-topics")
    assert {(row["group_id"], row["topic"]) for row in rows} == wanted
    assert wanted or name == "java-clients"


def is_subscribed(name: str, topic: str) -> bool:
    return re.search(name, topic) is not None if name.startswith("^") else name == topic
