"""Rows for items that overlap in time: each item goes into the first free row."""

from dataclasses import dataclass, field
from heapq import heappop, heappush


@dataclass(slots=True)
class Lanes:
    """Rows of a figure, filled one item at a time: items that overlap in time go into different rows.

    Call ``place`` for each item, in the order of the items' start times.

    Attributes:
        count: number of rows that have an item.
    """

    count: int = 0
    _busy: list[tuple[int, int]] = field(default_factory=list)
    _free: list[int] = field(default_factory=list)

    def place(self, since: int, until: int) -> int:
        """Put the next item into the first free row, and return the number of this row.

        The item begins at ``since`` and ends before ``until``. A row is free if its last item has ended by ``since``.

        >>> lanes = Lanes()
        >>> [lanes.place(*span) for span in ((0, 4), (1, 2), (2, 9), (3, 5), (4, 6), (9, 9))]
        [0, 1, 1, 2, 0, 0]
        """
        while self._busy and self._busy[0][0] <= since:
            heappush(self._free, heappop(self._busy)[1])
        if self._free:
            lane = heappop(self._free)
        else:
            lane, self.count = self.count, self.count + 1
        heappush(self._busy, (until, lane))
        return lane
