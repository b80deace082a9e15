"""The rules over the life of one group, in the order in which they see each operation."""

from coordinator_replay.analysis.findings.progress import (
    invariant_broken,
    rebalance_storm,
    static_member_flapping,
    stuck_group,
    unrevoked_partitions,
)
from coordinator_replay.analysis.findings.shape import (
    group_near_member_limit,
    mixed_protocols,
    partition_unowned,
    unbalanced_assignment,
)
from coordinator_replay.analysis.findings.steps import GroupRule

GROUP_RULES: tuple[GroupRule, ...] = (
    invariant_broken,
    stuck_group,
    unrevoked_partitions,
    rebalance_storm,
    static_member_flapping,
    partition_unowned,
    unbalanced_assignment,
    mixed_protocols,
    group_near_member_limit,
)
"""A function's name is its rule's name in ``RULES``."""
