"""Wide answers in the user's pager: on a real terminal, and nowhere else."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.query.small_warehouse import write_small_warehouse

WIDE = ["describe", "payments", "--wide"]
NARROW = ["groups"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_warehouse(tmp_path_factory.mktemp("pager"))


@pytest.fixture
def pager(tmp_path: Path) -> Path:
    """A pager that marks what goes through it, and keeps the options that less would take."""
    script = tmp_path / "my pager"
    script.write_text("#!/bin/sh\nsed 's/^/PAGED /'\necho \"LESS=$LESS\"\n")
    script.chmod(0o755)
    return script


def seen(folder: Path, *words: str, **environment: str) -> str:
    """What a terminal of 80 cells shows of a command that is typed on it."""
    command = [sys.executable, "-m", "coordinator_replay", *words, "--warehouse", str(folder), "--cluster", "default"]
    keyboard, terminal = pty.openpty()
    inherited = {name: value for name, value in os.environ.items() if name not in ("PAGER", "LESS")}
    asked = {**inherited, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "xterm", **environment}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=asked) as running:
        os.close(terminal)
        shown = b""
        while True:
            try:
                piece = os.read(keyboard, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        os.close(keyboard)
        assert running.wait(60) == 0, shown
    return shown.decode().replace("\r\n", "\n")


def test_an_answer_wider_than_the_terminal_goes_through_the_pager(folder: Path, pager: Path):
    shown = seen(folder, *WIDE, PAGER=f"'{pager}' -x")
    paged = [line for line in shown.splitlines() if line.startswith("PAGED ")]
    assert any("client-m-1" in line and len(line) > 80 for line in paged)
    assert "LESS=FRSX" in shown
    assert "wider than the terminal" not in shown
    # What less shall do otherwise is the user's to say.
    assert "LESS=R" in seen(folder, *WIDE, PAGER=f"'{pager}'", LESS="R").splitlines()


def test_an_answer_that_fits_is_only_printed(folder: Path, pager: Path):
    shown = seen(folder, *NARROW, PAGER=f"'{pager}'")
    assert "payments" in shown
    assert "PAGED" not in shown


@pytest.mark.parametrize("none", [{}, {"PAGER": ""}, {"PAGER": "/no/such/pager"}, {"PAGER": "'unended"}], ids=str)
def test_without_a_pager_there_is_a_hint(folder: Path, none: dict[str, str]):
    shown = seen(folder, *WIDE, **none)
    assert "client-m-1" in shown
    assert "less -S scrolls to the side" in " ".join(shown.split())


def test_a_pager_that_is_left_early_is_no_error(folder: Path, tmp_path: Path):
    assert "client-m-1" not in seen(folder, *WIDE, PAGER="true")


def test_a_pipe_is_never_paged(folder: Path, pager: Path):
    command = [sys.executable, "-m", "coordinator_replay", *WIDE, "--warehouse", str(folder), "--cluster", "default"]
    asked = {**os.environ, "PAGER": f"'{pager}'", "COLUMNS": "80"}
    piped = subprocess.run(command, capture_output=True, text=True, env=asked, check=True)
    assert "client-m-1" in piped.stdout
    assert "PAGED" not in piped.stdout
