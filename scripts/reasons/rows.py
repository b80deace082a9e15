"""Draws the decision table of ``docs/reasons-table.md`` from the rules themselves."""

from coordinator_replay.analysis.reasons import TABLE, Cause
from coordinator_replay.analysis.reasons.rule import EVERY_TYPE
from coordinator_replay.analysis.reasons.vocabulary import JOIN_REASONS, MEANING, JoinReason
from coordinator_replay.engine.model import GroupType
from scripts.reasons.judge import REPOSITORY

TABLE_DOCUMENT = REPOSITORY / "docs" / "reasons-table.md"


def _types(types: frozenset[GroupType]) -> str:
    return "all" if types == EVERY_TYPE else ", ".join(one for one in GroupType if one in types)


def draw() -> str:
    """The whole document."""
    lines = [
        "# Decision table",
        "",
        "Drawn by `scripts/judge-reasons` from the rules in `coordinator_replay/analysis/reasons/`; a test checks",
        "that both agree. The first row whose footprint is found names the cause. How to read it:",
        "[reasons](reasons.md).",
        "",
        "| rank | cause | groups | footprint | confidence | look-alikes |",
        "|---|---|---|---|---|---|",
    ]
    for rule in TABLE:
        cells = (rule.rank, rule.cause, _types(rule.types), rule.footprint, rule.confidence, rule.look_alikes)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "## Causes", "", "| cause | meaning | join_reason |", "|---|---|---|"]
    for cause in Cause:
        reason = "that of the step before" if cause is Cause.COOPERATIVE_FOLLOW_UP else None
        lines.append(f"| {cause} | {MEANING[cause]} | {reason or JOIN_REASONS.get(cause, JoinReason.UNKNOWN)} |")
    return "\n".join([*lines, ""])
