"""Rewinds in groups that never had members, as the journals of the recordings tell of them."""

from collections import defaultdict
from itertools import pairwise

import pytest

from coordinator_replay.query.findings import findings_of
from coordinator_replay.query.tables import Tables
from tests.samples import Sample, lines

# In the sample that was compacted only the last commit of each partition is left.
SAMPLES = ["expiration", "group-lifecycles", "old-format-gzip", "old-format-none", "transactions"]


def moved_back(name: str) -> set[str]:
    """Groups of which the journal says that an offset was set back, by somebody who was no member."""
    offsets, found = defaultdict(list), set()
    for act in lines(Sample(name).folder / "journal.jsonl"):
        if act["action"] == "commit":
            offsets[act["group"], act["topic"], act["partition"]].append(act["offset"])
        elif act["action"] == "commits":
            offsets[act["group"], None, None] += act["offsets"]
        elif act["action"] == "offsets_reset":
            found.add(act["group"])
    return found | {key[0] for key, values in offsets.items() if any(new < old for old, new in pairwise(values))}


@pytest.mark.parametrize("name", SAMPLES)
def test_every_offset_that_was_set_back_is_found_whatever_was_committed_later(audited_once, name):
    found = findings_of(Tables(str(audited_once(Sample(name).segments).warehouse)), rules=["offset_rewind"])
    without_members = [one for one in found if "the group has no members on record" in one.message]
    assert {one.group_id for one in without_members} == moved_back(name)
    assert all("the log doesn't show which" in one.message for one in without_members)
    assert bool(without_members) == (name != "transactions")
