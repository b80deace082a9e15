"""All rules: name, severity, description and advice.

They are in ``schemas/findings/rules.json``, the only place with a rule's severity and words. The documentation is made
from it. A rule's function has the rule's name. Functions over a group's steps are in ``progress``, ``shape`` and
``subscribed``, all others in ``commit_rules`` and ``log_rules``. ``ended_rules`` has a second function for some rules,
with the suffix ``_over``.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import orjson

from coordinator_replay.schemas_folder import schemas_folder

VERSION = 11
"""Version of the rules and their words; findings of another version are made again."""


class Severity(StrEnum):
    """Urgency of a finding."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class FindingRule(NamedTuple):
    """A rule that finds problems.

    Attributes:
        about: a sentence on what the rule observes.
        advice: what a finding may mean, and where to look next.
        thresholds: the fields of ``Thresholds`` that the rule uses.
        recurs: whether the rule has only one finding for each group or topic, however often the problem occurs.
        needs: inputs that the rule needs and that some audits lack.
        rests_on_commits: whether the rule relies on commits that an aborted transaction would undo.
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
    """Return the name of a function's rule: the function's name without the suffix ``_over`` for past findings."""
    return function.__name__.removesuffix("_over")


RULES: Mapping[str, FindingRule] = _rules()
