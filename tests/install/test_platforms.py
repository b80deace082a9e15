"""Files for platforms, as far as they can be judged without one: what they call, and what they install."""

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from coordinator_replay.cli.main import main
from tests.install.wheel import ROOT

FOLDER = ROOT / "conf" / "platforms"
PAGES = ROOT / "docs" / "platforms"
TOLD = {
    "ROLE_ARN": "role",
    "CLUSTER_ID": "j-1",
    "APPLICATION_ID": "a",
    "DATAPROC_CLUSTER": "d",
    "REGION": "r",
    "IMAGE": "i",
}
PLACES = ("s3://dumps/prod", "s3://lake/audit", "prod")
AUDIT = ["s3://dumps/prod", "--warehouse", "s3://lake/audit", "--cluster", "prod"]


def loaded(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text("utf-8"))


def parsed(words: list[str]) -> dict[str, Any]:
    with main.commands["audit"].make_context("audit", list(words)) as context:
        return context.params


def called(script: str, *words: str, folder: Path) -> list[str]:
    """What a script calls the platform's own program with."""
    for name in ("aws", "gcloud"):
        (folder / name).write_text('#!/bin/sh\nprintf "%s\\0" "$@"\n')
        (folder / name).chmod(0o755)
    env = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", **TOLD}
    run = subprocess.run([FOLDER / script, *words], env=env, capture_output=True, text=True, check=True)
    return run.stdout.split("\0")[:-1]


def after(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def test_emr_runs_the_audit_as_a_step(tmp_path):
    step = after(called("emr/submit", *PLACES, folder=tmp_path), "--steps")
    submit = re.search(r"Args=\[(.*)\]$", step)[1].split(",")
    assert submit[0] == "spark-submit"
    job = submit.index("s3://dumps/code/audit.py")
    assert submit[job + 1 :] == AUDIT
    assert parsed(submit[job + 1 :])


def test_emr_serverless_runs_the_audit(tmp_path):
    driver = json.loads(after(called("emr-serverless/submit", *PLACES, folder=tmp_path), "--job-driver"))
    assert driver["sparkSubmit"]["entryPoint"] == "s3://dumps/code/audit.py"
    assert driver["sparkSubmit"]["entryPointArguments"] == AUDIT
    settings = shlex.split(driver["sparkSubmit"]["sparkSubmitParameters"])
    assert set(settings[::2]) == {"--conf"}
    assert all("=" in setting for setting in settings[1::2])


@pytest.mark.parametrize("script", ["dataproc/submit", "dataproc-serverless/submit"])
def test_dataproc_runs_the_audit(tmp_path, script):
    words = called(script, *PLACES, folder=tmp_path)
    assert words[words.index("--") + 1 :] == AUDIT
    assert all("=" in setting for setting in after(words, "--properties").split(","))


def test_the_script_of_glue_gives_the_audit_what_the_job_was_given(tmp_path, monkeypatch):
    words = called("glue/create-job", "s3://dumps/code/x.whl", folder=tmp_path)
    given = json.loads(after(words, "--default-arguments"))
    assert json.loads(after(words, "--command"))["ScriptLocation"] == "s3://dumps/code/audit.py"
    utils = ModuleType("awsglue.utils")
    utils.getResolvedOptions = lambda _, names: {name: given[f"--{name}"] for name in names}
    session = SimpleNamespace(builder=SimpleNamespace(getOrCreate=lambda: None))
    ran: list[list[str]] = []
    monkeypatch.setitem(sys.modules, "awsglue", ModuleType("awsglue"))
    monkeypatch.setitem(sys.modules, "awsglue.utils", utils)
    monkeypatch.setattr("pyspark.sql.SparkSession", session)
    monkeypatch.setattr("coordinator_replay.cli.compute.audit", lambda words, **_: ran.append(words))
    runpy.run_path(str(FOLDER / "glue" / "audit.py"))
    assert ran == [AUDIT]


def test_databricks_runs_the_audit():
    bundle = loaded("databricks/databricks.yml")
    (task,) = bundle["resources"]["jobs"]["audit"]["tasks"]
    text = json.dumps(task["spark_python_task"]["parameters"])
    for name, variable in bundle["variables"].items():
        text = text.replace(f"${{var.{name}}}", variable.get("default", ""))
    assert json.loads(text) == AUDIT
    assert (ROOT / task["spark_python_task"]["python_file"]).exists()


def test_databricks_runs_the_audit_without_a_cluster():
    bundle = loaded("databricks/serverless.yml")
    job = bundle["resources"]["jobs"]["audit"]
    (task,), (environment,) = job["tasks"], job["environments"]
    assert task["environment_key"] == environment["environment_key"]
    wheel, *packages = environment["spec"]["dependencies"]
    assert wheel.endswith(".whl")
    assert set(packages) == extra()
    _, option, _, *cluster = task["spark_python_task"]["parameters"]
    assert [option, *cluster] == [AUDIT[1], *AUDIT[3:]]
    assert (ROOT / task["spark_python_task"]["python_file"]).exists()
    # A name that audits refuse would be no default.
    for variable in bundle["variables"].values():
        assert variable["default"].startswith("/Volumes/")


PLATFORMS = tomllib.loads((FOLDER / "packages.toml").read_text("utf-8"))


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_platform_keeps_its_packages_but_for_those_that_are_named(name):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    row = PLATFORMS[name]
    wanted = [Requirement(text) for text in (*project["dependencies"], *project["optional-dependencies"]["audit"])]
    shared = {one.name: one.specifier for one in wanted if one.name in ("pandas", "numpy", "pyarrow")}
    assert {package for package, range_ in shared.items() if row[package] not in range_} == set(row["replaced"])
    assert len(shared) == 3
    assert row["python"] in SpecifierSet(project["requires-python"])
    (spark,) = (Requirement(text) for text in project["optional-dependencies"]["spark"] if "pyspark" in text)
    assert row["spark"] in spark.specifier
    assert f"| {row['pandas']} | {row['numpy']} | {row['pyarrow']} |" in (PAGES / "index.md").read_text("utf-8")


def test_fabric_runs_the_audit():
    words = shlex.split(loaded("fabric/SparkJobDefinitionV1.json")["commandLineArguments"])
    assert parsed(words)["warehouse"].startswith("abfss://")


def test_the_spark_operator_runs_the_audit():
    template = loaded("kubernetes/spark-application.yaml")["spec"]["template"]
    assert template["arguments"] == AUDIT
    assert template["mainApplicationFile"] == "local:///usr/local/share/coordinator-replay/jobs/audit.py"
    constraints = (ROOT / "conf" / "constraints.txt").read_text("utf-8")
    assert f"pyspark=={template['sparkVersion']}\n" in constraints


def extra() -> set[str]:
    """What the extra [audit] adds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return set(project["optional-dependencies"]["audit"])


def test_platforms_that_take_no_extra_are_given_what_is_in_it(tmp_path):
    tasks = loaded("databricks/databricks.yml")["resources"]["jobs"]["audit"]["tasks"]
    assert {library["pypi"]["package"] for library in tasks[0]["libraries"] if "pypi" in library} == extra()
    (dependencies,) = loaded("fabric/environment.yml")["dependencies"]
    assert set(dependencies["pip"]) == extra()
    words = called("glue/create-job", "s3://dumps/code/x.whl", folder=tmp_path)
    wheel, *modules = json.loads(after(words, "--default-arguments"))["--additional-python-modules"].split(",")
    assert wheel == "s3://dumps/code/x.whl"
    # Glue has a pandas and a numpy of its own.
    assert {*modules, "pandas", "numpy"} == {re.match(r"[\w-]+", dependency)[0] for dependency in extra()}


def test_the_settings_for_spark_submit_fetch_no_jar():
    lines = (ROOT / "conf" / "spark-defaults.conf").read_text("utf-8").splitlines()
    settings = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert not [name for name, value in settings.items() if "jars" in name or "delta" in value.lower()]


FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_page_names_each_file_to_copy(path):
    text = "".join(page.read_text("utf-8") for page in PAGES.glob("*.md"))
    assert path.relative_to(ROOT).as_posix() in text
