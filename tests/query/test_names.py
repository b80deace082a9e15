"""One name for one thing over all answers and saved queries: columns, headings, and what a time is called."""

import pkgutil
import re
from collections import defaultdict
from dataclasses import is_dataclass
from datetime import datetime
from importlib import import_module
from typing import get_args, get_type_hints

import pytest

import coordinator_replay.query
from coordinator_replay.answer_columns import columns_of
from coordinator_replay.query.saved import run_saved_query, saved_queries
from coordinator_replay.query.tables import Tables
from tests.nightly import rest_at_night

TWO_HEADINGS = {
    "committed_offset": "kafka-consumer-groups calls the offset of now CURRENT-OFFSET; one that is over is none",
    "epoch": "kafka-consumer-groups --describe --state calls a group's GROUP-EPOCH",
    "first_at": "of a range that a reader was there in, and of the first rebalance",
}
"""Columns that have another heading in one answer, and why."""

TIME_NAME = re.compile(r"(.*_)?(at|from|to|since|timestamp|after|by|hour|minute|seen|end)")
"""What the name of a column of times ends in."""

OLD_NAMES = {
    "last_commit",
    "last_owner",
    "generation",
    "owner",
    "owner_before",
    "first",
    "last",
    "until",
    "last_active",
}
"""Names that other columns have a word for: last_commit_at, owner_member_id, epoch, first_at, last_at."""


def answer_types() -> list[type]:
    modules = [
        import_module(f"coordinator_replay.query.{one.name}")
        for one in pkgutil.iter_modules(coordinator_replay.query.__path__)
    ]
    own = [
        value
        for module in modules
        for value in vars(module).values()
        if getattr(value, "__module__", "") == module.__name__
    ]
    return [
        one
        for one in own
        if isinstance(one, type) and is_dataclass(one) and any(column.heading for column in columns_of(one))
    ]


def test_a_column_has_one_heading_in_all_answers():
    headings = defaultdict(set)
    for answer in answer_types():
        for column in columns_of(answer):
            if column.heading:
                headings[column.name].add(column.heading)
    assert len(headings) > 50
    assert {name for name, shown in headings.items() if len(shown) > 1} == set(TWO_HEADINGS)


def test_columns_of_times_are_named_as_times():
    for answer in answer_types():
        for name, hint in get_type_hints(answer).items():
            if hint is datetime or datetime in get_args(hint):
                assert TIME_NAME.fullmatch(name), (answer.__name__, name)


@pytest.mark.parametrize("name", rest_at_night(sorted(saved_queries()), sorted(saved_queries())[::4]))
def test_columns_of_saved_queries_have_the_names_of_answers(warehouse: Tables, name: str):
    columns, rows = run_saved_query(warehouse, name)
    assert not OLD_NAMES.intersection(columns)
    for row in rows:
        for column, value in zip(columns, row, strict=True):
            assert not isinstance(value, datetime) or TIME_NAME.fullmatch(column) or column == "bucket", column
