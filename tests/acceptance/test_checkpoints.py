"""The tables, asked as of each quiet checkpoint, say what the broker said then."""

from datetime import UTC, datetime

import pytest

from coordinator_replay.query.describe import describe_at
from coordinator_replay.query.groups import groups_at
from coordinator_replay.query.offsets import offsets_at
from coordinator_replay.query.tables import Tables
from tests.acceptance.conftest import AUDITED
from tests.samples import Sample, lines

PENDING_LEFT_OUT = {"kafka-3.9"}
"""Samples whose broker leaves out of a member's assignment what the member is about to give up."""


SHARES = pytest.mark.parametrize("share", [6, pytest.param(1, marks=pytest.mark.long)], ids=["a sixth", "all"])
"""How many of the quiet checkpoints a test asks about: every sixth from the last on, or at night all."""


def quiet(name, share=1):
    return [one for one in lines(Sample(name).folder / "checkpoints.jsonl") if one["quiet"]][::-share][::-1]


def moment(name, checkpoint):
    """The moment of the answer: ``at`` was noted before asking, and the last record answered for may be younger."""
    ends = {int(partition): end for partition, end in checkpoint["endOffsets"].items()}
    seen = (r["timestamp"] for r in Sample(name).decoded if r["offset"] < ends.get(r["partition"], 0))
    return datetime.fromtimestamp(max(checkpoint["at"], *seen) / 1000, UTC)


def named(assignment):
    return sorted(
        f"{topic.topic or topic.topic_id}-{partition}" for topic in assignment or () for partition in topic.partitions
    )


def told_of(member, answer, name):
    """What we say of a member, in the words and to the extent of the broker's answer."""
    told = {"memberId": member.member_id, "clientId": member.client_id, "host": member.client_host}
    if answer["memberEpoch"] is not None:
        told["memberEpoch"] = member.member_epoch
    if "instanceId" in answer:
        told["instanceId"] = member.instance_id
    if isinstance(answer["assignment"], list):
        pending = set(named(member.pending_revocation)) if name in PENDING_LEFT_OUT else set()
        told["assignment"] = sorted(set(named(member.current_assignment)) - pending)
    return told


@SHARES
@pytest.mark.parametrize("name", AUDITED)
def test_describe_at_a_quiet_checkpoint_is_what_the_broker_answered(audited, name, share):
    warehouse = Tables(str(audited), name)
    compared = 0
    for checkpoint in quiet(name, share):
        for answer in checkpoint["groups"]:
            if answer.get("simple"):
                continue
            described = describe_at(warehouse, answer["groupId"], moment(name, checkpoint))
            group = described.group
            where = (checkpoint["at"], answer["groupId"])
            assert (where, group.group_type.capitalize()) == (where, answer["type"])
            assert (where, group.state) == (where, answer["state"])
            if answer["epoch"] is not None:
                assert (where, group.epoch, group.assignment_epoch) == (
                    where,
                    answer["epoch"],
                    answer["assignmentEpoch"],
                )
            if answer.get("assignor") and answer["members"]:
                assert (where, described.group.assignor) == (where, answer["assignor"])
            expected = sorted(answer["members"], key=lambda member: member["memberId"])
            assert (where, len(described.members)) == (where, len(expected))
            for mine, theirs in zip(described.members, expected, strict=True):
                told = told_of(mine, theirs, name)
                wanted = {key: theirs[key] for key in told}
                if "assignment" in wanted:
                    wanted["assignment"] = sorted(wanted["assignment"])
                assert (where, told) == (where, wanted)
                compared += 1
    assert compared > 20 // share


@pytest.mark.parametrize("name", AUDITED)
def test_groups_at_a_quiet_checkpoint_are_those_the_broker_listed(audited, name):
    warehouse = Tables(str(audited), name)
    for checkpoint in quiet(name):
        mine = {
            (group.group_id, group.group_type.capitalize(), group.state)
            for group in groups_at(warehouse, moment(name, checkpoint))
        }
        theirs = {(group["groupId"], group["type"], group["state"]) for group in checkpoint["groups"]}
        assert (checkpoint["at"], mine) == (checkpoint["at"], theirs)


@SHARES
@pytest.mark.parametrize("name", AUDITED)
def test_offsets_at_a_quiet_checkpoint_are_those_the_broker_listed(audited, name, share):
    warehouse = Tables(str(audited), name)
    compared = 0
    for checkpoint in quiet(name, share):
        for answer in checkpoint["groups"]:
            if not answer.get("offsets"):
                continue
            mine = {
                f"{offset.topic}-{offset.partition}": {
                    "offset": offset.committed_offset,
                    "metadata": offset.metadata,
                    "leaderEpoch": offset.leader_epoch,
                }
                for offset in offsets_at(warehouse, answer["groupId"], moment(name, checkpoint))
            }
            where = (checkpoint["at"], answer["groupId"])
            assert (where, mine) == (where, answer["offsets"])
            compared += len(mine)
    assert compared > 20 // share
