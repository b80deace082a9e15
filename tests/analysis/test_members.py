"""A member that looks different in ``member_timeline`` gets a new row."""

from typing import Any

import pytest

from coordinator_replay.analysis.members import TABLE, MemberReplay
from coordinator_replay.analysis.rows import RecordTopics
from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.model import Current, GroupState, GroupType, Member, Subscription, Target

PART = {"a": (0, 1)}

CHANGES: list[dict[str, Any]] = [
    {"instance_id": "i"},
    {"rack_id": "r"},
    {"client_id": "c"},
    {"client_host": "/10.0.0.1"},
    {"topics": ("orders",)},
    {"regex": "o.*"},
    {"assignor": "range"},
    {"session_timeout_ms": 5},
    {"rebalance_timeout_ms": 5},
]


def rows_of(*members: Member) -> list[dict[str, Any]]:
    """Return the open and closed rows of a member that changes, without the columns of time."""
    replay, rows = MemberReplay(RecordTopics({})), []
    for offset, member in enumerate(members):
        stable = GroupState.STABLE
        event = Event(
            EventKind.METADATA_CHANGED, GroupType.CONSUMER, stable, stable, 1, 1, 1, True, 0, offset, 1000 * offset
        )
        rows += replay.fold([event], {"m": (member, offset)}, offset)
    return [row for table, row in [*rows, *replay.open_rows()] if table == TABLE]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_a_changed_subscription_begins_a_row(change: dict[str, Any]) -> None:
    first, second = rows_of(Member("m", Subscription()), Member("m", Subscription(**change)))
    assert first != second and (first["to_offset"], second["from_offset"]) == (1, 1)


def test_every_shown_field_of_a_subscription_is_among_the_changes() -> None:
    changed = {name for change in CHANGES for name in change}
    # The table shows the protocols of classic groups, where each generation begins a row.
    unshown = {"uses_classic_protocol", "protocols", "draft"}
    rest = set(Subscription._fields) - changed
    assert {name for name in rest if _shows(name)} <= unshown


def _shows(name: str) -> bool:
    """Return whether a row of the table differs by a field alone."""
    plain = Subscription()
    value = getattr(plain, name)
    other = plain._replace(**{name: not value if isinstance(value, bool) else ("x",)})
    return rows_of(Member("m", plain))[0] != rows_of(Member("m", other))[0]


@pytest.mark.parametrize("change", [{"epoch": 2}, {"assigned": PART}, {"pending": PART}])
def test_a_changed_assignment_begins_a_row(change: dict[str, Any]) -> None:
    subscription = Subscription()
    assert len(rows_of(Member("m", subscription, Current()), Member("m", subscription, Current(**change)))) == 2


def test_a_changed_target_begins_a_row() -> None:
    assert len(rows_of(Member("m", target=Target({})), Member("m", target=Target(PART)))) == 2


def test_a_member_that_looks_alike_keeps_its_row() -> None:
    [row] = rows_of(Member("m", Subscription(draft={"x": 1})), Member("m", Subscription(draft={"x": 2})))
    assert row["to_offset"] is None
