"""What is not on record for a time is a finding that ends: the same in one run over all of it and in nights."""

import json
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.analysis.findings.thresholds import DAY_MS, HOUR_MS, MINUTE_MS
from coordinator_replay.api import Warehouse
from coordinator_replay.query.findings import Finding, findings_of
from coordinator_replay.query.tables import Tables
from coordinator_replay.simulation.coordinator.script import ScriptRun
from coordinator_replay.simulation.simulated_log import write_log
from tests.pipeline.in_process import audit, contents

__all__ = ["audit"]

IDS = {"busy": "AAAAAAAAAAAAAAAAAAAAAQ", "left": "AAAAAAAAAAAAAAAAAAAAAg", "late": "AAAAAAAAAAAAAAAAAAAAAw"}
MINUTE = timedelta(minutes=1)
LONG = 10 * DAY_MS
"""A session of the only member, which no heartbeat has to keep up."""


class Life:
    """A consumer group of one member, whose log is written by the simulated coordinator."""

    def __init__(self) -> None:
        self.script = ScriptRun()
        sessions = dict.fromkeys(("group.consumer.max.session.timeout.ms", "group.consumer.session.timeout.ms"), LONG)
        self._run({"config": {**sessions, "group.consumer.assignment.interval.ms": 0}})
        self._run({"topics": [{"name": name, "id": one, "partitions": 2} for name, one in IDS.items()]})
        self.epoch = 0
        self.committed = 0

    def _run(self, line: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.script.run(json.dumps(line)))
        return answer

    def heartbeat(self, *topics: str, epoch: int | None = None) -> None:
        """The member subscribes to topics, is assigned their partitions, and confirms that it has them."""
        owned: list[dict[str, Any]] = []
        for _ in range(3):
            body = {
                "memberId": "m-1",
                "memberEpoch": self.epoch if epoch is None else epoch,
                "rebalanceTimeoutMs": 60_000,
                "topicPartitions": owned,
                "subscribedTopicNames": sorted(topics),
            }
            answer = self._run({"request": "ConsumerGroupHeartbeat", "group": "g", "body": body})
            response = next(one["response"] for one in answer["out"] if "response" in one)
            assert not response.get("error") and not response.get("errorCode"), response
            self.epoch, epoch = response["memberEpoch"], None
            owned = [{"topicId": IDS[name], "partitions": [0, 1]} for name in topics]
            if self.epoch < 0:
                return

    def commit(self, minutes: int, *partitions: tuple[str, int]) -> None:
        """Commit partitions once a minute."""
        for _ in range(minutes):
            self._run({"advance_ms": MINUTE_MS})
            self.committed += 1
            for topic, number in partitions:
                of_partition = {"partitionIndex": number, "committedOffset": self.committed}
                body = {
                    "generationIdOrMemberEpoch": self.epoch,
                    "memberId": "m-1",
                    "topics": [{"name": topic, "partitions": [of_partition]}],
                }
                self._run({"request": "OffsetCommit", "version": 9, "group": "g", "body": body})

    def wait(self, hours: int) -> None:
        """Let time pass, in which another group commits, for the log goes on."""
        for _ in range(hours):
            self._run({"advance_ms": HOUR_MS})
            partition = {"partitionIndex": 0, "committedOffset": 1}
            body = {"topics": [{"name": "busy", "partitions": [partition]}]}
            self._run({"request": "OffsetCommit", "version": 2, "group": "other", "body": body})


BUSY = ("busy", 0), ("busy", 1)


@pytest.fixture(scope="module")
def life() -> ScriptRun:
    """Everything that shows in what is not on record, and that is over at the end."""
    one = Life()
    one.heartbeat("busy", "left", "late")
    one.commit(30, *BUSY, ("left", 0))
    one.commit(25, BUSY[1])
    one.commit(30, *BUSY)
    one.wait(3)
    one.commit(30, *BUSY, ("late", 0), ("late", 1))
    one.heartbeat("busy", "late")
    for _ in range(2):
        one.commit(30, *BUSY, ("late", 0), ("late", 1))
        one.wait(24)
    one.heartbeat("busy", "late", "left")
    one.commit(30, *BUSY, ("left", 0), ("late", 0), ("late", 1))
    one.heartbeat(epoch=-1)
    one.wait(5 * 24)
    one.heartbeat("busy", "late", "left", epoch=0)
    one.commit(30, *BUSY, ("left", 0), ("left", 1), ("late", 0), ("late", 1))
    return one.script


def by_id(warehouse: Any) -> dict[str, Finding]:
    return {one.finding_id: one for one in findings_of(Tables(str(warehouse)))}


NIGHTS = pytest.mark.parametrize("hours", [40, pytest.param(6, marks=pytest.mark.long)])
"""How much of the log each night brings; nights of six hours are some dozens."""


def nights_of(life: ScriptRun, folder: Path, hours: int) -> list[Path]:
    """Dumps of so many hours each."""
    nights = [list(some) for _, some in groupby(life.written, lambda batch: batch.at_ms // (hours * HOUR_MS))]
    for number, written in enumerate(nights):
        write_log(folder / f"night-{number}", written, life.topics.values())
    return [folder / f"night-{number}" / "segments" for number in range(len(nights))]


@pytest.mark.long
@NIGHTS
def test_a_silence_stays_whatever_is_usual_later_in_any_nights(hours, audit, tmp_path):
    """Of the whole log ten times the mean time between commits is longer than the silence after the first half hour."""
    life = Life()
    life.heartbeat("busy")
    life.commit(30, *BUSY)
    for _ in range(24):
        life.wait(3)
        life.commit(1, BUSY[0])
    dumps = nights_of(life.script, tmp_path, hours)
    for dump in dumps:
        audit(tmp_path / "nights", dump)
        silent = [one.first_seen for one in by_id(tmp_path / "nights").values() if one.rule == "silent_group"]
        assert silent == [datetime.fromtimestamp(life.script.written[0].at_ms / 1000, UTC) + 30 * MINUTE]
    audit(tmp_path / "once", *dumps)
    assert contents(tmp_path / "nights") == contents(tmp_path / "once")


@NIGHTS
def test_what_is_over_at_the_end_of_a_life_has_its_end_in_any_nights(hours, life, audit, tmp_path):
    dumps = nights_of(life, tmp_path, hours)
    topics = {"topics": str(tmp_path / "night-0" / "topics.csv")}
    earlier: dict[str, Finding] = {}
    for dump in dumps:
        audit(tmp_path / "nights", dump, **topics)
        earlier |= by_id(tmp_path / "nights")
    audit(tmp_path / "once", *dumps, **topics)
    assert contents(tmp_path / "nights") == contents(tmp_path / "once")
    now = by_id(tmp_path / "once")
    assert earlier.keys() == now.keys()
    begin = datetime.fromtimestamp(life.written[0].at_ms / 1000, UTC)
    minutes = sorted(
        (one.rule, one.topic or "", one.partition, *(when and (when - begin) // MINUTE for when in _times(one)))
        for one in now.values()
    )
    # A commit comes at the end of its minute; the third hour of waiting ends with one, too.
    assert minutes == [
        ("abandoned_topic", "left", None, 30, 3235),
        ("commit_stall", "busy", 0, 30, 56),
        ("commit_stall", "left", 0, 30, 295),
        ("never_committed", "late", None, 0, 266),
        ("never_committed", "left", 1, 0, 295),
        *(("offset_expiring", name, 0 if name == "left" else None, 9025, 10465) for name in sorted(IDS)),
        ("silent_group", "", None, 85, 266),
        ("silent_group", "", None, 325, 3235),
    ]


def _times(one: Finding) -> tuple[datetime | None, datetime | None]:
    return one.first_seen, one.ended_at


def test_what_is_over_since_a_night_is_named_by_the_difference(life, audit, tmp_path):
    until = life.written[0].at_ms + 2 * DAY_MS
    halves = [[one for one in life.written if one.at_ms < until], [one for one in life.written if one.at_ms >= until]]
    runs = []
    for number, written in enumerate(halves):
        folder = tmp_path / f"night-{number}"
        write_log(folder, written, life.topics.values())
        topics = str(tmp_path / "night-0" / "topics.csv")
        runs.append(audit(tmp_path / "wh", folder / "segments", topics=topics).run.run_id)
    changes = Warehouse(tmp_path / "wh").diff(*runs)
    found = {(one.change, one.name) for one in changes if one.what == "finding"}
    assert found == {("over", "silent_group"), ("over", "abandoned_topic"), ("new", "offset_expiring")}
