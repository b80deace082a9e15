"""Groups whose log partition was not audited, or may not have been."""

from itertools import count, islice
from pathlib import Path

import pytest

from coordinator_replay import Warehouse
from coordinator_replay.errors import UsageError
from coordinator_replay.query.group_partitions import log_partition_of
from tests.nightly import rest_at_night
from tests.pipeline.staged_rows import audit_rows, commit

__all__ = ["audit_rows"]


def _groups_in(log_partition: int) -> list[str]:
    """Return groups that a topic of 50 partitions has in one of them."""
    names = (f"app-{number}" for number in count())
    return list(islice((name for name in names if log_partition_of(name, 50) == log_partition), 12))


IN_PARTITION_0 = _groups_in(0)


@pytest.mark.parametrize("share", rest_at_night([4, 1], [4]), ids=["a quarter", "all"])
def test_one_audited_partition_says_nothing_of_groups_in_others(tmp_path: Path, audit_rows, share: int):
    """Two groups of a log partition leave several numbers of partitions possible."""
    folder = tmp_path / "warehouse"
    rows = [commit((0, offset), offset, (name, "orders", 0), 7) for offset, name in enumerate(IN_PARTITION_0[:2])]
    audit_rows(folder, rows)
    asked = Warehouse(folder)
    only = "only log partition 0 was audited, and the partition count of __consumer_offsets is not known"
    questions = [
        asked.describe, asked.offsets, asked.timeline, asked.members, asked.rebalances, asked.why, asked.expired,
        asked.what_if, asked.trace, lambda group: asked.owner(group, "orders", 0),
        lambda group: asked.offset_history(group, "orders"), lambda group: asked.findings(group=group),
    ]  # fmt: skip
    for question in questions[::share]:
        with pytest.raises(UsageError, match=f"group 'elsewhere' is not in this warehouse: {only}"):
            question("elsewhere")
    with pytest.raises(UsageError, match=f"{only}.*; did you mean '{IN_PARTITION_0[0]}'"):
        asked.describe(f"{IN_PARTITION_0[0]}x")
    assert any(note.startswith("Only log partition 0 was audited") for note in asked.groups().notes)
    assert any(note.startswith("Only log partition 0 was audited") for note in asked.consumers("orders").notes)


def test_groups_that_only_one_number_of_partitions_fits_tell_where_another_one_is(tmp_path: Path, audit_rows):
    folder = tmp_path / "warehouse"
    audit_rows(folder, [commit((49, at), at, (name, "orders", 0), 7) for at, name in enumerate(_groups_in(49))])
    number = log_partition_of("elsewhere", 50)
    with pytest.raises(UsageError, match=f"audits have read no record of its log partition {number}"):
        Warehouse(folder).describe("elsewhere")
