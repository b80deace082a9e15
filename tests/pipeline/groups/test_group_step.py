"""Whether a bucket goes on or begins anew where a group has its first record after commits of its own."""

import pytest

from tests.hostile import recordings
from tests.log.writer import write_batch, write_control
from tests.pipeline.in_process import audit, contents

__all__ = ["audit"]

PRODUCER = 7
COMMIT = 1
"""The type of the control record that commits a transaction."""


def parts_of_a_life():
    """Commits of a classic group, its group records, and a last commit, as log entries."""
    life = max((one for one in recordings.recorded_lives() if len(one) < 18), key=len)
    kept = [entry for entry in recordings.renamed(life, "appears-late") if entry.record.value is not None]
    commits, records = (
        list(recordings.encoded(tuple(entry for entry in kept if entry.record.kind == kind)))
        for kind in ("OffsetCommit", "GroupMetadata")
    )
    return commits[:-1], [*records, commits[-1]]


def write_log(folder, batches):
    place = folder / "__consumer_offsets-3"
    place.mkdir(parents=True)
    first = int.from_bytes(batches[0][:8])
    (place / f"{first:020}.log").write_bytes(b"".join(batches))


@pytest.mark.parametrize(
    ("base", "is_anew", "commits_are"),
    [
        pytest.param(0, False, "plain", marks=pytest.mark.long),
        (1000, True, "in a transaction that is open"),
        pytest.param(0, False, "in a transaction that is open", marks=pytest.mark.long),
        pytest.param(1000, True, "plain", marks=pytest.mark.long),
    ],
)
def test_a_group_that_appears_has_a_bucket_begin_anew_only_where_it_may_have_existed_before(
    base, is_anew, commits_are, audit, tmp_path, monkeypatch
):
    commits, later = parts_of_a_life()
    told = {} if commits_are == "plain" else {"producer_id": PRODUCER, "producer_epoch": 0, "is_transactional": True}
    begins = base + len(commits)
    first = [write_batch(commits, base_offset=base, **told)]
    second = [write_batch(later, base_offset=begins)]
    if told:
        at_ms, end = later[-1].timestamp_ms, begins + len(later)
        second.append(write_control(offset=end, control_type=COMMIT, producer_id=PRODUCER, timestamp_ms=at_ms))
    write_log(tmp_path / "one", first)
    write_log(tmp_path / "two", second)
    write_log(tmp_path / "both", [*first, *second])
    audit(tmp_path / "nights", tmp_path / "one")
    audit(tmp_path / "nights", tmp_path / "two")
    audit(tmp_path / "whole", tmp_path / "both")
    assert contents(tmp_path / "nights") == contents(tmp_path / "whole")
    states = {row.split('"group_state": ')[1].split(",")[0] for row in contents(tmp_path / "whole")["offset_history"]}
    assert ('"Unknown"' in states, '"Empty"' in states) == (bool(base), not base)
