"""Each rule has its words, its function, its tests; each threshold is used."""

from pathlib import Path

import pytest

from coordinator_replay.analysis.findings.commit_rules import TOPIC_RULES
from coordinator_replay.analysis.findings.ended_rules import ENDED_RULES
from coordinator_replay.analysis.findings.evaluate import END_RULES, ROW_RULES
from coordinator_replay.analysis.findings.observation import finding_id
from coordinator_replay.analysis.findings.progress import PROGRESS_RULES
from coordinator_replay.analysis.findings.rules import RULES
from coordinator_replay.analysis.findings.shape import SHAPE_RULES
from coordinator_replay.analysis.findings.subscribed import SUBSCRIPTION_RULES
from coordinator_replay.analysis.findings.thresholds import DEFAULTS, THRESHOLD_NAMES
from coordinator_replay.errors import UsageError

FUNCTIONS = [
    *PROGRESS_RULES,
    *SHAPE_RULES,
    *SUBSCRIPTION_RULES,
    *TOPIC_RULES,
    *(rule for rule in END_RULES if rule not in ENDED_RULES),
    *(rule for rules in ROW_RULES.values() for rule in rules),
]
TESTS = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*_rules.py"))


def test_rules_are_what_functions_there_are():
    assert sorted(rule.__name__ for rule in FUNCTIONS) == sorted(RULES)
    assert {rule.__name__.removesuffix("_over") for rule in ENDED_RULES} <= RULES.keys()


@pytest.mark.parametrize("name", sorted(RULES))
def test_each_rule_has_words_and_tests(name: str):
    rule = RULES[name]
    assert rule.about.endswith(".") and rule.advice.endswith(".")
    assert set(rule.thresholds) <= set(THRESHOLD_NAMES)
    assert f'"{name}"' in TESTS


def test_each_threshold_belongs_to_a_rule_and_is_explained():
    assert {name for rule in RULES.values() for name in rule.thresholds} == set(THRESHOLD_NAMES)
    for name in THRESHOLD_NAMES:
        assert f"        {name}: " in (type(DEFAULTS).__doc__ or "")


def test_ids_tell_clusters_rules_groups_and_subjects_apart():
    ids = {
        finding_id(cluster, rule, group, *subject)
        for cluster in ("a", "b")
        for rule in ("r", "s")
        for group in ("g", "h")
        for subject in ((), (1,), ("t", 1))
    }
    assert len(ids) == 24


def test_a_threshold_that_does_not_exist_or_means_nothing_is_refused():
    with pytest.raises(UsageError, match="no threshold is called 'stuk'"):
        DEFAULTS.with_changes({"stuk": 1})
    with pytest.raises(UsageError, match="at least 1"):
        DEFAULTS.with_changes({"stuck_ms": 0})
    assert DEFAULTS.with_changes({"group_max_size": 0}) == DEFAULTS
