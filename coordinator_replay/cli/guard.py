"""The last guard around every command: whatever goes wrong, the command ends with a sentence and an exit code."""

import errno
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from coordinator_replay.cli import work
from coordinator_replay.extras import missing_extra
from coordinator_replay.safe_text import neutral
from coordinator_replay.secret_text import without_secrets
from coordinator_replay.store_access import ADVICE, refusal
from coordinator_replay.version import __version__

_MOST = 300
_MOMENT = 0.05
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


EXIT_USAGE = 2
"""Exit code of click for a command that can't run as typed, or can't run in this installation."""

EXIT_INTERRUPTED = 130
"""Exit code that shells use for a program that Ctrl-C ended: 128 plus the number of the signal."""


class Interrupted(click.ClickException):
    """The user pressed Ctrl-C.

    Args:
        what: the message, which names the interrupted work and says what becomes of this work.
    """

    exit_code = EXIT_INTERRUPTED

    def __init__(self, what: str = "interrupted") -> None:
        super().__init__(what)


@contextmanager
def interruptible(what: str) -> Iterator[None]:
    """Turn Ctrl-C in the ``with`` block into an error with a message.

    Args:
        what: the message, which names the interrupted work and says what becomes of this work.

    Raises:
        Interrupted: Ctrl-C was pressed.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(what) from None


@contextmanager
def spark_session(what: str, then: str, **options: Any) -> Iterator[Any]:
    """Open a Spark session for a ``with`` block. Turn a failure or Ctrl-C into an error message of one sentence.

    Args:
        what: the work in words, for the message.
        then: a clause for the message that says what happens to the finished part of the work.
        options: options of the session.
    """
    with interruptible(f"{what} was interrupted; {then}"), work.failing_in_a_sentence(what, then):
        yield work.open_session(**options)


@contextmanager
def ended_by_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM and Ctrl-C set while the ``with`` block runs.

    A second signal ends the process at once.
    """
    stopped = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def stop(_number: int, _frame: object) -> None:
        stopped.set()
        for number in before:
            signal.signal(number, signal.SIG_DFL)

    for number in before:
        signal.signal(number, stop)
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def log_line(text: str) -> None:
    """Print a line of a command that keeps running, with the time in front."""
    click.echo(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text}", err=True)


class _Interrupts:
    """A watch for Ctrl-C in a ``with`` block. It notices Ctrl-C even if the block raises another exception, or none.

    Ctrl-C may be lost if it comes during an import or in a finalizer. This class then sends the signal again a moment
    later.

    Attributes:
        is_any: whether Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.is_any = False
        self._is_ours = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        self._hook_before = sys.unraisablehook

    def __enter__(self) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, self._notice)
            sys.unraisablehook = self._hear_discarded

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            sys.unraisablehook = self._hook_before

    def _notice(self, number: int, frame: FrameType | None) -> None:
        self.is_any = True
        if _is_importing(frame):
            _send_again()
        else:
            signal.default_int_handler(number, frame)

    def _hear_discarded(self, discarded: Any) -> None:
        if issubclass(discarded.exc_type, KeyboardInterrupt):
            _send_again()
        else:
            self._hook_before(discarded)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _send_again() -> None:
    """Send the process another SIGINT, as Ctrl-C does, after a short delay.

    The first SIGINT came while an import or a finalizer ran, and was lost. The delay lets the import or finalizer end.
    """
    timer = threading.Timer(_MOMENT, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    timer.daemon = True
    timer.start()


def _was_pressed() -> bool:
    """Return whether Ctrl-C was pressed since the command of this thread began."""
    watch = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    return isinstance(watch, _Interrupts) and watch.is_any


def _kept() -> str | None:
    """Write the traceback of the current exception into a file and return its path.

    Return None if the file can't be written.
    """
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="coordinator-replay-", suffix=".txt", encoding="utf-8", errors="backslashreplace", delete=False
        ) as file:
            trace = without_secrets(traceback.format_exc())
            file.write(f"coordinator-replay {__version__}, Python {sys.version}\n{trace}")
            return file.name
    except OSError:
        return None


def _say(text: str) -> None:
    with suppress(OSError):
        click.echo(f"Error: {without_secrets(text)}", err=True)


def _close_output() -> None:
    """Discard output that could not be written.

    Otherwise Python would try to write the output again at its end, and print a traceback.
    """
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """End the ``with`` block without an error if the reader of its output is gone, as with ``| head``."""
    try:
        yield
    except BrokenPipeError:
        _close_output()


def _described(problem: BaseException) -> str:
    text = " ".join(neutral(without_secrets(str(problem))).split())
    return f"{type(problem).__name__}{f': {text[:_MOST]}' if text else ''}"


def guarded(run: Callable[[], Any]) -> Any:
    """Run a command, and end the program if the command raises anything.

    Raises:
        SystemExit: the command ended itself or raised an exception. The code is 130 for Ctrl-C, 0 if the reader of the
            output is gone, 2 for a missing extra or missing credentials. It is 1 for any other error.
    """
    _open_closed_streams()
    interrupts = _Interrupts()
    try:
        try:
            with interrupts:
                return run()
        finally:
            with reader_may_leave():
                sys.stdout.flush()
    except SystemExit as end:
        if end.code == EXIT_INTERRUPTED:
            _let_go(end)
        raise
    except KeyboardInterrupt as problem:
        _end_interrupted(problem)
    except (BrokenPipeError, _ReaderLeft):
        _close_output()
        sys.exit(0)
    except OSError as problem:
        if problem.errno in _NO_ROOM and problem.filename is None:
            _close_output()
            _say(f"the answer could not be written: {problem.strerror}")
        else:
            _report(problem)
    # Libraries written in Rust raise a BaseException that is no Exception when they panic.
    except BaseException as problem:  # noqa: BLE001 - this is where all of them end
        if interrupts.is_any:
            # A library was interrupted by Ctrl-C and raises an error of its own.
            _end_interrupted(problem)
        _report(problem)
    sys.exit(1)


def _open_closed_streams() -> None:
    """Open the null device for each standard stream (stdin, stdout, stderr) that was closed before the program started.

    Without this, an opened file could get the number of a closed stream, and libraries would print into the file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - as long as we run


def _end_interrupted(problem: BaseException) -> NoReturn:
    _say("interrupted")
    _let_go(problem)
    sys.exit(EXIT_INTERRUPTED)


def _let_go(problem: BaseException | None) -> None:
    """Prepare the end of the program after Ctrl-C.

    Another Ctrl-C after this call ends the process at once. Drop the variables of the interrupted functions, so that no
    object of a library is left to print a complaint.
    """
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    while problem is not None:
        traceback.clear_frames(problem.__traceback__)
        problem = problem.__cause__ or problem.__context__


def _of_the_user(problem: BaseException) -> str | None:
    """Return advice on a problem that no command caught, such as a missing extra or missing credentials.

    Return None if there is no advice on this problem.
    """
    if isinstance(problem, ModuleNotFoundError):
        return missing_extra(problem)
    refused = refusal(problem)
    return None if refused is None else f"an object store refuses access: {neutral(refused)}; {ADVICE}"


def _report(problem: BaseException) -> None:
    what_to_do = _of_the_user(problem)
    if what_to_do is not None:
        _say(what_to_do)
        sys.exit(EXIT_USAGE)
    file = _kept()
    where = f"the traceback is in {file}" if file else "no file could be written for the traceback"
    _say(f"something unexpected happened ({_described(problem)}); {where}: please report it")


class _ReaderLeft(Exception):  # noqa: N818 - no error: who runs ``| head`` has enough of it
    """Signal that the reader of the output is gone.

    Click would end the program with code 1. But whether a reader leaves before the end of the output may depend on its
    speed alone. So the program ends with code 0, as after output that was read to its end.
    """


@contextmanager
def _read_as_long_as_wanted() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise _ReaderLeft from None


class GuardedCommand(click.Command):
    """A command that never ends in a traceback."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the words of the command line.

        If the reader of the output is gone, end the program with code 0.
        """
        with _read_as_long_as_wanted():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command with parsed arguments."""
        with _read_as_long_as_wanted(), interruptible("interrupted"):
            try:
                return super().invoke(ctx)
            except click.ClickException as problem:
                # Ctrl-C interrupted a library, and the command reported the library's error as a mistake of the user.
                if _was_pressed() and not isinstance(problem, Interrupted):
                    raise KeyboardInterrupt from None
                raise

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run as a program."""
        return guarded(lambda: super(GuardedCommand, self).main(*args, **kwargs))


class GuardedGroup(GuardedCommand, click.Group):
    """The program with all its commands. It never ends in a traceback."""
