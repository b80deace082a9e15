"""Facts about removed offsets: their words, and the columns that have them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from coordinator_replay.analysis.removal_facts import (
    FIELDS,
    FORMS,
    RemovalFact,
    evidence_sql,
    fact,
    facts_of,
    sentences_of,
)
from coordinator_replay.store.duckdb_connection import select
from coordinator_replay.tables.definition import table
from tests.pipeline.in_process import audit_here
from tests.samples import DATA


def said(*sentences: list[str]) -> tuple[list[str], list[dict[str, Any]]]:
    """The sentences and the facts of evidence."""
    made = evidence_sql(*sentences)
    [row] = select(f"SELECT {sentences_of(made)} AS s, {facts_of(made)} AS f", {}).to_pylist()
    return row["s"], row["f"]


def stored(warehouse: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a table."""
    return DeltaTable(str(warehouse / name)).to_pyarrow_table().to_pylist()


def test_every_kind_of_fact_has_words() -> None:
    assert set(FORMS) == set(RemovalFact)


def test_a_sentence_is_made_of_its_facts() -> None:
    words, facts = said(
        [fact(RemovalFact.PAST, limit="'it''s limit'"), fact(RemovalFact.TRANSACTION_OPEN)],
        [fact(RemovalFact.SEVERAL_GROUPS, count="3")],
    )
    assert words == [
        "past it's limit, but a transaction on it was open",
        "offsets of the topic that were not shown to be past retention were removed from 3 groups, with at most 30 s "
        "between two of them",
    ]
    assert [(row["sentence"], row["kind"], row["count"]) for row in facts] == [
        (0, "PAST", None),
        (0, "TRANSACTION_OPEN", None),
        (1, "SEVERAL_GROUPS", 3),
    ]


@pytest.mark.parametrize("name", ["removed_offsets", "offset_history", "pending_offsets"])
def test_the_column_has_the_fields_of_a_fact(name: str) -> None:
    column = table(name).arrow_schema(["ended_facts"]).field("ended_facts")
    assert [field.name for field in column.type.value_type] == ["sentence", *FIELDS]
    _, facts = said([fact(RemovalFact.NO_TIME)])
    pa.array([facts], column.type)


def test_stored_sentences_are_those_of_the_stored_facts(tmp_path: Path) -> None:
    audit_here(tmp_path, DATA / "expiration" / "segments")
    rows = stored(tmp_path, "removed_offsets")
    assert rows
    for row in rows:
        assert {each["sentence"] for each in row["ended_facts"]} == set(range(len(row["ended_evidence"])))
    history = stored(tmp_path, "offset_history")
    assert all((row["ended_facts"] is None) == (row["ended_evidence"] is None) for row in history)
