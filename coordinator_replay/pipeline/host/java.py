"""The one prerequisite that users must install themselves: a Java that Spark can run on."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from coordinator_replay.errors import PrerequisiteError

MINIMUM = 17
"""Oldest Java that Spark 4.2 starts on."""

_WAY = (
    f"install one (Debian, Ubuntu: apt install openjdk-{MINIMUM}-jre-headless; Fedora, RHEL: dnf install "
    f"java-{MINIMUM}-openjdk-headless; macOS: brew install openjdk@{MINIMUM}) or name one by JAVA_HOME; "
    "questions about tables that are there need no Java"
)


def check_java() -> None:
    """Check that Spark will find a version of Java that Spark can run on.

    Raises:
        PrerequisiteError: there is no Java, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home}, and has none" if home else "there is none on the PATH"
        raise PrerequisiteError(f"Java {MINIMUM} or newer is needed, and {where}: {_WAY}")
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    match = re.search(r'version "(?:1\.)?(\d+)', printed)
    if match is None or int(match.group(1)) < MINIMUM:
        version = match.group(1) if match else "of unknown version"
        raise PrerequisiteError(f"Java {MINIMUM} or newer is needed, and {java} is Java {version}: {_WAY}")
