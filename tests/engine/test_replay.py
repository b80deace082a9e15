"""What holds for every log: slices, snapshots, events, gaps, strange records."""

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.engine.events import Event, EventKind
from coordinator_replay.engine.model import GroupState, Marker, Record
from coordinator_replay.engine.replay import StateReplay
from coordinator_replay.errors import SnapshotError, UsageError
from scripts.docs import transitions
from tests.engine.described import describe
from tests.engine.event_model import EventModel, told_by
from tests.engine.lives import GROUP, Writer, any_records
from tests.engine.recordings import Log, by_group, group_of, group_records, logs
from tests.nightly import few_examples, many_examples

SAMPLES = [
    "group-lifecycles",
    "expiration",
    "java-clients",
    "kafka-3.9",
    "transactions",
    "compacted",
    "old-format-gzip",
    "old-format-none",
    "restarts",
]
WHOLE_LOGS = [sample for sample in SAMPLES if sample != "compacted"]


def replay_whole(group_id: str, records: Iterable[Record]) -> tuple[StateReplay, list[Event]]:
    replay = StateReplay(group_id)
    events = [event for record in records for event in replay.apply(record)]
    return replay, events + replay.finish()


def restored(replay: StateReplay) -> StateReplay:
    """Through JSON and back, as a run of the next day would."""
    return StateReplay.restore(json.loads(json.dumps(replay.snapshot())))


@pytest.mark.parametrize("sample", SAMPLES)
def test_replay_in_any_two_slices_gives_the_events_of_replay_in_one_go(sample: str) -> None:
    for log in logs(sample).values():
        for group_id, records in by_group(log).items():
            whole, expected = replay_whole(group_id, records)
            for split in range(len(records) + 1):
                first = StateReplay(group_id)
                events = [event for record in records[:split] for event in first.apply(record)]
                second = restored(first)
                events += [event for record in records[split:] for event in second.apply(record)]
                events += second.finish()
                assert events == expected, (group_id, split)
                assert describe(second) == describe(whole)
                assert second.snapshot() == whole.snapshot()


@few_examples
@given(any_records())
def test_replay_record_by_record_through_snapshots_gives_the_same(records: list[Record]) -> None:
    check_snapshots(records)


@pytest.mark.long
@many_examples
@given(any_records())
def test_many_replays_record_by_record_through_snapshots_give_the_same(records: list[Record]) -> None:
    check_snapshots(records)


def check_snapshots(records: list[Record]) -> None:
    whole, expected = replay_whole(GROUP, records)
    replay, events = StateReplay(GROUP), []
    for record in records:
        events += replay.apply(record)
        replay = restored(replay)
    events += replay.finish()
    assert events == expected
    assert replay.snapshot() == whole.snapshot()


@few_examples
@given(any_records())
def test_no_sequence_of_decodable_records_raises(records: list[Record]) -> None:
    replay_and_describe(records)


@pytest.mark.long
@many_examples
@given(any_records())
def test_none_of_many_sequences_of_decodable_records_raises(records: list[Record]) -> None:
    replay_and_describe(records)


def replay_and_describe(records: list[Record]) -> None:
    replay = StateReplay(GROUP)
    for record in records:
        for event in replay.apply(record):
            json.dumps(event.detail())
        describe(replay)
    replay.apply_marker(Marker(7, True, 0, 10**6, 0))
    replay.finish()


@given(any_records())
def test_events_of_any_records_lead_from_an_empty_model_to_the_engines_state(records: list[Record]) -> None:
    replay, model = StateReplay(GROUP), EventModel()
    for record in records:
        for event in replay.apply(record):
            model.apply(event)
    for event in replay.finish():
        model.apply(event)
    if replay.group is None:
        assert model.state in (None, GroupState.DEAD)
    else:
        assert model.told() == told_by(replay)


@pytest.mark.parametrize("sample", SAMPLES)
def test_events_applied_to_an_empty_model_give_the_engines_state_after_every_operation(sample: str) -> None:
    for group_id, records in group_records(sample):
        replay, model = StateReplay(group_id), EventModel()
        for index, record in enumerate(records):
            for event in replay.apply(record):
                model.apply(event)
            ends = index + 1 == len(records) or records[index + 1].timestamp_ms != record.timestamp_ms
            if ends:
                for event in replay.finish():
                    model.apply(event)
                if replay.group is not None:
                    assert model.told() == told_by(replay), (group_id, record.offset)
                else:
                    assert model.state in (None, GroupState.DEAD)


@pytest.mark.parametrize("sample", SAMPLES)
def test_recorded_logs_break_no_rule(sample: str) -> None:
    for group_id, records in group_records(sample):
        _, events = replay_whole(group_id, records)
        assert [event for event in events if event.kind is EventKind.INVARIANT_BROKEN] == []


@pytest.mark.parametrize("sample", WHOLE_LOGS)
def test_a_log_without_gaps_is_exact_throughout(sample: str) -> None:
    for group_id, records in group_records(sample):
        replay, events = replay_whole(group_id, records)
        assert all(event.is_exact for event in events), group_id
        group = describe(replay)
        assert group is None or group.is_exact


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_settled_change_of_state_is_in_the_table_of_its_machine(sample: str) -> None:
    tables = {"consumer": transitions.CONSUMER, "share": transitions.SHARE, "streams": transitions.STREAMS}
    for group_id, records in group_records(sample):
        _, events = replay_whole(group_id, records)
        for event in events:
            table = tables.get(event.group_type)
            is_life = event.kind in (EventKind.GROUP_CONVERTED, EventKind.GROUP_DELETED)
            if table is None or is_life or event.from_state in (None, event.to_state):
                continue
            assert (event.from_state, event.to_state) in table, event


@pytest.mark.parametrize("sample", SAMPLES)
def test_each_event_starts_in_the_state_in_which_the_one_before_it_ended(sample: str) -> None:
    for group_id, records in group_records(sample):
        _, events = replay_whole(group_id, records)
        state = None
        for event in events:
            begins = event.kind in (EventKind.GROUP_CREATED, EventKind.GROUP_DISCOVERED)
            assert event.from_state == (None if begins else state), event
            state = event.to_state


@pytest.mark.parametrize("sample", SAMPLES)
def test_events_stand_in_log_order(sample: str) -> None:
    for group_id, records in group_records(sample):
        _, events = replay_whole(group_id, records)
        assert [event.offset for event in events] == sorted(event.offset for event in events)
        offsets = {record.offset for record in records}
        assert {event.offset for event in events} <= offsets


# --- gaps -----------------------------------------------------------------------------------------------------------


def boundaries(log: Log) -> list[int]:
    """Indexes at which a batch can begin: a batch has one timestamp for each operation, so none splits a timestamp."""
    starts = [
        index
        for index, entry in enumerate(log)
        if index == 0 or entry.timestamp_ms != log[index - 1].timestamp_ms or isinstance(entry, Marker)
    ]
    return [*starts, len(log)]


def compacted(log: Log, start: int, end: int, *, drop_tombstones: bool) -> list[Record | Marker]:
    """The log with a window compacted as the cleaner does it.

    Of each key the last record there stays, a tombstone perhaps not; aborted commits go; nothing is cleaned from the
    first record on whose transaction is not decided within the window.
    """
    decided = _decisions(log, end)
    end = next((index for index in range(start, end) if decided.get(index, True) is None), end)
    aborted = {index for index in range(start, end) if decided.get(index) is False}
    last = {
        _key(entry): index
        for index, entry in enumerate(log[:end])
        if isinstance(entry, Record) and index not in aborted
    }
    kept: list[Record | Marker] = []
    for index, entry in enumerate(log):
        if start <= index < end and isinstance(entry, Record):
            is_last = last.get(_key(entry)) == index
            if not is_last or (drop_tombstones and entry.value is None):
                continue
        kept.append(entry)
    return with_gaps(kept)


def _decisions(log: Log, end: int) -> dict[int, bool | None]:
    """Of each transactional record's index: committed, aborted, or None where no marker decides before ``end``."""
    decided: dict[int, bool | None] = {}
    open_records: dict[int, list[int]] = {}
    for index, entry in enumerate(log[:end]):
        if isinstance(entry, Marker):
            decided.update(dict.fromkeys(open_records.pop(entry.producer_id, ()), entry.committed))
        elif entry.producer_id != -1:
            open_records.setdefault(entry.producer_id, []).append(index)
            decided[index] = None
    return decided


def _key(record: Record) -> tuple[str, str]:
    return record.kind, json.dumps(record.key, sort_keys=True)


def with_gaps(entries: Iterable[Record | Marker]) -> list[Record | Marker]:
    """The entries with ``missing_before`` as their offsets give it."""
    told: list[Record | Marker] = []
    for seen, entry in enumerate(entries):
        if isinstance(entry, Record):
            missing = entry.offset - seen
            entry = Record(
                entry.kind,
                entry.key,
                entry.value,
                entry.partition,
                entry.offset,
                entry.timestamp_ms,
                missing,
                entry.value_version,
                entry.producer_id,
            )
        told.append(entry)
    return told


def groups_at_the_end(log: Iterable[Record | Marker]) -> dict[str, StateReplay]:
    replays: dict[str, StateReplay] = {}
    for entry in log:
        if isinstance(entry, Marker):
            for replay in replays.values():
                replay.apply_marker(entry)
        else:
            replays.setdefault(group_of(entry), StateReplay(group_of(entry))).apply(entry)
    for replay in replays.values():
        replay.finish()
    return {group_id: replay for group_id, replay in replays.items() if replay.group is not None}


def state_of(replay: StateReplay) -> tuple[object, ...]:
    group = describe(replay)
    assert group is not None
    offsets = {
        key: (offset.committed_offset, offset.metadata, offset.log_offset)
        for key, offset in replay.offsets.stored.items()
    }
    told = tuple(value for name, value in zip(group.__slots__, _values(group), strict=True) if name != "is_exact")
    return *told, offsets


def _values(group: object) -> list[object]:
    values = [getattr(group, name) for name in group.__slots__]  # type: ignore[attr-defined]
    return [
        tuple(member.__class__(**{**_fields(member), "target": _bare(member.target)}) for member in value)
        if isinstance(value, tuple)
        else value
        for value in values
    ]


def _fields(member: object) -> dict[str, object]:
    return {name: getattr(member, name) for name in member.__slots__}  # type: ignore[attr-defined]


def _bare(target: object) -> object:
    return target._replace(missing=0) if target is not None else None  # type: ignore[attr-defined]


@pytest.mark.parametrize("drop_tombstones", [False, True])
@pytest.mark.parametrize("sample", WHOLE_LOGS)
def test_every_compacted_prefix_ends_in_the_state_the_whole_log_gives(sample: str, drop_tombstones: bool) -> None:
    for log in logs(sample).values():
        whole = {group_id: state_of(replay) for group_id, replay in groups_at_the_end(log).items()}
        for end in boundaries(log):
            found = groups_at_the_end(compacted(log, 0, end, drop_tombstones=drop_tombstones))
            assert {group_id: state_of(replay) for group_id, replay in found.items()} == whole, end


@pytest.mark.parametrize("sample", ["group-lifecycles", "java-clients", "kafka-3.9", "transactions", "expiration"])
def test_every_compacted_window_ends_in_the_state_the_whole_log_gives(sample: str) -> None:
    for log in logs(sample).values():
        whole = {group_id: state_of(replay) for group_id, replay in groups_at_the_end(log).items()}
        cuts = boundaries(log)
        for start in cuts[:: max(len(cuts) // 12, 1)]:
            for end in cuts[:: max(len(cuts) // 12, 1)]:
                if start < end:
                    found = groups_at_the_end(compacted(log, start, end, drop_tombstones=False))
                    assert {group_id: state_of(replay) for group_id, replay in found.items()} == whole, (start, end)


@pytest.mark.parametrize("sample", WHOLE_LOGS)
def test_a_log_that_starts_in_the_middle_is_right_at_the_end_or_says_that_it_can_not_know(sample: str) -> None:
    for log in logs(sample).values():
        whole = groups_at_the_end(log)
        for start in boundaries(log)[1:-1]:
            for group_id, replay in groups_at_the_end(with_gaps_from(log, start)).items():
                group = describe(replay)
                assert group is not None
                if group.is_exact:
                    assert state_of(replay)[:-1] == state_of(whole[group_id])[:-1], (group_id, start)


def with_gaps_from(log: Log, start: int) -> list[Record | Marker]:
    return with_gaps(log[start:])


@pytest.mark.parametrize("sample", WHOLE_LOGS)
def test_gaps_break_no_rule(sample: str) -> None:
    for log in logs(sample).values():
        cuts = boundaries(log)
        for end in cuts[:: max(len(cuts) // 20, 1)]:
            entries = compacted(log, 0, end, drop_tombstones=False)
            for group_id, records in by_group(tuple(entries)).items():
                _, events = replay_whole(group_id, records)
                assert [event for event in events if event.kind is EventKind.INVARIANT_BROKEN] == []


def test_an_event_after_a_gap_is_not_exact_and_the_next_one_is_again() -> None:
    _, records = next(
        (group_id, records) for group_id, records in group_records("expiration") if group_id == "shop-billing"
    )
    late = [
        Record(r.kind, r.key, r.value, r.partition, r.offset, r.timestamp_ms, 3 if index >= 4 else 0)
        for index, r in enumerate(records)
    ]
    replay = StateReplay("shop-billing")
    told = [{event.is_exact for event in replay.apply(record)} for record in late]
    assert told[3] == {True}
    assert told[4] == {False}
    assert told[5] == {True}


@pytest.mark.parametrize("sample", WHOLE_LOGS)
def test_a_group_that_begins_as_none_does_was_not_made_where_its_first_record_stands(sample: str) -> None:
    begun = 0
    for group_id, records in group_records(sample):
        _, whole = replay_whole(group_id, records)
        for event in whole:
            if event.kind is not EventKind.REBALANCE_STARTED or event.epoch < 4:
                continue
            replay = StateReplay(group_id)
            # A copy of several moments: what it lacks was removed for records behind where all should be there.
            replay.proven_from = next(one.offset for one in records if one.timestamp_ms == event.timestamp_ms)
            events = [made for one in records if one.offset >= replay.proven_from for made in replay.apply(one)]
            events += replay.finish()
            assert events[0].kind is EventKind.GROUP_DISCOVERED
            assert not any(made.is_exact or made.is_state_exact for made in events if made.group_type != "classic")
            begun += 1
    assert begun or sample not in ("group-lifecycles", "restarts")


@pytest.mark.parametrize(("epoch", "is_exact"), [(1, True), (2, False)])
def test_a_proven_group_without_epochs_is_one_that_was_made_in_memory(epoch: int, is_exact: bool) -> None:
    log = Writer()
    about = {"instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h", "subscribedTopicNames": []}
    rest = {"rebalanceTimeoutMs": 300_000, "serverAssignor": None, "classicMemberMetadata": None}
    log.write("ConsumerGroupMemberMetadata", {**about, **rest, "subscribedTopicRegex": "mov.*"}, memberId="a")
    stable = {"previousMemberEpoch": 0, "state": 0, "assignedPartitions": [], "partitionsPendingRevocation": []}
    log.write("ConsumerGroupCurrentMemberAssignment", {**stable, "memberEpoch": epoch}, memberId="a")
    log.now = 500
    log.write("ConsumerGroupRegularExpression", {"topics": ["move"]}, regularExpression="mov.*")
    log.write("ConsumerGroupMetadata", {"epoch": epoch + 1, "metadataHash": 0})
    replay = StateReplay(GROUP, proven_from=12)
    shifted = [one._replace(offset=one.offset + 10, missing_before=10) for one in log.records]
    events = [event for one in shifted for event in replay.apply(one)] + replay.finish()
    assert {event.is_exact for event in events if event.offset < 12} == {False}
    assert {event.is_exact for event in events if event.offset >= 12} == {is_exact}


def generation(number: int, offset: int, missing_before: int) -> Record:
    value = {"protocolType": "", "protocol": None, "leader": None, "generation": number, "members": []}
    return Record("GroupMetadata", {"group": GROUP}, value, 0, offset, offset * 1_000, missing_before)


@pytest.mark.parametrize(
    ("second", "third", "is_exact"),
    [
        (generation(5, 20, 12), generation(6, 21, 12), True),  # cleaned before the second record, whole behind it
        (generation(5, 20, 12), generation(7, 30, 13), False),  # cleaned behind it, too
    ],
)
def test_a_group_is_not_proven_where_records_are_missing_behind_the_second_of_its_key(
    second: Record, third: Record, is_exact: bool
) -> None:
    replay = StateReplay(GROUP, proven_from=6, is_cleaned=True)
    for record in (generation(1, 5, 0), second):
        replay.apply(record)
    assert replay.proven_from == 6
    assert {event.is_exact for event in replay.apply(third)} == {is_exact}
    assert replay.is_exact(), "one record holds the whole group"
    assert replay.is_exact(third.missing_before + 1) == is_exact


def test_keys_of_two_protocols_say_nothing_of_where_the_cleaner_was() -> None:
    """A conversion writes a tombstone of the classic key, which the cleaner may have left, and another key."""
    replay = StateReplay(GROUP, proven_from=6)
    replay.apply(generation(1, 5, 0)._replace(value=None))
    log = Writer()
    log.write("ConsumerGroupMetadata", {"epoch": 1, "metadataHash": 0})
    log.write("ConsumerGroupTargetAssignmentMetadata", {"assignmentEpoch": 1})
    for offset, (record, missing) in enumerate(zip(log.records, (3, 4), strict=True), start=10):
        replay.apply(record._replace(offset=offset, missing_before=missing))
    assert replay.proven_from == 6


def test_a_group_that_is_deleted_and_made_again_at_once_begins_with_its_own_record() -> None:
    value = {"protocolType": "", "protocol": None, "leader": None, "generation": 0, "members": []}
    values = [value, None, value]
    replay = StateReplay(GROUP)
    records = [Record("GroupMetadata", {"group": GROUP}, one, 0, 7 + at, 1) for at, one in enumerate(values)]
    events = [event for one in records for event in replay.apply(one)] + replay.finish()
    assert [(event.kind, event.offset) for event in events] == [
        (EventKind.GROUP_CREATED, 7),
        (EventKind.GROUP_DELETED, 8),
        (EventKind.GROUP_CREATED, 9),
    ]


# --- edges ----------------------------------------------------------------------------------------------------------


def test_a_record_of_another_group_is_refused() -> None:
    record = Record("GroupMetadata", {"group": "payments"}, None, 0, 0, 0)
    with pytest.raises(UsageError, match="payments"):
        StateReplay("orders").apply(record)


def test_kinds_nobody_knows_are_passed_over() -> None:
    replay = StateReplay("orders")
    assert replay.apply(Record("GroupOfTheFuture", {"groupId": "orders"}, {"epoch": 1}, 0, 0, 0)) == []
    assert describe(replay) is None


def test_a_snapshot_of_another_version_is_refused() -> None:
    snapshot = StateReplay("orders").snapshot()
    with pytest.raises(SnapshotError, match="version 99"):
        StateReplay.restore({**snapshot, "version": 99})


@pytest.mark.parametrize("part", ["group_id", "group", "operation", "offsets"])
def test_a_damaged_snapshot_is_refused(part: str) -> None:
    snapshot = StateReplay("orders").snapshot()
    del snapshot[part]
    with pytest.raises(SnapshotError, match="damaged"):
        StateReplay.restore(snapshot)


@given(st.sampled_from(["ConsumerGroupMetadata", "ShareGroupMetadata", "StreamsGroupMetadata", "GroupMetadata"]))
def test_tombstones_of_unknown_groups_do_nothing(kind: str) -> None:
    replay = StateReplay(GROUP)
    assert replay.apply(Record(kind, {"groupId": GROUP}, None, 0, 0, 0)) == []
    assert replay.finish() == []
    assert describe(replay) is None
