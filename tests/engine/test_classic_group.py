"""The classic group, loaded from records."""

import pytest

from coordinator_replay.engine.classic_group import ClassicGroup
from coordinator_replay.engine.events import EventKind
from coordinator_replay.engine.model import Record
from coordinator_replay.engine.replay import StateReplay
from scripts.docs.transitions import WRITTEN
from tests.engine.lives import GROUP, Writer


def value(generation: int, *member_ids: str, leader: str | None = None, **fields: object) -> dict[str, object]:
    members = [
        {
            "memberId": member_id,
            "groupInstanceId": None,
            "clientId": "client",
            "clientHost": "/10.0.0.9",
            "rebalanceTimeout": -1,
            "sessionTimeout": 45000,
            "subscription": "",
            "assignment": "AAAAAAABAAF4AAAAAQAAAAD/////",
        }
        for member_id in member_ids
    ]
    return {
        "protocolType": "consumer",
        "generation": generation,
        "protocol": "range" if members else None,
        "leader": leader or (member_ids[0] if member_ids else None),
        "members": members,
        **fields,
    }


def told(*values: dict[str, object] | None) -> list[tuple[str, object]]:
    writer = Writer()
    for one in values:
        writer.tick()
        writer.write("GroupMetadata", one)
    replay = StateReplay(GROUP)
    events = [event for record in writer.records for event in replay.apply(record)] + replay.finish()
    return [(event.kind, event.changes.get("rule", event.member_id)) for event in events]


def test_a_rebalance_timeout_is_kept_as_it_was_written_and_loaded_as_the_session_timeout() -> None:
    replay = StateReplay(GROUP)
    replay.apply(Record("GroupMetadata", {"group": GROUP}, value(1, "a"), 0, 0, 0))
    assert isinstance(replay.group, ClassicGroup)
    subscription = replay.group.members["a"].subscription
    assert subscription is not None
    assert (subscription.rebalance_timeout_ms, subscription.loaded_rebalance_ms) == (-1, 45000)
    assert [protocol.name for protocol in subscription.protocols] == ["range"]


@pytest.mark.parametrize(
    ("damaged", "rule"),
    [
        (value(1, "a", "a"), "member_id_repeats"),
        (value(1, "a", leader="z"), "leader_is_not_a_member"),
    ],
)
def test_damage_in_one_record_is_kept_and_told(damaged: dict[str, object], rule: str) -> None:
    assert (EventKind.INVARIANT_BROKEN, rule) in told(damaged)


def test_two_members_with_one_partition_in_one_generation_break_a_rule() -> None:
    with_blobs = value(1, "a", "b")
    assert (EventKind.INVARIANT_BROKEN, "one_owner_per_partition") in told(with_blobs)


def test_a_generation_that_falls_without_a_gap_breaks_a_rule() -> None:
    assert (EventKind.INVARIANT_BROKEN, "epochs_never_fall") in told(value(5, "a"), value(2, "a"))
    assert (EventKind.INVARIANT_BROKEN, "epochs_never_fall") not in told(value(5, "a"), None, value(2, "a"))


def test_a_generation_written_twice_with_other_members_breaks_a_rule() -> None:
    assert (EventKind.INVARIANT_BROKEN, "generation_is_written_once") in told(value(5, "a"), value(5, "b"))


def test_generations_that_were_never_synced_count_as_attempts() -> None:
    replay = StateReplay(GROUP)
    replay.apply(Record("GroupMetadata", {"group": GROUP}, value(1, "a"), 0, 0, 0))
    events = replay.apply(Record("GroupMetadata", {"group": GROUP}, value(4, "a"), 0, 1, 9))
    assert [event.changes["attempts"] for event in events] == [3]


def test_a_written_group_is_empty_or_stable() -> None:
    seen = set()
    for first in (value(1), value(1, "a")):
        for second in (value(2), value(2, "a")):
            replay = StateReplay(GROUP)
            replay.apply(Record("GroupMetadata", {"group": GROUP}, first, 0, 0, 0))
            before = replay.state
            replay.apply(Record("GroupMetadata", {"group": GROUP}, second, 0, 1, 1))
            seen.add((before, replay.state))
    assert {pair for pair in seen if pair[0] != pair[1]} == set(WRITTEN)
