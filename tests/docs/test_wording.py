"""Words that no Kafka engineer would use stand nowhere that a person reads: help, rules, queries, tables, documents."""

import json
import re
from pathlib import Path

import click
import pytest

from coordinator_replay.analysis.findings.rules import RULES
from coordinator_replay.cli.main import main

ROOT = Path(__file__).parents[2]

AVOIDED = {
    "sign of life": "last record showing it alive",
    "would be left by": "could also be",
    "member \\S+ (is gone|went)": "was removed from the group",
    "keeps its place": "static members don't send LeaveGroup on close",
    "nobody is left": "the group is Empty",
    "asks for \\S+ too": "subscribed to it as well",
    "it speaks": "assignor",
    "stands for other topics": "regex now also matches",
    "retention (took|takes)": "expired, expires",
    "should have taken": "past retention, not removed yet",
    "carry texts": "commit metadata",
    "went back from": "rewound from",
    "contradicts itself": "name the broken rule",
    "records or stretches": "records that could not be decoded",
    "is no (moment|duration)": "invalid time, invalid duration",
    "moment asked about": "time, point in time",
    "stretch of time": "time range",
    "nothing happened to group": "no membership events in this range",
    "ready question": "saved query",
    "whether or not anybody": "committed offsets at a point in time",
    "\\bgrave(r|st)?\\b": "severe",
    "culprits|members-that-hold-up|left-behind-by-kip-848|resets-by-hand": "the saved queries' names",
    "most_a_minute|writes_a_key|that_hour|nobody_from": "peak_per_minute, records_per_key, peak_hour, unowned_from",
    "\\bSKIPPED\\b": "SUPERSEDED",
}
"""Each with what to say instead."""


def _helps() -> dict[str, str]:
    context = click.Context(main, info_name="coordinator-replay")
    return {f"--help of {name}": command.get_help(context) for name, command in main.commands.items()}


def _files() -> dict[str, str]:
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "conf").rglob("*.sql")]
    found += (ROOT / "conf").glob("*.toml")
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in found}


def _tables() -> dict[str, str]:
    texts = {}
    for path in (ROOT / "schemas" / "tables").glob("*.json"):
        definition = json.loads(path.read_text(encoding="utf-8"))
        abouts = [definition["about"], *(f"{one['name']} {one['about']}" for one in definition["columns"])]
        if not definition["about"].startswith("Internal"):
            texts[path.name] = "\n".join(abouts)
    return texts


def _messages() -> dict[str, str]:
    """Texts of the rooms that speak to people; comments and docstrings of code are not read by them."""
    texts = {f"rule {name}": f"{rule.about} {rule.advice}" for name, rule in RULES.items()}
    package = ROOT / "coordinator_replay"
    for path in [*(package / "cli").glob("*.py"), *(package / "report" / "templates").glob("*.j2")]:
        texts[path.name] = path.read_text(encoding="utf-8")
    return texts


@pytest.mark.parametrize("texts", [_helps, _files, _tables, _messages], ids=lambda texts: texts.__name__)
def test_what_people_read_is_in_kafkas_words(texts):
    found = [
        (place, match.group(), instead)
        for place, text in texts().items()
        for avoided, instead in AVOIDED.items()
        if (match := re.search(avoided, text, re.IGNORECASE if avoided.islower() else 0))
    ]
    assert found == []
