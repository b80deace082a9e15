"""The same question on the same tables has one answer, however many threads work on it and whatever ties there are.

The log holds the same lives again and again under other group ids, in other log partitions: whatever is compared or
counted comes out equal for many groups, and only rules that are written down can order them.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from coordinator_replay.cli import clock
from coordinator_replay.query.saved import saved_queries
from coordinator_replay.query.tables import Tables
from tests.hostile import recordings
from tests.hostile.questions import ask
from tests.pipeline.in_process import audit_here

TWINS = 4
PARTITIONS = 4
THREADS = (8, 1, 8, 2, 8, 1, 8, 2, 8, 8)
OFTEN = int(os.environ.get("HOSTILE_ASKED_OFTEN", "10"))


class Threaded:
    """A connection of DuckDB that works with so many threads, whatever it is told."""

    def __init__(self, connection: Any, threads: int) -> None:
        self._connection = connection
        self._threads = threads
        connection.execute(f"SET threads = {threads}")

    def execute(self, statement: str, *arguments: Any) -> Any:
        if statement in ("RESET threads", "SET threads = 1"):
            statement = f"SET threads = {self._threads}"
        return self._connection.execute(statement, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def __enter__(self) -> "Threaded":
        return self

    def __exit__(self, *problem: object) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lives of all samples, each lived by several groups, audited in two runs: several files to each table."""
    folder = tmp_path_factory.mktemp("twins")
    chosen = [life for life in recordings.recorded_lives() if 3 <= len(life) <= 60]
    for night in range(2):
        for partition in range(PARTITIONS):
            entries: list[recordings.LogEntry] = []
            for place, life in enumerate(chosen):
                for twin in range(TWINS):
                    if (place + twin) % PARTITIONS == partition:
                        half = len(life) // 2
                        part = life[:half] if night == 0 else life[half:]
                        entries += recordings.encoded(recordings.renamed(part, f"group-{place:02}-{twin}"))
            write_night(folder / f"night-{night}", entries, partition, base=night * 100_000)
        audit_here(folder / "warehouse", folder / f"night-{night}")
    return folder / "warehouse"


def write_night(folder: Path, entries: list[recordings.LogEntry], log_partition: int, *, base: int) -> None:
    place = folder / f"__consumer_offsets-{log_partition}"
    place.mkdir(parents=True)
    with (place / f"{base:020}.log").open("wb") as file:
        for start in range(0, len(entries), 50):
            file.write(recordings.write_batch(entries[start : start + 50], base_offset=base + start))


def questions(folder: Path, groups: Sequence[str]) -> Iterator[list[str]]:
    """Every command that asks and every saved query; for groups that are named, these and every page too."""
    for command in ("groups", "findings", "expired", "rebalances", "why"):
        yield [command, "--output", "json"]
    yield ["groups", "--deleted", "--output", "json"]
    yield ["why"]
    for name in saved_queries():
        yield ["sql", "--query", name, "--output", "json"]
    if not groups:
        return
    for group in groups:
        for command in ("describe", "offsets", "timeline", "why", "rebalances", "expired"):
            yield [command, group, "--output", "json"]
        yield ["timeline", group, "--members", "--output", "json"]
        yield ["findings", "--group", group, "--output", "json"]
        yield ["what-if", group, "--set", "session.timeout.ms=60000", "--output", "json"]
        yield ["report", group, "--out", str(folder / "group.html")]
        yield ["trace", group, "--out", str(folder / "group.json")]
    yield ["report", "--out", str(folder / "fleet.html")]
    yield ["trace", "--out", str(folder / "fleet.json")]


def answer(warehouse: Path, question: list[str]) -> str:
    result = ask(warehouse, question)
    assert not isinstance(result.exception, Exception), (question, result.exception)
    out = [Path(name) for name in question if name.endswith((".html", ".json"))]
    return result.output + "".join(file.read_text() for file in out if file.exists())


def differing(
    warehouse: Path, folder: Path, times: int, monkeypatch: pytest.MonkeyPatch, groups: Sequence[str], share: int = 1
) -> list[tuple[str, ...]]:
    """Questions of which the answers are not all the same."""
    connect = Tables.new_connection
    # How long ago a log ended is said beside each answer.
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    first: dict[tuple[str, ...], str] = {}
    wrong = []
    for threads in THREADS[:times]:
        monkeypatch.setattr(Tables, "new_connection", lambda self, threads=threads: Threaded(connect(self), threads))
        for question in list(questions(folder, groups))[::share]:
            found = answer(warehouse, question)
            if first.setdefault(tuple(question), found) != found:
                wrong.append(tuple(question))
    assert len(first) > 30 // share
    return wrong


@pytest.mark.long
def test_a_question_asked_again_has_the_same_answer(warehouse, tmp_path, monkeypatch):
    assert differing(warehouse, tmp_path, 2, monkeypatch, [], share=10) == []


@pytest.mark.long
def test_a_question_asked_ten_times_has_the_same_answer(warehouse, tmp_path, monkeypatch):
    assert differing(warehouse, tmp_path, OFTEN, monkeypatch, ["group-00-0", "group-05-1", "group-09-2"]) == []
