"""Draws the decision table of ``docs/reasons-table.md`` from the rules themselves."""

import re

from coordinator_replay.analysis.reasons.facts import FactKind
from coordinator_replay.analysis.reasons.rule import EVERY_TYPE, ReasonRule
from coordinator_replay.analysis.reasons.sentences import FORMS
from coordinator_replay.analysis.reasons.table import TABLE
from coordinator_replay.analysis.reasons.vocabulary import JOIN_REASONS, MEANING, Cause, JoinReason
from coordinator_replay.analysis.removal_facts import FORMS as REMOVAL_FORMS
from coordinator_replay.analysis.removal_facts import RemovalFact
from coordinator_replay.engine.model import GroupType
from scripts.reasons.judge import REPOSITORY

TABLE_DOCUMENT = REPOSITORY / "docs" / "reasons-table.md"
PARTS = ("Footprint", "Confidence", "Look-alikes")
"""Parts of a rule's docstring, in the order of the page's columns."""

FACTS_HEAD = """## Facts

Each sentence of the evidence states one or more facts. The column `facts` of `rebalances` has them in a form that
programs can read. The table below has each kind of fact and its words in a sentence. A word in braces is replaced by
the value of a field:

| in braces | field of the fact |
|---|---|
| `who`, `others` | `members`, `others` |
| `at`, `since` | the record at `log_offset`, the record at `since_offset` |
| `ago`, `limit`, `moment` | `elapsed_ms`, `limit_ms`, `at_ms` |
| `timeouts` | `session_timeout_ms` and `rebalance_timeout_ms`, if they matter and are on record |
| `names` | topics, or partitions by topic |
| any other word | `count`, `old` or `new` |

No row of `rebalances` has UNDECIDED: the column `alternatives` has these causes.

| kind | words |
|---|---|""".splitlines()

REMOVED_HEAD = """## Facts about removed offsets

The column `ended_facts` of `removed_offsets` and `offset_history` has the facts of `ended_evidence`. A word in braces
is replaced by the field of this name. Words that begin with a comma, a colon or a semicolon continue the sentence of
the fact before.

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
        "An audit infers the cause of a rebalance with these rules. It compares the records with the *footprint* of",
        "each row: the records that the cause leaves. The first row whose footprint is found gives the cause.",
        "*Look-alikes* are causes that leave the same records. [How to read a rebalance](reasons.md) explains the",
        "other words.",
        "",
        "`scripts/judge-reasons` makes this page from the rules in `coordinator_replay/analysis/reasons/`; a test",
        "checks that both agree.",
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
    lines += ["", *REMOVED_HEAD, *(f"| {kind} | `{REMOVAL_FORMS[kind]}` |" for kind in RemovalFact)]
    return "\n".join([*lines, ""])
