"""What a life asks of its coordinator, as a script that Kafka's own coordinator can run."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coordinator_replay.simulation.coordinator import Config, Coordinator, Request, Result, Topic
from coordinator_replay.simulation.coordinator.script import ScriptRun
from coordinator_replay.simulation.coordinator.truth import Observer

Command = Mapping[str, Any]

LOOKED_AT_EACH = 50
"""Number of commands after which a script has a look at the coordinator's inner state."""


class AskedCoordinator(Coordinator):
    """A coordinator that keeps what it is asked.

    Attributes:
        asked: commands of a script, each with its time. Time that passes between them is not a command.
    """

    def __init__(self, config: Mapping[str, Any], topics: Iterable[Topic], *, now_ms: int, observer: Observer) -> None:
        present = tuple(topics)
        self.asked: list[tuple[int, Command]] = [(now_ms, {"config": config}), (now_ms, _topics(present))]
        super().__init__(Config(config), present, now_ms=now_ms, observer=observer)

    def handle(self, request: Request, at_ms: int) -> list[Result]:
        """Handle a request."""
        version = {} if request.version is None else {"version": request.version}
        client = {"id": request.client_id, "host": request.client_host}
        self.asked.append((at_ms, {"request": request.api, **version, "client": client, "body": request.body}))
        return super().handle(request, at_ms)

    def update_topics(self, topics: Iterable[Topic], at_ms: int) -> list[Result]:
        """Replace the topics of the cluster."""
        present = tuple(topics)
        self.asked.append((at_ms, _topics(present)))
        return super().update_topics(present, at_ms)

    def end_transaction(self, producer_id: int, producer_epoch: int, *, committed: bool, at_ms: int) -> list[Result]:
        """End a producer's transaction."""
        end = {"producerId": producer_id, "producerEpoch": producer_epoch, "commit": committed}
        self.asked.append((at_ms, {"endTxn": end}))
        return super().end_transaction(producer_id, producer_epoch, committed=committed, at_ms=at_ms)

    def set_group_config(self, group_id: str, settings: Mapping[str, Any]) -> None:
        """Give a group settings of its own."""
        self.asked.append((self.now_ms, {"groupConfig": settings, "group": group_id}))
        super().set_group_config(group_id, settings)

    def hold_jobs(self, *, hold: bool) -> list[Result]:
        """Postpone background jobs, or let them run."""
        self.asked.append((self.now_ms, {"async": "hold" if hold else "run"}))
        return super().hold_jobs(hold=hold)

    def reload(self) -> list[Result]:
        """Load the log partition again."""
        self.asked.append((self.now_ms, {"reload": True}))
        return super().reload()

    def script(self) -> list[str]:
        """Return the script up to now. It also looks at the coordinator's inner state, again and again."""
        run, lines = ScriptRun(), []
        for command in self._commands():
            # Kafka may give other names to members. A script names a member by the place of its id in the answers.
            lines.append(run.renamed(json.dumps(command)))
            run.run(lines[-1])
        return lines

    def _commands(self) -> Iterator[Command]:
        now_ms = self.asked[0][0]
        for number, (at_ms, command) in enumerate(self.asked):
            if at_ms > now_ms:
                yield {"advance_ms": at_ms - now_ms}
                now_ms = at_ms
            yield command
            if number % LOOKED_AT_EACH == LOOKED_AT_EACH - 1:
                yield from _LOOKS
        if self.now_ms > now_ms:
            yield {"advance_ms": self.now_ms - now_ms}
        yield from _LOOKS


_LOOKS: tuple[Command, ...] = ({"dump": True}, {"timers": True})


def _topics(topics: Iterable[Topic]) -> Command:
    return {"topics": [_topic(one) for one in topics]}


def _topic(topic: Topic) -> Command:
    racks = {"racks": topic.racks} if topic.racks else {}
    return {"name": topic.name, "id": topic.topic_id, "partitions": topic.partitions, **racks}
