"""A line on the terminal for an answer that takes longer than a second. It is removed before the answer is printed."""

import os
import sys
import threading
import time
from typing import TextIO

_FIRST_SECONDS = 1.0
_EVERY_SECONDS = 0.5
_CLEAR = "\r\x1b[K"


class Waiting:
    """A line that says how long the program has been at work.

    Args:
        stream: output for the line.
        doing: the work in words, as the line shows them.
        first: seconds until the line appears.
    """

    def __init__(self, stream: TextIO, doing: str, first: float = _FIRST_SECONDS) -> None:
        self._stream = stream
        self._doing = doing
        self._first = first
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._thread.start()

    def _show(self) -> None:
        began = time.monotonic()
        if self._ended.wait(self._first):
            return
        while True:
            self._write(f"{_CLEAR}{self._doing} … {time.monotonic() - began:.0f} s")
            if self._ended.wait(_EVERY_SECONDS):
                self._write(_CLEAR)
                return

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._ended.set()

    def end(self) -> None:
        """Remove the line from the terminal."""
        self._ended.set()
        self._thread.join()


_now: list[Waiting] = []
"""The line of the running command; empty if there is none."""


def begin_waiting(doing: str) -> None:
    """Show a line while the user waits for an answer, if standard error is a terminal.

    Args:
        doing: the work in words, as the line shows them.
    """
    if not _now and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        _now.append(Waiting(sys.stderr, doing))


def end_waiting() -> None:
    """End the wait and remove the line, because something is about to be printed."""
    while _now:
        _now.pop().end()
