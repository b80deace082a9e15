"""Who of a topic's subscribers carries least and who most, while partitions move between them.

Subscribers are sorted by load once. The lightest form a range at the left that is walked through again and again and
widens as its level rises; the heaviest one at the right, walked leftwards, that widens as its level falls.
"""


class Loads:
    """The two ranges of one topic's subscribers.

    Attributes:
        spread: difference between the heaviest and the lightest at the beginning.
    """

    __slots__ = (
        "_heavy_end",
        "_heavy_level",
        "_heavy_start",
        "_light_end",
        "_light_level",
        "_members",
        "_next_heavy",
        "_next_light",
        "_sizes",
        "spread",
    )

    def __init__(self, sizes: list[int], members: list[int]) -> None:
        """Sort the members.

        Args:
            sizes: how many partitions each member has; the caller changes it as partitions move.
            members: the topic's subscribers, at least one.
        """
        self._sizes = sizes
        self._members = sorted(members, key=lambda member: (sizes[member], member))
        count = len(self._members)
        lightest, heaviest = sizes[self._members[0]], sizes[self._members[-1]]
        self.spread = heaviest - lightest
        self._light_end = 0
        self._light_level = lightest - 1
        self._next_light = 0
        self._heavy_start = count
        self._heavy_end = count
        self._heavy_level = heaviest + 1
        self._next_heavy = count - 1

    @property
    def is_balanced(self) -> bool:
        """The levels of both ranges differ by one at most."""
        return self._heavy_level - self._light_level <= 1

    def next_lightest(self) -> int:
        """The next member to take a partition."""
        members, sizes = self._members, self._sizes
        if self._next_light >= self._light_end:
            self._light_level += 1
            while self._light_end < len(members) and sizes[members[self._light_end]] == self._light_level:
                self._light_end += 1
            self._next_light = 0
        member = members[self._next_light]
        self._next_light += 1
        return member

    def next_heaviest(self) -> int | None:
        """The next member to give a partition, None where nobody is left."""
        members, sizes = self._members, self._sizes
        if self._next_heavy < self._heavy_start:
            if self._heavy_end <= self._heavy_start and self._heavy_start > 0:
                self._heavy_level = sizes[members[self._heavy_start - 1]]
            else:
                self._heavy_level -= 1
            while self._heavy_start > 0 and sizes[members[self._heavy_start - 1]] == self._heavy_level:
                self._heavy_start -= 1
            self._next_heavy = self._heavy_end - 1
        if self._next_heavy < 0:
            return None
        member = members[self._next_heavy]
        self._next_heavy -= 1
        return member

    def exclude_heaviest(self) -> None:
        """Take the member that was just named out of the heavy range: it has nothing to give."""
        members, at = self._members, self._next_heavy + 1
        members[at], members[self._heavy_end - 1] = members[self._heavy_end - 1], members[at]
        self._heavy_end -= 1
