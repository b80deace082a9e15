"""From an empty environment: the wheel with all it depends on, installed and used without a checkout."""

import json
import re
import shlex
import subprocess
import venv
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from coordinator_replay.cli.main import main
from coordinator_replay.errors import PrerequisiteError
from tests.acceptance.exports import PARTITIONS, TOPIC, commit, rebalance, written
from tests.brokers import running_broker
from tests.install.wheel import ROOT, Installed, build_wheel

from kafka_source import kafka_source_jars  # isort: skip - tests.brokers puts the folder on the path

pytestmark = [pytest.mark.spark, pytest.mark.long]

NOT_ASKING = {"audit", "demo", "export", "maintain", "decode", "simulate"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("first-hour")
    wheel = build_wheel(folder / "wheel")
    environment = folder / "environment"
    venv.create(environment, with_pip=True)
    pip = [environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"{wheel}[spark,report]"], check=True, cwd=folder)
    return Installed(environment, folder / "work")


@pytest.fixture(scope="module")
def demo(installed: Installed) -> Installed:
    run = installed.run("coordinator-replay", "demo")
    assert "4 findings" in run.stdout
    return installed


ASKED = {
    "groups": (),
    "describe": ("shop-migrate",),
    "owner": ("shop-billing", "shop.orders", "0"),
    "timeline": ("shop-billing",),
    "rebalances": ("shop-billing",),
    "why": ("shop-billing",),
    "offsets": ("shop-billing",),
    "expired": (),
    "findings": (),
    "metrics": (),
    "consumers": ("shop.orders",),
    "impact": (),
    "diff": ("--from", "2026-11-21T08:32:30Z"),
    "sql": ("--query", "history-completeness"),
    "what-if": ("shop-billing", "--set", "session.timeout.ms=30000"),
    "report": ("shop-billing", "--out", "page.html"),
    "trace": ("shop-billing", "--out", "trace.json"),
}


def test_each_asking_command_is_asked_here():
    assert ASKED.keys() == main.commands.keys() - NOT_ASKING


@pytest.mark.parametrize("command", ASKED)
def test_an_installation_answers(demo, command):
    without_java = {"JAVA_HOME": "/nonexistent"}
    run = demo.run("coordinator-replay", command, *ASKED[command], "--warehouse", "demo-warehouse", **without_java)
    if "--out" not in ASKED[command]:
        assert run.stdout.strip()
    else:
        assert (demo.folder / ASKED[command][-1]).stat().st_size > 10_000


def test_a_fleet_of_pages_is_drawn(demo):
    demo.run("coordinator-replay", "report", "--warehouse", "demo-warehouse", "--out", "fleet/")
    assert "<html" in (demo.folder / "fleet" / "index.html").read_text("utf-8")
    assert len(list((demo.folder / "fleet").rglob("*.html"))) > 10


def test_a_record_is_decoded_and_a_script_simulated(installed):
    (package,) = installed.environment.glob("lib/python*/site-packages/coordinator_replay")
    log = package / "demo_dump" / "segments" / "__consumer_offsets-0"
    assert '"group_id"' in installed.run("coordinator-replay", "decode", str(log)).stdout
    script = ROOT / "examples" / "scripts" / "01-first-member.jsonl"
    assert installed.run("coordinator-replay", "simulate", str(script)).stdout


def test_the_jobs_run_by_spark_submit(demo):
    share = demo.environment / "share" / "coordinator-replay"
    (package,) = demo.environment.glob("lib/python*/site-packages/coordinator_replay")
    settings = str(share / "conf" / "spark-defaults.conf")
    submit = ["spark-submit", "--master", "local[2]", "--properties-file", settings, "--driver-memory", "2g"]
    python = {"PYSPARK_PYTHON": str(demo.environment / "bin" / "python"), "SPARK_LOCAL_IP": "127.0.0.1"}
    dump = str(package / "demo_dump" / "segments")
    audit = [str(share / "jobs" / "audit.py"), dump, "--warehouse", "submitted"]
    assert "511 records" in demo.run(*submit, *audit, **python).stdout
    maintain = [str(share / "jobs" / "maintain.py"), "--warehouse", "submitted"]
    demo.run(*submit, *maintain, **python)
    export = [str(share / "jobs" / "export.py"), "--bootstrap-servers", "127.0.0.1:1", "--out", "none"]
    # spark-submit prints both streams of a Python program as one.
    told = demo.run(*submit, *export, code=1, **python).stdout
    assert "this Spark session has no Kafka source" in " ".join(told.split())
    asked = demo.run("coordinator-replay", "groups", "--warehouse", "submitted").stdout
    assert asked == demo.run("coordinator-replay", "groups", "--warehouse", "demo-warehouse").stdout


def first_screen() -> list[list[str]]:
    """The commands that README begins with, without their comments, but for the installation."""
    (block,) = re.findall(
        r"On your own cluster:\n\n```sh\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL
    )
    install, *commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert install[0] == "pipx"
    return commands


@pytest.mark.kafka
def test_the_first_screen_of_the_readme_leads_to_answers_about_a_live_broker(installed, tmp_path: Path):
    try:
        jars = {"COORDINATOR_REPLAY_JARS": str(kafka_source_jars(tmp_path / "jars"))}
    except PrerequisiteError as missing:
        pytest.skip(f"no Kafka source for Spark here: {missing}")
    here = Installed(installed.environment, tmp_path / "empty")
    with running_broker(tmp_path / "broker") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for created in admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS)]).values():
            created.result()
        rebalance(broker, "my-group", "classic")
        commit(broker, 42)
        for command in first_screen():
            typed = [word.replace("broker-1:9092", broker.bootstrap) for word in command]
            answer = here.run(*typed, **jars).stdout
        records = len(written(broker))
    assert "my-group" in answer
    assert "GROUP_CREATED" in answer
    asking = ("--warehouse", "audit", "--output", "json")
    (group,) = map(json.loads, here.run("coordinator-replay", "describe", "my-group", *asking).stdout.splitlines())
    assert group["state"] == "Empty"
    offsets = [
        json.loads(line) for line in here.run("coordinator-replay", "offsets", "group-3", *asking).stdout.splitlines()
    ]
    assert {(row["topic"], row["partition"], row["committed_offset"]) for row in offsets} == {
        (TOPIC, partition, 42) for partition in range(PARTITIONS)
    }
    read = here.run("coordinator-replay", "sql", "SELECT records_read FROM audit_runs", *asking).stdout
    assert json.loads(read) == {"records_read": records}
