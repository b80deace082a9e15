"""The lines of docs/engines.md, run by each engine over one warehouse: all give the same answers."""

import importlib.util
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay import Warehouse
from tests.query.small_warehouse import offset, write_rows, write_small_warehouse

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"
QUESTIONS = ("causes", "offsets", "owners", "longest", "open_findings")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_small_warehouse(tmp_path_factory.mktemp("engines"))
    # Its end has no time, as no record before the missing ones has.
    ended = offset("orders", 2, 40, "02:03", to_offset=90, ended_by="RECORDS_MISSING", is_exact=False)
    write_rows(folder, "offset_history", [ended])
    return folder


def tried(engine: str) -> str:
    (code,) = re.findall(rf"<!-- tried: {engine} -->\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return code


def rows(answer: Any) -> Counter[tuple[Any, ...]]:
    """Rows of an answer, whatever an engine calls a frame; a missing value is None in all of them."""
    if hasattr(answer, "fetchall"):
        listed = answer.fetchall()
    elif hasattr(answer, "collect"):
        listed = answer.collect()
    else:
        listed = answer.rows() if hasattr(answer, "rows") else answer.itertuples(index=False)
    return Counter(tuple(None if value != value else value for value in row) for row in listed)


def answers(engine: str, folder: Path, **names: Any) -> dict[str, Counter[tuple[Any, ...]]]:
    names |= {"warehouse": str(folder), "cluster": "default"}
    exec(compile(tried(engine), f"{PAGE}#{engine}", "exec"), names)
    return {question: rows(names[question]) for question in QUESTIONS}


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    """What the program itself says, in its own SQL."""
    warehouse = Warehouse(folder, "default")
    statements = {
        "causes": "SELECT group_id, cause, count(*) FROM rebalances WHERE cluster = $cluster GROUP BY ALL",
        "offsets": "SELECT group_id, topic, partition, committed_offset FROM offset_history "
        "WHERE cluster = $cluster AND to_offset IS NULL",
        "owners": "SELECT group_id, topic, partition, member_id FROM current_owners WHERE cluster = $cluster",
        "longest": "SELECT topic, max(unowned_ms) FROM partition_ownership "
        "WHERE cluster = $cluster AND unowned_ms IS NOT NULL GROUP BY topic",
        "open_findings": "SELECT group_id, rule, severity FROM findings WHERE cluster = $cluster AND ended_at IS NULL",
    }
    found = {name: Counter(tuple(row) for row in warehouse.sql(statement)) for name, statement in statements.items()}
    assert all(found.values())
    return found


@pytest.mark.parametrize("engine", ["duckdb", "polars", "pandas"])
def test_the_lines_of_an_engine_answer_what_the_program_answers(engine: str, folder: Path, expected):
    if importlib.util.find_spec(engine) is None:
        pytest.skip(f"{engine} is not installed")
    assert answers(engine, folder) == expected


def test_spark_answers_the_same(spark, folder: Path, expected):
    assert answers("spark", folder, spark=spark) == expected


def test_each_engine_has_five_lines():
    for engine in ("duckdb", "polars", "pandas", "spark"):
        assert [name for name in re.findall(r"^(\w+) = ", tried(engine), re.MULTILINE) if name in QUESTIONS] == [
            *QUESTIONS
        ]
