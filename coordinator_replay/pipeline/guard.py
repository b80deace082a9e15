"""The one place where a step for a single group may fail without ending the run.

A record can be well-formed and still say what no rule, finding or statistic was written for. What follows then for its
group is left out and named: in a finding of its own (``group_not_evaluated``) and in the notes of the ledger. All other
groups are audited as they are, and every run tries the group again from its first record.

Only steps that look at one group are guarded: a fold over its records, a rule over its evidence. Decoding, the order
of the records, reading and writing are not: where these fail, the program or the disk is broken, and not the group.
"""

from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from coordinator_replay.errors import CoordinatorReplayError

_UNGUARDED = (CoordinatorReplayError, OSError, MemoryError)
"""What is raised on purpose, or not by the group."""

_LONGEST = 300
_PACKAGE = Path(__file__).parents[1]


class GroupFailure(NamedTuple):
    """Why a group could not be evaluated: the evidence of ``Evidence.FAILURE``.

    Attributes:
        step: what was done for it.
        error: the exception, shortened.
        where: the place in this package that raised it.
        log_partition: of the record at hand; None where there is none.
        log_offset: of that record.
    """

    step: str
    error: str
    where: str
    log_partition: int | None = None
    log_offset: int | None = None


class GroupGuard:
    """Guards the steps of one group: ``with guard: …`` ends where the step fails, and nothing is raised.

    Attributes:
        failure: what failed first; None as long as nothing has.
    """

    __slots__ = ("failure", "place", "step")

    def __init__(self, step: str) -> None:
        """Begin with a group.

        Args:
            step: what is done for it, as a finding says it.
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
    """Return the innermost place of this package, as module and function."""
    place = ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        path = Path(code.co_filename)
        if path.is_relative_to(_PACKAGE):
            place = f"{path.relative_to(_PACKAGE).with_suffix('').as_posix()}: {code.co_name}"
        traceback = traceback.tb_next
    return place
