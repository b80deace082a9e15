"""What commits come to does not depend on how they were taken together."""

from functools import reduce
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.analysis.findings.totals import (
    BURST_MS,
    GROUP,
    PARTITION,
    REWIND,
    WHOLE,
    ActiveTime,
    Totals,
    ranges_of,
    rewind,
    with_longest_pauses,
)
from coordinator_replay.times import time_order

NUMBER = st.integers(0, 9)
MAYBE = st.one_of(st.none(), NUMBER)

RANGES = st.lists(st.tuples(NUMBER, NUMBER).map(sorted).map(lambda ends: [*ends, 1]), max_size=3).map(ranges_of)


def sums_of(summary, offsets):
    """Sums as tasks write them; of two commits none has the same offset."""
    names = {*summary.columns, *(name for columns in summary.newest.values() for name in columns)}
    plain = {name: NUMBER if name in ("commits", "count") else MAYBE for name in names}
    if "active" in names:
        plain["active"] = RANGES
    return (
        st.fixed_dictionaries({**plain, "from_offset": offsets})
        if "from_offset" in names
        else st.fixed_dictionaries(plain)
    )


@st.composite
def parted(draw, summary):
    rows = [draw(sums_of(summary, st.just(number))) for number in range(draw(st.integers(1, 6)))]
    for number, row in enumerate(rows):
        if row.get("empty_from_offset") is not None:
            row["empty_from_offset"] = number
        else:
            row |= dict.fromkeys(summary.newest.get("empty_from_offset", ()))
    return draw(st.permutations(rows)), draw(st.integers(0, len(rows)))


@given(st.sampled_from([GROUP, PARTITION]).flatmap(lambda summary: st.tuples(st.just(summary), parted(summary))))
def test_sums_in_any_parts_come_to_the_same(told):
    summary, (rows, split) = told
    whole = reduce(summary.merge, sorted(rows, key=repr))
    parts = [reduce(summary.merge, some) for some in (rows[:split], rows[split:]) if some]
    assert reduce(summary.merge, parts) == whole
    for name, kind in (("commits", sum), ("first_at", min), ("last_at", max)):
        known = [row[name] for row in rows if row[name] is not None]
        assert whole[name] == (kind(known) if known else None)
    if summary is PARTITION:
        newest = max(rows, key=lambda row: row["from_offset"])
        assert (whole["from_offset"], whole["committed_offset"]) == (newest["from_offset"], newest["committed_offset"])
        empty = [row for row in rows if row["empty_from_offset"] is not None]
        if empty:
            last = max(empty, key=lambda row: row["empty_from_offset"])
            assert {name: whole[name] for name in PARTITION.newest["empty_from_offset"]} == {
                name: last[name] for name in PARTITION.newest["empty_from_offset"]
            }


def back(offset, committed, previous, partition=0):
    return {
        "partition": partition,
        "log_partition": 3,
        "from_offset": offset,
        "committed_offset": committed,
        "previous_offset": previous,
        "leader_epoch": None,
        "is_transactional": False,
        "owner_member_id": f"m-{offset}",
        "group_state": "Stable",
        "valid_from": 1000 * offset,
        "is_over": True,
    }


def test_rewinds_are_counted_and_the_newest_is_told():
    one, two, three = (rewind(back(*told)) for told in ((7, 5, 9), (9, 1, 2), (8, 0, 3)))
    (merged,) = reduce(REWIND.merge, (one, two, three))["bursts"]
    assert (merged["count"], merged["first_at"], merged["furthest"]) == (3, 7000, 4)
    assert merged["last"]["owner_member_id"] == "m-9"
    assert "is_over" not in merged["last"]


MOMENTS = st.lists(st.one_of(st.none(), st.integers(0, 150).map(lambda n: n * BURST_MS // 3)), min_size=1, max_size=8)


@given(MOMENTS.flatmap(lambda moments: st.tuples(st.just(moments), st.permutations(range(len(moments))))))
def test_bursts_are_those_that_follow_each_other_closely_in_whatever_order_they_come(drawn):
    """Offsets rise with time, as in a log; what has no time comes first."""
    moments, order = drawn
    moments.sort(key=time_order)
    singles = [rewind({**back(n, 0, 5, partition=n % 3), "valid_from": at}) for n, at in enumerate(moments)]
    merged = reduce(REWIND.merge, (singles[place] for place in order))["bursts"]
    starts = [
        n
        for n, at in enumerate(moments)
        if not n or (at is not None and (moments[n - 1] is None or at - moments[n - 1] > BURST_MS))
    ]
    assert [one["first_offset"] for one in merged] == starts
    assert sum(one["count"] for one in merged) == len(moments)
    ends = [*starts[1:], len(moments)]
    assert [one["last"]["from_offset"] for one in merged] == [end - 1 for end in ends]
    for one, start, end in zip(merged, starts, ends, strict=True):
        assert one["partitions"] == sorted({n % 3 for n in range(start, end)})
        assert (one["first_at"], one["last_at"]) == (moments[start], moments[end - 1])


def test_of_very_many_bursts_the_oldest_become_one_in_whatever_order_they_come():
    singles = [rewind({**back(n, 0, 5), "valid_from": 2 * BURST_MS * n}) for n in range(130)]
    merged = reduce(REWIND.merge, singles)["bursts"]
    assert [one["count"] for one in merged] == [31, *[1] * 99]
    shuffled = singles[::2] + singles[:0:-2]
    assert reduce(REWIND.merge, [*shuffled, *[one for one in singles if one not in shuffled]])["bursts"] == merged


def test_what_is_not_over_is_left_to_the_next_run():
    totals = Totals()
    assert totals.commits() is None
    first, second = ({**dict.fromkeys(GROUP.columns, at), "active": [[at, at, 1]]} for at in (4, 3))
    totals.add(GROUP, WHOLE, first, is_over=True)
    totals.add(GROUP, WHOLE, second, is_over=False)
    totals.add(PARTITION, ("t", 1), dict.fromkeys(PARTITION.columns, 3), is_over=False)
    assert (totals.commits() or {}).get("first_at") == 3
    assert totals.every["group"][WHOLE]["commits"] == 7
    assert list(totals.kept()) == [("group", WHOLE, first)]


@given(st.lists(st.integers(0, 10_000), unique=True, min_size=102, max_size=300), st.integers(1, 101))
def test_the_longest_pauses_are_kept_and_nothing_else_of_a_group_that_pauses_again_and_again(times, split):
    times.sort()
    whole = with_longest_pauses([[at, at, 1] for at in times])
    pauses = sorted(after - before for (_, before, _), (after, _, _) in pairwise(whole))
    assert (whole[0][0], whole[-1][1], len(pauses)) == (times[0], times[-1], 100)
    assert pauses == sorted(after - before for before, after in pairwise(times))[-100:]
    night = with_longest_pauses([[at, at, 1] for at in times[:split]])
    assert with_longest_pauses([*night, *([at, at, 1] for at in times[split:])]) == whole
    assert sum(commits for _, _, commits in whole) == len(times)


@given(st.lists(st.integers(0, 10_000), unique=True, min_size=2), st.integers(1, 100), st.integers(0, 20))
def test_what_is_a_pause_is_decided_by_what_came_before_it(times, split, patience):
    singles = [[at, at, 1] for at in sorted(times)]
    whole = ranges_of(singles, 5, patience)
    assert ranges_of([*ranges_of(singles[:split], 5, patience), *singles[split:]], 5, patience) == whole


@given(RANGES, NUMBER, NUMBER)
def test_active_time_is_what_lies_in_all_ranges_together(ranges, first, last):
    active = ActiveTime(ranges)
    assert active.elapsed_ms(first, last) == sum(max(min(end, last) - max(begin, first), 0) for begin, end, _ in ranges)
    assert active.last_before(last) == max((min(end, last) for begin, end, _ in ranges if begin < last), default=None)
