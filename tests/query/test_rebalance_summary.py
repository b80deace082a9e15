"""Many rebalances in three sentences."""

from dataclasses import replace

from coordinator_replay.query.impact import CommonTrait
from coordinator_replay.query.rebalance_summary import clients_of, summary_between, summary_of
from coordinator_replay.query.rebalances import Rebalance, rebalances_of
from coordinator_replay.query.tables import Tables
from tests.query.small_warehouse import at


def many(warehouse: Tables) -> list[Rebalance]:
    """Twelve of five groups with five causes; the last one is not over."""
    _, _, moved = rebalances_of(warehouse)
    causes = ["SESSION_TIMEOUT"] * 5 + ["MEMBER_JOIN"] * 3 + ["MEMBER_LEAVE"] * 2 + ["UNKNOWN", "CLIENT_UPGRADE"]
    groups = ["a"] * 6 + ["b"] * 3 + ["c", "d", "e"]
    found = [
        replace(moved, group_id=group, cause=cause, epoch=place, trigger_members=[group], commit_pause_ms=place * 10)
        for place, (group, cause) in enumerate(zip(groups, causes, strict=True))
    ]
    last = replace(found[-1], completed_at=None, completed_offset=None, duration_ms=None, is_in_progress=True)
    return [*found[:-1], last]


def test_how_many_and_why_which_groups_and_what_they_cost(warehouse: Tables):
    assert summary_of(many(warehouse), {}, ()) == [
        "12 rebalances of 5 groups from 2026-11-20T02:10:00.000Z to 2026-11-20T02:10:00.000Z: SESSION_TIMEOUT 5, "
        "MEMBER_JOIN 3, MEMBER_LEAVE 2, other causes 2.",
        "By group: a 6, b 3, c 1, other groups 2; 12 of 12 set off by 5 members.",
        "Longest: commits paused 110 ms (e, epoch 11); exact duration 20,000 ms (a, epoch 0); 1 not over.",
    ]


def test_a_rebalance_whose_end_is_missing_does_not_count_as_one_that_goes_on(warehouse: Tables):
    *before, last = many(warehouse)
    *_, longest = summary_of([*before, last, replace(last, is_in_progress=False)], {}, ())
    assert longest.endswith("; 1 not over; 1 end not on record.")


def test_a_single_other_cause_is_named(warehouse: Tables):
    first, second, _ = (line.split(": ", 1)[-1] for line in summary_of(many(warehouse)[:-1], {}, ()))
    assert first == "SESSION_TIMEOUT 5, MEMBER_JOIN 3, MEMBER_LEAVE 2, UNKNOWN 1."
    assert second.startswith("a 6, b 3, c 1, d 1; ")


def test_where_records_are_missing_there_may_have_been_more(warehouse: Tables):
    some = many(warehouse)
    inexact = [*some[:-1], replace(some[-1], is_exact=False)]
    for lines in (summary_of(some, {}, (), is_complete=False), summary_of(inexact, {}, ())):
        assert lines[0].startswith("At least 12 rebalances of 5 groups")


def test_what_is_not_on_record_is_not_invented(warehouse: Tables):
    bare = [
        replace(
            one,
            cause=None,
            commit_pause_ms=None,
            duration_ms=None,
            duration_ms_max=None,
            trigger_members=None,
            started_at=at("02:01"),
        )
        for one in many(warehouse)[:2]
    ]
    assert summary_of(bare, {}, ()) == [
        "2 rebalances of 1 group from 2026-11-20T02:01:00.000Z to 2026-11-20T02:01:00.000Z: UNKNOWN 2.",
        "0 of 2 set off by 0 members.",
        "Longest: not on record.",
    ]


def test_bounds_are_named_where_no_exact_duration_is_longer(warehouse: Tables):
    some = [replace(one, commit_pause_ms=None, is_end_open=False) for one in many(warehouse)[:3]]
    first, second, third = (replace(one, duration_ms=None, duration_ms_min=9) for one in some)
    classic = replace(first, group_type="classic", duration_ms_max=14_051)
    others = [replace(second, duration_ms_max=900), replace(third, duration_ms_max=None)]
    assert summary_of([classic, *others], {}, ())[2] == (
        "Longest: duration not exact, at most 14.1 s (a, generation 0), 1 without an upper bound below 5 minutes."
    )
    # An exact duration of 20 s is longer than the largest bound.
    assert summary_of([some[0], classic, *others], {}, ())[2] == "Longest: exact duration 20,000 ms (a, epoch 0)."
    assert "at most 21.0 s" in summary_of([some[0], replace(classic, duration_ms_max=21_000)], {}, ())[2]


def test_who_did_it_most_and_what_the_groups_have_in_common(warehouse: Tables):
    """A client that was restarted has another member id each time."""
    some = [replace(one, trigger_members=[f"{one.group_id}-{one.epoch}"]) for one in many(warehouse)]
    clients = {(one.group_id, f"{one.group_id}-{one.epoch}"): f"app on 10.0.0.{one.group_id}" for one in some}
    host = CommonTrait(trait="host", value="/10.0.0.7", concerned=4, concerned_groups=5, others=1, other_groups=9)
    assert summary_of(some, clients, [host])[1] == (
        "By group: a 6, b 3, c 1, other groups 2; 12 of 12 set off by 12 members, most often by app on 10.0.0.a "
        "(6); in common: host /10.0.0.7 (4 of 5 groups, 1 of 9 others)."
    )


def test_clients_that_did_it_equally_often_are_all_named(warehouse: Tables):
    some = [replace(one, group_id="a") for one in many(warehouse)]

    def most_often(count: int) -> str:
        given = [replace(one, trigger_members=[f"m-{place % count}"]) for place, one in enumerate(some)]
        clients = {("a", f"m-{place}"): f"app-{place}" for place in range(count)}
        return summary_of(given, clients, ())[1].partition("most often by ")[2]

    assert most_often(2) == "app-0 and app-1 (6 each)."
    assert most_often(3) == "app-0, app-1 and app-2 (4 each)."
    assert most_often(6) == "app-0, app-1, app-2 and 3 more (2 each)."
    assert most_often(7) == "app-0, app-1, app-2 and 2 more (2 each)."


def test_few_rebalances_are_read_one_by_one(warehouse: Tables):
    assert summary_between(warehouse, many(warehouse)[:5], None, None) == []
    three = summary_between(warehouse, many(warehouse)[:11], None, None)
    assert len(three) == 3


def test_clients_are_named_by_instance_id_or_by_client_and_host(warehouse: Tables):
    assert clients_of(warehouse, ["payments"]) == {
        ("payments", "m-1"): "client-m-1 on 10.0.0.1",
        ("payments", "m-2"): "two",
    }
