"""Runs the commands of sessions in documents again on the demo's warehouse, and puts their new output below them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (_ROOT / "README.md", _ROOT / "docs" / "demo.md", _ROOT / "docs" / "cookbook.md")

_SESSION = re.compile(r"(?<=^```console\n)\$ coordinator-replay .*?(?=^```)", re.MULTILINE | re.DOTALL)
_LONGEST_LINE = 240
_PROMPT = "$ "
_AGO = re.compile(r"\((?:\d[^()]* ago)\)")
"""A text such as ``(2 d ago)``, which depends on the time at which the session is recorded."""


def _typed(command: str, warehouse: Path, work: Path) -> str:
    """Return the output of a command, notes included. A line that is cut ends in an ellipsis."""
    environment = {**os.environ, "COORDINATOR_REPLAY_WAREHOUSE": str(warehouse.absolute()), "NO_COLOR": "1"}
    words = [sys.executable, "-m", "coordinator_replay", *shlex.split(command)[1:]]
    done = subprocess.run(  # the commands stand in the documents
        words, cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    )
    lines = (
        line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…" for line in done.stdout.splitlines()
    )
    return _AGO.sub("(2 d ago)", "\n".join(lines))


def recorded(text: str, warehouse: Path, work: Path) -> str:
    """Return a document's text, with the present output of the commands of its sessions.

    Args:
        text: the document.
        warehouse: the warehouse of the demo.
        work: a folder for files that the commands write.
    """

    def record(session: re.Match[str]) -> str:
        commands = [line for line in session[0].splitlines() if line.startswith(_PROMPT)]
        told = [f"{command}\n{_typed(command.removeprefix(_PROMPT), warehouse, work)}\n" for command in commands]
        return "\n".join(told)

    return _SESSION.sub(record, text)


if __name__ == "__main__":
    for document in DOCUMENTS:
        text = recorded(document.read_text(encoding="utf-8"), Path(sys.argv[1]), Path(sys.argv[2]))
        document.write_text(text, encoding="utf-8")
