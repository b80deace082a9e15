"""What people on call ask of all groups at once, on dumps of real brokers.

Audited in this process; the answers are held against what the brokers answered, what was done to the clients, and what
Kafka's own classes decoded.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coordinator_replay.cli.main import main
from tests.acceptance.recorded import Rows, answered, at, decoded, journal
from tests.pipeline.in_process import audit_here
from tests.samples import Sample

LIFE = "group-lifecycles"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The life of sixteen groups, audited."""
    folder = tmp_path_factory.mktemp("audited") / "warehouse"
    audit_here(folder, Sample(LIFE).segments, cluster_metadata=str(Sample(LIFE).folder / "cluster-metadata"))
    return folder


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


@pytest.mark.parametrize("topic", TOPICS)
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


@pytest.mark.parametrize("topic", TOPICS)
def test_in_a_moment_the_topic_has_no_other_readers_with_partitions(warehouse: Path, topic: str):
    """Where all partitions are owned, nobody else owns one: asked of the moment of each of the broker's answers."""
    answers = readers_by_checkpoint(topic)
    log_end = max(record["timestamp"] for record in decoded(LIFE))
    for time in {time for time, _, _ in answers}:
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
    for group, client, topic in subscribed:
        hows = {(row["group_id"], row["client_id"], row["how"]) for row in asked(warehouse, "consumers", topic)}
        assert (group, client, "subscribed") in hows
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
