"""Made-up lives of groups: any decodable records at all, and the records a lawful coordinator would write."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from coordinator_replay.engine.model import Record
from tests.engine.blobs import opened
from tests.records.strategies import KINDS_AND_VERSIONS, records

GROUP = "orders"
IDS = ("a", "b", "c")

GROUP_KINDS = [(kind, version) for kind, version in KINDS_AND_VERSIONS]


def _few(value: Any, name: str = "") -> Any:
    """The same value over few ids, partitions and epochs, so that records meet each other."""
    if isinstance(value, dict):
        return {key: _few(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [_few(inner, name) for inner in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int) and name in ("epoch", "memberEpoch", "assignmentEpoch", "generation", "topologyEpoch"):
        return value % 7 - 2
    if isinstance(value, int) and name in ("partitions", "state", "partition", "validatedTopologyEpoch"):
        return value % 4
    if isinstance(value, str) and name in ("memberId", "topicId", "leader", "subtopologyId", "groupInstanceId"):
        return IDS[len(value) % len(IDS)]
    return value


@st.composite
def any_records(draw: st.DrawFn, max_size: int = 30) -> list[Record]:
    """Records of one group in no order a coordinator would write, with gaps and equal timestamps."""
    found = []
    offset = missing = timestamp = 0
    for _ in range(draw(st.integers(0, max_size))):
        kind, version = draw(st.sampled_from(GROUP_KINDS))
        key, value = draw(records(kind, version))
        if draw(st.booleans()):
            key, value = _few(key), _few(value)
        gap = draw(st.sampled_from([0, 0, 0, 1, 5]))
        offset, missing = offset + gap + 1, missing + gap
        timestamp += draw(st.sampled_from([0, 0, 1, 1000]))
        for name in ("group", "groupId"):
            if name in key:
                key[name] = GROUP
        producer = draw(st.sampled_from([-1, -1, 7]))
        found.append(Record(kind.name, key, opened(kind.name, value), 0, offset, timestamp, missing, version, producer))
    return found


class Writer:
    """Appends records to a log the way the coordinator does: one timestamp for each operation."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.now = 0

    def tick(self) -> None:
        self.now += 1

    def write(self, kind: str, value: Mapping[str, Any] | None = None, **key: str) -> None:
        name = "group" if kind == "GroupMetadata" else "groupId"
        self.records.append(Record(kind, {name: GROUP, **key}, opened(kind, value), 0, len(self.records), self.now))
