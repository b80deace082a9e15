"""A follower has every record once, whatever becomes of it and of the broker."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from coordinator_replay import Warehouse
from coordinator_replay.errors import CoordinatorReplayError, PrerequisiteError
from tests.acceptance.exports import (
    PARTITIONS,
    PATIENCE_SECONDS,
    TOPIC,
    Follower,
    Following,
    commit,
    dumped,
    export,
    exported,
    rebalance,
    written,
)
from tests.brokers import Broker, running_broker

from kafka_source import kafka_source_jars  # isort: skip - tests.brokers puts the folder on the path

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module")
def jars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return kafka_source_jars(tmp_path_factory.mktemp("jars"))
    except PrerequisiteError as missing:
        pytest.skip(f"no Kafka source for Spark here: {missing}")


SWEPT = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500"}
"""Lets segments that are past their retention be deleted at once."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "broker", SWEPT) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        for created in admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS)]).values():
            created.result()
        commit(running, 10)
        yield running


def test_each_record_is_written_once_whatever_is_killed(broker, jars, tmp_path):
    out, log = tmp_path / "dump", tmp_path / "said"
    follower = Follower(broker, jars, out, log)
    follower.waits_until(lambda: dumped(out))
    rebalance(broker, "classic-group", "classic")
    rebalance(broker, "new-group", "consumer")
    follower.waits_until(lambda: dumped(out) == written(broker))

    # Whoever comes second has nothing to do, and says so; a second follower is refused.
    second = export(broker.bootstrap, jars, out)
    assert (second.returncode, "is followed already" in second.stderr) == (0, True), second.stderr
    refused = export(broker.bootstrap, jars, out, "--follow")
    assert (refused.returncode, "in use by export --follow" in " ".join(refused.stderr.split())) == (1, True)

    broker.stop()
    broker.__enter__()
    commit(broker, 20)
    rebalance(broker, "classic-group", "classic")
    follower.waits_until(lambda: dumped(out) == written(broker))

    commit(broker, 30)
    follower.kill()
    commit(broker, 40)
    follower = Follower(broker, jars, out, log)
    follower.waits_until(lambda: dumped(out) == written(broker))
    commit(broker, 50)
    assert follower.end() == 0, follower.told()
    assert "Traceback" not in follower.told()
    assert follower.told().rstrip().endswith("started again, it continues where it ended")

    # And a single export goes on where it ended.
    exported(broker, jars, out)
    assert dumped(out) == written(broker)


def test_questions_see_a_commit_within_two_minutes(broker, jars, tmp_path):
    out, warehouse = tmp_path / "dump", tmp_path / "warehouse"
    follower = Follower(broker, jars, out, tmp_path / "exports", every="10s")
    command = ["audit", str(out), "--warehouse", str(warehouse), "--follow"]
    auditor = Following([sys.executable, "-m", "coordinator_replay", *command], jars, tmp_path / "audits")
    try:
        auditor.waits_until(lambda: committed(warehouse) == 10)
        for offset in (20, 30, 40):
            commit(broker, offset)
            began = time.monotonic()
            auditor.waits_until(lambda offset=offset: committed(warehouse) == offset)
            took = time.monotonic() - began
            print(f"asked for and answered {took:.0f} s after the commit")
            assert took < 120
    finally:
        ends = [one.end() for one in (follower, auditor)]
    assert ends == [0, 0], (follower.told(), auditor.told())
    assert "Traceback" not in auditor.told()


def committed(warehouse: Path) -> int | None:
    """What a group is said to have committed last; None before the first audit."""
    try:
        with closing(Warehouse(str(warehouse))) as asked:
            return min(row.committed_offset for row in asked.offsets("group-3", topics=[TOPIC]))
    except CoordinatorReplayError:
        return None


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Let a folder be a file system of its own, of a few megabytes."""
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_ends_it_with_a_sentence_and_loses_nothing(broker, jars, tmp_path):
    out, log = tmp_path / "dump", tmp_path / "said"
    with small_disk(out):
        follower = Follower(broker, jars, out, log)
        follower.waits_until(lambda: dumped(out))
        ballast = out / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        commit(broker, 20)
        assert follower.process.wait(PATIENCE_SECONDS) == 1
        assert "No space left on device" in follower.told()
        assert "Traceback" not in follower.told()
        ballast.unlink()
        commit(broker, 30)
        follower = Follower(broker, jars, out, log)
        follower.waits_until(lambda: dumped(out) == written(broker))
        assert follower.end() == 0


def lose_old_records(broker: Broker) -> None:
    """Let the topic be deleted by time, and wait until what was in it is not there any more; new records are."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    settings = {"cleanup.policy": "delete", "retention.ms": "1000", "segment.ms": "1000"}
    entries = [ConfigEntry(*one, incremental_operation=AlterConfigOpType.SET) for one in settings.items()]
    resource = ConfigResource(ResourceType.TOPIC, "__consumer_offsets", incremental_configs=entries)
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result()
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "looks-at-offsets", "log_level": 0})
    partitions = [TopicPartition("__consumer_offsets", number) for number in range(4)]
    ends = [reader.get_watermark_offsets(one)[1] for one in partitions]
    until = time.monotonic() + PATIENCE_SECONDS
    while not all(reader.get_watermark_offsets(one)[0] > end for one, end in zip(partitions, ends, strict=True) if end):
        assert time.monotonic() < until
        commit(broker, 20)
        time.sleep(1.5)
    reader.close()


def test_offsets_that_the_log_no_longer_has_end_an_export_with_a_sentence(broker, jars, tmp_path):
    out = tmp_path / "dump"
    exported(broker, jars, out)
    lose_old_records(broker)
    for options in ((), ("--follow",)):
        run = export(broker.bootstrap, jars, out, *options)
        told = " ".join(run.stderr.split())
        assert run.returncode == 2, told
        assert "the log no longer has the offset at which the last export ended" in told
        assert "Traceback" not in told


def test_another_topic_is_not_exported_into_the_same_folder(broker, jars, tmp_path):
    out = tmp_path / "dump"
    exported(broker, jars, out)
    with running_broker(tmp_path / "other") as other:
        admin = AdminClient({"bootstrap.servers": other.bootstrap, "log_level": 0})
        for created in admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS)]).values():
            created.result()
        commit(other, 10)
        before = dumped(out)
        for options in ((), ("--follow",), ("--again",)):
            run = export(other.bootstrap, jars, out, *options)
            assert run.returncode == 2
            assert "holds exports of another topic" in " ".join(run.stderr.split())
        assert dumped(out) == before


SASL = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="a" '
        'user_admin="a" user_audit="b";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
"""A broker that asks who somebody is, and what they may do; the controller's listener asks nobody."""


def login(user: str, password: str) -> str:
    return (
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{user}" password="{password}";\n'
    )


def test_what_a_principal_lacks_is_said_and_what_the_documents_grant_is_enough(jars, tmp_path):
    admin, audit = tmp_path / "admin.properties", tmp_path / "audit.properties"
    admin.write_text(login("admin", "a"))
    audit.write_text(login("audit", "b"))
    out = tmp_path / "dump"
    with running_broker(tmp_path / "broker", SASL) as broker:
        at = ["--bootstrap-server", broker.bootstrap, "--command-config", str(admin)]
        topic = ["--create", "--topic", "__consumer_offsets", "--partitions", "4"]
        broker.run_tool("org.apache.kafka.tools.TopicCommand", *at, *topic)
        grant = [*at, "--add", "--allow-principal", "User:audit", "--operation", "Read"]

        def tried() -> str:
            run = export(broker.bootstrap, jars, out, "--command-config", str(audit))
            return " ".join(run.stderr.split()) if run.returncode else "exported"

        assert "it needs READ on topic __consumer_offsets" in tried()
        broker.run_tool("org.apache.kafka.tools.AclCommand", *grant, "--topic", "__consumer_offsets")
        assert "it needs READ on groups whose names begin with spark-kafka-source" in tried()
        group = ["--group", "spark-kafka-source", "--resource-pattern-type", "prefixed"]
        broker.run_tool("org.apache.kafka.tools.AclCommand", *grant, *group)
        assert tried() == "exported"
