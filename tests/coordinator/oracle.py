"""Kafka's own coordinator as a judge, where it is on this machine: scripts in, answers out.

It lives beside the project (``../shared/oracle``) and fetches Kafka's jars with Maven; tests that need it are skipped
without either.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ORACLE = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "oracle.sh"


def is_here() -> bool:
    return oracle_path().exists() and shutil.which("mvn") is not None and shutil.which("java") is not None


def oracle_path() -> Path:
    named = os.environ.get("COORDINATOR_ORACLE")
    return Path(named) if named else ORACLE


def run(commands: Iterable[dict[str, Any]], *options: str) -> list[dict[str, Any]]:
    """One answer a command: ``{"i", "now", "did", "out"}``."""
    script = "".join(json.dumps(command) + "\n" for command in commands)
    done = subprocess.run([str(oracle_path()), *options], input=script, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]
