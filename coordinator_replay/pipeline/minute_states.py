"""States of groups at the end of each minute, from ``group_evidence``."""

from coordinator_replay.analysis.findings.evidence import KINDS, Evidence
from coordinator_replay.analysis.findings.thresholds import MINUTE_MS
from coordinator_replay.columns import NONE
from coordinator_replay.engine.model import GroupState, GroupType
from coordinator_replay.tables.definition import table

NUMBERED = tuple(KINDS)
"""Types and states. A kind is the number of one of them, from 1 on: sums by numbers are far faster than by texts."""

SIMPLE = NUMBERED.index((GroupType.CLASSIC, GroupState.EMPTY)) + 1
"""The kind of a group that only has offsets."""

STATES = table("group_evidence").arrow_schema(["group_id", "tag", "at", "name", "seq"])
"""What is read of ``group_evidence``."""

_KINDS = ", ".join(f"('{name}', {number})" for number, name in enumerate(KINDS.values(), 1))

_NONE = f"'{NONE}'::BIGINT"

MINUTE_STATES = f"""
SELECT group_id, minute, kind FROM (
    SELECT group_id, coalesce("at" // {MINUTE_MS}, {_NONE}) AS minute,
        arg_max(name, {{'at': coalesce("at", {_NONE}), 'seq': seq}}) AS name
    FROM evidence WHERE tag = {int(Evidence.STATE)} GROUP BY ALL
) AS last_states JOIN (VALUES {_KINDS}) AS kinds (name, kind) USING (name)
"""  # noqa: S608 - our own names and numbers
"""SQL for the kind that each group is from the end of a minute on, of the minutes in which it came into a state.

The table ``evidence`` has STATES among its columns, of other tags, too. The minute is NONE before the group's first
record with a time; before its first state a group is SIMPLE."""
