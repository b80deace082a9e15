"""``offsets GROUP --at T --reset-file``, taken by Kafka's own tool: a broker then has the offsets of that moment."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from coordinator_replay.cli.offsets import offsets
from tests.brokers import Broker, running_broker
from tests.query.small_warehouse import write_small_warehouse

pytestmark = pytest.mark.kafka

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPICS = {"orders": 3, "audit": 1}
LOG_END = 300
"""Above every offset of the warehouse: Kafka's tool moves an offset beyond the end of the log down to it."""

MOMENTS = [
    pytest.param(
        "2026-11-20T02:05:00Z",
        {("audit", 0): 7, ("orders", 0): 100, ("orders", 1): 90},
        id="first commits",
        marks=[pytest.mark.long],
    ),
    pytest.param("2026-11-20T02:12:00Z", {("orders", 0): 150, ("orders", 1): 90}, id="one expired, one moved"),
    pytest.param("2026-11-20T02:19:00Z", {("orders", 1): 200}, id="one pending"),
]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_warehouse(tmp_path_factory.mktemp("warehouse"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with the topics of the warehouse, every partition ``LOG_END`` records long."""
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        settings = {"bootstrap.servers": running.bootstrap}
        admin = AdminClient(settings)
        wanted = [NewTopic(topic, num_partitions=count) for topic, count in TOPICS.items()]
        for created in admin.create_topics(wanted).values():
            created.result()
        producer = Producer(settings)
        for topic, count in TOPICS.items():
            for number in range(LOG_END * count):
                producer.produce(topic, b"", partition=number % count)
        assert producer.flush(60) == 0
        yield running


def write_reset_file(warehouse: Path, moment: str, path: Path, *options: str) -> str:
    arguments = ["payments", "--at", moment, "--reset-file", str(path), "--warehouse", str(warehouse), *options]
    result = CliRunner().invoke(offsets, arguments)
    assert result.exit_code == 0, result.output
    return path.read_text()


def reset(broker: Broker, group: str, path: Path) -> None:
    where = ["--bootstrap-server", broker.bootstrap, "--group", group]
    said = broker.run_tool(TOOL, *where, "--reset-offsets", "--from-file", str(path), "--execute")
    assert "Error" not in said, said


def exported(broker: Broker, group: str) -> list[str]:
    """The group's offsets as Kafka's tool writes them into a reset file of its own."""
    where = ["--bootstrap-server", broker.bootstrap, "--group", group]
    said = broker.run_tool(TOOL, *where, "--reset-offsets", "--to-current", "--all-topics", "--dry-run", "--export")
    return sorted(line for line in said.splitlines() if line.count(",") == 2)


def fetched(broker: Broker, group: str) -> dict[tuple[str, int], int]:
    """The group's offsets as a client fetches them."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (answer,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {(found.topic, found.partition): found.offset for found in answer.result().topic_partitions}


def commit(broker: Broker, group: str, offsets: list[TopicPartition], seconds: float = 60) -> None:
    """Commit offsets for a group. A busy broker refuses single partitions, and only their own errors tell it."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    until = time.monotonic() + seconds
    while True:
        (done,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, offsets)]).values()
        refused = [part for part in done.result().topic_partitions if part.error is not None]
        if not refused:
            return
        assert time.monotonic() < until, refused
        time.sleep(0.5)


@pytest.mark.parametrize(("moment", "wanted"), MOMENTS)
def test_kafkas_tool_puts_back_every_offset_of_the_moment(broker, warehouse, tmp_path, request, moment, wanted):
    group = f"restored-{request.node.callspec.id.replace(' ', '-').replace(',', '')}"
    written = write_reset_file(warehouse, moment, tmp_path / "reset.csv")
    reset(broker, group, tmp_path / "reset.csv")
    assert fetched(broker, group) == wanted
    assert exported(broker, group) == sorted(written.splitlines())


def test_offsets_committed_since_then_are_overwritten_and_others_left_alone(broker, warehouse, tmp_path):
    commit(broker, "went-on", [TopicPartition("orders", 0, 299), TopicPartition("orders", 2, 42)])
    write_reset_file(warehouse, "2026-11-20T02:12:00Z", tmp_path / "reset.csv")
    reset(broker, "went-on", tmp_path / "reset.csv")
    assert fetched(broker, "went-on") == {("orders", 0): 150, ("orders", 1): 90, ("orders", 2): 42}


def test_a_partition_with_a_pending_commit_is_not_touched_when_stable_offsets_were_asked_for(
    broker, warehouse, tmp_path
):
    write_reset_file(warehouse, "2026-11-20T02:19:00Z", tmp_path / "reset.csv", "--require-stable")
    reset(broker, "stable-only", tmp_path / "reset.csv")
    assert fetched(broker, "stable-only") == {("orders", 1): 200}


def test_an_offset_with_a_pending_commit_is_put_back_where_that_was_asked_for(broker, warehouse, tmp_path):
    write_reset_file(warehouse, "2026-11-20T02:19:00Z", tmp_path / "reset.csv", "--include-unproven")
    reset(broker, "unproven", tmp_path / "reset.csv")
    assert fetched(broker, "unproven") == {("orders", 0): 150, ("orders", 1): 200}
