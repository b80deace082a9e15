"""Real brokers for tests: started from Maven jars, on loopback, gone with the ``with`` block."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from coordinator_replay.errors import PrerequisiteError

sys.path.append(str(Path(__file__).resolve().parents[1] / "scripts" / "kafka"))

from kafka_broker import Broker
from kafka_jars import kafka_classpath

__all__ = ["Broker", "need_kafka", "running_broker"]


def need_kafka() -> None:
    """Skip the test where Kafka's jars can't be had."""
    try:
        kafka_classpath()
    except PrerequisiteError as missing:
        pytest.skip(f"no real broker here: {missing}")


@contextmanager
def running_broker(folder: Path, properties: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """A broker that keeps everything in a folder; the test is skipped where Kafka's jars can't be had.

    A broker that is there and does not come up is a failure, not a reason to skip.
    """
    need_kafka()
    with Broker(folder, properties) as broker:
        yield broker
