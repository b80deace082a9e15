"""The last commits before records that may show a departure, against a plain search."""

from random import Random

import pyarrow as pa
import pytest

from coordinator_replay.analysis.reasons.signs import SIGNS_WITHIN_MS
from coordinator_replay.pipeline.groups.signs import COMMIT, DEPARTURE, MINUTE_MS, LastCommits
from coordinator_replay.tables.definition import table
from tests.pipeline.staged_rows import ms

COMMITS = table("offset_commits").arrow_schema(list(COMMIT)).remove_metadata()


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


def batches(commits):
    rows = pa.Table.from_pylist(commits, schema=COMMITS)
    for name in ("group_id", "topic"):
        place = COMMITS.get_field_index(name)
        rows = rows.set_column(place, name, rows.column(name).dictionary_encode())
    return rows.to_batches(max_chunksize=17)


@pytest.mark.parametrize("seed", range(40))
def test_the_last_commits_are_those_that_a_search_finds(seed):
    commits, departures = log_of(Random(seed))
    if not departures:
        return
    last = LastCommits(pa.Table.from_pylist(departures, DEPARTURE), batches(commits))
    found = [
        (one["group_id"], one["log_partition"], one["log_offset"], topic, partition, at_ms, offset)
        for one in departures
        for topic, partition, at_ms, _, offset in last.before(
            (one["group_id"], one["log_partition"], one["log_offset"])
        )
        or ()
    ]
    assert sorted(found) == last_by_search(commits, departures)
