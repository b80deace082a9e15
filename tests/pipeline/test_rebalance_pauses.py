"""The pause in commits around a rebalance, against a plain search over every pair of them."""

from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

from coordinator_replay.pipeline.rebalance_pauses import WITHIN_MS, CommitPauses
from coordinator_replay.tables.definition import table
from tests.pipeline.staged_rows import moment

REBALANCES = table("rebalances").file_schema().remove_metadata()
HISTORY = table("offset_history").arrow_schema(["group_id", "topic", "partition", "valid_from", "valid_to"])
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
                commits += [(group, topic, partition, *pair) for pair in pairwise(times)]
    return rebalances, commits, taken


def by_search(rebalances, commits, taken):
    for group, started, completed in rebalances:
        began = completed if started is None else started
        mine = {(topic, partition) for of, topic, partition, at in taken if of == group and began <= at <= completed}
        pauses = [
            (end - begin) * 1000
            for of, topic, partition, begin, end in commits
            if of == group
            and begin <= completed
            and end >= began
            and (end - completed) * 1000 <= WITHIN_MS
            and (not mine or (topic, partition) in mine)
        ]
        yield max(pauses, default=None)


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
    expected = list(by_search(rebalances, commits, taken))
    order = random.sample(range(len(rebalances)), len(rebalances))
    shuffled = rows(REBALANCES, ("group_id", "started_at", "completed_at"), [rebalances[one] for one in order])
    owned = rows(OWNERSHIP, ("group_id", "topic", "partition", "owned_from"), taken)
    pauses = CommitPauses(shuffled.combine_chunks(), iter(owned.to_batches(max_chunksize=3)))
    history = rows(HISTORY, ("group_id", "topic", "partition", "valid_from", "valid_to"), commits)
    for batch in history.to_batches(max_chunksize=5):
        pauses.add(batch)
    assert pauses.pauses().to_pylist() == [expected[one] for one in order]
