"""Sentences about members: one for those of a client and host, and an end to the list."""

from typing import Any

from coordinator_replay.analysis.group_life import GroupReplay
from tests.analysis.classic_log import ClassicLog, member
from tests.engine.lives import GROUP


def rebalances(log: ClassicLog) -> list[dict[str, Any]]:
    life = GroupReplay("test", GROUP)
    rows = [row for record in log.records for row in life.feed(record)]
    return [row for table, row in [*rows, *life.finish()] if table == "rebalances"]


def test_members_of_one_client_and_host_are_one_sentence_with_a_count() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]))
    log.sync(2_000, member("a", [0]), *(member(f"c-{number}", [number], client="c") for number in range(1, 6)))
    (fact,) = rebalances(log)[1]["evidence"]
    assert (
        fact == "5 members of client c on 10.0.0.9 (c-1, c-2, c-3 and 2 more) joined (__consumer_offsets-0, offset 2)"
    )


def test_static_members_and_other_clients_are_named_by_themselves() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]))
    static = [member(f"s-{number}", [number], client="c", instance=f"s{number}") for number in range(1, 4)]
    log.sync(2_000, member("a", [0]), *static, member("b", [4], client="b"))
    assert len(rebalances(log)[1]["evidence"]) == 4


def test_a_rolling_restart_of_one_client_is_one_sentence() -> None:
    log = ClassicLog()
    log.sync(1_000, *(member(f"old-{number}", [number], client="c") for number in range(8)))
    log.sync(2_000, *(member(f"new-{number}", [number], client="c") for number in range(8)))
    row = rebalances(log)[1]
    assert row["evidence"][0] == (
        "8 members of client c on 10.0.0.9 (new-0, new-1, new-2 and 5 more) joined (__consumer_offsets-0, offset 2), "
        "and 8 others were removed in the same generation: same client.id and host"
    )
    assert len(row["evidence"]) < 6


def test_evidence_of_a_thousand_clients_ends() -> None:
    log = ClassicLog()
    log.sync(1_000, member("a", [0]))
    log.sync(2_000, member("a", [0]), *(member(f"m-{number}", [number + 1]) for number in range(1_000)))
    row = rebalances(log)[1]
    assert len(row["evidence"]) == 21
    assert row["evidence"][-1] == "and 980 more members: members_joined and members_left name all of them"
    assert len(row["members_joined"]) == 1_000
