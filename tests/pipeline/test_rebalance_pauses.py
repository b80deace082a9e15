"""The pause in commits around a rebalance, against a plain search over every pair of them."""

from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

from coordinator_replay.completeness.spans import ExactSpan
from coordinator_replay.int64 import LARGEST_INT64
from coordinator_replay.pipeline.rebalance_pauses import WITHIN_MS, CommitPauses
from coordinator_replay.tables.definition import table
from coordinator_replay.times import milliseconds
from tests.pipeline.staged_rows import moment

REBALANCES = table("rebalances").file_schema().remove_metadata()
INTERVAL = ("group_id", "topic", "partition", "valid_from", "valid_to", "ended_by", "is_exact", "is_proven")
HISTORY = table("offset_history").arrow_schema(INTERVAL)
OFFSET_MS = milliseconds(moment(0))
OWNERSHIP = table("partition_ownership").arrow_schema(["group_id", "topic", "partition", "owned_from"])


def lives(random):
    """Rebalances one after the other, commits in between, and partitions that change hands."""
    rebalances, commits, taken = [], [], []
    for group in ("g0", "g1", "g2"):
        at = random.randrange(100)
        for _ in range(random.randrange(5)):
            started = at + random.randrange(1, 50)
            at = started + random.choice([0, 1, 30])
            rebalances.append((group, random.choice([started, None]), at))
            for _ in range(random.randrange(3)):
                owned = random.randint(started, at) if rebalances[-1][1] is not None else at
                taken.append((group, random.choice("tu"), random.randrange(2), owned))
        for topic in "tu":
            for partition in range(2):
                times = sorted({random.randrange(400) for _ in range(random.randrange(6))})
                times += [times[-1] + 5000] if times and random.random() < 0.2 else []
                commits += [(group, topic, partition, *pair, *proof(random)) for pair in pairwise(times)]
    return rebalances, commits, taken


def proof(random):
    """What ended an interval, and whether the log proves it: one in four is cut, or not proven."""
    ended_by = random.choice(["COMMIT"] * 7 + ["RECORDS_MISSING"])
    return ended_by, random.random() < 0.9, random.random() < 0.9


def is_around(commit, group, began, completed, mine):
    of, topic, partition, begin, end, *_ = commit
    return (
        of == group
        and begin <= completed
        and end >= began
        and (end - completed) * 1000 <= WITHIN_MS
        and (not mine or (topic, partition) in mine)
    )


def by_search(rebalances, commits, taken, spans):
    """The pause of each rebalance, and whether it is a lower bound."""
    for group, started, completed, is_end_open, log_partition in rebalances:
        began = completed if started is None else started
        mine = {(topic, partition) for of, topic, partition, at in taken if of == group and began <= at <= completed}
        around = [one for one in commits if is_around(one, group, began, completed, mine)]
        pauses = [(end - begin) * 1000 for *_, begin, end, _, is_exact, _ in around if is_exact]
        are_whole = all(ended_by == "COMMIT" and is_exact and is_proven for *_, ended_by, is_exact, is_proven in around)
        own = [one for one in spans if one.log_partition == log_partition]
        is_inside = not own or any(
            one.after_ms < began * 1000 + OFFSET_MS and completed * 1000 + OFFSET_MS <= one.to_ms for one in own
        )
        yield None if is_end_open else max(pauses, default=None), is_end_open or not (are_whole and is_inside)


def rows(schema, names, tuples):
    made = [dict(zip(names, one, strict=True)) for one in tuples]
    for row in made:
        for name, value in row.items():
            if value is not None and pa.types.is_timestamp(schema.field(name).type):
                row[name] = moment(value)
    return pa.Table.from_pylist(made, schema=schema)


@pytest.mark.parametrize("seed", range(60))
def test_pauses_are_those_that_a_search_finds(seed):
    random = Random(seed)
    rebalances, commits, taken = lives(random)
    rebalances = [(*one, random.random() < 0.2, random.randrange(2)) for one in rebalances]
    ends = sorted(random.randrange(200) * 1000 + OFFSET_MS for _ in range(2))
    spans = [ExactSpan(1, -1, ends[0]), ExactSpan(1, ends[1], LARGEST_INT64)] if random.random() < 0.7 else []
    expected = list(by_search(rebalances, commits, taken, spans))
    order = random.sample(range(len(rebalances)), len(rebalances))
    names = ("group_id", "started_at", "completed_at", "is_end_open", "log_partition")
    shuffled = rows(REBALANCES, names, [rebalances[one] for one in order])
    owned = rows(OWNERSHIP, ("group_id", "topic", "partition", "owned_from"), taken)
    pauses = CommitPauses(shuffled.combine_chunks(), iter(owned.to_batches(max_chunksize=3)), spans)
    history = rows(HISTORY, INTERVAL, commits)
    for batch in history.to_batches(max_chunksize=5):
        pauses.add(batch)
    found = zip(*(column.to_pylist() for column in pauses.pauses()), strict=True)
    assert list(found) == [expected[one] for one in order]
