"""A recorded sample: the rows of its rebalances, made without Spark, and the logs of its brokers and clients."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from coordinator_replay.analysis.broker_logs.lines import GroupLogLine
from coordinator_replay.analysis.broker_logs.words import EVENTS, with_broker_log
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
"""Names of the folder with segments. A sample has one of them."""

AHEAD_MS = {"server-2.log": 19_800_000}
"""Difference of a log's times from UTC. The second broker logs the time of Asia/Kolkata."""


def read_lines(path: Path) -> list[Line]:
    """Return the lines of a file of JSON lines; empty if there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def milliseconds(moment: str | None) -> int:
    """Return a time in ms since the epoch, -1 for None."""
    return -1 if moment is None else round(datetime.fromisoformat(moment).timestamp() * 1000)


@dataclass(frozen=True)
class Sample:
    """A folder of the recordings, with the logs of one broker or of several brokers."""

    folder: Path

    @property
    def segments(self) -> Path:
        """Return the folder with the segments. After an unclean election, these are the first leader's segments."""
        return next(path for name in SEGMENTS if (path := self.folder / name).is_dir())

    @property
    def name(self) -> str:
        """Return the name of the sample."""
        return self.folder.name

    @property
    def broker_log(self) -> list[Line]:
        """Return the coordinators' log lines, in the order of their times."""
        whole = sorted(self.folder.glob("server*.log"))
        if not whole:
            return read_lines(self.folder / "broker-log.jsonl")
        logged = sorted((line for path in whole for line in _coordinator_lines(path)), key=lambda line: line["at"])
        return [line for line in logged if line["at"] <= self._until_ms]

    @property
    def _until_ms(self) -> float:
        """Return when the first leader was killed. Later log lines are about records that the segments lack."""
        killed = (act["at"] for act in self.journal if act["action"] == "broker_killed")
        return max(killed, default=float("inf"))

    @property
    def journal(self) -> list[Line]:
        """Return the actions on the clients."""
        return read_lines(self.folder / "journal.jsonl")

    def records(self) -> Iterator[Line]:
        """Yield every record of the segments, decoded, in the order of log partition and log offset.

        ``missing_before`` of a record is the number of all missing records of the log partition so far.
        """
        seen: dict[int, int] = {}
        for batch in read_without_spark(find_dump([str(self.segments)]), []):
            for text in decode_lines(batch).to_pylist():
                line = json.loads(text)
                partition = line["log_partition"]
                line["missing_before"] = line["log_offset"] - seen.get(partition, 0)
                seen[partition] = seen.get(partition, 0) + 1
                yield line

    def topics(self) -> tuple[dict[str, str], TopicChanges]:
        """Return topic names by id, and the changes of topics, if the cluster's metadata log was recorded."""
        path = self.folder / "cluster-metadata"
        files = metadata_files(str(path)) if path.exists() else []
        topics = best_topics(from_metadata(record for file in files for record in read_metadata(file).records))
        return topics.names, topics.changes

    def clients(self) -> dict[str, str]:
        """Return the client id by member id, from the records of members."""
        found: dict[str, str] = {}
        for line in self.records():
            value = line.get("value_json") or {}
            for member in value.get("members") or ():
                found[member["memberId"]] = member["clientId"]
            if "clientId" in value:
                found[line["key_json"]["memberId"]] = value["clientId"]
        return found

    def rebalances(self) -> list[Line]:
        """Return the rows of ``rebalances``, without the broker's log."""
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
        """Return the rows of ``rebalances``, with the facts of the broker's log."""
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
    """Return the lines of a coordinator in a broker's whole log, with their times in UTC."""
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
