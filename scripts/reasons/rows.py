"""Draws the decision table of ``docs/reasons-table.md`` from the rules themselves."""

import re

from coordinator_replay.analysis.reasons.facts import FactKind
from coordinator_replay.analysis.reasons.rule import EVERY_TYPE, ReasonRule
from coordinator_replay.analysis.reasons.sentences import FORMS
from coordinator_replay.analysis.reasons.table import TABLE
from coordinator_replay.analysis.reasons.vocabulary import JOIN_REASONS, MEANING, Cause, JoinReason
from coordinator_replay.engine.model import GroupType
from scripts.reasons.judge import REPOSITORY

TABLE_DOCUMENT = REPOSITORY / "docs" / "reasons-table.md"
PARTS = ("Footprint", "Confidence", "Look-alikes")
"""Parts of a rule's docstring, in the order of the page's columns."""

FACTS_HEAD = """## Facts

What the sentences of `evidence` state, as `facts` of `rebalances` has it: the kinds, and their words. `who` is
`members`, `others` has its own column. `at` is the record at `log_offset`, `since` the one at `since_offset`, `ago` is
`elapsed_ms`, `limit` is `limit_ms`. `timeouts` are `session_timeout_ms` and `rebalance_timeout_ms`, as far as they
count and are on record. `names` are topics, or partitions by topic, `moment` is `at_ms`, and all other words in braces
are `count`, `old` or `new`. UNDECIDED is in no row: `alternatives` say it.

| kind | words |
|---|---|""".splitlines()


def _types(types: frozenset[GroupType]) -> str:
    return "all" if types == EVERY_TYPE else ", ".join(one for one in GroupType if one in types)


def _part(rule: ReasonRule, what: str) -> str:
    """Return the text of a part in a rule's docstring; ``none`` if the docstring lacks the part."""
    text = " ".join((rule.find.__doc__ or "").split())
    found = re.search(rf"{what}: (.*?)\.(?: (?:{'|'.join(PARTS)}): |$)", text)
    return "none" if found is None else found[1]


def draw() -> str:
    """Return the whole document."""
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
    for rank, rule in enumerate(TABLE, start=1):
        cells = (rank, rule.cause, _types(rule.types), *(_part(rule, name) for name in PARTS))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "## Causes", "", "| cause | meaning | join_reason |", "|---|---|---|"]
    for cause in Cause:
        reason = "the reason of the step before" if cause is Cause.COOPERATIVE_FOLLOW_UP else None
        lines.append(f"| {cause} | {MEANING[cause]} | {reason or JOIN_REASONS.get(cause, JoinReason.UNKNOWN)} |")
    lines += ["", *FACTS_HEAD, *(f"| {kind} | `{FORMS[kind].strip(',;:. ')}` |" for kind in FactKind)]
    return "\n".join([*lines, ""])
