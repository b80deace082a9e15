"""The clock of a run that skips rests."""

import pytest

from coordinator_replay.engine.model import Record
from coordinator_replay.simulation.what_if.schedule import Agenda

HOUR_MS = 3_600_000


def in_life(value: dict[str, object] | None) -> Record:
    agenda = Agenda(1_000)
    agenda.left_out_ms = HOUR_MS
    return agenda.in_life(Record("ClassicGroupMetadata", {}, value, partition=0, offset=0, timestamp_ms=1_000))


@pytest.mark.parametrize("field", ["currentStateTimestamp", "assignmentTimestamp", "timestamp"])
def test_each_time_in_a_value_moves_with_the_record(field: str):
    record = in_life({field: 900, "epoch": 7})
    assert (record.timestamp_ms, record.value) == (1_000 + HOUR_MS, {field: 900 + HOUR_MS, "epoch": 7})


@pytest.mark.parametrize("value", [None, {"epoch": 7}, {"currentStateTimestamp": -1}])
def test_a_value_without_a_time_stays(value: dict[str, object] | None):
    assert in_life(value).value == value
