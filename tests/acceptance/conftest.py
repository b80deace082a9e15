"""One warehouse with whole audits of recorded dumps in it, a cluster for each sample."""

from pathlib import Path
from typing import Any

import pytest

from tests.samples import Sample

AUDITED = ("group-lifecycles", "java-clients", "kafka-3.9")


def audit(spark: Any, warehouse: Path, name: str) -> None:
    from coordinator_replay.pipeline.audit import Options, run_audit

    metadata = str(Sample(name).folder / "cluster-metadata")
    options = Options(inputs=[Sample(name).segments], warehouse=str(warehouse), cluster=name, cluster_metadata=metadata)
    run_audit(spark, options)


@pytest.fixture(scope="session")
def audited(spark, tmp_path_factory) -> Path:
    """The warehouse's folder."""
    warehouse = tmp_path_factory.mktemp("audited")
    for name in AUDITED:
        audit(spark, warehouse, name)
    return warehouse


@pytest.fixture(scope="session")
def expired(spark: Any, audited: Path) -> str:
    """The dump of a broker that let offsets expire, audited into the same warehouse; its cluster's name."""
    audit(spark, audited, "expiration")
    return "expiration"


@pytest.fixture(scope="session")
def transactional(spark: Any, audited: Path) -> str:
    """The dump of transactions that committed, aborted and stayed open, likewise."""
    audit(spark, audited, "transactions")
    return "transactions"
