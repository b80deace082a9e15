"""Every rule: its name, its severity, what it says and what to do about it.

They stand in ``schemas/findings/rules.json``, the only place that has a rule's severity and words; the documentation is
made of it. A rule's function has the rule's name: those over a group's steps are in ``progress``, ``shape`` and
``subscribed``, the others in ``commit_rules`` and ``log_rules``.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import orjson

from coordinator_replay.schemas_folder import schemas_folder

VERSION = 8
"""Of the rules and their words: findings that others made are made again."""


class Severity(StrEnum):
    """Urgency of a finding."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class FindingRule(NamedTuple):
    """One rule.

    Attributes:
        about: what it observes, as a sentence.
        advice: what it may mean, and where to look next.
        thresholds: from when on it is a finding, as fields of ``Thresholds``.
        recurs: whether one finding of a group, or of a topic, stands for all times at which it was the case.
        needs: what it looks at that not every audit has.
        rests_on_commits: whether it takes commits for granted, which an aborted transaction would undo.
    """

    severity: Severity
    about: str
    advice: str
    thresholds: Sequence[str] = ()
    rests_on_commits: bool = False
    recurs: bool = False
    needs: str | None = None


def _rules() -> dict[str, FindingRule]:
    """Return the rules of ``schemas/findings``, by name."""
    rules = orjson.loads((schemas_folder() / "findings" / "rules.json").read_bytes())
    return {name: FindingRule(**{**rule, "severity": Severity(rule["severity"])}) for name, rule in rules.items()}


def rule_of(function: Callable[..., object]) -> str:
    """Return the rule that a function is of: its name; what is over of it may have a function of its own."""
    return function.__name__.removesuffix("_over")


RULES: Mapping[str, FindingRule] = _rules()
