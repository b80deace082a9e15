"""What ``simulate --out`` writes, audited: as of every step the tables say what the coordinator answered at that step.

After each line of a script the coordinator is asked to list all groups, to describe them and for their offsets; then a
millisecond passes, so that each step has a time of its own. The log is audited, and the tables are asked the same as
of each of these times. What may differ is listed in ``RULES``, each with what the log can't know there.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.pipeline.audit import Summary
from coordinator_replay.query.describe import DescribedMember, Description, describe_at
from coordinator_replay.query.groups import groups_at
from coordinator_replay.query.offsets import offsets_at
from coordinator_replay.query.partitions import TopicPartitions
from coordinator_replay.query.tables import Tables
from coordinator_replay.records.blobs import BlobError, read_assignment
from tests.acceptance.simulated_steps import CLASSIC, CONSUMER, Offsets, Step, play
from tests.nightly import rest_at_night
from tests.pipeline.in_process import audit
from tests.simulation.coordinator.recorded_scripts import SCRIPTS

__all__ = ["audit"]

FEW = [
    "12-k848-regex",
    "20-classic-rebalance",
    "30-offsets-transactional",
    "34-downgrade",
]
"""Scripts of both protocols, of groups that are converted, and of offsets; the nightly run plays all of them."""

REBALANCE = "a classic rebalance under way"
NOT_ON_RECORD = "a classic group before its first record"
DELETED_TOPIC = "partitions of a deleted topic"
ASSIGNOR = "an assignor that the settings or a hash table chose"
OPAQUE = "an assignment in a form of the clients' own"
FORGOTTEN = "an Empty consumer group that a failed JoinGroup removed"

RULES: Mapping[str, str] = {
    REBALANCE: "From JoinGroup to the leader's SyncGroup a classic group changes in memory only; the tables have it as "
    "its last record left it.",
    NOT_ON_RECORD: "A classic group exists from the first JoinGroup on, its first record is written later; until then "
    "the tables don't have it, or only as the holder of offsets.",
    DELETED_TOPIC: "The coordinator leaves topics that were deleted out of descriptions; no record tells when a topic "
    "was deleted.",
    ASSIGNOR: "Where no member asks for an assignor the first of group.consumer.assignors is used, where as many ask "
    "for one as for another the order of a hash table decides; neither is in the log.",
    OPAQUE: "What the leader of a classic group sent is bytes; where they are no ConsumerProtocolAssignment, or the "
    "group's protocol type is not consumer, the tables have no partitions.",
    FORGOTTEN: "A JoinGroup with an unknown member id to an Empty consumer group is refused, and yet Kafka removes the "
    "group, without a tombstone: the log has it still, and so has the coordinator when it is loaded again.",
}
"""What may differ between an answer and the tables as of its step, and why the log can't know better."""

Partitions = list[str]


class AnswersByStep:
    """The tables as of any step, each question asked once between two records of its group."""

    def __init__(self, warehouse: Tables) -> None:
        self.warehouse = warehouse
        self._answers: dict[tuple[Any, ...], Any] = {}

    def groups(self, step: Step) -> dict[str, tuple[str, str, str]]:
        found = self._once(("groups", step.records.total()), lambda: groups_at(self.warehouse, step.at))
        return {group.group_id: (group.group_type, group.protocol_type, group.state) for group in found}

    def describe(self, group_id: str, step: Step) -> Description:
        key = ("describe", group_id, step.records[group_id])
        found: Description = self._once(key, lambda: describe_at(self.warehouse, group_id, step.at))
        return found

    def offsets(self, group_id: str, step: Step, *, stable: bool) -> Offsets:
        key = ("offsets", group_id, step.records[group_id], stable)
        found = self._once(key, lambda: offsets_at(self.warehouse, group_id, step.at, require_stable=stable))
        return {
            (one.topic, one.partition): None
            if one.committed_offset is None
            else (one.committed_offset, one.leader_epoch, one.metadata)
            for one in found
        }

    def _once(self, key: tuple[Any, ...], answer: Callable[[], Any]) -> Any:
        if key not in self._answers:
            self._answers[key] = answer()
        return self._answers[key]


def check(step: Step, tables: AnswersByStep, used: Counter[str]) -> None:
    """Hold the answers of a step against the tables as of then; counts the rules that were needed."""
    in_tables = tables.groups(step)
    for group_id, told in step.groups.items():
        excuse = excuse_of(group_id, told, step)
        used.update(filter(None, [excuse]))
        if excuse is None:
            assert in_tables.get(group_id) == told
            check_description(group_id, step, tables, used)
        elif excuse == REBALANCE:
            assert in_tables[group_id][0] == "classic"
    for group_id in in_tables.keys() - step.groups.keys():
        assert (group_id, CONSUMER) in step.on_record
        assert in_tables[group_id] == ("consumer", "consumer", "Empty")
        used[FORGOTTEN] += 1
    for stable, answers in ((False, step.offsets), (True, step.stable)):
        for group_id, offsets in answers.items():
            has_records = step.records[group_id] > 0
            assert (tables.offsets(group_id, step, stable=stable) if has_records else {}) == offsets, group_id


def excuse_of(group_id: str, told: tuple[str, str, str], step: Step) -> str | None:
    """The rule by which the tables may have another state of a group, or none of it."""
    kind, protocol_type, state = told
    if kind != "classic":
        return None
    if (group_id, CLASSIC) not in step.on_record:
        # A group that only holds offsets is known by them.
        return None if (protocol_type, state) == ("", "Empty") and step.stable[group_id] else NOT_ON_RECORD
    return REBALANCE if state in ("PreparingRebalance", "CompletingRebalance") else None


def check_description(group_id: str, step: Step, tables: AnswersByStep, used: Counter[str]) -> None:
    answer, found = step.described[group_id], tables.describe(group_id, step)
    if step.groups[group_id][0] == "classic":
        assert (found.group.assignor or "") == answer["protocolData"]
        protocol_type = step.groups[group_id][1]
        for member, told in members(answer, found):
            owned = classic_partitions(told["memberAssignment"]) if protocol_type == "consumer" else None
            if owned is None:
                used[OPAQUE] += 1
            else:
                assert names(member.current_assignment) == owned
            assert (member.instance_id, member.client_id, member.client_host) == (
                told["groupInstanceId"],
                told["clientId"],
                told["clientHost"],
            )
        return
    assert (found.group.epoch, found.group.assignment_epoch) == (answer["groupEpoch"], answer["assignmentEpoch"])
    check_assignor(answer, found, used)
    for member, told in members(answer, found):
        for topics, answered in (
            (member.current_assignment, told["assignment"]),
            (member.target_assignment or (), told["targetAssignment"]),
        ):
            existing = [topic for topic in topics if topic.topic_id in step.topic_ids]
            used[DELETED_TOPIC] += len(existing) < len(topics)
            assert names(existing) == sorted(
                f"{topic['topicName']}-{number}"
                for topic in answered["topicPartitions"]
                for number in topic["partitions"]
            )
        assert {
            "instanceId": member.instance_id,
            "rackId": member.rack_id,
            "clientId": member.client_id,
            "clientHost": member.client_host,
            "memberEpoch": member.member_epoch,
            "subscribedTopicNames": sorted(member.subscribed_topics or ()),
            "subscribedTopicRegex": member.subscribed_topic_regex or "",
        }.items() <= told.items()


def members(answer: dict[str, Any], found: Description) -> Iterator[tuple[DescribedMember, dict[str, Any]]]:
    """Members of the tables, each with its part of the answer; they must be the same."""
    answered = sorted(answer["members"], key=lambda one: str(one["memberId"]))
    assert [member.member_id for member in found.members] == [one["memberId"] for one in answered]
    return zip(found.members, answered, strict=True)


def check_assignor(answer: dict[str, Any], found: Description, used: Counter[str]) -> None:
    votes = Counter(member.assignor for member in found.members if member.assignor)
    if found.group.assignor == answer["assignorName"]:
        return
    assert not votes or votes[found.group.assignor] == votes[answer["assignorName"]]
    used[ASSIGNOR] += 1


def classic_partitions(assignment: str) -> Partitions | None:
    """Partitions of a member of a classic group; None where the bytes are no ConsumerProtocolAssignment."""
    if not assignment:
        return []
    try:
        found = read_assignment(assignment).partitions
    except BlobError:
        return None
    return sorted({f"{topic}-{number}" for topic, numbers in found for number in numbers})


def names(topics: Iterable[TopicPartitions]) -> Partitions:
    return sorted(f"{topic.topic}-{number}" for topic in topics for number in topic.partitions)


def compare(name: str, run_audit: Callable[..., Summary], folder: Path, share: int = 1) -> Counter[str]:
    """Play a script, audit its log, and compare every step, or a share; returns which rules were needed how often."""
    steps = play(name, folder / "out")
    run_audit(folder / "tables", folder / "out" / "segments", topics=str(folder / "out" / "topics.csv"))
    tables, used = AnswersByStep(Tables(str(folder / "tables"))), Counter[str]()
    for number, step in list(enumerate(steps))[::-share]:
        try:
            check(step, tables, used)
        except AssertionError as difference:
            difference.add_note(f"step {number} of {name}: {step.line}")
            raise
    return +used


@pytest.mark.parametrize("name", rest_at_night(FEW, ["20-classic-rebalance", "30-offsets-transactional"]))
def test_as_of_every_fifth_step_the_tables_say_what_the_coordinator_answered(
    name: str, audit: Callable[..., Summary], tmp_path: Path
) -> None:
    compare(name, audit, tmp_path, share=5)


@pytest.mark.long
def test_so_they_do_for_all_scripts_and_every_rule_is_needed(audit: Callable[..., Summary], tmp_path: Path) -> None:
    used: Counter[str] = Counter()
    for name in SCRIPTS:
        used += compare(name, audit, tmp_path / name)
    assert used.keys() == RULES.keys(), json.dumps(used)
