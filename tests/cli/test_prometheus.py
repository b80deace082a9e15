"""Metrics as the real Prometheus and Pushgateway take them, where these are installed: Debian has both."""

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner

from coordinator_replay.cli.main import main
from tests.cli.test_metrics import DASHBOARD, RULES, samples
from tests.query.small_warehouse import write_small_warehouse

WANTED_S = 30


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_warehouse(tmp_path_factory.mktemp("prometheus"))


def write_metrics(folder: Path, *options: str) -> None:
    asked = ["metrics", "--warehouse", str(folder), "--cluster", "default", *options]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 0, result.output


def answer(url: str) -> Any:
    with urllib.request.urlopen(url) as response:
        return json.load(response)["data"]


def waited(ask: Callable[[], Any]) -> Any:
    """What is answered once there is an answer that is true, or the last error."""
    until = time.monotonic() + WANTED_S
    while True:
        try:
            if answered := ask():
                return answered
            problem: OSError = TimeoutError("nothing was answered")
        except OSError as refused:
            problem = refused
        if time.monotonic() > until:
            raise problem
        time.sleep(0.1)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A server of the files of a folder, as text in Prometheus' format."""
    handler = type("Files", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None, "extensions_map": {"": TEXT}})
    server = HTTPServer(("127.0.0.1", 0), partial(handler, directory=folder))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


TEXT = "text/plain; version=0.0.4"


@contextmanager
def running(program: str, folder: Path, *options: str) -> Iterator[str]:
    """A program that listens on a port of this machine alone; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    log = (folder / f"{program}.log").open("w")
    process = subprocess.Popen([program, f"--web.listen-address={address}", *options], stdout=log, stderr=log)
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def prometheus(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that has scraped what the command wrote, and evaluated the alert rules."""
    own = tmp_path_factory.mktemp("server")
    write_metrics(folder, "--out", str(own / "offsets.prom"))
    with served(own) as target:
        jobs = [{"job_name": "offsets", "metrics_path": "/offsets.prom", "static_configs": [{"targets": [target]}]}]
        every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config = {"global": every, "rule_files": [str(RULES)], "scrape_configs": jobs}
        (own / "prometheus.yml").write_text(json.dumps(config))
        options = f"--config.file={own}/prometheus.yml", f"--storage.tsdb.path={own}/data"
        with running("prometheus", own, *options) as url:
            waited(lambda: answer(f"{url}/api/v1/query?query=coordinator_replay_groups")["result"])
            yield url


def dashboard_queries() -> list[str]:
    """What its panels ask, for all groups of the cluster."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    named = {"$cluster": "default", "$group": ".*", "$window": "1ms"}
    return [
        re.sub("|".join(map(re.escape, named)), lambda found: named[found[0]], one).removesuffix(" > 0")
        for one in asked
    ]


@needs("prometheus")
def test_what_prometheus_has_scraped_is_what_was_written(folder, prometheus, tmp_path):
    write_metrics(folder, "--out", str(tmp_path / "offsets.prom"))
    text = (tmp_path / "offsets.prom").read_text()
    names = set(re.findall(r"^# TYPE coordinator_replay_(\w+) gauge$", text, re.MULTILINE))
    assert len(names) > 12
    for name in names - {"log_age_seconds"}:
        series = answer(f"{prometheus}/api/v1/query?query=coordinator_replay_{name}")["result"]
        scraped = sorted(float(one["value"][1]) for one in series)
        assert scraped == sorted(samples(text, name).values()), name
    (up,) = answer(f"{prometheus}/api/v1/query?query=scrape_samples_scraped")["result"]
    assert int(up["value"][1]) == len([line for line in text.splitlines() if line[0] != "#"])


@needs("prometheus")
@pytest.mark.parametrize("query", dashboard_queries())
def test_prometheus_answers_the_queries_of_the_dashboard(prometheus, query):
    assert answer(f"{prometheus}/api/v1/query?{urlencode({'query': query})}")["result"]


@needs("prometheus")
def test_prometheus_has_values_for_the_variables_of_the_dashboard(prometheus):
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked = [one["query"]["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    assert len(asked) == 2
    for query in asked:
        series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query.replace("$cluster", "default")).groups()
        assert answer(f"{prometheus}/api/v1/label/{label}/values?{urlencode({'match[]': series})}"), query


@needs("prometheus")
def test_prometheus_evaluates_the_alert_rules(prometheus):
    """A rule may have been evaluated before the first scrape was: what fires is waited for, not a first evaluation."""

    def fired() -> list[Any]:
        (group,) = answer(f"{prometheus}/api/v1/rules")["groups"]
        # An alert waits for some minutes before it fires.
        active = {one["name"] for one in group["rules"] if one["state"] in ("pending", "firing")}
        return group["rules"] if {"OffsetsLogIsOld", "OffsetsExpireNext"} <= active else []

    assert {one["health"] for one in waited(fired)} == {"ok"}


@needs("prometheus-pushgateway")
def test_a_pushgateway_has_what_was_pushed_last(folder, tmp_path):
    with running("prometheus-pushgateway", tmp_path) as url:
        waited(lambda: urllib.request.urlopen(f"{url}/-/ready").read())
        write_metrics(folder, "--pushgateway", url)
        write_metrics(folder, "--pushgateway", url, "--groups", "payments")
        text = urllib.request.urlopen(f"{url}/metrics").read().decode()
    states = [line for line in text.splitlines() if line.startswith("coordinator_replay_group_state")]
    assert len(states) == 1
    for label in ('cluster="default"', 'group="payments"', 'job="coordinator-replay"'):
        assert label in states[0]


def test_a_pushgateway_that_is_not_there_is_one_sentence(folder):
    asked = ["metrics", "--warehouse", str(folder), "--cluster", "default", "--pushgateway", "http://127.0.0.1:1"]
    result = CliRunner().invoke(main, asked)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert "Pushgateway http://127.0.0.1:1 did not take the metrics" in result.stderr
