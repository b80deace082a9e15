"""Answers about findings."""

from collections.abc import Sequence
from datetime import datetime

from coordinator_replay.query.answers.answered import Rows, nothing_note
from coordinator_replay.query.basis import basis_from
from coordinator_replay.query.choices import SEVERITIES, chosen
from coordinator_replay.query.findings import Finding, findings_of, new_note, terms_of
from coordinator_replay.query.tables import Tables
from coordinator_replay.query.who import Who, groups_in_range, unknown_members_in_range_note


def findings(
    warehouse: Tables,
    start: datetime | None,
    end: datetime | None,
    *,
    severity: str | None,
    rules: Sequence[str],
    group: str | None,
    is_new: bool,
    since: datetime | None,
    who: Who,
) -> Rows[Finding]:
    """Return findings, the most severe first. Findings of the same severity are sorted by last time seen, latest first.

    Args:
        warehouse: the tables to read.
        start: leave out findings that are only about times before this time.
        end: leave out findings that are only about this time and later times.
        severity: only findings that have this severity or a higher one.
        rules: only findings of these rules; empty for all rules.
        group: only findings about this group.
        is_new: only findings that earlier audits had not found: the last audit with new records, or a later audit,
            stored them first.
        since: only findings that were first stored by an audit that began at this time or later.
        who: only findings about groups that meet these conditions.
    """
    lowest = None if severity is None else chosen(severity.lower(), SEVERITIES, "severity")
    found = findings_of(
        warehouse, severity=lowest, rules=rules, group=group, start=start, end=end, is_new=is_new, since=since
    )
    names = groups_in_range(warehouse, who, start, end)
    is_about_all = not (who.hosts or who.clients or who.topics or who.names)
    shown = [
        finding
        for finding in found
        if names is None or finding.group_id in names or (finding.group_id is None and is_about_all)
    ]
    unproven = sum(not finding.is_proven for finding in shown)
    note = (
        f"{unproven} of these rest on commits that may belong to aborted transactions: "
        "the input has no transaction markers."
    )
    absent = [rule for rule in rules if all(finding.rule != rule for finding in shown)]
    notes = [
        new_note(warehouse) if is_new else None,
        nothing_note(warehouse, "finding", shown, group),
        unknown_members_in_range_note(warehouse, who, names, start, end) if group is None else None,
        *terms_of(warehouse, absent),
        note if unproven else None,
    ]
    return Rows(content=shown, row_type=Finding, notes=notes, basis=basis_from(warehouse, start, group=group))
