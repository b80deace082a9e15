"""No value of any field of any record can end an audit, spoil a neighbour or a question."""

import json
import os
import random
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance.processes import tables
from tests.hostile import recordings
from tests.hostile.questions import ask, faults, one_group, what_if, whole_cluster
from tests.pipeline.in_process import audit_here

SEED = int(os.environ.get("HOSTILE_SEED", "1"))
RANDOM_NUMBERS = int(os.environ.get("HOSTILE_NUMBERS", "1"))
"""How many random numbers each integer field is tried with, beside its extremes."""
ASKED = int(os.environ.get("HOSTILE_ASKED", "4"))
"""How many groups are asked about one by one at night; one by day."""
NAMES = tuple(dict.fromkeys(text for text in recordings.TEXTS if len(text) < 300))
"""Ids of groups that nothing else is wrong with."""


class Tried(NamedTuple):
    """A warehouse of hostile records, and the tables of it and of one of the intact lives among them alone."""

    dump: recordings.Dump
    warehouse: Path
    rows: dict[str, list[str]]
    alone: dict[str, list[str]]


_EVIDENCE = re.compile(r"'ended_(alternatives|evidence|facts)': \[.*?\], ")


@pytest.fixture(scope="module")
def tried(tmp_path_factory) -> Tried:
    folder, rng = tmp_path_factory.mktemp("hostile"), random.Random(SEED)
    changes = [
        *recordings.integer_changes(rng, RANDOM_NUMBERS),
        *recordings.text_changes(rng),
        *recordings.blob_changes(rng),
    ]
    rng.shuffle(changes)
    dump = recordings.write_dump(folder / "dump", list(recordings.lives_with(changes, rng)), names=NAMES)
    audit_here(folder / "warehouse", folder / "dump")
    recordings.write_intact(folder / "alone", dump)
    audit_here(folder / "warehouse-alone", folder / "alone")
    return Tried(dump, folder / "warehouse", tables(folder / "warehouse"), tables(folder / "warehouse-alone"))


def of_intact(rows: list[str], dump: recordings.Dump) -> list[str]:
    """Return rows of the intact groups without their positions in the log, and without the evidence of removals.

    That several groups lost their offsets of a topic at about the same time is evidence in the rows of each of them.
    """
    return [
        _EVIDENCE.sub("", recordings.without_positions(row))
        for row in sorted(rows)
        if any(f"'{group}'" in row for group in dump.intact)
    ]


@pytest.mark.parametrize("name", ["group_timeline", "member_timeline", "partition_ownership", "offset_history"])
def test_what_a_neighbour_lived_is_what_it_lived_alone(tried, name):
    expected = of_intact(tried.alone.get(name, []), tried.dump)
    assert expected
    assert sorted(of_intact(tried.rows.get(name, []), tried.dump)) == sorted(expected)


@pytest.mark.parametrize(
    ("share", "in_all_forms"),
    [(6, False), pytest.param(1, True, marks=pytest.mark.long)],
    ids=["a sixth, one form each", "all forms"],
)
def test_every_question_about_all_groups_is_answered(share, in_all_forms, tried, tmp_path):
    wrong = [
        fault
        for question in list(whole_cluster(tmp_path, in_all_forms=in_all_forms))[::share]
        for fault in faults(ask(tried.warehouse, question), question)
    ]
    assert wrong == []


@pytest.mark.parametrize(("asked", "share"), [(1, 3), pytest.param(ASKED, 1, marks=pytest.mark.long)])
def test_every_question_about_a_group_is_answered(asked, share, tried, tmp_path):
    groups = random.Random(SEED).sample(sorted(tried.dump.told), asked)
    wrong = [
        (tried.dump.told[group], fault)
        for group in groups
        for question in list(one_group(group, tmp_path))[::share]
        for fault in faults(ask(tried.warehouse, question), question)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("names", "share"), [(NAMES[::20], 6), pytest.param(NAMES, 1, marks=pytest.mark.long)], ids=["some", "all"]
)
def test_every_question_about_a_group_with_a_hostile_name_is_answered(names, share, tried, tmp_path):
    wrong = [
        (group, fault)
        for group in names
        for question in list(one_group(group, tmp_path, topic=group or "-"))[::share]
        for fault in faults(ask(tried.warehouse, question), question)
    ]
    assert wrong == []
    known = ask(tried.warehouse, ["sql", "SELECT DISTINCT group_id FROM group_records", "--output", "json"])
    assert {json.loads(line)["group_id"] for line in known.stdout.splitlines()} >= set(NAMES)


@pytest.mark.long
@pytest.mark.parametrize("group", ["", *NAMES])
def test_other_settings_are_tried_on_every_life(tried, group):
    question = what_if(group)
    assert faults(ask(tried.warehouse, question), question) == []


@pytest.mark.parametrize(
    "share", [pytest.param(18, id="an eighteenth"), pytest.param(1, id="all", marks=pytest.mark.long)]
)
def test_times_of_the_log_itself_may_be_any(share, tmp_path):
    """The end of the log is where they say, which may be the last millisecond that can be shown."""
    times = recordings.write_times(tmp_path / "dump")
    audit_here(tmp_path / "warehouse", tmp_path / "dump")
    questions = list(whole_cluster(tmp_path))[1::share]
    questions += [one for group in times[:: 3 * share] for one in one_group(group, tmp_path)]
    wrong = [fault for question in questions for fault in faults(ask(tmp_path / "warehouse", question), question)]
    assert wrong == []
