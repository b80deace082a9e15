"""What an operator should look at, the most severe and latest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from coordinator_replay.analysis.findings.rules import RULES
from coordinator_replay.errors import UsageError
from coordinator_replay.query.warehouse import Warehouse, nearest

SEVERITIES = ("error", "warning", "info")
"""From the most to the least severe."""

_FINDINGS = """
    SELECT severity, rule, group_id, topic, partition, member_id, first_seen, last_seen, occurrences, message, detail,
           log_partition, log_offset, finding_id
    FROM findings
    WHERE cluster = $cluster
    ORDER BY list_position(['error', 'warning', 'info'], severity), last_seen DESC, finding_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding: a row of ``findings``."""

    severity: str
    rule: str
    group_id: str | None
    topic: str | None
    partition: int | None
    member_id: str | None
    first_seen: datetime | None
    last_seen: datetime | None
    occurrences: int | None
    message: str | None
    detail: str | None
    log_partition: int | None
    log_offset: int | None
    finding_id: str


def findings_of(
    warehouse: Warehouse, *, severity: str | None = None, rules: Sequence[str] = (), group: str | None = None
) -> list[Finding]:
    """Findings, the most severe and latest first.

    Args:
        warehouse: the tables.
        severity: only this severity and those above it; all if None.
        rules: only of these rules; of all if empty.
        group: only about this group.

    Raises:
        UsageError: there is no such rule.
    """
    found = [Finding(**dict(zip(Finding.__slots__, row, strict=True))) for row in warehouse.rows(_FINDINGS)]
    known = {*RULES, *(finding.rule for finding in found)}
    for rule in rules:
        if rule not in known:
            near = nearest(rule, sorted(known))
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}"
            raise UsageError(f"there is no rule {rule!r}: {hint}")
    counted = SEVERITIES if severity is None else SEVERITIES[: SEVERITIES.index(severity) + 1]
    return [
        finding
        for finding in found
        if finding.severity in counted
        and (not rules or finding.rule in rules)
        and (group is None or finding.group_id == group)
    ]
