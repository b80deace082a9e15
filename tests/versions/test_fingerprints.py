"""Rows, snapshots and findings that may change raise a version, or somebody has accepted that they don't."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator_replay.tables.definition import tables
from scripts.versions.fingerprints import (
    ACCEPTED,
    UNFINGERPRINTED,
    VERSIONS,
    as_accepted,
    complaints,
    covered_modules,
    module_fingerprint,
    number_of,
)

ROOT = Path(__file__).parents[2]
ENGINE, GROUPS, OFFSETS, FINDINGS = (version.title for version in VERSIONS)


def test_versions_fit_the_code() -> None:
    assert complaints(ROOT) == []


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code, accepted as it is."""
    copy = tmp_path_factory.mktemp("tree")
    for folder in ("coordinator_replay", "schemas"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "demo_dump"))
    (copy / ACCEPTED).parent.mkdir(parents=True)
    (copy / ACCEPTED).write_text(json.dumps(as_accepted(copy)), encoding="utf-8")
    assert complaints(copy) == []
    return copy


Edit = Callable[[str], str]


def replaced(before: str, after: str) -> Edit:
    def edit(text: str) -> str:
        assert before in text, f"mend the test: {before!r} is gone"
        return text.replace(before, after, 1)

    return edit


def with_column(text: str) -> str:
    table = json.loads(text)
    table["columns"].append({"name": "shoe_size", "type": "integer", "about": "New."})
    return json.dumps(table)


def with_other_words(text: str) -> str:
    rules = json.loads(text)
    next(iter(rules.values()))["advice"] = "Drink tea."
    return json.dumps(rules)


CHANGES = {
    "a column of members": ("schemas/tables/member_timeline.json", with_column, {GROUPS}),
    "a column of rebalances": ("schemas/tables/rebalances.json", with_column, {GROUPS}),
    "a column of committed offsets": ("schemas/tables/offset_history.json", with_column, {OFFSETS}),
    "a column of findings": ("schemas/tables/findings.json", with_column, {FINDINGS}),
    "a member's value": (
        "coordinator_replay/analysis/members.py",
        lambda text: text + "\n\ndef shoe_size() -> int:\n    return 42\n",
        {GROUPS},
    ),
    "a rule of causes": (
        "coordinator_replay/analysis/reasons/change_rules.py",
        lambda text: text + "\nRULES_OF_NIGHT = ()\n",
        {GROUPS},
    ),
    "the state of a group": (
        "coordinator_replay/engine/classic_group.py",
        lambda text: text + "\nNIGHT = 1\n",
        {ENGINE},
    ),
    "why an offset was removed": (
        "coordinator_replay/pipeline/offsets/causes.py",
        lambda text: text + "\nNIGHT = 1\n",
        {OFFSETS},
    ),
    "the words of a finding": ("schemas/findings/rules.json", with_other_words, {FINDINGS}),
    "the limit of a finding": (
        "coordinator_replay/analysis/findings/commit_rules.py",
        lambda text: text + "\nMOST_COMMITS = 41\n",
        {FINDINGS},
    ),
    "a default limit": (
        "coordinator_replay/analysis/findings/thresholds.py",
        lambda text: text + "\nMOST_COMMITS = 41\n",
        {GROUPS, FINDINGS},
    ),
}


def named(sentences: list[str]) -> set[str]:
    return {version.title for version in VERSIONS if any(text.startswith(version.title) for text in sentences)}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_of_rows_asks_for_its_version(tree: Path, what: str) -> None:
    path, edit, wanted = CHANGES[what]
    file = tree / path
    before = file.read_text(encoding="utf-8")
    try:
        file.write_text(edit(before), encoding="utf-8")
        told = complaints(tree)
        assert named(told) == wanted
        assert all(path in text and "Raise it" in text for text in told)
    finally:
        file.write_text(before, encoding="utf-8")


def test_a_raised_version_asks_to_be_accepted_and_is(tree: Path) -> None:
    version = VERSIONS[1]
    file = tree / "coordinator_replay/analysis/group_life.py"
    before, accepted = file.read_text(encoding="utf-8"), (tree / ACCEPTED).read_text(encoding="utf-8")
    number = number_of(tree, version)
    try:
        file.write_text(replaced(f"VERSION = {number}", f"VERSION = {number + 1}")(before), encoding="utf-8")
        [told] = complaints(tree)
        assert told == f"{GROUPS} is {number + 1} now: run scripts/accept-versions."
        (tree / ACCEPTED).write_text(json.dumps(as_accepted(tree)), encoding="utf-8")
        assert complaints(tree) == []
    finally:
        file.write_text(before, encoding="utf-8")
        (tree / ACCEPTED).write_text(accepted, encoding="utf-8")


CODE = '''
"""Rows."""

from a.b import c

LIMIT = 3
"""Most."""


def f(x: int) -> int:
    """Return it."""
    return c(x)
'''


@pytest.mark.parametrize(
    "text",
    [
        CODE.replace('"""Return it."""', '"""Return the number."""'),
        CODE.replace("from a.b import c", "from z import c  # moved"),
        CODE.replace("x: int", "x: float"),
        CODE.replace('"""Most."""\n', ""),
    ],
)
def test_words_hints_and_places_of_imports_do_not_count(text: str) -> None:
    assert module_fingerprint(text) == module_fingerprint(CODE)


@pytest.mark.parametrize(
    "text", [CODE.replace("3", "4"), CODE.replace("import c", "import d as c"), CODE.replace("c(x)", "c(x) + 1")]
)
def test_code_counts(text: str) -> None:
    assert module_fingerprint(text) != module_fingerprint(CODE)


def test_every_table_has_a_version_or_a_reason_to_have_none() -> None:
    covered = [name for version in VERSIONS for name in version.tables]
    assert sorted([*covered, *UNFINGERPRINTED]) == sorted(tables())


def test_a_module_that_makes_rows_is_found_through_imports() -> None:
    groups = covered_modules(ROOT, VERSIONS[1])
    assert "coordinator_replay.analysis.reasons.join_phase" in groups
    assert "coordinator_replay.analysis.findings.shape" in groups
