"""The end of the log, as the rules of findings see it."""


class LogEnd:
    """The end of the log, for the rules of findings. It also tells when the findings may change.

    The findings of a group without new records can change for one reason only: the log ends later. So the rules ask
    this object about the end of the log. For each answer, this object computes how late the log must end to change the
    answer. It keeps the earliest of these times.

    Attributes:
        changes_at_ms: if the log ends at this time or later, the findings may be different. None if no later end of the
            log changes the findings.
    """

    __slots__ = ("_ms", "changes_at_ms")

    def __init__(self, ms: int) -> None:
        """Store the end of the log.

        Args:
            ms: time at which the log ends, in milliseconds.
        """
        self._ms = ms
        self.changes_at_ms: int | None = None

    @property
    def ms(self) -> int:
        """Return the time at which the log ends.

        Also set ``changes_at_ms`` to the next millisecond.

        >>> end = LogEnd(100)
        >>> end.ms, end.changes_at_ms
        (100, 101)
        """
        self._note(self._ms + 1)
        return self._ms

    def has_reached(self, at_ms: int) -> bool:
        """Return whether the log ends at a time or after it.

        If the log ends before this time, set ``changes_at_ms`` to this time, or keep an earlier time in it.

        >>> end = LogEnd(100)
        >>> end.has_reached(100), end.changes_at_ms, end.has_reached(150), end.changes_at_ms
        (True, None, False, 150)
        """
        if self._ms >= at_ms:
            return True
        self._note(at_ms)
        return False

    def has_lasted(self, needed_ms: int, first_ms: int | None) -> bool:
        """Return whether an open observation has lasted for at least ``needed_ms`` at the end of the log.

        If no record shows its start, return True only if ``needed_ms`` is 0.

        >>> end = LogEnd(15)
        >>> end.has_lasted(5, 10), end.has_lasted(5, None), end.has_lasted(0, None)
        (True, False, True)
        """
        return needed_ms <= 0 if first_ms is None else self.has_reached(first_ms + needed_ms)

    def ended_ms(self, last_ms: int | None, goes_on_ms: int | None) -> int | None:
        """Return when an observation ended.

        An observation holds for ``goes_on_ms`` after ``last_ms``, or for ever if ``goes_on_ms`` is None. Return None if
        the observation still holds at the end of the log, or if ``last_ms`` is None.

        >>> [LogEnd(end).ended_ms(10, goes_on_ms) for end, goes_on_ms in ((10, 0), (14, 5), (16, 5), (16, None))]
        [10, None, 10, None]
        """
        if last_ms is None or goes_on_ms is None:
            return None
        return last_ms if not goes_on_ms or self.has_reached(last_ms + goes_on_ms + 1) else None

    def _note(self, at_ms: int) -> None:
        if self.changes_at_ms is None or at_ms < self.changes_at_ms:
            self.changes_at_ms = at_ms
