"""Scripts: files of JSON lines that send requests to a coordinator, set its topics and advance its clock.

The answers are JSON lines, too.

A line is one command (see ``docs/simulate.md``):

- ``{"config": {...}}``: settings, only before anything else.
- ``{"topics": [{"name", "id", "partitions", "racks"?}]}``: all topics from now on.
- ``{"groupConfig": {...}, "group": g}``: settings of one group.
- ``{"request": api, "version"?, "group"?, "client"?: {"id", "host"}, "body"?: {...}}``
- ``{"endTxn": {"producerId", "producerEpoch", "commit"}}``: the end of a transaction.
- ``{"advance_ms": n}``: time passes.
- ``{"async": "hold" | "run"}``: background jobs wait, or run again.
- ``{"reload": true}``: the log partition gets a new leader.
- ``{"timers": true}``: the running timers; ``{"dump": true}``: the inner state of all groups.
- ``{"assign": name, "topics", "racks"?, "members"}``: the assignment of a client's assignor.
- ``{"note": text}``: nothing happens.

Member ids that the coordinator makes are written as ``$m1``, ``$m2``, ... in order of appearance. Scripts use them in
the same form.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from coordinator_replay.engine.model import Record
from coordinator_replay.errors import UsageError
from coordinator_replay.records.kinds import kinds_by_name
from coordinator_replay.simulation.coordinator.config import Config
from coordinator_replay.simulation.coordinator.coordinator import Coordinator
from coordinator_replay.simulation.coordinator.errors import NAMES
from coordinator_replay.simulation.coordinator.messages import Request
from coordinator_replay.simulation.coordinator.operations import Batch, Failure, MarkerWritten, Response, Result
from coordinator_replay.simulation.coordinator.script.assign import assign
from coordinator_replay.simulation.coordinator.script.lines import (
    Line,
    check_true,
    read_client,
    read_end,
    read_line,
    read_topic,
    value_of,
)
from coordinator_replay.simulation.coordinator.topics import Topic
from coordinator_replay.simulation.coordinator.truth import (
    BatchWritten,
    EpochBumped,
    Event,
    MemberRemoved,
    Observer,
    RebalanceStarted,
    ignore,
)

START_MS = 1_000_000_000_000
"""Time at which every script begins."""

MAX_ADVANCE_MS = 10 * 365 * 86_400_000
"""Longest time that a line may let pass. Periodic timers fire all the time, so a longer time would take minutes."""

NAMED_BY_BODY = frozenset({"ConsumerGroupDescribe", "DescribeGroups", "ListGroups", "DeleteGroups", "OffsetFetch"})
"""Requests whose body names several groups, so the line's ``group`` is not put into the body."""

OPENED = frozenset({"subscriptionFields", "assignmentFields", "metadataFields"})
"""Fields of a value that the engine decodes from the bytes; they are no part of the record."""

GENERATED_ID = re.compile(r'"((?:[^"\\]|\\.)*-00000000-0000-4000-8000-[0-9a-f]{12}|AAAAAAAAQACAA[A-Za-z0-9_-]{9})"')


class ScriptRun:
    """A run of one script.

    Attributes:
        coordinator: the coordinator that the script runs on; None until a line needs it.
        written: all batches and control records so far, in order.
        topics: every topic so far in its last state, by id.
    """

    def __init__(self, observer: Observer = ignore) -> None:
        """Make a run that has not run a line yet.

        Args:
            observer: function that gets an ``Event`` for each written batch, started rebalance, raised group epoch and
                removed member.
        """
        self.coordinator: Coordinator | None = None
        self._observer = observer
        self.written: list[Batch | MarkerWritten] = []
        self.topics: dict[str, Topic] = {}
        self._names: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._index = 0

    def run(self, text: str) -> str:
        """Run one line and return the answer as a line.

        Raises:
            UsageError: the line is not a command, or its command is impossible; nothing changes.
        """
        did, line = read_line(text, _FIELDS)
        resolved = self._resolved(line)
        out = COMMANDS[did].run(self, resolved)
        answer = {
            "i": self._index,
            "now": (self.coordinator.now_ms if self.coordinator is not None else START_MS) - START_MS,
            "did": resolved["request"] if did == "request" else did,
            "out": out,
        }
        self._index += 1
        return self.renamed(json.dumps(answer, ensure_ascii=False, separators=(",", ":")))

    @property
    def end_offset(self) -> int:
        """Return how many records are in the log, control records included."""
        return self.coordinator.end_offset if self.coordinator is not None else 0

    def _started(self) -> Coordinator:
        if self.coordinator is None:
            self.coordinator = Coordinator(now_ms=START_MS, observer=self._observer)
        return self.coordinator

    def _config(self, command: Line) -> list[Line]:
        if self.coordinator is not None:
            raise UsageError("config must come before everything else")
        config = Config(value_of(command, "config", dict))
        self.coordinator = Coordinator(config, now_ms=START_MS, observer=self._observer)
        return []

    def _topics(self, command: Line) -> list[Line]:
        coordinator = self._started()
        topics = [read_topic(entry) for entry in value_of(command, "topics", list)]
        results = coordinator.update_topics(topics, coordinator.now_ms)
        self.topics.update((topic.topic_id, topic) for topic in topics)
        return self._shown(results)

    def _group_config(self, command: Line) -> list[Line]:
        self._started().set_group_config(value_of(command, "group", str), value_of(command, "groupConfig", dict))
        return []

    def _request(self, command: Line) -> list[Line]:
        coordinator = self._started()
        api = value_of(command, "request", str)
        body = value_of(command, "body", dict) if "body" in command else {}
        if "group" in command and "groupId" not in body and api not in NAMED_BY_BODY:
            body = {**body, "groupId": value_of(command, "group", str)}
        client_id, host = read_client(command)
        request = Request(api, body, command.get("version"), client_id, host, self._index)
        return self._shown(coordinator.handle(request, coordinator.now_ms))

    def _end_transaction(self, command: Line) -> list[Line]:
        coordinator = self._started()
        producer_id, epoch, committed = read_end(command)
        return self._shown(
            coordinator.end_transaction(producer_id, epoch, committed=committed, at_ms=coordinator.now_ms)
        )

    def _advance(self, command: Line) -> list[Line]:
        coordinator = self._started()
        passed_ms = value_of(command, "advance_ms", int)
        if passed_ms > MAX_ADVANCE_MS:
            raise UsageError(f"advance_ms is {passed_ms}; at most {MAX_ADVANCE_MS} (ten years) pass in one line")
        return self._shown(coordinator.advance(coordinator.now_ms + passed_ms))

    def _async(self, command: Line) -> list[Line]:
        if command["async"] not in ("hold", "run"):
            raise UsageError(f"async is {command['async']!r}; it must be hold or run")
        return self._shown(self._started().hold_jobs(hold=command["async"] == "hold"))

    def _reload(self, command: Line) -> list[Line]:
        check_true(command, "reload")
        return self._shown(self._started().reload())

    def _timers(self, command: Line) -> list[Line]:
        check_true(command, "timers")
        coordinator = self._started()
        return [{"at": coordinator.now_ms - START_MS, "timers": coordinator.timers()}]

    def _assign(self, command: Line) -> list[Line]:
        now_ms = self.coordinator.now_ms if self.coordinator is not None else START_MS
        return [{"at": now_ms - START_MS, "assignment": assign(command)}]

    def _dump(self, command: Line) -> list[Line]:
        check_true(command, "dump")
        coordinator = self._started()
        return [{"at": coordinator.now_ms - START_MS, "dump": coordinator.dump()}]

    def _shown(self, results: list[Result]) -> list[Line]:
        self.written.extend(result for result in results if isinstance(result, Batch | MarkerWritten))
        return [event for result in results for event in _events(result)]

    def renamed(self, line: str) -> str:
        """Return a line with names such as ``$m1`` in place of the ids that the coordinator made."""
        for match in GENERATED_ID.finditer(line):
            member_id = match.group(1)
            if member_id not in self._names:
                self._names[member_id] = f"$m{len(self._names) + 1}"
                self._ids[self._names[member_id]] = json.loads(f'"{member_id}"')
        for member_id, name in self._names.items():
            line = line.replace(member_id, name)
        return line

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._ids.get(value, value) if value.startswith("$m") else value
        if isinstance(value, list):
            return [self._resolved(element) for element in value]
        if isinstance(value, dict):
            return {name: self._resolved(element) for name, element in value.items()}
        return value


class ScriptCommand(NamedTuple):
    """A command of a script, such as ``advance_ms``. Each line of a script has one command.

    Attributes:
        run: the function that runs a line with this command. It returns the lines to print.
        fields: the fields that the line may have besides the command itself.
    """

    run: Callable[[ScriptRun, Line], list[Line]]
    fields: frozenset[str] = frozenset()


COMMANDS: Mapping[str, ScriptCommand] = {
    "config": ScriptCommand(ScriptRun._config),
    "assign": ScriptCommand(ScriptRun._assign, frozenset({"topics", "racks", "members"})),
    "topics": ScriptCommand(ScriptRun._topics),
    "groupConfig": ScriptCommand(ScriptRun._group_config, frozenset({"group"})),
    "request": ScriptCommand(ScriptRun._request, frozenset({"version", "group", "client", "body"})),
    "endTxn": ScriptCommand(ScriptRun._end_transaction),
    "advance_ms": ScriptCommand(ScriptRun._advance),
    "async": ScriptCommand(ScriptRun._async),
    "reload": ScriptCommand(ScriptRun._reload),
    "dump": ScriptCommand(ScriptRun._dump),
    "timers": ScriptCommand(ScriptRun._timers),
    "note": ScriptCommand(lambda _run, _line: []),
}
"""Commands by name. A line's command is the first of these that it has: an ``assign`` line also has ``topics``."""

_FIELDS = {name: command.fields for name, command in COMMANDS.items()}


def truth_line(event: Event) -> Line:
    """Return an event that a coordinator told its observer, as the fields of a JSON line.

    Times count from the beginning of the script.
    """
    told = event._asdict()
    trigger = {name: value for name, value in event.trigger._asdict().items() if value not in (None, "", ())}
    return {"at": told.pop("at_ms") - START_MS, "event": TRUTHS[type(event)], **told, "trigger": trigger}


TRUTHS: Mapping[type[Event], str] = {
    BatchWritten: "batch",
    RebalanceStarted: "rebalance",
    EpochBumped: "epoch",
    MemberRemoved: "removal",
}
"""Names of events in JSON lines."""


def _events(result: Result) -> Iterator[Line]:
    at = result.at_ms - START_MS
    match result:
        case Batch():
            event: Line = {"at": at, "records": [_record(record) for record in result.records]}
            if result.producer_id != -1:
                event |= {"producerId": result.producer_id, "producerEpoch": result.producer_epoch}
            yield event
        case MarkerWritten():
            end = "COMMIT" if result.marker.committed else "ABORT"
            yield {"at": at, "records": [{"offset": result.marker.offset, "kind": f"marker:{end}"}]}
            yield {"at": at, "marker": end}
        case Response(api="OffsetFetch", body={"groups": groups}):
            # A broker asks Kafka's coordinator for one group at a time, so each group is a response of its own.
            for group in groups:
                event = {"at": at, "to": result.correlation_id, "api": result.api}
                yield {**event, "response": {**result.body, "groups": [group]}}
        case Response():
            event = {"at": at, "to": result.correlation_id, "api": result.api, "response": result.body}
            code = result.body.get("errorCode", 0)
            if code:
                event["error"] = NAMES[code]
            yield event
        case Failure():
            yield {
                "at": at,
                "to": result.correlation_id,
                "api": result.api,
                "error": result.error,
                "message": result.message,
            }


def _record(record: Record) -> Line:
    shown: Line = {
        "offset": record.offset,
        "kind": _kind(record.kind),
        "keyVersion": kinds_by_name()[record.kind].type,
        "key": record.key,
    }
    if record.value is not None:
        shown["valueVersion"] = record.value_version
        shown["value"] = as_written(record.value)
    else:
        shown["value"] = None
    return shown


def as_written(value: Any) -> Any:
    """Return the value of a record as the coordinator wrote it.

    Leave out the fields that the engine adds when it decodes bytes in the value (``OPENED``).
    """
    if isinstance(value, Mapping):
        return {name: as_written(element) for name, element in value.items() if name not in OPENED}
    if isinstance(value, list | tuple):
        return [as_written(element) for element in value]
    return value


@cache
def _kind(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def simulate(
    lines: Iterable[str], answered: Callable[[str], object], *, observer: Observer = ignore, name: str = "script"
) -> ScriptRun:
    """Run the lines of a script, one after the other, on a new coordinator.

    Args:
        lines: lines with one command each; empty lines are skipped.
        answered: function that gets the answer to each command.
        observer: function that gets an ``Event`` for each written batch, started rebalance, raised group epoch and
            removed member.
        name: name of the script in errors.

    Returns:
        The run at its end, with all written records.

    Raises:
        UsageError: a line can't be run; the message has its number.
    """
    run = ScriptRun(observer)
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                answer = run.run(line)
            except UsageError as problem:
                raise UsageError(f"{name}, line {number}: {problem}") from problem
            answered(answer)
    return run
