"""What a run shows while it works: its step and Spark's stages as a bar, or plain lines where no terminal is."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

_POLL_SECONDS = 0.2


@contextmanager
def shown_progress(spark: Any, *, console: Console | None = None) -> Iterator[Callable[[str], None]]:
    """Show progress on standard error until the block ends; what it gives shows that a step begins.

    Args:
        spark: the session whose stages become bars; Spark Connect has no status tracker, and then there are none.
        console: where to show it.
    """
    console = console or Console(stderr=True)
    if not console.is_terminal:
        began = time.monotonic()
        yield lambda step: console.print(f"[{time.monotonic() - began:6.1f} s] {step}", markup=False, highlight=False)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[tasks]}"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        line = progress.add_task("starting", total=None, tasks="")
        stop = threading.Event()
        poll = threading.Thread(target=_follow, args=(spark, progress, line, stop), daemon=True)
        poll.start()
        try:
            yield lambda step: progress.update(line, description=step, total=None, completed=0, tasks="")
        finally:
            stop.set()
            poll.join()


def _follow(spark: Any, progress: Progress, line: TaskID, stop: threading.Event) -> None:
    """Draw the tasks of the stages that run, until it is stopped."""
    try:
        tracker = spark.sparkContext.statusTracker()
    except Exception:  # noqa: BLE001 - without a tracker there is no bar, and nothing else is lost
        return
    while not stop.wait(_POLL_SECONDS):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        running = [stage for stage in stages if stage is not None]
        total = sum(stage.numTasks for stage in running)
        done = sum(stage.numCompletedTasks for stage in running)
        if total:
            progress.update(line, total=total, completed=done, tasks=f"{done}/{total} tasks")
