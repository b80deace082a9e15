"""A recorded sample: its rebalances as the audit sees them, without Spark, and what the broker and the clients said."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from coordinator_replay.analysis.broker_logs.words import EVENTS, GroupLogLine, with_broker_log
from coordinator_replay.analysis.group_life import GroupReplay
from coordinator_replay.analysis.reasons.signs import DEPARTURES, SIGNS_WITHIN_MS
from coordinator_replay.analysis.reasons.topic_changes import TopicChanges
from coordinator_replay.broker_log import layouts as logs
from coordinator_replay.broker_log.events import read_event
from coordinator_replay.engine.model import Record
from coordinator_replay.log.dump import find_dump
from coordinator_replay.pipeline.groups.topics import best_topics, from_metadata
from coordinator_replay.pipeline.lines import decode_lines, read_without_spark
from coordinator_replay.pipeline.read.metadata_log import metadata_files, read_metadata
from coordinator_replay.records.blobs import open_blobs

Line = dict[str, Any]

_HEAD = re.compile(
    r"\[Group(?:Coordinator (?:id=)?|MetadataManager brokerId=)\d+(?: topic=\S+ partition=(?P<partition>\d+))?\]:? ?"
)


SEGMENTS = ("segments", "first")
"""Folders of segments, of which a sample has one."""

AHEAD_MS = {"server-2.log": 19_800_000}
"""The second broker's time is that of Asia/Kolkata."""


def read_lines(path: Path) -> list[Line]:
    """A file of JSON lines, empty where there is none."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def milliseconds(moment: str | None) -> int:
    """A moment in ms since the epoch, -1 for none."""
    return -1 if moment is None else round(datetime.fromisoformat(moment).timestamp() * 1000)


@dataclass(frozen=True)
class Sample:
    """A folder of the recordings, which has the logs of one broker or of several."""

    folder: Path

    @property
    def segments(self) -> Path:
        """Where its segments are; after an unclean election those of the first leader."""
        return next(path for name in SEGMENTS if (path := self.folder / name).is_dir())

    @property
    def name(self) -> str:
        """Its name."""
        return self.folder.name

    @property
    def broker_log(self) -> list[Line]:
        """What the coordinator logged."""
        whole = sorted(self.folder.glob("server*.log"))
        if not whole:
            return read_lines(self.folder / "broker-log.jsonl")
        logged = sorted((line for path in whole for line in _coordinator_lines(path)), key=lambda line: line["at"])
        return [line for line in logged if line["at"] <= self._until_ms]

    @property
    def _until_ms(self) -> float:
        """When the first leader was killed: what was logged later is about other records."""
        killed = (act["at"] for act in self.journal if act["action"] == "broker_killed")
        return max(killed, default=float("inf"))

    @property
    def journal(self) -> list[Line]:
        """What was done to the clients."""
        return read_lines(self.folder / "journal.jsonl")

    def records(self) -> Iterator[Line]:
        """Every record of the segments, decoded, with what is missing before it; by log partition, in order."""
        seen: dict[int, int] = {}
        for batch in read_without_spark(find_dump([str(self.segments)]), []):
            for text in decode_lines(batch).to_pylist():
                line = json.loads(text)
                partition = line["log_partition"]
                line["missing_before"] = line["log_offset"] - seen.get(partition, 0)
                seen[partition] = seen.get(partition, 0) + 1
                yield line

    def topics(self) -> tuple[dict[str, str], TopicChanges]:
        """Topic names by id, and when topics changed: from the cluster's metadata log, where it was recorded."""
        path = self.folder / "cluster-metadata"
        files = metadata_files(str(path)) if path.exists() else []
        topics = best_topics(from_metadata(record for file in files for record in read_metadata(file).records))
        return topics.names, topics.changes

    def clients(self) -> dict[str, str]:
        """Client id by member id, as members told it in their records."""
        found: dict[str, str] = {}
        for line in self.records():
            value = line.get("value_json") or {}
            for member in value.get("members") or ():
                found[member["memberId"]] = member["clientId"]
            if "clientId" in value:
                found[line["key_json"]["memberId"]] = value["clientId"]
        return found

    def rebalances(self) -> list[Line]:
        """The rows of ``rebalances``."""
        names, changes = self.topics()
        lives: dict[str, _Life] = {}
        rows: list[Line] = []
        for line in self.records():
            group = line.get("group_id")
            if group is None:
                continue
            if group not in lives:
                lives[group] = _Life(GroupReplay(self.name, group, names, changes))
            rows.extend(lives[group].take(line))
        for life in lives.values():
            rows.extend(row for table, row in life.replay.finish() if table == "rebalances")
        return rows

    def rebalances_with_log(self) -> list[Line]:
        """The rows of ``rebalances`` where the broker's log was given as well."""
        lines: dict[str | None, list[GroupLogLine]] = defaultdict(list)
        for line in self.broker_log:
            place = "" if line.get("partition") is None else f" topic=__consumer_offsets partition={line['partition']}"
            event = read_event(logs.LogLine(line["at"], True, f"[GroupCoordinator id=1{place}] {line['text']}"))
            if event is not None and event.event in EVENTS:
                fields = {name: getattr(event, name) for name in GroupLogLine._fields if name != "at_ms"}
                lines[event.group_id].append(GroupLogLine(at_ms=line["at"], **fields))
        for of_group in lines.values():
            of_group.sort(key=lambda line: line.order)
        return [with_broker_log(row, lines[row["group_id"]]) for row in self.rebalances()]


def _coordinator_lines(path: Path) -> list[Line]:
    """Lines of a coordinator in a broker's whole log, whose times are UTC but for those of one broker."""
    ahead_ms = AHEAD_MS.get(path.name, 0)
    parsed = map(logs.parse_line, path.read_text(encoding="utf-8").splitlines())
    heads = ((line, _HEAD.match(line.message)) for line in parsed if line is not None)
    return [
        {"at": line.time_ms - ahead_ms, "partition": head["partition"], "text": line.message[head.end() :]}
        for line, head in heads
        if head is not None
    ]


class _Life:
    """A group's replay, and the commits since the last record that may show a departure."""

    def __init__(self, replay: GroupReplay) -> None:
        self.replay = replay
        self.commits: dict[tuple[str, int], tuple[int, int, int]] = {}

    def take(self, line: Line) -> list[Line]:
        at_ms, offset = milliseconds(line["log_timestamp"]), line["log_offset"]
        if "topic" in line:
            if not line["is_tombstone"]:
                self.commits[line["topic"], line["partition"]] = (at_ms, line["log_partition"], offset)
            return []
        if "kind" not in line:
            return []
        if DEPARTURES.get(line["kind"]) is (line["value_json"] is None):
            recent = [(*key, *sign) for key, sign in self.commits.items() if at_ms - sign[0] <= SIGNS_WITHIN_MS]
            self.replay.heed_commits(offset, recent)
            self.commits = {}
        record = Record(
            line["kind"],
            line["key_json"],
            open_blobs(line["kind"], line["value_json"]),
            line["log_partition"],
            offset,
            at_ms,
            line["missing_before"],
            line["value_version"],
        )
        return [row for table, row in self.replay.feed(record) if table == "rebalances"]
