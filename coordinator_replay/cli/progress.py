"""Display of a run's progress.

On a terminal, a bar shows the run's current step and Spark's running tasks. Elsewhere, a line is printed for each step.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from coordinator_replay.cli import work
from coordinator_replay.io_metrics import IoMetrics, StageMetrics
from coordinator_replay.listing import counted

_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class ShownProgress:
    """Receiver of a run's progress.

    Attributes:
        begin: called with the name of a step that begins.
        add: called with the I/O metrics of a stage.
    """

    begin: Callable[[str], None]
    add: Callable[[StageMetrics], None]


@contextmanager
def shown_progress(spark: Any, *, console: Console | None = None) -> Iterator[ShownProgress]:
    """Show progress on standard error until the ``with`` block ends.

    Args:
        spark: the session whose running tasks the bar counts.
        console: the console that shows the progress.
    """
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield _as_lines(console)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[tasks]}"))
    io = TextColumn("{task.fields[io]}")
    with Progress(*columns, io, TimeElapsedColumn(), console=console, transient=True) as progress:
        line = progress.add_task("starting", total=None, tasks="", io="")
        stop = threading.Event()
        poll = threading.Thread(target=_follow, args=(spark, progress, line, stop), daemon=True)
        poll.start()
        try:
            yield _as_bar(progress, line)
        finally:
            stop.set()
            poll.join()


def _as_lines(console: Console) -> ShownProgress:
    began = time.monotonic()

    def say(text: str) -> None:
        console.print(f"[{time.monotonic() - began:6.1f} s] {text}", markup=False, highlight=False, soft_wrap=True)

    return ShownProgress(
        say, lambda stage: say(f"  {stage.name}: {counted(stage.tasks, 'task')}, {described(stage.io)}")
    )


def _as_bar(progress: Progress, line: TaskID) -> ShownProgress:
    so_far = IoMetrics()

    def add(stage: StageMetrics) -> None:
        nonlocal so_far
        so_far += stage.io
        progress.update(line, io=f"{decimal(so_far.bytes_read)} read, {decimal(so_far.bytes_written)} written")

    def begin(step: str) -> None:
        progress.update(line, description=step, total=None, completed=0, tasks="")

    return ShownProgress(begin, add)


def described(io: IoMetrics) -> str:
    """Return I/O metrics in words.

    >>> described(IoMetrics(2, 3_100_000, 40_000, 1, 900, 12))
    'read 2 files (3.1 MB, 40,000 records), wrote 1 file (900 bytes, 12 records)'
    """
    parts = [
        ("read", io.files_read, io.bytes_read, io.records_read),
        ("wrote", io.files_written, io.bytes_written, io.records_written),
    ]
    return ", ".join(
        f"{verb} {counted(files, 'file')} ({decimal(size)}, {counted(records, 'record')})"
        for verb, files, size, records in parts
    )


def _follow(spark: Any, progress: Progress, line: TaskID, stop: threading.Event) -> None:
    """Show on a line of the display how many tasks of Spark's running stages are done, until ``stop`` is set."""
    tasks = work.running_tasks(spark)
    while not stop.wait(_POLL_SECONDS):
        done, total = tasks()
        if total:
            progress.update(line, total=total, completed=done, tasks=f"{done}/{total} tasks")
