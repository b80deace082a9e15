"""Kafka's own coordinator, driven by scripts: ``CoordinatorOracle`` of ``scripts/kafka``, where its jars can be had."""

import json
import subprocess
from collections.abc import Iterable
from typing import Any

import pytest

from coordinator_replay.errors import PrerequisiteError
from tests.kafka_judge import java_command

OPTIONS = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
"""It starts often and lives for seconds: no time for the second compiler or a parallel collector."""


def run(commands: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One answer a command: ``{"i", "now", "did", "out"}``; the test is skipped where Kafka's jars can't be had."""
    try:
        command = java_command("org.apache.kafka.coordinator.group.CoordinatorOracle", options=OPTIONS)
    except PrerequisiteError as problem:
        pytest.skip(f"needs Kafka's jars: {problem}")
    script = "".join(json.dumps(line) + "\n" for line in commands)
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]
