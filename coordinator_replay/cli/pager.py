"""The user's pager, for lines that are wider than the terminal."""

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

VARIABLE = "PAGER"

LESS_OPTIONS = "FRSX"
"""Options of less if the user has set none: it scrolls to the side and leaves a short answer on the screen."""


def pager_command() -> Sequence[str] | None:
    """Return the command in PAGER.

    Return None if PAGER is not set or can't be parsed, or if standard input or output is not a terminal.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    try:
        return shlex.split(os.environ.get(VARIABLE, "")) or None
    except ValueError:
        return None


def show_in_pager(lines: Sequence[str], command: Sequence[str]) -> bool:
    """Show lines in a pager until the user leaves the pager.

    Returns:
        Whether the pager could be started.
    """
    environment = {"LESS": LESS_OPTIONS, **os.environ}
    sys.stdout.flush()
    try:
        pager = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, text=True, encoding="utf-8")  # noqa: S603 - the user's own
    except OSError:
        return False
    # While the pager runs, Ctrl+C is for the pager.
    with suppress(KeyboardInterrupt):
        pager.communicate("".join(f"{line}\n" for line in lines))
    while pager.poll() is None:
        with suppress(KeyboardInterrupt):
            pager.wait()
    return True
