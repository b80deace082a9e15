"""One warehouse with whole audits of recorded dumps in it, a cluster for each sample."""

from pathlib import Path

import pytest

from tests.samples import Sample

AUDITED = ("group-lifecycles", "java-clients", "kafka-3.9")


@pytest.fixture(scope="session")
def audited(spark, tmp_path_factory) -> Path:
    """The warehouse's folder."""
    from coordinator_replay.pipeline.audit import Options, run_audit

    warehouse = tmp_path_factory.mktemp("audited")
    for name in AUDITED:
        metadata = str(Sample(name).folder / "cluster-metadata")
        options = Options(
            inputs=[Sample(name).segments], warehouse=str(warehouse), cluster=name, cluster_metadata=metadata
        )
        run_audit(spark, options)
    return warehouse
