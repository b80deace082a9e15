"""One warehouse with whole audits of recorded dumps in it, a cluster for each sample; and commands typed on it.

The audits run in this process: test_object_store.py holds Spark's against them, row by row.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from coordinator_replay.cli.main import main
from tests.pipeline.in_process import audit_here
from tests.samples import Sample

AUDITED = ("group-lifecycles", "java-clients", "kafka-3.9")

Typed = Callable[..., Result]
Ask = Callable[..., list[dict[str, Any]]]
Told = Callable[..., str]


def audit(warehouse: Path, name: str) -> None:
    """Audit a sample with what was recorded of its cluster."""
    metadata = Sample(name).folder / "cluster-metadata"
    names = {"cluster_metadata": str(metadata)} if metadata.exists() else {}
    audit_here(warehouse, Sample(name).segments, cluster=name, **names)


@pytest.fixture(scope="session")
def audited(tmp_path_factory) -> Path:
    """The warehouse's folder."""
    warehouse = tmp_path_factory.mktemp("audited")
    for name in AUDITED:
        audit(warehouse, name)
    return warehouse


@pytest.fixture(scope="session")
def expired(audited: Path) -> str:
    """The dump of a broker that let offsets expire, audited into the same warehouse; its cluster's name."""
    audit(audited, "expiration")
    return "expiration"


@pytest.fixture(scope="session")
def transactional(audited: Path) -> str:
    """The dump of transactions that committed, aborted and stayed open, likewise."""
    audit(audited, "transactions")
    return "transactions"


@pytest.fixture(scope="session")
def compacted(audited: Path) -> str:
    """The dump of a log that was compacted while it was written, likewise."""
    audit(audited, "compacted")
    return "compacted"


@pytest.fixture(scope="session")
def typed(audited: Path) -> Typed:
    """Type a command; what came of it, rows as JSON lines and notes on standard error."""
    runner = CliRunner(env={"COORDINATOR_REPLAY_WAREHOUSE": str(audited)})

    def run(cluster: str, *arguments: str) -> Result:
        result = runner.invoke(main, [*arguments, "--cluster", cluster, "--output", "json"])
        assert result.exit_code == 0, result.output
        return result

    return run


@pytest.fixture(scope="session")
def ask(typed: Typed) -> Ask:
    """Type a command; the rows it answers with."""
    return lambda *arguments: [json.loads(line) for line in typed(*arguments).stdout.splitlines()]


@pytest.fixture(scope="session")
def told(audited: Path) -> Told:
    """Type a command; what it prints for people."""
    runner = CliRunner(env={"COORDINATOR_REPLAY_WAREHOUSE": str(audited), "NO_COLOR": "1"})

    def run(cluster: str, *arguments: str) -> str:
        result = runner.invoke(main, [*arguments, "--cluster", cluster])
        assert result.exit_code == 0, result.output
        return result.stdout

    return run
