"""Groups replayed from rows, with what copies of their log partition prove."""

import json

import pytest

from coordinator_replay.completeness.groups import GroupProofs
from coordinator_replay.completeness.ranges import CompleteRange
from coordinator_replay.pipeline.groups.input_rows import InputRow
from coordinator_replay.pipeline.groups.replay import ReplayContext, replay_groups

GROUP = "orders"


def row(kind: str, offset: int, missing_before: int, value: dict[str, object], **key: str) -> InputRow:
    texts = json.dumps({"groupId": GROUP, **key}), json.dumps(value)
    return InputRow(GROUP, 0, offset, offset * 1_000, kind, *texts, 0, missing_before, 100)


def epoch(number: int, offset: int, missing_before: int) -> InputRow:
    return row("ConsumerGroupMetadata", offset, missing_before, {"epoch": number, "metadataHash": 0})


@pytest.mark.parametrize(("missing", "is_complete"), [(1, True), (4, False)], ids=["one moment", "several moments"])
def test_a_copy_of_several_moments_does_not_complete_a_group(missing: int, is_complete: bool) -> None:
    """The key that appears last does, unless records are missing behind the second record of the group's own key."""
    rows = [
        epoch(3, 5, 1),
        epoch(4, 20, 1),
        epoch(5, 30, missing),
        row("ConsumerGroupTargetAssignmentMetadata", 40, missing, {"assignmentEpoch": 5}),
        epoch(6, 50, missing),
    ]
    proofs = GroupProofs(
        ranges={0: [CompleteRange(from_offset=45, to_offset=60, exact_from_offset=45, is_gap=True)]},
        times={(0, 0): (None, None)},
        appearances={(GROUP, 0, 0): (44, 44_000)},
    )
    made = list(replay_groups(rows, ReplayContext(cluster="c"), proofs=proofs))
    events = [event for name, event in made if name == "group_timeline"]
    assert [event["event"] for event in events].count("RECORDS_COMPLETE") == is_complete
    assert events[-1]["is_exact"] == is_complete
