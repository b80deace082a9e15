"""Faults of earlier releases: each shows where the coordinator has it, and Kafka 4.3's behaviour where it has not."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from coordinator_replay.errors import UsageError
from coordinator_replay.records.blobs import write_subscription
from coordinator_replay.simulation.coordinator.config import BrokerFault, Config
from coordinator_replay.simulation.coordinator.script import ScriptRun

Results = list[dict[str, Any]]

HOUR_MS = 3_600_000


def run(lines: Iterable[dict[str, Any]], *faults: BrokerFault) -> Results:
    """Return what the coordinator wrote and answered, in order."""
    settings = {
        "coordinator.faults": ",".join(faults),
        "offsets.retention.minutes": 60,
        "offsets.retention.check.interval.ms": 1000,
        "group.min.session.timeout.ms": 1000,
        "group.max.session.timeout.ms": 100 * HOUR_MS,
    }
    script = ScriptRun()
    answers = [json.loads(script.run(json.dumps(line))) for line in ({"config": settings}, *lines)]
    return [result for answer in answers for result in answer["out"]]


def request(api: str, version: int | None = None, **body: Any) -> dict[str, Any]:
    return {"request": api, "group": "g", "client": {"id": "c", "host": "10.0.0.1"}, "body": body} | (
        {} if version is None else {"version": version}
    )


def subscription(*topics: str) -> str:
    fields = {"topics": [*topics], "userData": None, "ownedPartitions": [], "generationId": -1, "rackId": None}
    return write_subscription(fields)


def join(member_id: str = "", topics: str = "orders", version: int = 5, **fields: Any) -> dict[str, Any]:
    protocols = [{"name": "range", "metadata": subscription(*topics.split())}]
    return request(
        "JoinGroup", version, memberId=member_id, sessionTimeoutMs=50 * HOUR_MS, protocolType="consumer",
        protocols=protocols, **fields,
    )  # fmt: skip


def sync(member_id: str, generation: int, *named: str) -> dict[str, Any]:
    assignments = [{"memberId": name, "assignment": "AAAA"} for name in named]
    return request("SyncGroup", 3, memberId=member_id, generationId=generation, assignments=assignments)


def wait(milliseconds: int) -> dict[str, Any]:
    return {"advance_ms": milliseconds}


def written(results: Results, kind: str) -> list[Any]:
    """Return the values of the records of a kind."""
    found = [record for result in results for record in result.get("records", ())]
    return [record["value"] for record in found if record["kind"] == kind]


def generation(results: Results) -> list[dict[str, Any]]:
    """Return the members of the last generation on record."""
    members: list[dict[str, Any]] = written(results, "GROUP_METADATA")[-1]["members"]
    return members


FIRST = [join(version=0), wait(3000), sync("$m1", 1, "$m1")]


@pytest.mark.parametrize(("faults", "timeout_ms"), [((), 50 * HOUR_MS), ((BrokerFault.JOIN_WITHOUT_TIMEOUT,), -1)])
def test_version_0_of_join_group_has_no_rebalance_timeout(faults: tuple[BrokerFault, ...], timeout_ms: int) -> None:
    [member] = generation(run(FIRST, *faults))
    assert member.get("rebalanceTimeout", -1) == timeout_ms


@pytest.mark.parametrize(("faults", "members"), [((), 2), ((BrokerFault.JOIN_WITHOUT_TIMEOUT,), 1)])
def test_a_coordinator_that_waits_for_nobody_removes_all_others(faults: tuple[BrokerFault, ...], members: int) -> None:
    second = [join(version=0), wait(10), join("$m1", version=0), wait(10), sync("$m2", 2, "$m2"), sync("$m1", 2, "$m2")]
    assert len(generation(run([*FIRST, *second], *faults))) == members


@pytest.mark.parametrize(("faults", "members"), [((), 0), ((BrokerFault.STATIC_JOIN_BEFORE_SYNC,), 2)])
def test_a_static_member_that_is_back_before_the_leader_assigns(faults: tuple[BrokerFault, ...], members: int) -> None:
    """With the fault nothing rebalances, and the leader's SyncGroup does not name the new member id."""
    static = [join(groupInstanceId=name, rebalanceTimeoutMs=HOUR_MS) for name in ("one", "two")]
    back = join(groupInstanceId="two", rebalanceTimeoutMs=HOUR_MS)
    found = generation(run([*static, wait(6000), back, sync("$m1", 1, "$m1", "$m2"), wait(1000)], *faults))
    assert len(found) == members
    assert [member["memberId"] for member in found if not member.get("assignment")] == ["$m3"][: len(faults)]


@pytest.mark.parametrize(("faults", "removed"), [((), 0), ((BrokerFault.EXPIRY_IN_REBALANCE,), 1)])
def test_offsets_expire_by_topics_that_no_record_shows_yet(faults: tuple[BrokerFault, ...], removed: int) -> None:
    """A member joins again for another topic; the record of the old generation says that it reads this one."""
    partitions = [{"partitionIndex": 0, "committedOffset": 5, "committedMetadata": ""}]
    topics = [{"name": "orders", "partitions": partitions}]
    commit = request("OffsetCommit", 8, memberId="$m1", generationIdOrMemberEpoch=1, topics=topics)
    results = run([*FIRST, commit, wait(2 * HOUR_MS), join("$m1", "clicks", version=0), wait(5000)], *faults)
    assert written(results, "OFFSET_COMMIT").count(None) == removed


def test_faults_are_named_by_their_number() -> None:
    assert Config().faults == frozenset()
    assert Config({"coordinator.faults": ["KAFKA-8653", "KAFKA-9801"]}).faults == {
        BrokerFault.JOIN_WITHOUT_TIMEOUT,
        BrokerFault.STATIC_JOIN_BEFORE_SYNC,
    }
    with pytest.raises(UsageError, match="KAFKA-1; there are KAFKA-8653"):
        Config({"coordinator.faults": "KAFKA-1"})
