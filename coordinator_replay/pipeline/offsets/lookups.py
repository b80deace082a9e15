"""Look-ups for many log offsets at once: the state of a group, the expiry rule in force, or the owner of a partition.

A look-up is a binary search in the rows about states, rules and owners. These rows come before the commits of their
group or partition, in the order of log offsets.
"""

import numpy as np

from coordinator_replay.columns import Bools, Numbers, packed
from coordinator_replay.pipeline.offsets.intervals import NOWHERE


class Context:
    """Look-up of the state of a group, or of the owner of a partition, at a log offset.

    Args:
        keys: for each row of the batch, a number for the group or the partition that the row is about. The numbers
            never fall from one row to the next.
        offsets: the log offset at which each row takes effect.
        is_context: for each row, whether the row has a state or an owner. Such rows of a key are sorted by log offset.
    """

    def __init__(self, keys: Numbers, offsets: Numbers, is_context: Bools) -> None:
        [self.rows] = np.nonzero(is_context)
        self.keys, self.offsets = keys[self.rows], offsets[self.rows]

    def last_at(self, keys: Numbers, offsets: Numbers) -> Numbers:
        """Return, for each key, the last row with a state or an owner at or before a log offset; NOWHERE if none."""
        count = len(self.rows)
        if not count or not len(keys):
            return np.full(len(keys), NOWHERE, np.int64)
        # All offsets after the last row have the same result, so they are lowered: small numbers can be packed.
        asked = np.clip(offsets, int(self.offsets.min()) - 1, int(self.offsets.max()))
        order = packed([np.concatenate([self.keys, keys]), np.concatenate([self.offsets, asked])])
        place = np.searchsorted(order[:count], order[count:], side="right") - 1
        is_found = (place >= 0) & (self.keys[place] == keys)
        return np.where(is_found, self.rows[place], NOWHERE)
