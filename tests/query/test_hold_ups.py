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
    assert (found["first"].waiting, found["first"].partitions) == (["early"], ["orders-0"])
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
