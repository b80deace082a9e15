"""A log audited in slices ends in the tables that one audit of all of it gives."""

import json
import shutil
from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from coordinator_replay.analysis.findings.thresholds import Thresholds
from coordinator_replay.pipeline.audit import ExpiryOptions
from coordinator_replay.query.groups import groups_at
from coordinator_replay.query.tables import Tables
from tests.fleet import cut_nights, write_fleet
from tests.nightly import rest_at_night
from tests.pipeline.in_process import audit, content, contents, cut
from tests.pipeline.staged_rows import audit_rows, commit, group_record
from tests.samples import Sample

__all__ = ["audit", "audit_rows"]

QUICK = Thresholds(
    stuck_ms=2000,
    storm_rebalances=6,
    silent_ms=5000,
    stall_ms=3000,
    patience=1,
    never_committed_ms=5000,
    abandoned_ms=5000,
)
"""So that lives of seconds have findings."""

COMPLETE = ["group-lifecycles", "java-clients", "kafka-3.9", "transactions", "expiration", "restarts"]
"""Of a log that is compacted already, slices are no nights: the cleaner did not work in one what a later one shows."""


def without_gaps(tables):
    """Tables without findings about gaps: where a compacted log is cut at a hole, nobody can tell it from a gap."""
    found = [row for row in tables["findings"] if json.loads(row)["rule"] != "log_gap"]
    return {**tables, "findings": found}


def slices_of(sample, folder, random):
    """A sample cut at random batches into two to five dumps."""
    count = random.randint(2, 5)
    parts = [folder / f"part-{number}" for number in range(count)]
    cut(sample.segments, parts, lambda batches: [0, *sorted(random.randint(0, batches) for _ in range(count - 1))])
    return [part for part in parts if part.exists()]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
@pytest.mark.parametrize("name", rest_at_night(COMPLETE, ["expiration"]))
def test_any_slices_in_any_order_end_in_the_tables_of_one_run(name, seed, audit, tmp_path):
    random, sample = Random(f"{name} {seed}"), Sample(name)
    audit(tmp_path / "whole", sample.segments, thresholds=QUICK)
    parts = slices_of(sample, tmp_path, random)
    runs = {
        "in order": [[part] for part in parts],
        "shuffled": [[part] for part in random.sample(parts, len(parts))],
        "overlapping": [[parts[0]], *([before, part] for before, part in pairwise(parts))],
        "repeated": [[part] for part in parts for _ in range(2)],
    }
    dumps = runs[random.choice(list(runs))]
    for dump in dumps:
        audit(tmp_path / "slices", *dump, thresholds=QUICK)
    found, expected = without_gaps(contents(tmp_path / "slices")), without_gaps(contents(tmp_path / "whole"))
    for table, rows in expected.items():
        assert found[table] == rows, table


def test_a_group_counts_as_unseen_until_a_record_that_is_no_tombstone(audit_rows, tmp_path):
    """Compaction may leave no more of a group's first time than tombstones of its members."""
    member = {"groupId": "g", "memberId": "m"}
    log = [
        group_record((0, 5), 1, "ConsumerGroupCurrentMemberAssignment", member, None),
        group_record((0, 6), 1, "ConsumerGroupMemberMetadata", member, None),
        commit((0, 7), 2, ("g", "t", 0), 5),
        group_record((0, 8), 3, "ConsumerGroupMetadata", {"groupId": "g"}, {"epoch": 7}),
        group_record((0, 9), 3, "ConsumerGroupMemberMetadata", member, {"subscribedTopicNames": ["t"]}),
        commit((0, 10), 4, ("g", "t", 0), 6),
    ]
    for _, row in log:
        row["missing_before"] = 5
    audit_rows(tmp_path / "whole", log)
    expected = contents(tmp_path / "whole")
    states = {row["from_offset"]: row["group_state"] for row in map(json.loads, expected["offset_history"])}
    assert states == {7: "Unknown", 10: "Assigning"}
    for night in (log[:3], log[3:]):
        audit_rows(tmp_path / "nights", night)
    nights = map(json.loads, contents(tmp_path / "nights")["offset_history"])
    # The first night ended there, and at the end of a dump the cleaner has left the last record of each key. In the
    # second a group that begins at epoch 7 may be one of which earlier records are missing: its state is open.
    assert {row["from_offset"]: row["group_state"] for row in nights} == {7: "Empty", 10: "Unknown"}


@pytest.mark.long
def test_nights_of_a_fleet_end_in_the_tables_of_one_run(audit, tmp_path):
    """A hundred groups with rebalances and many commits, so that each night begins in the middle of both."""
    dump = write_fleet(tmp_path / "dump")
    for night in cut_nights(dump, tmp_path / "nights", nights=6):
        audit(tmp_path / "nightly", night)
    audit(tmp_path / "whole", dump)
    found, expected = contents(tmp_path / "nightly"), contents(tmp_path / "whole")
    assert sum('"commit_pause_ms": null' not in row for row in expected["rebalances"]) > 20
    for table, rows in expected.items():
        assert found[table] == rows, table


def test_running_again_changes_nothing(audit, audited_once, tmp_path):
    sample = Sample("group-lifecycles")
    audited = audited_once(sample.segments)
    first = audited.summary
    audited.copy(tmp_path / "wh")
    before = contents(tmp_path / "wh")
    again = audit(tmp_path / "wh", sample.segments)
    assert again.run.records_read == 0
    for name in ("findings", "rebalances", "causes", "expired", "groups"):
        assert getattr(again, name) == getattr(first, name), name
    assert contents(tmp_path / "wh") == before


@pytest.mark.parametrize("name", ["group-lifecycles", "expiration"])
def test_the_summary_counts_what_the_tables_have(name, audited_once):
    warehouse, done = audited_once(Sample(name).segments)
    listed = groups_at(Tables(str(warehouse)))
    assert done.groups == Counter((group.group_type, group.state) for group in listed)
    rows = {
        table: [json.loads(row) for row in content(warehouse, table)] for table in ("rebalances", "expired_offsets")
    }
    assert done.causes == Counter(row["cause"] for row in rows["rebalances"])
    assert sum(done.causes.values()) == done.rebalances
    assert done.expired == Counter(row["status"] for row in rows["expired_offsets"])
    assert name == "group-lifecycles" or done.expired["EXPIRED"]


def test_other_thresholds_have_every_group_evaluated_anew(audit, audited_once, tmp_path):
    sample = Sample("java-clients")
    audit(tmp_path / "wh", sample.segments, thresholds=QUICK)
    again = audit(tmp_path / "wh", sample.segments)
    warehouse, once = audited_once(sample.segments)
    assert again.findings == once.findings
    assert contents(tmp_path / "wh") == contents(warehouse)


def test_a_full_run_derives_the_same_tables(audit, audited_once, tmp_path):
    sample = Sample("expiration")
    audited_once(sample.segments).copy(tmp_path / "wh")
    before = contents(tmp_path / "wh")
    run = audit(tmp_path / "wh", sample.segments, full=True).run
    assert (run.already_audited, run.records_decoded) == (run.records_read - run.control_records, 0)
    assert contents(tmp_path / "wh") == before


def test_a_run_makes_up_for_one_that_wrote_records_only(audit, audited_once, tmp_path):
    sample = Sample("java-clients")
    audit(tmp_path / "wh", sample.segments, records_only=True)
    assert not content(tmp_path / "wh", "offset_history")
    audit(tmp_path / "wh", sample.segments)
    assert contents(tmp_path / "wh") == contents(audited_once(sample.segments).warehouse)


def test_clusters_of_one_warehouse_do_not_touch_each_other(audit, tmp_path):
    one, other = Sample("old-format-none"), Sample("transactions")
    audit(tmp_path / "wh", one.segments, cluster="one")
    audit(tmp_path / "wh", other.segments, cluster="o'ther %20/x")
    audit(tmp_path / "wh", one.segments, cluster="one", full=True)
    audit(tmp_path / "alone", other.segments, cluster="o'ther %20/x")
    for name in contents(tmp_path / "wh"):
        found = content(tmp_path / "wh", name, "o'ther %20/x")
        assert found == content(tmp_path / "alone", name, "o'ther %20/x"), name


def test_a_log_partition_that_is_silent_for_a_night_keeps_its_offsets(audit, tmp_path):
    sample = Sample("group-lifecycles")
    parts = [tmp_path / f"part-{number}" for number in range(3)]
    cut(sample.segments, parts)
    for number in (1, 2):
        shutil.rmtree(parts[number] / "__consumer_offsets-1", ignore_errors=True)
    audit(tmp_path / "nights", *parts[:2])
    audit(tmp_path / "nights", parts[2])
    audit(tmp_path / "whole", *parts)
    assert contents(tmp_path / "nights") == contents(tmp_path / "whole")


def test_copies_of_a_log_count_once(audit, audited_once, tmp_path):
    sample = Sample("compacted")
    copy = tmp_path / "broker-2"
    shutil.copytree(sample.segments, copy)
    run = audit(tmp_path / "copies", sample.segments, copy).run
    once = audited_once(sample.segments)
    assert run.duplicates_dropped == once.summary.run.records_read
    assert contents(tmp_path / "copies") == contents(once.warehouse)


@pytest.mark.parametrize("every_ms", rest_at_night([None, 1000], [1000]))
def test_a_moment_in_the_past_is_judged_as_if_the_log_ended_there(every_ms, audit, tmp_path):
    sample = Sample("expiration")
    expiry = ExpiryOptions(retention_ms=60_000, history_every_ms=every_ms)
    audit(tmp_path / "wh", sample.segments, expiry=expiry)
    before = contents(tmp_path / "wh")
    audit(tmp_path / "wh", sample.segments, full=True, expiry=expiry)
    assert contents(tmp_path / "wh") == before
