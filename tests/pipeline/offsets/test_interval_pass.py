"""The pass without Spark: any history in any batches, against a reference that takes one record after the other."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.completeness.copies import CopyBounds, CopyOffsets, copy_of
from coordinator_replay.completeness.history import history_of
from coordinator_replay.completeness.offsets import NOTHING_MISSING, OffsetProofs
from coordinator_replay.pipeline.interval_rows import STAGED, Staged
from coordinator_replay.pipeline.offsets.events import EVENTS
from coordinator_replay.pipeline.offsets.interval_pass import find_offset_intervals
from coordinator_replay.pipeline.offsets.intervals import OffsetEvent
from tests.nightly import few_examples, many_examples
from tests.pipeline.offsets.reference import Reference, random_steps
from tests.pipeline.staged_rows import moment

COMMITS = {"plain": OffsetEvent.PLAIN, "transactional": OffsetEvent.OPENED, "tombstone": OffsetEvent.TOMBSTONE}


def event(kind, key, at, **columns):
    """An event at a log offset that is also its second."""
    group, topic, partition, log_partition = key
    row = dict.fromkeys(EVENTS.names)
    row.update(kind=kind, group_id=group, topic=topic, partition=partition, log_partition=log_partition)
    row.update(at_offset=at, at_timestamp=moment(at), log_offset=at, log_timestamp=moment(at), missing_before=0)
    return row | columns


def events_of(steps, log_partition):
    """Commits of a history, each with what its producer's next marker makes of it."""
    for at, (step, topic, producer) in enumerate(steps):
        if step not in COMMITS:
            continue
        key = ("g", topic, 0, log_partition)
        written = {"producer_id": -1 if producer is None else producer, "committed_offset": 1000 + at}
        yield event(COMMITS[step], key, at, **written)
        ends = [(i, end) for i, (end, _, by) in enumerate(steps) if i > at and by == producer and end not in COMMITS]
        if step == "transactional" and ends:
            kind = OffsetEvent.COMMITTED if ends[0][1] == "COMMIT" else OffsetEvent.ABORTED
            effect = {"at_offset": ends[0][0], "at_timestamp": moment(ends[0][0])}
            yield event(kind, key, at, **written, **effect)


def in_order(events):
    def key(row):
        named = [row["group_id"], row["log_partition"], row["topic"], row["partition"]]
        sort = (row["kind"] != OffsetEvent.STATE) + (row["kind"] > OffsetEvent.OWNER)
        return [(value is not None, value) for value in named], sort, row["at_offset"], row["log_offset"]

    return sorted(events, key=key)


def staged(events, sizes=(10_000,), proofs=NOTHING_MISSING):
    """Staged rows of events that come in batches of the given sizes, again and again."""
    table = pa.Table.from_pylist(in_order(events), schema=EVENTS).combine_chunks()
    batches, at, turn = [], 0, 0
    while at < table.num_rows:
        batches += table.slice(at, sizes[turn % len(sizes)]).to_batches()
        at, turn = at + sizes[turn % len(sizes)], turn + 1
    rows = find_offset_intervals(iter(batches), proofs)
    return pa.Table.from_batches(rows, schema=STAGED).to_pylist()


HISTORY = ("log_partition", "topic", "committed_offset", "from_offset", "to_offset", "ended_by")


def seconds(when):
    return None if when is None else round((when - moment(0)).total_seconds())


ANY = {"seed": st.integers(0, 2**32), "sizes": st.lists(st.integers(1, 40), min_size=1, max_size=3)}


@few_examples
@given(**ANY)
def test_any_history_in_any_batches_is_replayed_as_the_coordinator_does(seed, sizes):
    check_histories(seed, sizes)


@pytest.mark.long
@many_examples
@given(**ANY)
def test_many_histories_in_any_batches_are_replayed_as_the_coordinator_does(seed, sizes):
    check_histories(seed, sizes)


def check_histories(seed, sizes):
    random = Random(seed)
    histories = [list(random_steps(random)) for _ in range(20)]
    rows = staged([row for i, steps in enumerate(histories) for row in events_of(steps, i)], sizes)
    references = [Reference(i).replay(steps) for i, steps in enumerate(histories)]
    for row in rows:
        ends = (seconds(row["valid_from"]), seconds(row["valid_to"]))
        assert ends == (row["from_offset"], row["to_offset"])
        assert seconds(row["pending_since"]) == row["pending_since_offset"]
    history = [tuple(row[name] for name in HISTORY) for row in rows if row["kind"] != Staged.PENDING]
    assert sorted(map(repr, history)) == sorted(repr(row) for each in references for row in each.history)
    pending = [
        (
            row["log_partition"],
            row["topic"],
            row["producer_id"],
            row["from_offset"],
            row["pending_since_offset"],
            row["to_offset"],
            row["ended_by"],
        )
        for row in rows
        if row["kind"] == Staged.PENDING
    ]
    assert sorted(map(repr, pending)) == sorted(repr(row) for each in references for row in each.waited)


KEY = ("g", "t", 0, 3)
CONTEXT = [
    event(OffsetEvent.STATE, ("g", None, None, 3), 2, name="Stable"),
    event(OffsetEvent.STATE, ("g", None, None, 3), 8, name="Empty"),
    event(OffsetEvent.RULE, ("g", None, None, 3), 2, name="unsubscribed_topic", spared_topics=["u", "t"]),
    event(
        OffsetEvent.RULE, ("g", None, None, 3), 8, name="empty_since", commit_timestamp=moment(8), group_state="Empty"
    ),
    event(OffsetEvent.GROUP_TOMBSTONE, ("g", None, None, 3), 12, name="simple_group", at_timestamp=moment(11)),
    event(OffsetEvent.OWNER, ("g", "t", 0, 3), 3, name="m1", until_offset=7, log_offset=-1),
]
TOLD = [
    event(OffsetEvent.PLAIN, KEY, 1, producer_id=-1),
    event(OffsetEvent.PLAIN, KEY, 4, producer_id=-1),
    event(OffsetEvent.PLAIN, KEY, 9, producer_id=-1),
    event(OffsetEvent.OPENED, KEY, 10, producer_id=5),
    event(OffsetEvent.TOMBSTONE, KEY, 11, producer_id=-1),
    event(OffsetEvent.PLAIN, KEY, 13, producer_id=-1, missing_before=2),
]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_what_is_known_of_a_group_reaches_its_commits_over_the_borders_of_batches(size):
    rows = {row["from_offset"]: row for row in staged([*CONTEXT, *TOLD], [size])}
    told = {at: (row["owner_member_id"], row["group_state"]) for at, row in rows.items()}
    nobody = dict.fromkeys((1, 9, 10, 13), (None, "Empty"))
    assert told == nobody | {4: ("m1", "Stable")}
    removed = rows[9]
    assert (removed["kind"], removed["rule"], removed["base_timestamp"]) == (Staged.REMOVED, "empty_since", moment(8))
    assert removed["is_protected"]
    assert (removed["last_owner_member_id"], removed["last_state"]) == ("m1", "Empty")
    opened = rows[13]
    assert (opened["kind"], opened["rule"], opened["rule_since"]) == (Staged.OPEN, "simple_group", moment(11))
    assert not opened["is_protected"]


@pytest.mark.parametrize("size", [1, 100])
def test_what_a_commit_replaced_is_open_behind_a_gap_and_behind_one_that_may_have_been_aborted(size):
    copies = (CopyBounds(log_partition=3, name="", is_export=False, covered_from=at, cleaned_to=at, end=at + 5)
              for at in (0, 8))  # fmt: skip
    history = history_of([copy_of("run", one, CopyOffsets(np.arange(one.covered_from, one.end))) for one in copies])
    producers = {1: -1, 2: -1, 9: -1, 10: None, 11: None, 12: -1}
    commits = [event(OffsetEvent.PLAIN, KEY, at, producer_id=one, committed_offset=at) for at, one in producers.items()]
    rows = staged(commits, [size], OffsetProofs({3: history}))
    assert {row["from_offset"]: (row["previous_offset"], row["is_begin_open"]) for row in rows} == {
        1: (None, False),
        2: (1, False),
        9: (None, True),
        10: (9, False),
        11: (10, False),
        12: (None, True),
    }


def test_what_was_before_is_open_where_the_cleaner_has_seen_a_commit_that_waited():
    """An offset from before may be gone for the commit at 3: one that came into force later, or that of 9 replaced."""
    bounds = CopyBounds(log_partition=3, name="", is_export=False, covered_from=0, cleaned_to=8, end=13)
    kept = copy_of("run", bounds, CopyOffsets(np.array([3, *range(5, 13)])))
    commits = [
        event(OffsetEvent.OPENED, KEY, 3, producer_id=5),
        event(OffsetEvent.OPENED, KEY, 9, producer_id=6),
        event(OffsetEvent.COMMITTED, KEY, 10, producer_id=6, log_offset=9),
        event(OffsetEvent.COMMITTED, KEY, 11, producer_id=5, log_offset=3),
    ]
    twice = [commits[0] | {"producer_id": 6}, *commits[1:3]]
    for events, is_open in ((commits, True), (commits[1:3], False), (twice, True)):
        for size in (1, 100):
            rows = staged(events, [size], OffsetProofs({3: history_of([kept])}))
            [stored] = [row for row in rows if row["kind"] != Staged.PENDING]
            assert (stored["from_offset"], stored["is_begin_open"]) == (10, is_open)


def test_a_transaction_that_ends_behind_a_gap_is_not_proven():
    """Its own marker may be in the gap, and that behind it of another transaction."""
    bounds = CopyBounds(log_partition=3, name="", is_export=False, covered_from=0, cleaned_to=8, end=8, gaps=((3, 6),))
    kept = copy_of("run", bounds, CopyOffsets(np.array([0, 1, 2, 6, 7])))
    rows = staged(
        [
            event(OffsetEvent.OPENED, KEY, 2, producer_id=5),
            event(OffsetEvent.COMMITTED, KEY, 6, producer_id=5, log_offset=2),
        ],
        [100],
        OffsetProofs({3: history_of([kept])}),
    )
    assert [row["is_exact"] for row in rows] == [False, False]


@pytest.mark.parametrize("has_current", [True, False])
def test_a_commit_that_waited_and_that_a_newer_dump_lacks_waited_up_to_the_missing_records(has_current):
    """Its transaction ended somewhere in the missing records: when and how is not on record."""
    current = [event(OffsetEvent.PLAIN, KEY, 2, producer_id=-1)] if has_current else []
    rows = staged(
        [
            *current,
            event(OffsetEvent.OPENED, KEY, 3, producer_id=5, lost_at=6),
            event(OffsetEvent.LOST, KEY, 6, name="RECORDS_MISSING"),
        ]
    )
    ended = {row["from_offset"]: (row["ended_by"], row["to_offset"]) for row in rows if row["kind"] == Staged.PENDING}
    assert ended == {3: ("RECORDS_MISSING", 6)}
    assert [row["to_offset"] for row in rows if row["kind"] != Staged.PENDING] == [None] * has_current


def test_topics_that_a_member_subscribes_to_are_spared():
    commits = [event(OffsetEvent.PLAIN, ("g", topic, 0, 3), 4 + i, producer_id=-1) for i, topic in enumerate("tuv")]
    rows = staged([*CONTEXT[2:3], *commits])
    assert {row["topic"]: row["rule"] for row in rows} == {
        "t": "never_while_active",
        "u": "never_while_active",
        "v": "unsubscribed_topic",
    }


def test_events_out_of_order_are_refused():
    table = pa.Table.from_pylist([event(OffsetEvent.PLAIN, KEY, at) for at in (5, 4)], schema=EVENTS)
    with pytest.raises(RuntimeError, match="log order"):
        list(find_offset_intervals(iter(table.to_batches())))
