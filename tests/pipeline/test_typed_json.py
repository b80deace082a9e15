"""What stages take and return goes through JSON unchanged."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.pipeline.broker_logs.read import merge_lines, read_log
from coordinator_replay.pipeline.broker_logs.rebalances import add_log_lines
from coordinator_replay.pipeline.bucket import reasons_to_rebuild, run_bucket
from coordinator_replay.pipeline.bucket_share import Action
from coordinator_replay.pipeline.findings.metrics import write_metrics
from coordinator_replay.pipeline.findings.stage import evaluate_bucket
from coordinator_replay.pipeline.offsets.causes import find_causes
from coordinator_replay.pipeline.read.decode import decode_files
from coordinator_replay.pipeline.read.look_up import look_up
from coordinator_replay.pipeline.read.metadata_log import read_metadata
from coordinator_replay.pipeline.typed_json import result_json, share_json, typed_json

STAGES = (add_log_lines, decode_files, evaluate_bucket, find_causes, look_up, merge_lines, read_log, read_metadata,
          reasons_to_rebuild, run_bucket, write_metrics)  # fmt: skip


class Place(NamedTuple):
    partition: int | None
    offset: int = -1


@dataclass
class Part:
    name: str
    action: Action
    places: tuple[Place, ...] = ()
    bounds: Mapping[str, Any] = field(default_factory=dict)
    counts: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    ranges: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    end: datetime | None = None
    is_open: bool | None = None


NUMBERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(max_size=8)
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
PARTS = st.builds(
    Part,
    name=TEXTS,
    action=st.sampled_from(Action),
    places=st.lists(st.builds(Place, st.none() | NUMBERS, NUMBERS), max_size=3).map(tuple),
    bounds=st.dictionaries(TEXTS, st.booleans() | NUMBERS | TEXTS | TIMES, max_size=3),
    counts=st.dictionaries(st.tuples(TEXTS, st.none() | TEXTS), NUMBERS, max_size=3).map(Counter),
    ranges=st.dictionaries(NUMBERS, st.lists(st.tuples(NUMBERS, NUMBERS), max_size=2), max_size=2),
    end=st.none() | TIMES,
    is_open=st.none() | st.booleans(),
)


@given(st.lists(PARTS, max_size=4))
def test_what_was_written_is_read(parts: list[Part]) -> None:
    column = typed_json(Part)
    read = [column.value(column.text(part)) for part in parts]
    assert read == parts
    assert [type(part.counts) for part in read] == [Counter] * len(parts)
    bounds = [type(value) for part in parts for value in part.bounds.values()]
    assert [type(value) for part in read for value in part.bounds.values()] == bounds


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__)
def test_every_stage_has_json(stage: Callable[..., Any]) -> None:
    assert share_json(stage)
    assert result_json(stage)


@pytest.mark.parametrize("hint", [bytes, object, Sequence[bytes], Mapping[str, bytes]])
def test_what_has_no_json_is_refused(hint: Any) -> None:
    with pytest.raises(TypeError, match="has no JSON"):
        typed_json(hint)
