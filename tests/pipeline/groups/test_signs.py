"""The last commits before records that may show a departure, against a plain search."""

from random import Random

import pyarrow as pa
import pytest

from coordinator_replay.analysis.reasons.signs import SIGNS_WITHIN_MS
from coordinator_replay.pipeline.groups.input_rows import RECORDS, group_records
from coordinator_replay.pipeline.groups.signs import COMMITS, LAST_COMMITS, MINUTE_MS, LastCommits, find_departures
from coordinator_replay.store.scan import reader_of
from tests.pipeline.staged_rows import ms


def log_of(random):
    """A log in which times mostly rise, by up to some minutes a record, of several groups and log partitions."""
    commits, departures = [], []
    at_ms = ms(0)
    for offset in range(random.randrange(120)):
        at_ms += random.choice([0, 1, 500, MINUTE_MS, 4 * MINUTE_MS, -2 * MINUTE_MS])
        group, partition = f"g{random.randrange(3)}", random.randrange(2)
        place = {"group_id": group, "log_partition": partition, "log_offset": offset}
        if random.random() < 0.2:
            departures.append({**place, "at_ms": at_ms})
        else:
            time = None if random.random() < 0.05 else at_ms
            row = {"is_tombstone": random.random() < 0.1, "log_timestamp": None if time is None else time * 1000}
            commits.append({**place, **row, "topic": f"t{random.randrange(2)}", "partition": random.randrange(2)})
    return commits, departures


def last_by_search(commits, departures):
    found = {}
    for one in commits:
        if one["is_tombstone"] or one["log_timestamp"] is None:
            continue
        place = one["group_id"], one["log_partition"]
        later = [
            each
            for each in departures
            if (each["group_id"], each["log_partition"]) == place and each["log_offset"] > one["log_offset"]
        ]
        if not later:
            continue
        record = min(later, key=lambda each: each["log_offset"])
        at_ms, then = one["log_timestamp"] // 1000, record["at_ms"]
        if then - at_ms <= SIGNS_WITHIN_MS and at_ms // MINUTE_MS <= then // MINUTE_MS:
            key = (*place, record["log_offset"], one["topic"], one["partition"])
            found[key] = max(found.get(key, (at_ms, one["log_offset"])), (at_ms, one["log_offset"]))
    return sorted((*key, *last) for key, last in found.items())


def last_by_join(commits, departures):
    """The last commits before each departure, asked for in the order of the records."""
    shown = {"kind": "GroupMetadata", "key_json": "{}", "value_json": "{}", "is_tombstone": False}
    rows = [{**one, **shown, "log_timestamp": one["at_ms"] * 1000} for one in departures]
    with group_records(pa.Table.from_pylist(rows, RECORDS).to_batches()) as records:
        assert (find_departures(records) is None) is not bool(departures)
        records.register("commits", pa.Table.from_pylist(commits, COMMITS))
        last = LastCommits(records)
        for group, partition, offset in sorted(
            (*map(one.get, ("group_id", "log_partition", "log_offset")),) for one in departures
        ):
            for topic, number, at_ms, _, committed_at in last.before((group, partition, offset)) or ():
                yield group, partition, offset, topic, number, at_ms, committed_at


@pytest.mark.parametrize("seed", range(40))
def test_the_last_commits_are_those_that_a_search_finds(seed):
    commits, departures = log_of(Random(seed))
    assert list(last_by_join(commits, departures)) == last_by_search(commits, departures)


def test_a_record_that_is_passed_over_takes_its_commits_along():
    place = {"group_id": "g", "log_partition": 0}
    commits = [
        {
            **place,
            "log_offset": offset,
            "topic": "t",
            "partition": 0,
            "is_tombstone": False,
            "log_timestamp": ms(0) * 1000,
        }
        for offset in (0, 2)
    ]
    rows = [
        {**place, "log_offset": offset, "log_timestamp": ms(0) * 1000, "kind": "GroupMetadata", "is_tombstone": False}
        for offset in (1, 3)
    ]
    with group_records(pa.Table.from_pylist(rows, RECORDS).to_batches()) as records:
        find_departures(records)
        records.register("commits", pa.Table.from_pylist(commits, COMMITS))
        assert list(LastCommits(records).before(("g", 0, 3))) == [("t", 0, ms(0), 0, 2)]


def test_a_stream_of_commits_is_joined_in_order_and_not_pair_by_pair():
    row = {"group_id": "g", "log_partition": 0, "log_offset": 1, "log_timestamp": ms(0) * 1000, "is_tombstone": False}
    with group_records(pa.Table.from_pylist([row | {"kind": "GroupMetadata"}], RECORDS).to_batches()) as records:
        find_departures(records)
        records.register("commits", reader_of(iter(()), COMMITS))
        [(_, plan)] = records.sql(f"EXPLAIN {LAST_COMMITS}").fetchall()
    assert "asof" in plan.lower()
    assert "nested" not in plan.lower()
