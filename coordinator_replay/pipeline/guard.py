"""A guard that lets a step for a single group fail without ending the run.

If a step fails, the results of the group are left out, and the finding ``group_not_evaluated`` names the group. All
other groups are audited as usual. The next run tries the group again from its first record.

Two kinds of steps are guarded: the replay of a group's records, and the rules of findings for a group.
"""

from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from coordinator_replay.analysis.findings.evidence_rows import FailedStep
from coordinator_replay.errors import CoordinatorReplayError

_UNGUARDED = (CoordinatorReplayError, OSError, MemoryError)
"""Exceptions that are raised on purpose, or that have another cause than the group's records."""

_LONGEST = 300
_PACKAGE = Path(__file__).parents[1]


class GroupFailure(NamedTuple):
    """A failure of a step for a group, with the facts that the finding ``group_not_evaluated`` shows.

    Attributes:
        step: the step that failed.
        error: the exception, shortened.
        where: the place in this package that raised the exception.
        log_partition: log partition of the record that was being processed; None if the step does not process records.
        log_offset: log offset of the record that was being processed; None if the step does not process records.
    """

    step: str
    error: str
    where: str
    log_partition: int | None = None
    log_offset: int | None = None

    def evidence(self) -> FailedStep:
        """Return the failure in the form that the table ``group_evidence`` stores."""
        return {
            "step": self.step,
            "error": self.error,
            "where": self.where,
            "log_partition": self.log_partition,
            "log_offset": self.log_offset,
        }


class GroupGuard:
    """A context manager that keeps an error about one group from ending the run.

    An exception ends the block ``with guard:``. The guard stores the exception and does not raise it. Exceptions of
    the types in ``_UNGUARDED`` are raised.

    Attributes:
        failure: the first exception that the guard has stored; None if there was none.
    """

    __slots__ = ("failure", "place", "step")

    def __init__(self, step: str) -> None:
        """Guard a step of a group.

        Args:
            step: name of the step, as a finding shows it.
        """
        self.step = step
        self.failure: GroupFailure | None = None
        self.place: tuple[int | None, int | None] = (None, None)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(problem, Exception) or isinstance(problem, _UNGUARDED):
            return False
        if self.failure is None:
            error = f"{type(problem).__name__}: {problem}"[:_LONGEST]
            self.failure = GroupFailure(self.step, error, _where(traceback), *self.place)
        return True


def _where(traceback: TracebackType | None) -> str:
    """Return the innermost call of this package in a traceback, as module and function.

    Return an empty text if no call comes from this package.
    """
    place = ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        path = Path(code.co_filename)
        if path.is_relative_to(_PACKAGE):
            place = f"{path.relative_to(_PACKAGE).with_suffix('').as_posix()}: {code.co_name}"
        traceback = traceback.tb_next
    return place
