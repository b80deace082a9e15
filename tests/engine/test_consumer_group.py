"""Consumer groups: lawful lives made by a coordinator of our own, and what its tables say."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.events import EventKind
from coordinator_replay.engine.model import GroupState, MemberState, Record
from coordinator_replay.engine.replay import StateReplay
from scripts.docs import transitions
from tests.engine.coordinator import TOPIC, Coordinator
from tests.engine.described import describe
from tests.engine.event_model import EventModel, told_by
from tests.engine.lives import GROUP, Writer

STATES = [MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS]


class LawfulLives(RuleBasedStateMachine):
    """Whatever a lawful coordinator does, the engine stands where it stands and finds nothing wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.coordinator = Coordinator()
        self.replay = StateReplay(GROUP)
        self.model = EventModel()
        self.read = 0
        self.member_states: dict[str, MemberState] = {}

    def members(self, *, away: bool) -> list[str]:
        return sorted(m for m, seat in self.coordinator.seats.items() if (seat.epoch == -2) is away)

    def settle(self) -> None:
        records = self.coordinator.log.records[self.read :]
        self.read += len(records)
        events = [event for record in records for event in self.replay.apply(record)]
        self.coordinator.log.tick()
        for event in [*events, *self.replay.finish()]:
            assert event.kind is not EventKind.INVARIANT_BROKEN, event
            assert event.is_exact
            self.model.apply(event)

    @precondition(lambda self: len(self.coordinator.seats) < 5)
    @rule(at_once=st.booleans(), is_static=st.booleans())
    def join(self, at_once: bool, is_static: bool) -> None:
        instance_id = f"instance-{self.coordinator.made}" if is_static else None
        self.coordinator.join(instance_id, at_once=at_once)
        self.settle()

    @precondition(lambda self: self.members(away=False))
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.coordinator.leave(data.draw(st.sampled_from(self.members(away=False))))
        self.settle()

    @precondition(lambda self: self.members(away=False))
    @rule(data=st.data(), acknowledges=st.booleans())
    def heartbeat(self, data: st.DataObject, acknowledges: bool) -> None:
        member_id = data.draw(st.sampled_from(self.members(away=False)))
        if acknowledges:
            self.coordinator.acknowledge(member_id)
        else:
            self.coordinator.heartbeat(member_id)
        self.settle()

    @precondition(lambda self: any(s.instance_id and s.epoch > 0 for s in self.coordinator.seats.values()))
    @rule(data=st.data())
    def go_away(self, data: st.DataObject) -> None:
        static = sorted(m for m, s in self.coordinator.seats.items() if s.instance_id and s.epoch > 0)
        self.coordinator.go_away(data.draw(st.sampled_from(static)))
        self.settle()

    @precondition(lambda self: self.members(away=True))
    @rule(data=st.data(), returns=st.booleans())
    def end_absence(self, data: st.DataObject, returns: bool) -> None:
        member_id = data.draw(st.sampled_from(self.members(away=True)))
        if returns:
            self.coordinator.come_back(member_id)
        else:
            self.coordinator.leave(member_id)
        self.settle()

    @precondition(lambda self: self.coordinator.seats)
    @rule()
    def change_topics(self) -> None:
        self.coordinator.change_topics()
        self.settle()

    @precondition(lambda self: self.coordinator.exists and not self.coordinator.seats)
    @rule()
    def delete(self) -> None:
        self.coordinator.delete()
        self.settle()

    @invariant()
    def the_engine_stands_where_the_coordinator_stands(self) -> None:
        assert self.replay.state == self.coordinator.state
        if self.replay.group is None:
            return
        group = describe(self.replay)
        assert group is not None and group.is_exact
        assert (group.epoch, group.assignment_epoch) == (self.coordinator.epoch, self.coordinator.assignment_epoch)
        told = {
            member.member_id: (
                member.instance_id,
                member.member_epoch,
                member.member_state,
                set((member.assigned or {}).get(TOPIC, ())),
                set(member.pending.get(TOPIC, ())),
                set(member.target.assigned.get(TOPIC, ())) if member.target else set(),
            )
            for member in group.members
        }
        assert told == {
            member_id: (
                seat.instance_id,
                seat.epoch,
                STATES[seat.state],
                seat.assigned,
                seat.pending,
                self.coordinator.targets.get(member_id, set()),
            )
            for member_id, seat in self.coordinator.seats.items()
        }

    @invariant()
    def events_alone_tell_the_same(self) -> None:
        if self.replay.group is not None:
            assert self.model.told() == told_by(self.replay)


TestLawfulLives = LawfulLives.TestCase


def life() -> list[Record]:
    """Two members come, move partitions between them, go; the group is deleted and comes again."""
    coordinator = Coordinator()
    steps = [
        lambda: coordinator.join("one", at_once=True),
        lambda: coordinator.join(None, at_once=False),
        lambda: coordinator.heartbeat("member-1"),
        lambda: coordinator.acknowledge("member-1"),
        lambda: coordinator.heartbeat("member-2"),
        lambda: coordinator.go_away("member-1"),
        lambda: coordinator.come_back("member-1"),
        lambda: coordinator.leave("member-2"),
        lambda: coordinator.leave("member-3"),
        lambda: coordinator.delete(),
        lambda: coordinator.join(None, at_once=True),
    ]
    for step in steps:
        coordinator.log.tick()
        step()
    return coordinator.log.records


def kinds(records: list[Record]) -> list[str]:
    replay = StateReplay(GROUP)
    return [event.kind for record in records for event in replay.apply(record)] + [
        event.kind for event in replay.finish()
    ]


def test_a_static_member_that_returns_does_not_rebalance() -> None:
    replay = StateReplay(GROUP)
    events = [event for record in life() for event in replay.apply(record)]
    replaced = next(event for event in events if event.kind is EventKind.MEMBER_REPLACED)
    same_time = [event for event in events if event.timestamp_ms == replaced.timestamp_ms]
    assert replaced.before is not None
    assert (replaced.before.member_id, replaced.member_id) == ("member-1", "member-3")
    assert EventKind.REBALANCE_STARTED not in [event.kind for event in same_time]
    assert (same_time[0].from_state, same_time[-1].to_state) == (GroupState.RECONCILING, GroupState.STABLE)


def test_deletion_and_rebirth_are_two_lives() -> None:
    told = kinds(life())
    assert told.count(EventKind.GROUP_CREATED) == 2
    assert told.count(EventKind.GROUP_DELETED) == 1
    assert told.index(EventKind.GROUP_EMPTIED) < told.index(EventKind.GROUP_DELETED)


def test_operations_of_one_millisecond_are_told_apart_by_the_order_of_their_records() -> None:
    records = life()
    at_once = [
        Record(r.kind, r.key, r.value, r.partition, r.offset, 1, r.missing_before, r.value_version) for r in records
    ]
    apart = [kind for kind in kinds(at_once) if kind is not EventKind.MEMBER_AWAY]
    assert apart.count(EventKind.REBALANCE_STARTED) == kinds(records).count(EventKind.REBALANCE_STARTED)
    assert apart.count(EventKind.MEMBER_REPLACED) == 1
    assert apart.count(EventKind.GROUP_CREATED) == 2


def test_two_owners_of_one_partition_break_a_rule_unless_a_gap_explains_them() -> None:
    coordinator = Coordinator()
    coordinator.join(None, at_once=True)
    coordinator.log.tick()
    coordinator.join(None, at_once=True)
    coordinator.log.tick()
    coordinator.seats["member-2"].assigned = {1, 2}
    coordinator._write_current("member-2")
    records = coordinator.log.records

    def last_events(missing: int) -> tuple[list[str], bool]:
        replay = StateReplay(GROUP)
        for record in records[:-1]:
            replay.apply(record)
        r = records[-1]
        replay.apply(Record(r.kind, r.key, r.value, r.partition, r.offset, r.timestamp_ms, missing))
        events = replay.finish()
        return [event.changes["rule"] for event in events if event.kind is EventKind.INVARIANT_BROKEN], all(
            event.is_exact for event in events
        )

    assert last_events(0) == (["one_owner_per_partition"] * 2, True)
    assert last_events(4) == ([], False)


def test_a_falling_epoch_breaks_a_rule_and_over_a_gap_means_a_new_life() -> None:
    writer = Writer()
    writer.write("ConsumerGroupMetadata", {"epoch": 9})
    writer.tick()
    writer.write("ConsumerGroupMetadata", {"epoch": 3})
    first, second = writer.records
    over_gap = Record(second.kind, second.key, second.value, 0, 5, 1, 4)
    assert EventKind.INVARIANT_BROKEN in kinds([first, second])
    assert kinds([first, over_gap]).count(EventKind.GROUP_REBORN) == 1
    assert EventKind.INVARIANT_BROKEN not in kinds([first, over_gap])


def test_an_assignment_epoch_is_1_before_any_record_and_minus_1_after_its_tombstone() -> None:
    replay = StateReplay(GROUP)
    writer = Writer()
    writer.write("ConsumerGroupMetadata", {"epoch": 2})
    writer.write("ConsumerGroupTargetAssignmentMetadata")
    replay.apply(writer.records[0])
    assert isinstance(replay.group, ConsumerGroup)
    assert replay.group.assignment_epoch == 1
    replay.apply(writer.records[1])
    assert replay.group.assignment_epoch == -1


def test_the_preferred_assignor_is_the_one_most_members_name() -> None:
    writer = Writer()
    for member_id, assignor in [("a", "range"), ("b", "uniform"), ("c", "uniform"), ("d", None)]:
        writer.write("ConsumerGroupMemberMetadata", {"serverAssignor": assignor}, memberId=member_id)
    writer.write("ConsumerGroupMemberMetadata", memberId="b")
    replay = StateReplay(GROUP)
    told = []
    for record in writer.records:
        replay.apply(record)
        assert isinstance(replay.group, ConsumerGroup)
        told.append(replay.group.assignor)
    assert told == ["range", "range", "uniform", "uniform", "range"]


def test_fields_of_the_draft_are_kept_where_a_record_carries_them() -> None:
    writer = Writer()
    assignors = [{"name": "range", "minimumVersion": 0, "maximumVersion": 1, "reason": 2, "version": 1, "metadata": ""}]
    writer.write("ConsumerGroupMemberMetadata", {"groupEpoch": 4, "assignors": assignors}, memberId="a")
    entries = [{"topicId": TOPIC, "partitions": [1]}]
    current = {"memberEpoch": 1, "error": 3, "topicPartitions": entries, "metadataVersion": 1, "metadataBytes": "AA=="}
    writer.write("ConsumerGroupCurrentMemberAssignment", current, memberId="a")
    target = {"assignmentEpoch": 1, "memberId": "a", "error": 0, "topicPartitions": entries}
    writer.write("ConsumerGroupTargetAssignmentMember", target, memberId="a")
    replay = StateReplay(GROUP)
    events = [event for record in writer.records for event in replay.apply(record)]
    assert replay.group is not None
    member = replay.group.members["a"]
    assert member.subscription is not None and member.current is not None and member.target is not None
    assert member.subscription.draft == {"groupEpoch": 4, "assignors": assignors}
    assert member.current.draft == {"error": 3, "metadataVersion": 1, "metadataBytes": "AA=="}
    assert member.current.assigned == {TOPIC: (1,)}
    assert member.target.draft == {"assignmentEpoch": 1, "memberId": "a", "error": 0}
    joined = next(event for event in events if event.kind is EventKind.MEMBER_JOINED)
    assert joined.detail()["draft"]["assignors"][0]["reason"] == 2


def test_every_transition_has_a_reason_and_leaves_its_state() -> None:
    assert all(before != after and reason for (before, after), reason in transitions.CONSUMER.items())
    assert {state for pair in transitions.MEMBER for state in pair} == set(STATES)
