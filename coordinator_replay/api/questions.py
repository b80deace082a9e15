"""Functions and classes that the Python API uses to answer questions.

Each is imported at its first use, because importing all of them takes as long as some answers.
"""

from typing import TYPE_CHECKING

from coordinator_replay.lazy import loaded_when_asked

if TYPE_CHECKING:
    from coordinator_replay.query.answers.consumers import consumers
    from coordinator_replay.query.answers.describe import describe
    from coordinator_replay.query.answers.diff import diff, diff_with
    from coordinator_replay.query.answers.expired import expired
    from coordinator_replay.query.answers.findings import findings
    from coordinator_replay.query.answers.groups import chosen_groups, deleted_groups, groups
    from coordinator_replay.query.answers.impact import impact
    from coordinator_replay.query.answers.offsets import offset_history, offsets, offsets_of_groups
    from coordinator_replay.query.answers.owners import owned_partitions, owner, owners_in_range
    from coordinator_replay.query.answers.rebalances import rebalances, why, why_at
    from coordinator_replay.query.answers.rollouts import rollouts
    from coordinator_replay.query.answers.statements import saved, sql
    from coordinator_replay.query.answers.timeline import members, timeline
    from coordinator_replay.query.describe import DescribedMember
    from coordinator_replay.query.diff import Change, ChangeCount, Side, counted_changes, side_of_run
    from coordinator_replay.query.expired import ExpiredOffset
    from coordinator_replay.query.groups import lively_groups
    from coordinator_replay.query.impact import CommonTrait, GroupImpact
    from coordinator_replay.query.owner import Ownership
    from coordinator_replay.query.rebalances import Rebalance
    from coordinator_replay.query.saved import SavedQuery, saved_queries
    from coordinator_replay.report.drawing import Mark
    from coordinator_replay.report.fleet_page import fleet_page
    from coordinator_replay.report.group_page import group_page, life_drawing
    from coordinator_replay.report.metrics import metrics_of
    from coordinator_replay.report.page import plain_page, write_page
    from coordinator_replay.report.picture import svg_of
    from coordinator_replay.report.png import write_png
    from coordinator_replay.report.site import INDEX, pages_beside, write_site
    from coordinator_replay.report.trace import traces_of, write_trace
else:
    __getattr__ = loaded_when_asked(
        __name__,
        {
            "coordinator_replay.query.answers.consumers": ["consumers"],
            "coordinator_replay.query.answers.diff": ["diff", "diff_with"],
            "coordinator_replay.query.answers.findings": ["findings"],
            "coordinator_replay.query.answers.impact": ["impact"],
            "coordinator_replay.query.answers.describe": ["describe"],
            "coordinator_replay.query.answers.groups": ["chosen_groups", "deleted_groups", "groups"],
            "coordinator_replay.query.answers.expired": ["expired"],
            "coordinator_replay.query.answers.offsets": ["offset_history", "offsets", "offsets_of_groups"],
            "coordinator_replay.query.answers.owners": ["owned_partitions", "owner", "owners_in_range"],
            "coordinator_replay.query.answers.rebalances": ["rebalances", "why", "why_at"],
            "coordinator_replay.query.answers.rollouts": ["rollouts"],
            "coordinator_replay.query.answers.statements": ["saved", "sql"],
            "coordinator_replay.query.answers.timeline": ["members", "timeline"],
            "coordinator_replay.query.describe": ["DescribedMember"],
            "coordinator_replay.query.diff": ["Change", "ChangeCount", "Side", "counted_changes", "side_of_run"],
            "coordinator_replay.query.expired": ["ExpiredOffset"],
            "coordinator_replay.query.groups": ["lively_groups"],
            "coordinator_replay.query.impact": ["CommonTrait", "GroupImpact"],
            "coordinator_replay.query.owner": ["Ownership"],
            "coordinator_replay.query.rebalances": ["Rebalance"],
            "coordinator_replay.query.saved": ["SavedQuery", "saved_queries"],
            "coordinator_replay.report.fleet_page": ["fleet_page"],
            "coordinator_replay.report.drawing": ["Mark"],
            "coordinator_replay.report.group_page": ["group_page", "life_drawing"],
            "coordinator_replay.report.metrics": ["metrics_of"],
            "coordinator_replay.report.page": ["plain_page", "write_page"],
            "coordinator_replay.report.picture": ["svg_of"],
            "coordinator_replay.report.png": ["write_png"],
            "coordinator_replay.report.site": ["INDEX", "pages_beside", "write_site"],
            "coordinator_replay.report.trace": ["traces_of", "write_trace"],
        },
    )

__all__ = [
    "INDEX",
    "Change",
    "ChangeCount",
    "CommonTrait",
    "DescribedMember",
    "ExpiredOffset",
    "GroupImpact",
    "Mark",
    "Ownership",
    "Rebalance",
    "SavedQuery",
    "Side",
    "chosen_groups",
    "consumers",
    "counted_changes",
    "deleted_groups",
    "describe",
    "diff",
    "diff_with",
    "expired",
    "findings",
    "fleet_page",
    "group_page",
    "groups",
    "impact",
    "life_drawing",
    "lively_groups",
    "members",
    "metrics_of",
    "offset_history",
    "offsets",
    "offsets_of_groups",
    "owned_partitions",
    "owner",
    "owners_in_range",
    "pages_beside",
    "plain_page",
    "rebalances",
    "rollouts",
    "saved",
    "saved_queries",
    "side_of_run",
    "sql",
    "svg_of",
    "timeline",
    "traces_of",
    "why",
    "why_at",
    "write_page",
    "write_png",
    "write_site",
    "write_trace",
]
