"""Facts beside the sentences of evidence: the same places, members and times."""

import re
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.analysis.reasons.facts import Fact, FactKind, fact_rows
from coordinator_replay.analysis.reasons.sentences import FORMS
from coordinator_replay.analysis.reasons.together import together
from coordinator_replay.tables.definition import table
from scripts.reasons.sample import Sample

DATA = Path(__file__).resolve().parents[1] / "data"
SAMPLES = ("restarts", "group-lifecycles", "regexes")

_PLACE = re.compile(r"offset (\d+)\)")


@pytest.fixture(scope="module", params=[name for name in SAMPLES if (DATA / name).exists()])
def rows(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return Sample(DATA / request.param).rebalances()


def test_every_kind_of_fact_has_words() -> None:
    assert set(FORMS) == set(FactKind)


def test_every_sentence_states_facts(rows: list[dict[str, Any]]) -> None:
    assert rows
    for row in rows:
        assert {fact["sentence"] for fact in row["facts"]} == set(range(len(row["evidence"])))


def test_every_place_in_a_sentence_is_that_of_a_fact(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        for number, sentence in enumerate(row["evidence"]):
            facts = [fact for fact in row["facts"] if fact["sentence"] == number]
            places = {place for fact in facts for place in (fact["log_offset"], fact["since_offset"])}
            assert set(map(int, _PLACE.findall(sentence))) <= places


def test_every_member_in_a_sentence_is_that_of_a_fact(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        members = {*row["members_joined"], *row["members_left"]}
        for number, sentence in enumerate(row["evidence"]):
            facts = [fact for fact in row["facts"] if fact["sentence"] == number]
            about = {member for fact in facts for member in (*fact["members"], *fact["others"])}
            assert {member for member in members if member in sentence} <= about


def test_a_row_of_a_fact_has_the_fields_of_its_column() -> None:
    [row] = fact_rows([(Fact(FactKind.GROUP_EMPTY),)])
    column = table("rebalances").arrow_schema(["facts"]).field("facts")
    assert [field.name for field in column.type.value_type] == list(row)


def test_what_is_left_open_is_no_fact() -> None:
    facts = (Fact(FactKind.NEVER_SEEN, ("a",)), Fact(FactKind.UNDECIDED, ("a",), causes=("MEMBER_LEAVE",)))
    assert [row["kind"] for row in fact_rows([facts])] == ["NEVER_SEEN"]


def test_facts_about_clients_that_are_not_the_same_stay_apart() -> None:
    """A fact without a client is about a member of its own."""
    facts = [[(Fact(FactKind.REMOVED, (member,)),)] for member in ("a", "b")]
    assert [fact.members for sentence in together(facts) for fact in sentence] == [("a",), ("b",)]
