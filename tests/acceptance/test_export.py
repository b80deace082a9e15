"""Exports from a running cluster, taken one after the other, are in the tables with each record once."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from coordinator_replay.errors import PrerequisiteError
from coordinator_replay.log.exports import ExportFolder
from tests.acceptance.exports import PARTITIONS, TOPIC, commit, environment, export, exported, written
from tests.brokers import Broker, running_broker
from tests.docs.test_site import DOCS, code_blocks

from kafka_source import kafka_source_jars  # isort: skip - tests.brokers puts the folder on the path

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module")
def jars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return kafka_source_jars(tmp_path_factory.mktemp("jars"))
    except PrerequisiteError as missing:
        pytest.skip(f"no Kafka source for Spark here: {missing}")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        for created in admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS)]).values():
            created.result()
        yield running


def audited(warehouse: Path) -> list[tuple[int, int]]:
    """The same of every record in the tables."""
    positions = []
    for name in ("offset_commits", "group_records", "quarantine"):
        table = DeltaTable(str(warehouse / name)).to_pyarrow_table(columns=["log_partition", "log_offset"])
        positions += zip(*(table[column].to_pylist() for column in table.column_names), strict=True)
    return sorted(positions)


def forget_the_end_of(out: Path, number: int) -> None:
    """Leave things as an export does that is killed after it has written its files, but before it has said so."""
    for note in (out / ".checkpoint" / "commits").glob(f"*{number}*"):
        note.unlink()


def numbers(done: dict[str, Any]) -> list[int]:
    """Of the batches that an export wrote."""
    folders = [ExportFolder.parse(Path(folder).name) for folder in done["folders"]]
    assert all(folder.first == folder.last for folder in folders)
    return [folder.first for folder in folders]


def test_each_record_is_exported_and_audited_once(broker, jars, spark, tmp_path):
    from coordinator_replay.pipeline.audit import Options, run_audit

    out, warehouse = tmp_path / "dump", tmp_path / "warehouse"
    commit(broker, 10)
    first = exported(broker, jars, out)
    assert first["records"] == len(written(broker))
    assert numbers(first) == [0]
    run_audit(spark, Options(inputs=first["folders"], warehouse=str(warehouse)))

    commit(broker, 20)
    second = exported(broker, jars, out)
    assert second["records"] == len(written(broker)) - first["records"]
    assert second["from_offsets"] == first["to_offsets"]
    commit(broker, 30)
    forget_the_end_of(out, 1)
    repeated = exported(broker, jars, out)
    assert numbers(repeated) == [1, 2]
    assert exported(broker, jars, out)["folders"] == []

    again = exported(broker, jars, tmp_path / "again", "--again")
    assert again["records"] == len(written(broker))
    assert again["to_offsets"] == repeated["to_offsets"]
    assert exported(broker, jars, out)["folders"] == []

    summary = run_audit(spark, Options(inputs=[str(out)], warehouse=str(warehouse)))
    assert summary.run.duplicates_dropped == 0
    assert summary.run.already_audited == first["records"]
    assert audited(warehouse) == written(broker)

    runs = DeltaTable(str(warehouse / "audit_runs")).to_pyarrow_table().to_pylist()
    assert {run["input_form"] for run in runs} == {"parquet"}
    history = DeltaTable(str(warehouse / "offset_history")).to_pyarrow_table().to_pylist()
    assert {row["is_proven"] for row in history} == {False}
    latest = {(row["group_id"], row["partition"]): row["committed_offset"] for row in history if not row["valid_to"]}
    assert latest == {(f"group-{number}", partition): 30 for number in range(5) for partition in range(PARTITIONS)}


def test_client_settings_reach_the_clients_and_what_they_lack_is_said(jars, tmp_path):
    settings = tmp_path / "client.properties"
    settings.write_text("security.protocol = SASL_PLAINTEXT\nsasl.mechanism = PLAIN\n")
    run = export("127.0.0.1:1", jars, tmp_path / "dump", "--command-config", str(settings))
    assert run.returncode == 2, run.stderr
    assert "JAAS" in run.stderr
    assert "Traceback" not in run.stderr
    assert not list((tmp_path / "dump").glob("export-*"))


def test_the_recipe_for_a_session_of_ones_own_reads_every_record(broker, jars, tmp_path):
    commit(broker, 60)
    (code,) = code_blocks(DOCS / "dumps.md", "python")
    recipe = code.replace("broker-1:9092", broker.bootstrap).replace("[0, 1, 2]", "[0, 1, 2, 3]")
    opening = "from coordinator_replay.pipeline.host.session import open_session"
    recipe = recipe.replace("/dumps/2026-11-20", str(tmp_path / "dump"))
    typed = f"{opening}\nspark = open_session('recipe', with_kafka=True)\n{recipe}"
    run = subprocess.run([sys.executable, "-c", typed], env=environment(jars), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    read = pyarrow.parquet.read_table(tmp_path / "dump", columns=["partition", "offset"]).to_pylist()
    assert sorted((row["partition"], row["offset"]) for row in read) == written(broker)
