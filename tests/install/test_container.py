"""What a cluster is given: Kubernetes takes the manifests, and the image's entry point starts what Spark asks for.

No image is built here: that needs a container engine. The steps of the Containerfile are those of the other tests in
this folder: a wheel, its installation, the jars.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "conf" / "kubernetes"
OLDEST, NEWEST = "1.27", "1.33"
"""The range of Kubernetes that is in use; a manifest of one end need not be one of the other."""


def documents() -> list[Any]:
    files = sorted(FOLDER.glob("*.yaml"))
    return [
        pytest.param(document, id=f"{file.stem}-{document['kind']}")
        for file in files
        for document in yaml.safe_load_all(file.read_text("utf-8"))
    ]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("document", documents())
def test_kubernetes_takes_the_manifest(document, version):
    kubernetes_validate.validate(document, version, strict=True)


def test_a_manifest_with_a_field_of_the_wrong_type_is_not_taken():
    (claim,) = yaml.safe_load_all((FOLDER / "volume.yaml").read_text("utf-8"))
    claim["spec"]["accessModes"] = "ReadWriteOnce"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(claim, NEWEST, strict=True)


def arguments(document: Any) -> list[list[str]]:
    """What each container of a manifest is called with."""
    if isinstance(document, dict):
        own = [document["args"]] if "args" in document else []
        return own + [found for value in document.values() for found in arguments(value)]
    return [found for value in document for found in arguments(value)] if isinstance(document, list) else []


@pytest.mark.parametrize("words", [words for document in documents() for words in arguments(document.values[0])])
def test_each_container_calls_a_command_with_options_that_it_has(words):
    from coordinator_replay.cli.main import main

    if words[0] == "bash":
        assert words[1:] == ["/usr/local/share/coordinator-replay/conf/nights/night"]
        return
    if words[0] == "spark-submit":
        (job,) = (word for word in words if word.startswith("local://"))
        name = job.rpartition("/")[2].removesuffix(".py")
        assert (ROOT / "jobs" / f"{name}.py").exists()
        words = [name, *words[words.index(job) + 1 :]]
    command = main.commands[words[0]]
    with command.make_context(words[0], list(words[1:])) as context:
        assert context.params


def entry(tmp_path: Path, *words: str, **environment: str) -> list[str]:
    """What the image runs for these words, with stand-ins for Java and the commands that print what they were given."""
    for name in ("java", "coordinator-replay", "spark/bin/spark-submit"):
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text('#!/bin/sh\nprintf "%s\\n" "$(basename "$0")" "$@"\n')
        program.chmod(0o755)
    env = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "SPARK_HOME": str(tmp_path / "spark"), **environment}
    run = subprocess.run([FOLDER / "entrypoint", *words], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_the_image_runs_commands_of_the_program(tmp_path):
    assert entry(tmp_path, "why", "my group", "--from", "-6h") == [
        "coordinator-replay",
        "why",
        "my group",
        "--from",
        "-6h",
    ]


def test_the_image_is_an_executor_of_spark_on_kubernetes(tmp_path):
    """The names are those of org.apache.spark.deploy.k8s.Constants; none that Spark sets may be missing."""
    told = {
        "SPARK_DRIVER_URL": "spark://driver",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "4",
        "SPARK_EXECUTOR_MEMORY": "1024m",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
        "SPARK_EXECUTOR_POD_NAME": "pod",
        "SPARK_RESOURCE_PROFILE_ID": "0",
    }
    options = {f"SPARK_JAVA_OPT_{number}": f"-Done={number} x" for number in range(11)}
    ran = entry(tmp_path, "executor", **told, **options)
    assert ran[:12] == ["java", *options.values()]
    assert ran[12:14] == ["-Xms1024m", "-Xmx1024m"]
    named = ran[ran.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend") + 1 :]
    assert dict(zip(named[::2], named[1::2], strict=True)) == {
        "--driver-url": "spark://driver",
        "--executor-id": "3",
        "--cores": "4",
        "--app-id": "app",
        "--hostname": "10.0.0.7",
        "--resourceProfileId": "0",
        "--podName": "pod",
    }


def test_the_image_is_a_driver_of_spark_on_kubernetes(tmp_path):
    ran = entry(tmp_path, "driver", "--class", "PythonRunner", SPARK_DRIVER_BIND_ADDRESS="10.0.0.1")
    assert ran[:3] == ["spark-submit", "--deploy-mode", "client"]
    assert "spark.driver.bindAddress=10.0.0.1" in ran
    assert ran[-2:] == ["--class", "PythonRunner"]


def test_ci_runs_what_everybody_runs():
    (workflow,) = (ROOT / ".github" / "workflows").glob("*.yml")
    jobs = yaml.safe_load(workflow.read_text("utf-8"))["jobs"]
    job = jobs["test"]
    assert [step["run"] for step in job["steps"] if "run" in step][-1] == ".ci/run"
    [older] = re.findall(r"^versions=\((.+)\)$", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)
    assert set(older.split()) <= {row["spark"] for row in jobs["spark"]["strategy"]["matrix"]["include"]}
    oldest = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text("utf-8"))[1]
    assert oldest in job["strategy"]["matrix"]["python"]
