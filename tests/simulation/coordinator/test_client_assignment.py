"""Assignment on the client's side, held against the text of KIP-848 alone: no release of Kafka has it."""

from typing import Any

import pytest

from coordinator_replay.errors import UsageError
from coordinator_replay.simulation.coordinator import Batch, Config, Coordinator, Request, Response, Topic
from tests.engine.described import describe

NOW = 10**12
FOO = "AAAAAAAAAAAAAAAAAAAAAQ"
BAR = "AAAAAAAAAAAAAAAAAAAAAg"
SETTINGS = {"group.consumer.client.assignors": True, "group.consumer.assignment.interval.ms": 0}
Body = dict[str, Any]


def assignor(name: str = "mine", version: int = 1, lowest: int = 0, highest: int = 2, **fields: Any) -> Body:
    return {"name": name, "version": version, "minimumVersion": lowest, "maximumVersion": highest, **fields}


class Group:
    """A coordinator with one group, spoken to as its clients would."""

    def __init__(self, **settings: Any) -> None:
        topics = [Topic("foo", FOO, 4), Topic("bar", BAR, 2)]
        self.coordinator = Coordinator(Config({**SETTINGS, **settings}), topics, now_ms=NOW)
        self.epochs: dict[str, int] = {}
        self.records: list[str] = []

    def call(self, api: str, **body: Any) -> Body:
        results = self.coordinator.handle(Request(api, {"groupId": "g", **body}), self.coordinator.now_ms)
        self.records = [record.kind for one in results if isinstance(one, Batch) for record in one.records]
        return next(one.body for one in results if isinstance(one, Response))

    def join(self, member: str, *assignors: Body, **fields: Any) -> Body:
        body = {
            "memberEpoch": 0,
            "rebalanceTimeoutMs": 60000,
            "subscribedTopicNames": ["foo"],
            "topicPartitions": [],
            "clientAssignors": list(assignors),
        }
        return self.beat(member, **{**body, **fields})

    def beat(self, member: str, **fields: Any) -> Body:
        response = self.call(
            "ConsumerGroupHeartbeat", **{"memberId": member, "memberEpoch": self.epochs.get(member, 0), **fields}
        )
        self.epochs[member] = response["memberEpoch"]
        return response

    def prepare(self, member: str) -> Body:
        return self.call("PrepareAssignment", memberId=member, memberEpoch=self.epochs[member])

    def install(self, member: str, epoch: int, targets: dict[str, list[int]], **fields: Any) -> Body:
        members = [
            {"memberId": one, "topicPartitions": [{"topicId": FOO, "partitions": partitions}], "metadata": "bWU="}
            for one, partitions in targets.items()
        ]
        body = {"memberId": member, "memberEpoch": self.epochs[member], "groupEpoch": epoch, "members": members}
        return self.call("InstallAssignment", **{**body, **fields})

    def epochs_of_group(self) -> tuple[int, int | None]:
        described = describe(self.coordinator.replay("g"))
        assert described is not None
        return described.epoch, described.assignment_epoch


@pytest.fixture
def group() -> Group:
    """Two members that bring one assignor; nothing is installed yet."""
    group = Group()
    group.join("a", assignor(metadata="YQ=="))
    group.join("b", assignor(reason=2))
    return group


def test_a_member_is_asked_to_compute_and_the_coordinator_does_not() -> None:
    group = Group()
    response = group.join("a", assignor())
    assert response["shouldComputeAssignment"] is True
    assert group.epochs_of_group() == (2, 1)
    assert "ConsumerGroupTargetAssignmentMember" not in group.records
    assert group.join("b", assignor())["shouldComputeAssignment"] is False


def test_it_is_given_what_it_needs(group: Group) -> None:
    prepared = group.prepare("a")
    assert (prepared["errorCode"], prepared["groupEpoch"], prepared["assignorName"]) == (0, 3, "mine")
    assert prepared["topics"] == [{"topicId": FOO, "numPartitions": 4}]
    by_id = {member["memberId"]: member for member in prepared["members"]}
    assert by_id.keys() == {"a", "b"}
    assert by_id["a"]["metadata"] == "YQ=="
    assert by_id["b"]["reason"] == 2
    assert by_id["b"]["subscribedTopicIds"] == [FOO]


def test_what_it_installs_is_the_target_at_the_epoch_it_was_computed_for(group: Group) -> None:
    group.prepare("a")
    assert group.install("a", 3, {"a": [0, 1], "b": [2, 3]})["errorCode"] == 0
    assert group.epochs_of_group() == (3, 3)
    response = group.beat("b", topicPartitions=[])
    assert response["shouldComputeAssignment"] is False
    assert response["assignment"]["topicPartitions"] == [{"topicId": FOO, "partitions": [2, 3]}]
    assert response["assignment"]["metadataBytes"] == "bWU="
    assert group.epochs["b"] == 3


def test_partitions_that_others_still_hold_are_told_as_pending(group: Group) -> None:
    group.prepare("a")
    group.install("a", 3, {"a": [0, 1, 2, 3], "b": []})
    group.beat("a", topicPartitions=[])
    group.join("c", assignor())
    group.beat("b", topicPartitions=[])
    asked = next(one for one in ("a", "b", "c") if group.prepare(one)["errorCode"] == 0)
    group.install(asked, 4, {"a": [0, 1], "b": [], "c": [2, 3]})
    response = group.join("c", assignor())
    assert response["assignment"]["topicPartitions"] == []
    assert response["assignment"]["pendingTopicPartitions"] == [{"topicId": FOO, "partitions": [2, 3]}]


def test_the_assignment_epoch_lags_behind_when_the_group_moves_on(group: Group) -> None:
    group.prepare("a")
    group.join("c", assignor())
    assert group.epochs_of_group() == (4, 1)
    assert group.install("a", 3, {"a": [0, 1], "b": [2, 3]})["errorCode"] == 0
    assert group.epochs_of_group() == (4, 3)
    assert group.beat("b", topicPartitions=[])["shouldComputeAssignment"] is True


@pytest.mark.parametrize(
    ("targets", "says"),
    [
        ({"a": [0], "ghost": [1]}, "ghost is unknown"),
        ({"a": [4]}, "does not exist"),
        ({"a": [-1]}, "does not exist"),
        ({"a": [0, 1], "b": [1]}, "assigned twice"),
    ],
)
def test_an_assignment_that_does_not_fit_is_refused(group: Group, targets: dict[str, list[int]], says: str) -> None:
    group.prepare("a")
    response = group.install("a", 3, targets)
    assert says in response["errorMessage"]
    assert group.records == []
    assert group.epochs_of_group() == (3, 1)


def test_an_epoch_that_was_not_prepared_is_refused(group: Group) -> None:
    assert "not prepared" in group.install("a", 3, {"a": [0]})["errorMessage"]
    group.prepare("a")
    assert "not prepared" in group.install("a", 2, {"a": [0]})["errorMessage"]


def test_an_error_of_the_assignor_has_somebody_asked_again(group: Group) -> None:
    group.prepare("a")
    assert group.install("a", 3, {}, error=1)["errorCode"] == 0
    assert group.records == []
    assert group.beat("b", topicPartitions=[])["shouldComputeAssignment"] is True


def test_another_member_is_asked_when_the_one_that_was_is_gone(group: Group) -> None:
    group.beat("a", memberEpoch=-1)
    assert group.beat("b", topicPartitions=[])["shouldComputeAssignment"] is True


@pytest.mark.parametrize("api", ["PrepareAssignment", "InstallAssignment"])
def test_checks_come_in_the_order_of_the_text(group: Group, api: str) -> None:
    def error(**fields: Any) -> str:
        body = {"memberId": "a", "memberEpoch": group.epochs["a"], **fields}
        message = group.call(api, **body)["errorMessage"]
        return str(message)

    assert "can't be empty" in error(memberId="")
    assert "can't be below 0" in error(memberEpoch=-1)
    assert "not found" in error(groupId="nobody")
    assert "not a member" in error(memberId="ghost", memberEpoch=99)
    assert "epoch is" in error(memberEpoch=99)
    assert "not asked" in error(memberId="b", memberEpoch=group.epochs["b"])


def test_new_metadata_raises_the_group_epoch(group: Group) -> None:
    group.beat("b", clientAssignors=[assignor(reason=2)])
    assert group.epochs_of_group()[0] == 3
    group.beat("b", clientAssignors=[assignor(reason=2, metadata="eHk=")])
    assert group.epochs_of_group()[0] == 4


def test_the_coordinator_computes_where_members_have_no_assignor_in_common() -> None:
    group = Group()
    group.join("a", assignor("mine"))
    response = group.join("b", assignor("yours"))
    assert response["shouldComputeAssignment"] is False
    assert group.epochs_of_group() == (3, 3)


def test_an_assignor_whose_metadata_not_all_can_read_does_not_count() -> None:
    group = Group()
    group.join("a", assignor("mine", version=2, highest=2), assignor("other"))
    group.join("b", assignor("mine", version=0, highest=1), assignor("other"))
    assert group.prepare("a")["assignorName"] == "other"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"rebalanceTimeoutMs": 0}, "above 0"),
        ({"subscribedTopicRegex": "f.*"}, "together"),
        ({"serverAssignor": "uniform"}, "together"),
        ({"clientAssignors": [assignor("")]}, "name can't be empty"),
        ({"clientAssignors": [assignor(version=3)]}, "versions"),
        ({"clientAssignors": [assignor(lowest=-2, version=-2)]}, "versions"),
        ({"clientAssignors": [assignor(lowest=-1, version=-1, highest=-1)]}, "versions"),
    ],
)
def test_heartbeats_that_the_draft_refuses(fields: Body, says: str) -> None:
    response = Group().join("a", assignor(), **fields)
    assert response["errorCode"] == 42
    assert says in response["errorMessage"]


def test_nothing_of_it_is_there_without_the_setting() -> None:
    group = Group(**{"group.consumer.client.assignors": False})
    with pytest.raises(UsageError, match="unknown field 'clientAssignors'"):
        group.join("a", assignor())
    with pytest.raises(UsageError, match="unknown request 'PrepareAssignment'"):
        group.prepare("a") if group.epochs else group.call("PrepareAssignment", memberId="a", memberEpoch=1)
