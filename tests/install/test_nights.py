"""Nights as conf/nights, conf/kubernetes and examples/airflow have them: by their own checkers, each step run."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from coordinator_replay.cli import option_types
from coordinator_replay.cli.main import main
from coordinator_replay.pipeline.host.jars import kafka_source
from tests.install.wheel import ROOT

NIGHTS = ROOT / "conf" / "nights"
NIGHT = NIGHTS / "night"
DAG = ROOT / "examples" / "airflow" / "coordinator_replay_night.py"
PROGRAM = {"COORDINATOR_REPLAY_WAREHOUSE", "COORDINATOR_REPLAY_CLUSTER", "PATH"}


def parsed(command: str, words: list[str]) -> dict[str, Any]:
    """The options of a command as the program takes them."""
    with main.commands[command].make_context(command, list(words)) as context:
        return context.params


def program(folder: Path, script: str) -> dict[str, str]:
    """An environment whose coordinator-replay is this script."""
    folder.mkdir(parents=True, exist_ok=True)
    command = folder / "coordinator-replay"
    command.write_text(script)
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def calls(tmp_path: Path, ends: str = "") -> tuple[dict[str, str], Path]:
    """An environment whose coordinator-replay writes down what it was called with, and ends as a case clause says."""
    noted = tmp_path / "calls"
    script = f'#!/bin/sh\nprintf "%s\\n" "$*" >> {noted}\ncase "$1" in {ends} *) exit 0 ;; esac\n'
    base = {"COORDINATOR_REPLAY_WAREHOUSE": "/w", "NIGHT_DUMP": "/d", "NIGHT_MAINTAIN_ON": "0"}
    return {**program(tmp_path / "bin", script), **base}, noted


def settings() -> dict[str, str]:
    """The variables of night.env, those that are commented out too."""
    lines = re.findall(r"^#?([A-Z_]+)=(\".*\")$", (NIGHTS / "night.env").read_text("utf-8"), re.MULTILINE)
    return {name: json.loads(value) for name, value in lines}


def test_the_file_of_settings_names_what_a_night_takes():
    assert settings().keys() - PROGRAM == set(re.findall(r"\bNIGHT_[A-Z_]+", NIGHT.read_text("utf-8")))


def test_the_options_in_the_file_of_settings_are_options():
    options = settings()
    assert parsed("export", ["--out", "d", *shlex.split(options["NIGHT_EXPORT"])])
    audited = parsed("audit", ["d", "--warehouse", "w", *shlex.split(options["NIGHT_AUDIT"])])
    assert audited["fail_on"] == "error"


def test_the_steps_of_a_night_follow_each_other(tmp_path):
    environment, noted = calls(tmp_path)
    wanted = {"NIGHT_EXPORT": "--bootstrap-servers b:1", "NIGHT_AUDIT": "--wait 30m", "NIGHT_PAGES": "/p"}
    asked = {"NIGHT_METRICS": "/m", "NIGHT_PUSH": f"echo push >> {noted}", "NIGHT_COPY": f"echo copy >> {noted}"}
    every_day = {"NIGHT_MAINTAIN_ON": subprocess.run(["date", "+%u"], capture_output=True, text=True).stdout.strip()}
    subprocess.run([NIGHT], env={**environment, **wanted, **asked, **every_day}, check=True, capture_output=True)
    assert noted.read_text().splitlines() == [
        "copy",
        "export --out /d --bootstrap-servers b:1",
        "audit /d --wait 30m",
        "findings --severity warning",
        "report --out /p/",
        "metrics --out /m",
        "push",
        "maintain",
    ]


@pytest.mark.parametrize(
    ("ends", "code", "last"),
    [
        ("export) exit 2 ;;", 2, "export"),
        ("audit) exit 1 ;;", 1, "audit"),
        ("audit) exit 3 ;;", 3, "report"),
        ("report) exit 1 ;;", 1, "report"),
        ("", 0, "report"),
    ],
)
def test_a_night_ends_with_the_code_of_what_failed(tmp_path, ends, code, last):
    environment, noted = calls(tmp_path, ends)
    options = {"NIGHT_EXPORT": "--bootstrap-servers b:1", "NIGHT_PAGES": "/p"}
    run = subprocess.run([NIGHT], env={**environment, **options}, capture_output=True)
    assert (run.returncode, noted.read_text().splitlines()[-1].split()[0]) == (code, last)


@contextmanager
def gateway(received: list[tuple[str, str, str]]) -> Iterator[str]:
    """A server that takes what a Pushgateway is sent."""

    class Taking(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            received.append((self.command, self.path, body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_words: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Taking)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


@pytest.mark.long
@pytest.mark.spark
def test_a_night_of_a_copy_leaves_tables_pages_and_metrics_and_ends_with_the_code_of_its_findings(tmp_path):
    environment = program(tmp_path / "bin", f'#!/bin/sh\nexec {sys.executable} -m coordinator_replay "$@"\n')
    recorded = ROOT / "coordinator_replay" / "demo_dump" / "segments"
    received: list[tuple[str, str, str]] = []
    with gateway(received) as url:
        options = {
            "COORDINATOR_REPLAY_WAREHOUSE": str(tmp_path / "audit"),
            "COORDINATOR_REPLAY_CLUSTER": "prod",
            "NIGHT_DUMP": str(tmp_path / "dump"),
            "NIGHT_COPY": f"cp -r {recorded} {tmp_path}/dump",
            "NIGHT_AUDIT": "--fail-on warning",
            "NIGHT_PAGES": str(tmp_path / "pages"),
            "NIGHT_METRICS": str(tmp_path / "offsets.prom"),
            "NIGHT_PUSHGATEWAY": url,
            "NIGHT_PUSH": f"cp -r {tmp_path}/pages {tmp_path}/served",
            "NIGHT_MAINTAIN_ON": "0",
        }
        run = subprocess.run([NIGHT], env={**environment, **options}, capture_output=True, text=True)
    assert run.returncode == 3, run.stderr
    assert re.search(r"^warning +\w+_\w+ ", run.stdout, re.MULTILINE), run.stdout
    assert "shop-billing" in (tmp_path / "served" / "index.html").read_text("utf-8")
    ((method, path, body),) = received
    assert (method, path) == ("PUT", "/metrics/job/coordinator-replay/cluster/prod")
    assert 'coordinator_replay_group_members{cluster="prod"' in body
    assert {line.split()[0] for line in body.splitlines()} == {
        line.split()[0] for line in (tmp_path / "offsets.prom").read_text().splitlines()
    }


def test_systemd_takes_the_units(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze here")
    units = [shutil.copy(unit, tmp_path) for pattern in ("*.service", "*.timer") for unit in NIGHTS.glob(pattern)]
    assert len(units) == 3
    run = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True)
    assert (run.returncode, run.stdout + run.stderr) == (0, "")


def test_systemd_does_not_take_a_unit_with_a_misspelt_setting(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze here")
    text = (NIGHTS / "coordinator-replay-night.service").read_text("utf-8").replace("ExecStart=", "ExecBegin=")
    unit = tmp_path / "coordinator-replay-night.service"
    unit.write_text(text)
    run = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert "ExecBegin" in run.stderr


def started(path: str) -> Path:
    """The file of the checkout that an installation has in this place."""
    return ROOT / path.rpartition("/share/coordinator-replay/")[2]


def test_what_unit_and_crontab_start_is_the_night():
    named = [
        path
        for file in (*NIGHTS.glob("*night.service"), NIGHTS / "crontab")
        for path in re.findall(r"/opt/coordinator-replay/share\S+", file.read_text("utf-8"))
    ]
    assert len(named) == 2
    assert {started(path) for path in named} == {NIGHT}


def test_the_follower_of_the_unit_is_one(tmp_path):
    text = (NIGHTS / "coordinator-replay-follow.service").read_text("utf-8")
    (start,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    environment, noted = calls(tmp_path)
    subprocess.run(shlex.split(start), env=environment, check=True)
    called = noted.read_text().split()
    assert parsed(called[0], called[1:])["follow"]


def test_the_crontab_runs_a_night_with_its_settings(tmp_path):
    (line,) = [one for one in (NIGHTS / "crontab").read_text("utf-8").splitlines() if not one.startswith("#")]
    command = line.split(maxsplit=6)[6]
    assert "%" not in command
    environment, noted = calls(tmp_path)
    own = (NIGHTS / "night.env").read_text("utf-8").replace('PATH="', f'PATH="{tmp_path}/bin:', 1)
    (tmp_path / "night.env").write_text(own + 'NIGHT_MAINTAIN_ON="0"\n')
    here = command.replace("/etc/coordinator-replay", str(tmp_path)).replace("/opt/coordinator-replay/share/", "")
    here = here.replace("coordinator-replay/conf", str(ROOT / "conf"))
    subprocess.run(["/bin/sh", "-c", here], env=environment, check=True, capture_output=True)
    assert noted.read_text().splitlines()[:2] == [
        "export --out /data/dump --bootstrap-servers broker-1:9092",
        "audit /data/dump --wait 30m --fail-on error",
    ]


def test_the_cron_job_gives_a_night_what_it_takes(tmp_path):
    (job,) = yaml.safe_load_all((ROOT / "conf" / "kubernetes" / "nightly.yaml").read_text("utf-8"))
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    given = {one["name"]: one["value"] for one in container["env"]}
    assert given.keys() <= settings().keys()
    shell, path = container["args"]
    assert (shell, started(path)) == ("bash", NIGHT)
    environment, noted = calls(tmp_path)
    subprocess.run([NIGHT], env={**environment, **given}, check=True, capture_output=True)
    for words in map(shlex.split, noted.read_text().splitlines()):
        assert parsed(words[0], [*words[1:], *(["--warehouse", "w"] if words[0] != "export" else [])])


def operators(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """What the DAG gives each operator: its file run with operators that keep what they are given."""
    made: dict[str, dict[str, Any]] = {}

    class Keeping:
        def __init__(self, **options: Any) -> None:
            made[options["task_id"]] = options

        def __rshift__(self, other: Any) -> Any:
            return other

    class Dag(Keeping):
        def __init__(self, **_options: Any) -> None:
            pass

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_error: object) -> None:
            pass

    for name in ("airflow.sdk", *re.findall(r"from (airflow\.providers\S+)", DAG.read_text("utf-8"))):
        module = ModuleType(name)
        module.__dict__.update(DAG=Dag, SparkSubmitOperator=Keeping, BashOperator=Keeping)
        monkeypatch.setitem(sys.modules, name, module)
    exec(compile(DAG.read_text("utf-8"), DAG, "exec"), {"__doc__": ""})
    return made


def test_the_dag_calls_jobs_and_commands_with_options_that_they_have(monkeypatch):
    # Folders of the user's machines do not exist here.
    monkeypatch.setattr(option_types, "check_folder", lambda path: None)
    tasks = operators(monkeypatch)
    for task in ("export", "audit"):
        job = started(tasks[task]["application"])
        assert job.exists()
        assert parsed(job.stem, tasks[task]["application_args"])
        assert started(tasks[task]["properties_file"]).exists()
    for task in ("pages", "metrics", "findings"):
        for words in re.findall(r"coordinator-replay ([^&)]+)", tasks[task]["bash_command"]):
            command, *options = shlex.split(words)
            assert parsed(command, [*options, "--warehouse", "w"])


def test_the_dag_asks_for_the_jars_that_an_export_takes(monkeypatch):
    packages = {tuple(one.split(":")[1:]) for one in operators(monkeypatch)["export"]["packages"].split(",")}
    jars = {(jar.artifact, jar.version) for jar in kafka_source().jars}
    assert packages <= jars


@pytest.mark.long
def test_airflow_imports_the_dag(tmp_path):
    venv.create(tmp_path / "airflow", with_pip=True)
    python = tmp_path / "airflow" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    install = subprocess.run([*pip, "apache-airflow>=3,<4", "apache-airflow-providers-standard"])
    # Without what it depends on, Spark for one: importing a DAG does not need it.
    spark = subprocess.run([*pip, "--no-deps", "apache-airflow-providers-apache-spark"])
    if install.returncode or spark.returncode:
        pytest.skip("Airflow can't be installed here")
    imports = (
        "import json; from airflow.dag_processing.dagbag import DagBag; "
        f"bag = DagBag(dag_folder={str(DAG)!r}); assert not bag.import_errors, bag.import_errors; "
        "print(json.dumps({t.task_id: sorted(t.upstream_task_ids) for d in bag.dags.values() for t in d.tasks}))"
    )
    environment = {"PATH": os.environ["PATH"], "AIRFLOW_HOME": str(tmp_path / "home")}
    run = subprocess.run([python, "-c", imports], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout.splitlines()[-1]) == {
        "export": [],
        "audit": ["export"],
        "pages": ["audit"],
        "metrics": ["audit"],
        "findings": ["audit"],
        "push": ["pages"],
    }
