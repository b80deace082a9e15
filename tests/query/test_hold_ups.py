"""Who held a rebalance up: who waited for its partitions, and who only took them over."""

from pathlib import Path

from coordinator_replay.query.hold_ups import hold_ups
from coordinator_replay.query.tables import Tables
from tests.query.small_warehouse import Row, at, member, orders, owned, write_rows, write_small_warehouse

GROUP = "shipping"


def rebalance(rebalance_id: str, start: str) -> Row:
    return {
        "rebalance_id": rebalance_id,
        "cluster": "default",
        "group_id": GROUP,
        "group_type": "consumer",
        "started_at": at(start),
        "completed_at": at("03:00:20"),
        "held_up_by": "slow",
        "held_up_ms": 1000,
    }


def handed(partition: int, to: str) -> list[Row]:
    """The slow member gives a partition up at 03:00:15, and another one owns it at once."""
    return [
        owned(partition, "slow", "02:00", "03:00:15", group_id=GROUP, unowned_ms=0),
        owned(partition, to, "03:00:15", group_id=GROUP),
    ]


def warehouse(folder: Path, members: list[Row]) -> Tables:
    """One rebalance began at 03:00, one at 03:00:10; of three partitions, each of three members took one."""
    write_small_warehouse(folder)
    write_rows(folder, "rebalances", [rebalance("first", "03:00"), rebalance("second", "03:00:10")])
    write_rows(folder, "member_timeline", members)
    write_rows(
        folder,
        "partition_ownership",
        [row for number, to in enumerate(("early", "late", "heir")) for row in handed(number, to)],
    )
    return Tables(str(folder))


def test_only_who_was_to_get_a_partition_before_it_was_free_waited_and_only_since_it_joined(tmp_path: Path):
    """The heir is assigned its partition when the slow member leaves; the late one joins in the second rebalance."""
    found = hold_ups(
        warehouse(
            tmp_path,
            [
                member(GROUP, "early", "03:00", None, 1, target=orders(0)),
                member(GROUP, "late", "03:00:10", None, 2, target=orders(1)),
                member(GROUP, "heir", "02:00", "03:00:15", 0, target=orders(7)),
                member(GROUP, "heir", "03:00:15", None, 3, target=orders(2, 7)),
            ],
        ),
        GROUP,
    )
    assert [(wait.member_id, wait.waited_ms) for wait in found["second"].waits] == [("early", 5000), ("late", 5000)]
    assert [(wait.member_id, wait.waited_ms) for wait in found["first"].waits] == [("early", 15_000)]
    assert (found["first"].waiting, found["first"].partitions) == (["early"], ["orders-0"])
    # The first rebalance was in progress when the second one began: the early one had waited since then.
    assert [wait.waited_ms_total for wait in found["second"].waits] == [15_000, 5000]
    assert (found["second"].waiting, found["second"].partitions) == (["early", "late"], ["orders-0", "orders-1"])


def test_a_static_member_waits_for_what_the_one_that_it_replaced_was_to_get(tmp_path: Path):
    found = hold_ups(
        warehouse(
            tmp_path,
            [
                member(GROUP, "before", "02:00", "03:00:12", 1, target=orders(1), instance_id="one"),
                member(GROUP, "late", "03:00:12", None, 2, target=orders(1), instance_id="one"),
            ],
        ),
        GROUP,
    )
    assert {name: one.waiting for name, one in found.items()} == {"first": ["late"], "second": ["late"]}


def test_each_member_waits_for_each_partition_since_its_target_has_it(tmp_path: Path):
    """The early member is to get partition 0 from the begin on, and partition 1 from 03:00:04 on.

    The late one is to get partition 2 from the begin on; the slow member may keep it until 03:00:09.
    """
    members = [
        member(GROUP, "slow", "02:00", "03:00:09", 0, target=orders(2)),
        member(GROUP, "slow", "03:00:09", "03:00:15", 5),
        member(GROUP, "early", "02:59", "03:00:04", 1, target=orders(0)),
        member(GROUP, "early", "03:00:04", None, 2, target=orders(0, 1)),
        member(GROUP, "late", "02:59", None, 3, target=orders(2)),
    ]
    write_small_warehouse(tmp_path)
    write_rows(tmp_path, "rebalances", [rebalance("first", "03:00")])
    write_rows(tmp_path, "member_timeline", members)
    handed_over = zip(range(3), ("early", "early", "late"), strict=True)
    write_rows(tmp_path, "partition_ownership", [row for number, to in handed_over for row in handed(number, to)])
    found = hold_ups(Tables(str(tmp_path)), GROUP)["first"]
    assert [(wait.member_id, wait.waited_ms, wait.partitions) for wait in found.waits] == [
        ("early", 15_000, ["orders-0"]),
        ("early", 11_000, ["orders-1"]),
        ("late", 6000, ["orders-2"]),
    ]
    assert found.waited_ms == 15_000
