"""The page *Python and Spark* names what is there: stable names, columns, options, functions."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from coordinator_replay.records.consumer_protocol import PROTOCOL
from coordinator_replay.records.decoded_rows import DECODED_KEY
from coordinator_replay.spark.datasource import SourceOptions
from coordinator_replay.spark.log_rows import LOG_ROW

PAGE = (Path(__file__).parents[2] / "docs" / "python-and-spark.md").read_text(encoding="utf-8")


def named(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def section(title: str) -> str:
    return re.split(r"^##+ ", PAGE.split(f"# {title}\n", 1)[1], flags=re.MULTILINE)[0]


def stable() -> list[tuple[str, str]]:
    rows = [line.split("|")[1:3] for line in section("Stable names").splitlines() if line.startswith("| `coordinator_")]
    return [(named(where)[0], name) for where, names in rows for name in named(names)]


@pytest.mark.parametrize(("module", "name"), stable())
def test_stable_names_are_there(module, name):
    assert hasattr(import_module(module), name)


@pytest.mark.parametrize("module", ["coordinator_replay.api", "coordinator_replay.spark"])
def test_what_a_room_offers_is_stable(module):
    assert {name for where, name in stable() if where == module} == set(import_module(module).__all__)


def test_every_column_of_the_data_source_is_told():
    columns = [line.split("|")[1] for line in section("Columns").splitlines() if line.startswith("| `")]
    assert {name for column in columns for name in named(column)} == set(LOG_ROW.names)


def test_options_and_functions_are_told():
    told = named(section("The data source"))
    options = {"include-deleted": "true", "with-bytes": "true"}
    assert set(options) <= set(told)
    read = SourceOptions.of({"path": "x", **options})
    assert (read.include_deleted, read.with_bytes) == (True, True)
    functions = named(section("SQL functions"))
    assert {field.name for field in PROTOCOL} | set(DECODED_KEY.names) <= set(functions)
