"""The questions. Each is loaded when it is asked, because loading all of them takes as long as some answers."""

from typing import TYPE_CHECKING

from coordinator_replay.lazy import loaded_when_asked

if TYPE_CHECKING:
    from coordinator_replay.query.broker_log_events import last_departures_note
    from coordinator_replay.query.consumers import NOT_IN_THE_LOG, TopicConsumer, consumers_of
    from coordinator_replay.query.coordinators import nearby_note
    from coordinator_replay.query.describe import DescribedMember, describe_at, inherited_note, missing_records_note
    from coordinator_replay.query.diff import Change, ChangeCount, Side, changes_between, counted_changes, side_of_run
    from coordinator_replay.query.end_offsets import read_end_offsets
    from coordinator_replay.query.expired import ExpiredOffset, expired_offsets, looked_note, looked_until
    from coordinator_replay.query.findings import Finding, findings_of, terms_of
    from coordinator_replay.query.hold_ups import hold_ups
    from coordinator_replay.query.impact import CommonTrait, GroupImpact, impact_of
    from coordinator_replay.query.offset_changes import OffsetChange, offset_changes
    from coordinator_replay.query.offsets import (
        CommittedOffset,
        committed_topics,
        negative_offsets_note,
        offsets_at,
        open_offsets_note,
        partitions_asked,
        pending_commits,
        pending_notes,
        with_lag,
    )
    from coordinator_replay.query.owner import Owners, Ownership, owned_topics, owners_at, owners_between
    from coordinator_replay.query.rebalance_summary import summary_between
    from coordinator_replay.query.rebalances import Rebalance, cause_name, rebalances_at, rebalances_of
    from coordinator_replay.query.resubscriptions import resubscription_note
    from coordinator_replay.query.rollouts import Rollout, rollouts_of
    from coordinator_replay.query.saved import SavedQuery, run_saved_query, saved_queries, saved_query, saved_terms
    from coordinator_replay.query.sql import run_sql
    from coordinator_replay.query.timeline import MemberInterval, TimelineEvent, member_intervals_of, timeline_of
    from coordinator_replay.query.unread_subscriptions import (
        unexpiring_note,
        unnamed_topics_note,
        unread_at_end,
        unread_between,
        unread_in,
    )
    from coordinator_replay.query.who import is_pattern, named_groups
    from coordinator_replay.report.drawing import Mark
    from coordinator_replay.report.fleet_page import fleet_page
    from coordinator_replay.report.group_page import group_page, life_drawing
    from coordinator_replay.report.metrics import metrics_of
    from coordinator_replay.report.page import plain_page, write_page
    from coordinator_replay.report.picture import svg_of
    from coordinator_replay.report.png import write_png
    from coordinator_replay.report.site import INDEX, write_site
    from coordinator_replay.report.trace import traces_of, write_trace
else:
    __getattr__ = loaded_when_asked(
        __name__,
        {
            "coordinator_replay.query.broker_log_events": ["last_departures_note"],
            "coordinator_replay.query.consumers": ["NOT_IN_THE_LOG", "TopicConsumer", "consumers_of"],
            "coordinator_replay.query.coordinators": ["nearby_note"],
            "coordinator_replay.query.describe": [
                "DescribedMember",
                "describe_at",
                "inherited_note",
                "missing_records_note",
            ],
            "coordinator_replay.query.diff": [
                "Change",
                "ChangeCount",
                "Side",
                "changes_between",
                "counted_changes",
                "side_of_run",
            ],
            "coordinator_replay.query.end_offsets": ["read_end_offsets"],
            "coordinator_replay.query.expired": ["ExpiredOffset", "expired_offsets", "looked_note", "looked_until"],
            "coordinator_replay.query.findings": ["Finding", "findings_of", "terms_of"],
            "coordinator_replay.query.hold_ups": ["hold_ups"],
            "coordinator_replay.query.impact": ["CommonTrait", "GroupImpact", "impact_of"],
            "coordinator_replay.query.offset_changes": ["OffsetChange", "offset_changes"],
            "coordinator_replay.query.offsets": [
                "CommittedOffset",
                "committed_topics",
                "negative_offsets_note",
                "offsets_at",
                "open_offsets_note",
                "partitions_asked",
                "pending_commits",
                "pending_notes",
                "with_lag",
            ],
            "coordinator_replay.query.owner": ["Owners", "Ownership", "owned_topics", "owners_at", "owners_between"],
            "coordinator_replay.query.rebalance_summary": ["summary_between"],
            "coordinator_replay.query.rebalances": ["Rebalance", "cause_name", "rebalances_at", "rebalances_of"],
            "coordinator_replay.query.resubscriptions": ["resubscription_note"],
            "coordinator_replay.query.rollouts": ["Rollout", "rollouts_of"],
            "coordinator_replay.query.saved": [
                "SavedQuery",
                "run_saved_query",
                "saved_queries",
                "saved_query",
                "saved_terms",
            ],
            "coordinator_replay.query.sql": ["run_sql"],
            "coordinator_replay.query.timeline": [
                "MemberInterval",
                "TimelineEvent",
                "member_intervals_of",
                "timeline_of",
            ],
            "coordinator_replay.query.unread_subscriptions": [
                "unexpiring_note",
                "unnamed_topics_note",
                "unread_at_end",
                "unread_between",
                "unread_in",
            ],
            "coordinator_replay.query.who": ["is_pattern", "named_groups"],
            "coordinator_replay.report.fleet_page": ["fleet_page"],
            "coordinator_replay.report.drawing": ["Mark"],
            "coordinator_replay.report.group_page": ["group_page", "life_drawing"],
            "coordinator_replay.report.metrics": ["metrics_of"],
            "coordinator_replay.report.page": ["plain_page", "write_page"],
            "coordinator_replay.report.picture": ["svg_of"],
            "coordinator_replay.report.png": ["write_png"],
            "coordinator_replay.report.site": ["INDEX", "write_site"],
            "coordinator_replay.report.trace": ["traces_of", "write_trace"],
        },
    )

__all__ = [
    "INDEX",
    "NOT_IN_THE_LOG",
    "Change",
    "ChangeCount",
    "CommittedOffset",
    "CommonTrait",
    "DescribedMember",
    "ExpiredOffset",
    "Finding",
    "GroupImpact",
    "Mark",
    "MemberInterval",
    "OffsetChange",
    "Owners",
    "Ownership",
    "Rebalance",
    "Rollout",
    "SavedQuery",
    "Side",
    "TimelineEvent",
    "TopicConsumer",
    "cause_name",
    "changes_between",
    "committed_topics",
    "consumers_of",
    "counted_changes",
    "describe_at",
    "expired_offsets",
    "findings_of",
    "fleet_page",
    "group_page",
    "hold_ups",
    "impact_of",
    "inherited_note",
    "is_pattern",
    "last_departures_note",
    "life_drawing",
    "looked_note",
    "looked_until",
    "member_intervals_of",
    "metrics_of",
    "missing_records_note",
    "named_groups",
    "nearby_note",
    "negative_offsets_note",
    "offset_changes",
    "offsets_at",
    "open_offsets_note",
    "owned_topics",
    "owners_at",
    "owners_between",
    "partitions_asked",
    "pending_commits",
    "pending_notes",
    "plain_page",
    "read_end_offsets",
    "rebalances_at",
    "rebalances_of",
    "resubscription_note",
    "rollouts_of",
    "run_saved_query",
    "run_sql",
    "saved_queries",
    "saved_query",
    "saved_terms",
    "side_of_run",
    "summary_between",
    "svg_of",
    "terms_of",
    "timeline_of",
    "traces_of",
    "unexpiring_note",
    "unnamed_topics_note",
    "unread_at_end",
    "unread_between",
    "unread_in",
    "with_lag",
    "write_page",
    "write_png",
    "write_site",
    "write_trace",
]
