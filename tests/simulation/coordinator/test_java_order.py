"""Hash tables iterate in Java's order: against recorded orders, and against Java itself where it is here."""

import json
import random
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.errors import PrerequisiteError
from coordinator_replay.java_strings import string_hash
from coordinator_replay.simulation.coordinator.java_order import HashOrder, TimelineOrder, string_order
from tests.kafka_judge import java_command
from tests.samples import DATA
from tests.simulation.coordinator.java_tables import order_of, random_line

RECORDED = [json.loads(line) for line in (DATA / "coordinator" / "java-orders.jsonl").read_text().splitlines()]


def test_recorded_orders() -> None:
    assert [order_of(entry["line"]) for entry in RECORDED] == [entry["order"] for entry in RECORDED]


def test_the_recorded_tables_grow_and_collide() -> None:
    assert {entry["line"].split("\t")[0] for entry in RECORDED} == {"map", "timeline", "partitions"}
    assert sum(entry["order"].split("\t") != sorted(entry["order"].split("\t")) for entry in RECORDED) > 100


@pytest.mark.kafka
def test_java_agrees() -> None:
    try:
        command = java_command("coordinatorreplay.HashOrders")
    except PrerequisiteError as error:
        pytest.skip(str(error))
    randomness = random.Random(7)
    lines = [random_line(randomness) for _ in range(1500)]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    assert [order_of(line) for line in lines] == done.stdout.split("\n")[:-1]


@given(st.lists(st.tuples(st.booleans(), st.text(max_size=3))))
def test_a_table_holds_what_a_dict_holds(operations: list[tuple[bool, str]]) -> None:
    hashed: HashOrder[str, int] = HashOrder(string_hash)
    timeline: TimelineOrder[str, int] = TimelineOrder(string_hash)
    plain: dict[str, int] = {}
    for turn, (puts, key) in enumerate(operations):
        for table in (hashed, timeline, plain):
            if puts:
                table[key] = turn
            else:
                table.pop(key, None)
    assert dict(hashed) == dict(timeline) == plain


@given(st.lists(st.text(max_size=3)))
def test_strings_sort_by_utf_16_units(texts: list[str]) -> None:
    units = [
        [int.from_bytes(t.encode("utf-16-be")[i : i + 2]) for i in range(0, len(t.encode("utf-16-be")), 2)]
        for t in texts
    ]
    assert [t for _, t in sorted(zip(units, texts, strict=True))] == sorted(texts, key=string_order)
