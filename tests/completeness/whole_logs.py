"""Recorded samples of which nothing is missing, and audits of their whole logs."""

from collections.abc import Callable
from pathlib import Path

from coordinator_replay import Warehouse
from coordinator_replay.pipeline.audit import Summary
from tests.cleaner.recorded_log import recorded_log
from tests.completeness.held import open_held
from tests.samples import Sample

COMPLETE = {
    name: Sample(name)
    for name in ("group-lifecycles", "java-clients", "kafka-3.9", "transactions", "expiration", "variants")
}
"""Samples of which nothing is missing."""


def metadata(name: str) -> str:
    """The cluster's metadata, so that topics have the same names whatever is left of the log."""
    return str(Sample(name).folder / "cluster-metadata")


def whole_of(name: str, audit: Callable[..., Summary], folder: Path) -> tuple[Warehouse, Path]:
    """A sample's whole log audited, and the dump of it."""
    life = recorded_log(COMPLETE[name].segments)
    for one in life.partitions.values():
        one.at = len(one.batches)
    dump = life.written(folder / "whole-dump")
    audit(folder / "whole", dump, cluster_metadata=metadata(name))
    return open_held(folder / "whole"), dump
