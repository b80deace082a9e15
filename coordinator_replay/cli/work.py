"""Functions of other packages that commands call. Each is loaded at its first use, and ``--help`` loads none."""

from typing import TYPE_CHECKING

from coordinator_replay.lazy import loaded_when_asked

if TYPE_CHECKING:
    from coordinator_replay.analysis.findings import thresholds
    from coordinator_replay.api import Warehouse
    from coordinator_replay.api.page import check_page_name
    from coordinator_replay.export import follow
    from coordinator_replay.export.audit_follow import AuditFollower, audited_batches
    from coordinator_replay.export.folders import ExportedDump
    from coordinator_replay.export.topic import ExportOptions, run_export
    from coordinator_replay.log.dump import find_dump
    from coordinator_replay.pipeline.audit import ExpiryOptions, Options, plan_audit, run_audit
    from coordinator_replay.pipeline.broker_logs.read import find_logs
    from coordinator_replay.pipeline.host.failure import failing_in_a_sentence
    from coordinator_replay.pipeline.host.session import open_session
    from coordinator_replay.pipeline.host.spark_versions import running_tasks
    from coordinator_replay.pipeline.ledger import finished_runs
    from coordinator_replay.pipeline.lines import decode_lines, read_without_spark
    from coordinator_replay.pipeline.stage import SparkStages
    from coordinator_replay.query.consumers import topic_names
    from coordinator_replay.query.findings import findings_of
    from coordinator_replay.query.groups import group_names
    from coordinator_replay.query.offsets import committed_topics, write_reset_file
    from coordinator_replay.query.owner import handovers_note, owned_topics
    from coordinator_replay.query.rebalances import SHORT_WAIT_MS, recorded_causes
    from coordinator_replay.query.saved import saved_queries, saved_query
    from coordinator_replay.query.tables import DEFAULT_CLUSTER, Tables
    from coordinator_replay.query.who import Who
    from coordinator_replay.spark.catalog import Database
    from coordinator_replay.store.layout import LEDGER
    from coordinator_replay.store.lock import one_at_a_time
    from coordinator_replay.store.maintain import Upkeep, check_upkeep, run_maintain
    from coordinator_replay.store.warehouse import Store
else:
    __getattr__ = loaded_when_asked(
        __name__,
        {
            "coordinator_replay.analysis.findings.thresholds": [],
            "coordinator_replay.api": ["Warehouse"],
            "coordinator_replay.api.page": ["check_page_name"],
            "coordinator_replay.export.audit_follow": ["AuditFollower", "audited_batches"],
            "coordinator_replay.export.folders": ["ExportedDump"],
            "coordinator_replay.export.follow": [],
            "coordinator_replay.export.topic": ["ExportOptions", "run_export"],
            "coordinator_replay.log.dump": ["find_dump"],
            "coordinator_replay.pipeline.audit": ["ExpiryOptions", "Options", "plan_audit", "run_audit"],
            "coordinator_replay.pipeline.broker_logs.read": ["find_logs"],
            "coordinator_replay.pipeline.host.failure": ["failing_in_a_sentence"],
            "coordinator_replay.pipeline.host.session": ["open_session"],
            "coordinator_replay.pipeline.host.spark_versions": ["running_tasks"],
            "coordinator_replay.pipeline.ledger": ["finished_runs"],
            "coordinator_replay.pipeline.lines": ["decode_lines", "read_without_spark"],
            "coordinator_replay.pipeline.stage": ["SparkStages"],
            "coordinator_replay.query.consumers": ["topic_names"],
            "coordinator_replay.query.findings": ["findings_of"],
            "coordinator_replay.query.groups": ["group_names"],
            "coordinator_replay.query.offsets": ["committed_topics", "write_reset_file"],
            "coordinator_replay.query.owner": ["handovers_note", "owned_topics"],
            "coordinator_replay.query.rebalances": ["SHORT_WAIT_MS", "recorded_causes"],
            "coordinator_replay.query.saved": ["saved_queries", "saved_query"],
            "coordinator_replay.query.tables": ["DEFAULT_CLUSTER", "Tables"],
            "coordinator_replay.query.who": ["Who"],
            "coordinator_replay.spark.catalog": ["Database"],
            "coordinator_replay.store.layout": ["LEDGER"],
            "coordinator_replay.store.lock": ["one_at_a_time"],
            "coordinator_replay.store.maintain": ["Upkeep", "check_upkeep", "run_maintain"],
            "coordinator_replay.store.warehouse": ["Store"],
        },
    )

__all__ = [
    "DEFAULT_CLUSTER",
    "LEDGER",
    "SHORT_WAIT_MS",
    "AuditFollower",
    "Database",
    "ExpiryOptions",
    "ExportOptions",
    "ExportedDump",
    "Options",
    "SparkStages",
    "Store",
    "Tables",
    "Upkeep",
    "Warehouse",
    "Who",
    "audited_batches",
    "check_page_name",
    "check_upkeep",
    "committed_topics",
    "decode_lines",
    "failing_in_a_sentence",
    "find_dump",
    "find_logs",
    "findings_of",
    "finished_runs",
    "follow",
    "group_names",
    "handovers_note",
    "one_at_a_time",
    "open_session",
    "owned_topics",
    "plan_audit",
    "read_without_spark",
    "recorded_causes",
    "run_audit",
    "run_export",
    "run_maintain",
    "running_tasks",
    "saved_queries",
    "saved_query",
    "thresholds",
    "topic_names",
    "write_reset_file",
]
