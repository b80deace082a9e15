"""The last guard around every command: whatever goes wrong, a person reads a sentence and a program gets a code."""

import errno
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import click

from coordinator_replay import __version__
from coordinator_replay.safe_text import neutral

_MOST = 300
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def _kept() -> str | None:
    """The file in which the traceback of the current exception is kept; None where none can be written."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="coordinator-replay-", suffix=".txt", encoding="utf-8", errors="backslashreplace", delete=False
        ) as file:
            file.write(f"coordinator-replay {__version__}, Python {sys.version}\n{traceback.format_exc()}")
            return file.name
    except OSError:
        return None


def _say(text: str) -> None:
    with suppress(OSError):
        click.echo(f"Error: {text}", err=True)


def _close_output() -> None:
    """Let what could not be written be forgotten: Python would try again when it ends, and print a trace."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _told(problem: BaseException) -> str:
    said = " ".join(neutral(str(problem)).split())
    return f"{type(problem).__name__}{f': {said[:_MOST]}' if said else ''}"


def guarded(run: Callable[[], Any]) -> Any:
    """Run a command, and end the program where it raises anything but its own exit.

    Raises:
        SystemExit: always, with code 1, where something unexpected was raised.
    """
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()
    except (SystemExit, KeyboardInterrupt):
        raise
    except BrokenPipeError:
        # Whoever read the answer has enough of it.
        _close_output()
    except OSError as problem:
        if problem.errno in _NO_ROOM and problem.filename is None:
            _close_output()
            _say(f"the answer could not be written: {problem.strerror}")
        else:
            _report(problem)
    # Libraries written in Rust raise what is no Exception where they meet a case that they did not think of.
    except BaseException as problem:  # noqa: BLE001 - this is where all of them end
        _report(problem)
    sys.exit(1)


def _report(problem: BaseException) -> None:
    file = _kept()
    where = f"the traceback is in {file}" if file else "no file could be written for the traceback"
    _say(f"something unexpected happened ({_told(problem)}); {where}: please report it")


class GuardedCommand(click.Command):
    """A command that never ends in a traceback."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run as a program."""
        return guarded(lambda: super(GuardedCommand, self).main(*args, **kwargs))


class GuardedGroup(click.Group):
    """The program itself, guarded in the same way."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run as a program."""
        return guarded(lambda: super(GuardedGroup, self).main(*args, **kwargs))
