"""States of groups at the end of each minute, from ``group_evidence``."""

from coordinator_replay.analysis.findings.evidence import KINDS, Evidence
from coordinator_replay.analysis.findings.thresholds import MINUTE_MS
from coordinator_replay.columns import NONE
from coordinator_replay.engine.model import GroupState, GroupType
from coordinator_replay.tables.definition import table

NUMBERED = tuple(KINDS)
"""Pairs of type and state. The number of a pair, from 1 on, is its kind: sums by number are far faster than by text."""

SIMPLE = NUMBERED.index((GroupType.CLASSIC, GroupState.EMPTY)) + 1
"""The kind of a group that only has offsets."""

STATES = table("group_evidence").arrow_schema(["group_id", "tag", "at", "name", "seq"])
"""Columns of ``group_evidence`` that are read."""

_KINDS = ", ".join(f"('{name}', {number})" for number, name in enumerate(KINDS.values(), 1))

_NONE = f"'{NONE}'::BIGINT"

MINUTE_STATES = f"""
SELECT group_id, minute, kind FROM (
    SELECT group_id, coalesce("at" // {MINUTE_MS}, {_NONE}) AS minute,
        arg_max(name, {{'at': coalesce("at", {_NONE}), 'seq': seq}}) AS name
    FROM evidence WHERE tag = {int(Evidence.STATE)} GROUP BY ALL
) AS last_states JOIN (VALUES {_KINDS}) AS kinds (name, kind) USING (name)
"""  # noqa: S608 - our own names and numbers
"""SQL for the kind of each group at the end of each minute in which it entered a state.

The table ``evidence`` has the columns STATES, and may have rows with other tags. The minute is NONE before the group's
first record with a time. Before its first state, a group is SIMPLE."""
