"""Lookups for many log offsets at once: the state of a group there, the expiry rule in force, the owner of a partition.

The rows of a batch are sorted by group, topic and partition. The rows to look in come before the events of their group
or partition, by offset. A lookup is a binary search, so it needs no loop over events.
"""

import numpy as np

from coordinator_replay.columns import Bools, Numbers, packed
from coordinator_replay.pipeline.offsets.intervals import NOWHERE


class Context:
    """The rows in which lookups of log offsets search.

    Args:
        keys: of all rows of a batch: numbers that rise with the group, or the partition, that a row is about.
        offsets: the log offset at which each row takes effect.
        is_context: which rows are context for look-ups; the rows of a key are sorted by offset.
    """

    def __init__(self, keys: Numbers, offsets: Numbers, is_context: Bools) -> None:
        [self.rows] = np.nonzero(is_context)
        self.keys, self.offsets = keys[self.rows], offsets[self.rows]

    def last_at(self, keys: Numbers, offsets: Numbers) -> Numbers:
        """Return the last row of each key at or before an offset; NOWHERE where there is none."""
        count = len(self.rows)
        if not count or not len(keys):
            return np.full(len(keys), NOWHERE, np.int64)
        # Behind the last row all offsets are the same, and small numbers can be packed.
        asked = np.clip(offsets, int(self.offsets.min()) - 1, int(self.offsets.max()))
        order = packed([np.concatenate([self.keys, keys]), np.concatenate([self.offsets, asked])])
        place = np.searchsorted(order[:count], order[count:], side="right") - 1
        is_found = (place >= 0) & (self.keys[place] == keys)
        return np.where(is_found, self.rows[place], NOWHERE)
