"""Findings that an operator should look at."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from coordinator_replay.analysis.findings.observation import lasting, threshold_shown
from coordinator_replay.analysis.findings.rules import RULES, FindingRule
from coordinator_replay.analysis.findings.thresholds import DEFAULTS, Thresholds
from coordinator_replay.answer_columns import column, parsed_json, select_list
from coordinator_replay.errors import UsageError
from coordinator_replay.query.choices import SEVERITIES
from coordinator_replay.query.groups import check_group
from coordinator_replay.query.similar import did_you_mean
from coordinator_replay.query.tables import Tables
from coordinator_replay.store.versions import has_new_records


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A row of ``findings``.

    The fields that are not described here are columns of this table (see ``schemas/tables/findings.json``).

    Attributes:
        detail: the facts of the finding: the column ``detail``, parsed from JSON.
        is_begin_open: whether the finding may have begun before ``first_seen``, because records are missing.
        is_end_open: whether the finding may have gone on after ``ended_at``, because records are missing.
        is_at_least: whether the finding may have occurred more than ``occurrences`` times, because records are missing.
        is_proven: False if the finding rests on commits that may have been aborted, because the input has no
            transaction markers.
    """

    severity: str = column("SEVERITY", 1)
    rule: str = column("RULE", 3)
    group_id: str | None = column("GROUP", 1, is_id=True)
    topic: str | None = column("TOPIC", 5, is_id=True)
    partition: int | None = column("PARTITION", 5)
    member_id: str | None
    first_seen: datetime | None = column("FIRST-SEEN", 6)
    last_seen: datetime | None = column("LAST-SEEN", 2)
    ended_at: datetime | None = column("ENDED-AT", 4)
    occurrences: int | None = column("TIMES", 6)
    message: str | None = column("MESSAGE", 1, 48, good=80)
    detail: Any = column(read=parsed_json)
    log_partition: int | None
    log_offset: int | None
    finding_id: str
    found_in_run: str | None
    is_begin_open: bool = column(rank=5, bound="MAYBE-EARLIER", sql="coalesce(is_begin_open, false)")
    is_end_open: bool = column(rank=5, bound="MAYBE-LATER", sql="coalesce(is_end_open, false)")
    is_at_least: bool = column(rank=5, bound="AT-LEAST", sql="coalesce(is_at_least, false)")
    is_proven: bool = column(sql="coalesce(is_proven, true)")


FINDING_TOUCHES_RANGE = "coalesce(last_seen >= $start, true) AND coalesce(first_seen < $end, true)"
"""SQL condition on findings that touch a time range."""

_FINDINGS = f"""
    SELECT {select_list(Finding)}
    FROM findings
    WHERE cluster = $cluster AND {FINDING_TOUCHES_RANGE}
    ORDER BY list_position(['error', 'warning', 'info'], severity), last_seen DESC, finding_id
"""  # noqa: S608 - put together from constants


def findings_of(
    warehouse: Tables,
    *,
    severity: str | None = None,
    rules: Sequence[str] = (),
    group: str | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    is_new: bool = False,
    since: datetime | None = None,
) -> list[Finding]:
    """Return findings, the most severe first. Findings of the same severity are sorted by last time seen, latest first.

    Args:
        warehouse: the tables to read.
        severity: only findings that have this severity or a higher one; None for all severities.
        rules: only findings of these rules; empty for all rules.
        group: only findings about this group; None for all findings.
        start: leave out findings that are only about times before this time.
        end: leave out findings that are only about this time and later times.
        is_new: only findings that earlier runs had not found: the last run with new records, or a later run, stored
            them first.
        since: only findings that were first stored by a run that began at this time or later.

    Raises:
        UsageError: there is no such rule or group, or the tables have no record of that time range.
    """
    warehouse.check_range(start, end)
    runs = runs_since(warehouse, is_new=is_new, since=since)
    findings = warehouse.answers(Finding, _FINDINGS, start=start, end=end)
    if group is not None and group not in {finding.group_id for finding in findings}:
        check_group(warehouse, group)
    names = {*RULES, *(finding.rule for finding in findings)}
    rules = [rule.strip().lower().replace("-", "_") for rule in rules]
    for rule in rules:
        if rule not in names:
            hint = did_you_mean(rule, sorted(names), f"there are {', '.join(sorted(names))}")
            raise UsageError(f"there is no rule {rule!r}: {hint}")
    counted = SEVERITIES if severity is None else SEVERITIES[: SEVERITIES.index(severity) + 1]
    return [
        finding
        for finding in findings
        if finding.severity in counted
        and (runs is None or finding.found_in_run in runs)
        and (not rules or finding.rule in rules)
        and (group is None or finding.group_id == group)
    ]


_SETTINGS = """
    SELECT settings FROM audit_runs WHERE cluster = $cluster AND status = 'done' ORDER BY run_id DESC LIMIT 1
"""


def terms_of(warehouse: Tables, rules: Sequence[str]) -> list[str]:
    """Return, for each rule, a sentence that says what the rule looks for, with the thresholds of the last audit.

    Names of rules that do not exist are left out.
    """
    settings = _settings(warehouse)
    limits = DEFAULTS.with_changes(settings.get("thresholds", {}))
    return [f"{name}: {_terms(RULES[name], limits, settings.get('horizon_ms'))}" for name in rules if name in RULES]


def _settings(warehouse: Tables) -> dict[str, Any]:
    """Return the options of the last finished audit; empty if no audit has finished."""
    rows = warehouse.rows(_SETTINGS)
    return json.loads(rows[0][0] or "{}") if rows else {}


def _terms(rule: FindingRule, limits: Thresholds, horizon_ms: int | None) -> str:
    numbers = [" ".join(threshold_shown(name, getattr(limits, name))) for name in rule.thresholds]
    if rule is RULES["offset_expiring"] and horizon_ms is not None:
        numbers.append(f"horizon {lasting(horizon_ms)} (--horizon)")
    parts = [f"thresholds of the last audit: {', '.join(numbers)}"] if numbers else []
    return "; ".join([rule.about.rstrip("."), *parts, *([f"it needs {rule.needs}"] if rule.needs else [])]) + "."


_RUNS = """
    SELECT run_id, started_at, records_decoded, records_quarantined, control_records
    FROM audit_runs WHERE cluster = $cluster AND status = 'done' ORDER BY run_id
"""


def runs_since(warehouse: Tables, *, is_new: bool, since: datetime | None = None) -> set[str] | None:
    """Return the ids of the finished runs that ``is_new`` or ``since`` selects; None if neither is given.

    Args:
        warehouse: the tables to read.
        is_new: only the last run that read new records, and later runs.
        since: only runs that began at this time or later.
    """
    if not is_new and since is None:
        return None
    runs = warehouse.rows(_RUNS)
    first = max(_reading(runs), default="") if is_new else ""
    return {run_id for run_id, started_at, *_ in runs if run_id >= first and (since is None or started_at >= since)}


def _reading(runs: Sequence[tuple[Any, ...]]) -> list[str]:
    """Return the ids of the runs that read new records."""
    return [run_id for run_id, _, *counts in runs if has_new_records(*counts)]


def new_note(warehouse: Tables) -> str | None:
    """Return a note that names the audit since which findings count as new.

    Return None if no finished audit has read a record.
    """
    reading = _reading(warehouse.rows(_RUNS))
    if not reading:
        return None
    if len(reading) == 1:
        return (
            f"Run {reading[0]} is the only audit of cluster {warehouse.cluster} that read records: all its findings "
            "are new."
        )
    return (
        f"New findings are those of run {reading[-1]} and later runs. The last audit before that read records is run "
        f"{reading[-2]}."
    )
