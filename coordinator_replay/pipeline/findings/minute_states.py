"""What groups were at the end of each minute, from the states in ``group_evidence``."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.analysis.findings.evidence import KINDS, Evidence
from coordinator_replay.analysis.findings.thresholds import MINUTE_MS
from coordinator_replay.engine.model import GroupState, GroupType
from coordinator_replay.pipeline.columns import NONE, Numbers, distinct, numbers_of

NUMBERED = tuple(KINDS)
"""Types and states. A kind is the number of one of them, from 1 on: sums by numbers are far faster than by texts."""

SIMPLE = NUMBERED.index((GroupType.CLASSIC, GroupState.EMPTY)) + 1
"""The kind of a group that only has offsets."""

STATES = pa.schema(
    [
        ("group_id", pa.string()),
        ("tag", pa.int32()),
        ("at", pa.int64()),
        ("name", pa.string()),
        ("seq", pa.int64()),
    ]
)
"""What is read of ``group_evidence``."""

_NAMES = pa.array(KINDS.values(), pa.string())


def _column(rows: pa.Table, name: str) -> Numbers:
    return numbers_of(rows.column(name).combine_chunks())


class MinuteStates:
    """States of some groups, the last one of each minute in which they came into one.

    Attributes:
        groups: which group it is, as the place of its id.
        minutes: when, in minutes since 1970; NONE before the group's first record with a time.
        kinds: what the group was from the end of that minute on. All are sorted by group and minute.
    """

    def __init__(self, group_ids: pa.Array, evidence: pa.Table) -> None:
        """Select them.

        Args:
            group_ids: of the groups.
            evidence: rows of ``group_evidence``, STATES among its columns; of other groups and tags too.
        """
        states = evidence.filter(pc.equal(evidence.column("tag"), int(Evidence.STATE)))
        group = pc.index_in(states.column("group_id"), group_ids)
        rows = states.append_column("group", group).filter(pc.is_valid(group))
        groups, at = _column(rows, "group"), numbers_of(rows.column("at").combine_chunks(), NONE)
        minutes = np.where(at == NONE, NONE, np.floor_divide(at, MINUTE_MS))
        kinds = numbers_of(pc.index_in(rows.column("name"), _NAMES).combine_chunks(), -1) + 1
        order = np.lexsort([_column(rows, "seq"), at, groups])
        is_last = np.ones(len(order), np.bool_)
        is_last[:-1] = np.diff(groups[order]).astype(np.bool_) | np.diff(minutes[order]).astype(np.bool_)
        last = order[is_last & (kinds[order] > 0)]
        self.groups, self.minutes, self.kinds = groups[last], minutes[last], kinds[last]

    def kinds_at(self, groups: Numbers, minutes: Numbers) -> Numbers:
        """What groups were at the end of minutes; SIMPLE before their first state."""
        if not len(self.groups):
            return np.full(len(groups), SIMPLE, np.int64)
        # A minute's number among all of them, so that a group and a minute are one number.
        every = distinct(np.concatenate([self.minutes, minutes]))
        places = self.groups * len(every) + np.searchsorted(every, self.minutes)
        wanted = groups * len(every) + np.searchsorted(every, minutes)
        at = np.searchsorted(places, wanted, side="right") - 1
        has_state = (at >= 0) & (self.groups[at] == groups)
        kinds: Numbers = np.where(has_state, self.kinds[at], SIMPLE)
        return kinds

    def before(self) -> Numbers:
        """What each group was before each of its states; NONE before the first."""
        kinds = np.full(len(self.kinds), NONE, np.int64)
        is_same_group: npt.NDArray[np.bool_] = self.groups[1:] == self.groups[:-1]
        kinds[1:] = np.where(is_same_group, self.kinds[:-1], NONE)
        return kinds
