"""Random histories against a reference that takes one record after the other, and what is not random."""

from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from coordinator_replay.pipeline.offsets import offset_history, pending_offsets, thin_history
from coordinator_replay.tables.definition import table
from tests.pipeline.offset_reference import Reference, random_steps
from tests.pipeline.offset_rows import as_records, commit, derive, dicts, emptied, in_ms, kept, marker, moment, ms

pytestmark = pytest.mark.spark


def written(log_partition, steps):
    for log_offset, (step, topic, producer) in enumerate(steps):
        position = (log_partition, log_offset)
        if step in ("COMMIT", "ABORT"):
            yield marker(position, log_offset, producer, step)
        else:
            committed = None if step == "tombstone" else 1000 + log_offset
            yield commit(position, log_offset, ("g", topic, 0), committed, producer)


# Many histories make one Spark job. Lists drawn by hypothesis itself stay short, and shrinking them would be one more
# job for each step; so it draws where the random numbers begin.
@settings(max_examples=2, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_any_interleaving_is_replayed_as_the_coordinator_does(spark, tmp_path_factory, seed):
    random = Random(seed)
    batch = [list(random_steps(random)) for _ in range(150)]
    rows = [row for i, steps in enumerate(batch) for row in written(i, steps)]
    records = kept(spark, as_records(spark, rows), tmp_path_factory.mktemp("random") / "records")
    staged = kept(spark, derive(records), tmp_path_factory.mktemp("random") / "staged")
    references = [Reference(i).replay(steps) for i, steps in enumerate(batch)]
    history = {
        (r["log_partition"], r["topic"], r["committed_offset"], r["from_offset"], r["to_offset"], r["ended_by"])
        for r in dicts(in_ms(offset_history(staged, "c")))
        if (r["valid_from"], r["valid_to"]) == (ms(r["from_offset"]), ms_or_none(r["to_offset"]))
    }
    assert history == {row for reference in references for row in reference.history}
    pending = {
        (
            r["log_partition"],
            r["topic"],
            r["producer_id"],
            r["from_offset"],
            round((r["pending_since"] - ms(0)) / 1000),
            r["to_offset"],
            r["ended_by"],
        )
        for r in dicts(in_ms(pending_offsets(staged, "c")))
        if (r["valid_from"], r["valid_to"]) == (ms(r["from_offset"]), ms_or_none(r["to_offset"]))
    }
    assert pending == {row for reference in references for row in reference.waited}


def ms_or_none(seconds):
    return None if seconds is None else ms(seconds)


def test_columns_are_those_of_the_tables(spark):
    staged = derive(as_records(spark, [commit((0, 0), 0, ("g", "t", 0), 1)]))

    def shape(df):
        return [(field.name, field.dataType.simpleString()) for field in df.schema]

    def declared(name):
        return [(column.name, column.type.replace(" ", "")) for column in table(name).columns]

    assert shape(offset_history(staged, "c")) == declared("offset_history")
    assert shape(pending_offsets(staged, "c")) == declared("pending_offsets")


def ownership(spark, *rows):
    named = [
        ("c", "g", "t", partition, member, moment(start), None if end is None else moment(end))
        for partition, member, start, end in rows
    ]
    schema = (
        "cluster string, group_id string, topic string, partition int, member_id string, owned_from timestamp, "
        "owned_to timestamp"
    )
    return spark.createDataFrame(named, schema)


def timeline(spark, *rows):
    named = [("c", group, seq, None, state, 0, offset, moment(at)) for group, seq, state, offset, at in rows]
    schema = (
        "cluster string, group_id string, seq bigint, from_state string, to_state string, log_partition int, "
        "log_offset bigint, log_timestamp timestamp"
    )
    return spark.createDataFrame(named, schema)


def test_commits_know_who_owned_their_partition_and_the_groups_state(spark):
    records = as_records(
        spark,
        [
            commit((0, 1), 1, ("g", "t", 0), 1),
            commit((0, 6), 5, ("g", "t", 0), 2),
            commit((0, 12), 12, ("g", "t", 0), 3),
            commit((0, 20), 20, ("g", "t", 0), 4),
            commit((0, 21), 26, ("g", "t", 0), 5),
            commit((0, 22), 26, ("g", "t", 1), 6),
            commit((0, 23), 27, ("simple", "t", 0), 7),
            commit((0, 24), 28, ("g", "t", 2), 8, producer=5),
            marker((0, 31), 31, 5, "COMMIT"),
        ],
    )
    owners = ownership(spark, (0, "m1", 5, 12), (0, "m2", 12, 20), (0, "m3", 25, None), (2, "m4", 5, 30))
    states = timeline(
        spark, ("g", 0, "Stable", 5, 5), ("g", 1, "Stable", 11, 11), ("g", 2, "Empty", 19, 19), ("g", 3, "Dead", 25, 27)
    )
    rows = dicts(offset_history(derive(records, ownership=owners, timeline=states), "c"))
    assert {row["committed_offset"]: (row["owner_member_id"], row["group_state"]) for row in rows} == {
        1: (None, "Empty"),
        2: ("m1", "Stable"),
        3: ("m2", "Stable"),
        4: (None, "Empty"),
        5: ("m3", "Empty"),
        6: (None, "Empty"),
        7: (None, "Empty"),
        8: ("m4", "Empty"),
    }


def test_thinned_history_keeps_the_last_commit_of_each_stretch_and_counts_the_others(spark):
    seconds = [1, 2, 3, 61, 62, 130, 131, 132]
    rows = [commit((0, i), at, ("g", "t", 0), 100 + i) for i, at in enumerate(seconds)]
    rows += [commit((0, 8), 133, ("g", "t", 0)), commit((0, 9), 134, ("g", "t", 0), 200)]
    rows += [commit((0, 10), 135, ("g", "t", 0), 201), emptied((0, 11), 136, "other")]
    thin = dicts(in_ms(thin_history(offset_history(derive(as_records(spark, rows)), "c"), 60_000)))
    told = sorted(
        (r["from_offset"], r["to_offset"], r["committed_offset"], r["commits_merged"], r["ended_by"]) for r in thin
    )
    assert told == [
        (0, 2, 100, 0, "COMMIT"),
        (2, 4, 102, 1, "COMMIT"),
        (4, 7, 104, 1, "COMMIT"),
        (7, 8, 107, 2, "TOMBSTONE"),
        (9, 10, 200, 0, "COMMIT"),
        (10, None, 201, 0, None),
    ]
    assert [(r["valid_from"], r["valid_to"]) for r in sorted(thin, key=lambda r: r["from_offset"])][:2] == [
        (ms(1), ms(3)),
        (ms(3), ms(62)),
    ]
