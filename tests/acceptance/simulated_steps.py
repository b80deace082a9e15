"""Scripts that are run with questions after each line: what the coordinator answered, step by step, and its log."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from coordinator_replay.simulation.coordinator import Coordinator, MarkerWritten, Request, Response
from coordinator_replay.simulation.coordinator.script import ScriptRun
from coordinator_replay.simulation.simulated_log import write_log
from coordinator_replay.times import EPOCH
from tests.simulation.coordinator.recorded_scripts import commands

CLASSIC, CONSUMER = "GroupMetadata", "ConsumerGroupMetadata"
"""Records of which each group of these types has one."""

Offsets = dict[tuple[str, int], tuple[int, int | None, str | None] | None]


@dataclass(frozen=True)
class Step:
    """A line of a script, and what the coordinator answered after it.

    Attributes:
        at: the time of the answers.
        groups: type, protocol type and state of each group.
        described: each of these groups as it was described.
        offsets: committed offsets of each group.
        stable: the same with requireStable; None for offsets with a pending transactional commit.
        topic_ids: the topics there were.
        on_record: groups that have a record of their own, each with the kind of that record.
        records: how many records each group has by now.
    """

    line: str
    at: datetime
    groups: dict[str, tuple[str, str, str]]
    described: dict[str, dict[str, Any]]
    offsets: dict[str, Offsets]
    stable: dict[str, Offsets]
    topic_ids: frozenset[str]
    on_record: frozenset[tuple[str, str]]
    records: Counter[str]


@dataclass
class LogSoFar:
    """What a run has written up to now, as far as the rules ask for it."""

    run: ScriptRun
    records: Counter[str] = field(default_factory=Counter)
    on_record: set[tuple[str, str]] = field(default_factory=set)
    _taken: int = 0

    def take(self) -> None:
        """Count what was written since the last time."""
        for written in self.run.written[self._taken :]:
            if isinstance(written, MarkerWritten):
                # A marker has no group: it ends pending commits of any.
                self.records.update(self.records.keys())
                continue
            for record in written.records:
                group_id = record.key.get("groupId") or record.key["group"]
                self.records[group_id] += 1
                if record.kind in (CLASSIC, CONSUMER):
                    (self.on_record.discard if record.value is None else self.on_record.add)((group_id, record.kind))
        self._taken = len(self.run.written)


def play(name: str, folder: Path) -> list[Step]:
    """Run a script, ask after each of its lines, and write the log with its topics into a folder."""
    run, steps = ScriptRun(), []
    log = LogSoFar(run)
    for line in commands(name):
        run.run(line)
        if run.coordinator is not None:
            log.take()
            steps.append(asked(line, run.coordinator, log))
            run.run('{"advance_ms": 1}')
    write_log(folder, run.written, run.topics.values())
    return steps


def asked(line: str, coordinator: Coordinator, log: LogSoFar) -> Step:
    """Ask the coordinator for everything that the tables are asked for."""

    def ask(api: str, version: int, **body: Any) -> list[dict[str, Any]]:
        (response,) = coordinator.handle(Request(api, body, version), coordinator.now_ms)
        assert isinstance(response, Response)
        groups: list[dict[str, Any]] = response.body["groups"]
        return groups

    listed = ask("ListGroups", 5)
    groups = {one["groupId"]: (one["groupType"], one["protocolType"], one["groupState"]) for one in listed}
    ids_of = {kind: [one for one, told in groups.items() if told[0] == kind] for kind in ("classic", "consumer")}
    described = ask("DescribeGroups", 5, groups=ids_of["classic"])
    described += ask("ConsumerGroupDescribe", 1, groupIds=ids_of["consumer"])
    all_offsets = [{"groupId": one, "topics": None} for one in groups]
    return Step(
        line,
        EPOCH + timedelta(milliseconds=coordinator.now_ms),
        groups,
        {one["groupId"]: one for one in described},
        {one["groupId"]: fetched(one) for one in ask("OffsetFetch", 9, groups=all_offsets)},
        {one["groupId"]: fetched(one) for one in ask("OffsetFetch", 9, groups=all_offsets, requireStable=True)},
        frozenset(coordinator.topics.by_id),
        frozenset(log.on_record),
        log.records.copy(),
    )


def fetched(group: dict[str, Any]) -> Offsets:
    """The answer of OffsetFetch of one group."""
    return {
        (topic["name"], one["partitionIndex"]): None
        if one["errorCode"]
        else (one["committedOffset"], leader_epoch(one["committedLeaderEpoch"]), one["metadata"])
        for topic in group["topics"]
        for one in topic["partitions"]
    }


def leader_epoch(told: int) -> int | None:
    return None if told < 0 else told
