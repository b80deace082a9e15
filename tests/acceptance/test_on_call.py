"""What people on call ask of all groups at once, on dumps of real brokers.

Audited in this process; the answers are held against what the brokers answered, what was done to the clients, and what
Kafka's own classes decoded.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coordinator_replay.cli.main import main
from tests.acceptance.recorded import Rows, answered, at, broker_log, decoded, journal
from tests.nightly import rest_at_night
from tests.pipeline.audited_once import AuditedOnce
from tests.samples import Sample

LIFE = "group-lifecycles"


@pytest.fixture(scope="module")
def warehouse(audited_once: AuditedOnce) -> Path:
    """The life of sixteen groups, audited."""
    metadata = str(Sample(LIFE).folder / "cluster-metadata")
    return audited_once(Sample(LIFE).segments, cluster_metadata=metadata).warehouse


def asked(warehouse: Path, *arguments: str) -> Rows:
    """Type a command; the rows it answers with."""
    result = CliRunner().invoke(main, [*arguments, "--warehouse", str(warehouse), "--output", "json"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


# --- who reads this topic --------------------------------------------------------------------------------------------

Reader = tuple[str, str, str]


def readers_by_checkpoint(topic: str) -> list[tuple[str, Reader, set[int]]]:
    """Time, group, client and host, and partitions of the topic, of each member that a broker answered with.

    A classic group keeps client and host of the first process of a static member: its instance id names it.
    """
    return [
        (time, (group, member.get("instanceId") or member["clientId"], member["host"]), partitions)
        for time, groups in answered(LIFE)
        for group, answer in groups.items()
        for member in answer["members"]
        if (partitions := partitions_of(topic, member["assignment"]))
    ]


def partitions_of(topic: str, assignment: list[Any]) -> set[int]:
    pairs = (str(one).rpartition("-") for one in assignment)
    return {int(number) for name, _, number in pairs if name == topic}


def reader_of(row: dict[str, Any]) -> Reader:
    return row["group_id"], row["instance_id"] or row["client_id"], row["client_host"] or "/127.0.0.1"


TOPICS = ("shop.orders", "shop.wide", "shop.move", "shop.share", "shop.rx.a", "shop.rx.b", "shop.clicks", "shop.pick")


@pytest.mark.parametrize("topic", rest_at_night(TOPICS, ["shop.move", "shop.clicks"]))
def test_everybody_whom_the_broker_showed_with_a_partition_of_the_topic_read_it(warehouse: Path, topic: str):
    rows = asked(warehouse, "consumers", topic)
    answers = readers_by_checkpoint(topic)
    assert answers
    for time, reader, partitions in answers:
        assert any(
            reader_of(row) == reader
            and at(row["first_at"]) <= at(time)
            and (row["last_at"] is None or at(time) < at(row["last_at"]))
            and partitions <= set(row["partitions"])
            for row in rows
        ), (time, reader, rows)


@pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.long)], ids=["an eighth", "all"])
@pytest.mark.parametrize("topic", rest_at_night(TOPICS, ["shop.rx.a", "shop.share"]))
def test_in_a_moment_the_topic_has_no_other_readers_with_partitions(warehouse: Path, topic: str, share: int):
    """Where all partitions are owned, nobody else owns one: asked of the moment of each of the broker's answers."""
    answers = readers_by_checkpoint(topic)
    log_end = max(record["timestamp"] for record in decoded(LIFE))
    for time in sorted({time for time, _, _ in answers})[::-share]:
        start = min(round(at(time).timestamp() * 1000), log_end)
        rows = asked(warehouse, "consumers", topic, "--from", str(start), "--to", str(start + 1))
        wanted = {(reader, frozenset(owned)) for moment, reader, owned in answers if moment == time}
        readers = {
            (reader_of(row), frozenset(row["partitions"]))
            for row in rows
            if row["partitions"] and row["how"] != "commits"
        }
        assert readers == wanted


def test_how_each_group_reads_its_topic(warehouse: Path):
    subscribed = {
        (record["key"]["groupId"], record["value"]["clientId"], topic)
        for record in decoded(LIFE, "ConsumerGroupMemberMetadata")
        if not record.get("tombstone")
        for topic in record["value"]["subscribedTopicNames"]
    }
    assert subscribed
    for topic in {topic for _, _, topic in subscribed}:
        hows = {
            (row["group_id"], row["client_id"])
            for row in asked(warehouse, "consumers", topic)
            if row["how"] == "subscribed"
        }
        assert {(group, client) for group, client, each in subscribed if each == topic} <= hows
    for topic, how in (("shop.rx.b", "regex"), ("shop.share", "share"), ("shop.streams", "streams")):
        assert {row["how"] for row in asked(warehouse, "consumers", topic)} == {how}


def test_a_group_that_only_commits_is_named_with_its_first_and_last_commit(warehouse: Path):
    rows = [row for row in asked(warehouse, "consumers", "shop.simple") if row["how"] == "commits"]
    assert rows
    for row in rows:
        commits = [
            record
            for record in decoded(LIFE, "OffsetCommit")
            if (record["key"]["group"], record["key"]["topic"]) == (row["group_id"], "shop.simple")
            and not record.get("tombstone")
        ]
        times = [record["timestamp"] for record in commits]
        assert (at(row["first_at"]), at(row["last_at"])) == (at(min(times)), at(max(times)))
        assert set(row["partitions"]) == {record["key"]["partition"] for record in commits}
        assert (row["client_id"], row["client_host"]) == (None, None)
        assert not journal(LIFE, group=row["group_id"], action="start")


def test_nobody_reads_a_topic_before_the_first_client_was_started(warehouse: Path):
    start = min(one["at"] for one in journal(LIFE, group="shop-regex", action="start"))
    assert asked(warehouse, "consumers", "shop.rx.a", "--to", str(start)) == []


# --- what did that minute cost ---------------------------------------------------------------------------------------

WINDOWS = (("08:32:50", "08:33:10"), ("08:33:20", "08:33:40"), ("08:34:10", "08:34:30"))


def impact(warehouse: Path, start: str, end: str) -> dict[str, Any]:
    (found,) = asked(warehouse, "impact", "--from", start, "--to", end)
    return found


@pytest.mark.parametrize(("start", "end"), WINDOWS)
def test_the_groups_that_the_broker_rebalanced_in_that_time_are_concerned(warehouse: Path, start: str, end: str):
    after, before = at(f"2026-11-21T{start}Z"), at(f"2026-11-21T{end}Z")
    computed = {
        line["group"]
        for line in broker_log(LIFE)
        if ("Computed a new target assignment" in line["text"] or "Assignment received from leader" in line["text"])
        and after < at(line["at"]) < before
    }
    found = impact(warehouse, start, end)
    in_time = {row["group_id"]: row["rebalances"] for row in found["groups"] if row["rebalances"]}
    assert computed
    assert computed <= set(in_time)
    listed = Counter(row["group_id"] for row in asked(warehouse, "rebalances", "--from", start, "--to", end))
    assert in_time == listed
    assert sum(found["causes"].values()) == found["rebalances"] == listed.total()


@pytest.mark.parametrize(("start", "end"), rest_at_night(WINDOWS, WINDOWS[:1], several=True))
def test_partition_seconds_are_those_counted_tick_by_tick(warehouse: Path, start: str, end: str):
    """Of groups whose every step is on record: at each tick, who owned what, and who was a member."""
    first, last = (round(at(f"2026-11-21T{clock}Z").timestamp() * 1000) for clock in (start, end))
    groups = "'shop-new', 'shop-wide', 'shop-regex', 'shop-newstatic'"
    intervals, members = defaultdict(list), defaultdict[str, list[tuple[Any, int, int | None]]](list)
    for row in asked(warehouse, "sql", f"{_INTERVALS.format(begin='owned_from', end='owned_to')}, topic, partition "
                     f"FROM partition_ownership WHERE group_id IN ({groups})"):  # fmt: skip
        intervals[row["group_id"], row["topic"], row["partition"]].append((row["since"], row["until"]))
    for row in asked(warehouse, "sql", f"{_INTERVALS.format(begin='valid_from', end='valid_to')}, "
                     f"CASE WHEN subscribed_topic_regex IS NULL THEN subscribed_topics END AS topics "
                     f"FROM member_timeline WHERE group_id IN ({groups})"):  # fmt: skip
        members[row["group_id"]].append((row["topics"], row["since"], row["until"]))
    wanted: Counter[str] = Counter()
    for (group, topic, _), owned in intervals.items():
        there = [(since, until) for topics, since, until in members[group] if topics is None or topic in topics]
        begun = min(since for since, _ in owned)
        for tick in range(max(first, begun), last):
            wanted[group] += not is_within(owned, tick) and is_within(there, tick)
    found = {row["group_id"]: row["unowned_ms"] for row in impact(warehouse, start, end)["groups"]}
    assert {group: found.get(group, 0) for group in members} == {group: wanted[group] for group in members}


_INTERVALS = "SELECT group_id, epoch_ms({begin}) AS since, epoch_ms({end}) AS until"


def is_within(intervals: Sequence[tuple[int, int | None]], tick: int) -> bool:
    return any(since <= tick and (until is None or tick < until) for since, until in intervals)


# --- what changed ----------------------------------------------------------------------------------------------------


def test_a_dump_does_not_differ_from_itself(warehouse: Path):
    assert asked(warehouse, "diff", "--from", "now") == []
    assert asked(warehouse, "diff", "--cluster", "default,default") == []


def test_the_difference_of_two_answers_of_the_broker(warehouse: Path):
    """States, owners and offsets between each two quiet checkpoints, as the broker answered then."""
    answers = [(time, groups) for time, groups in answered(LIFE)][:-1:3]
    assert len(answers) > 3
    for (start, old), (end, new) in pairwise(answers):
        rows = asked(warehouse, "diff", "--from", start, "--to", end)
        for what, read in (("state", states), ("offset", offsets)):
            before, after = read(old), read(new)
            wanted = {
                (*key, before.get(key), after.get(key))
                for key in {*before, *after}
                if before.get(key) != after.get(key)
            }
            found = {
                (row["group_id"], row["name"], row["before"], row["after"])
                for row in rows
                if row["what"] in ((what, "group") if what == "state" else (what,)) and row["change"] != "not moved"
            }
            assert found == wanted, (what, start, end)


def states(groups: dict[str, Any]) -> dict[tuple[str, str | None], str]:
    return {(name, None): group["state"] for name, group in groups.items()}


def offsets(groups: dict[str, Any]) -> dict[tuple[str, str | None], str]:
    return {
        (name, partition): str(committed["offset"])
        for name, group in groups.items()
        for partition, committed in (group.get("offsets") or {}).items()
    }
