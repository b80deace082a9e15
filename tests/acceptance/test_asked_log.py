"""Questions about the log itself: offsets after a restart, decoding, files alone, gaps.

Each by the command tried first; the answers are held against what Kafka's own classes decoded, what was done to the
clients and what the brokers answered at the time.
"""

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coordinator_replay.cli.main import main
from scripts.reasons.logged_truth import Witness
from scripts.reasons.sample import Sample as Recording
from tests.acceptance.conftest import AUDITED, Ask, Typed
from tests.acceptance.recorded import CLOCK, Rows, at, decoded, journal, last_answer
from tests.acceptance.test_checkpoints import SHARES
from tests.samples import NAMES, Sample

# --- offsets were 0 after a restart ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", AUDITED)
def test_was_0_committed_or_nothing(ask: Ask, name: str):
    """Every plain commit is in the history, in order, as Kafka's own classes decoded it."""
    compared = zeros = 0
    wanted = plain_commits(name)
    for group, topic in {(group, topic) for group, topic, _ in wanted}:
        history: dict[int, list[int]] = defaultdict(list)
        for row in ask(name, "offsets", group, "--history", topic):
            history[row["partition"]].append(row["committed_offset"])
        commits = {number: offsets for (*of, number), offsets in wanted.items() if of == [group, topic]}
        assert {number: history[number] for number in commits} == commits, (group, topic)
        compared += sum(map(len, commits.values()))
        zeros += sum(offsets.count(0) for offsets in commits.values())
    assert compared > 20
    assert zeros or name != "group-lifecycles"


def plain_commits(name: str) -> dict[tuple[str, str, int], list[int]]:
    """The offsets committed of each partition that no transaction and no deletion touched."""
    found: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    others = set()
    for record in decoded(name, "OffsetCommit"):
        key = record["key"]["group"], record["key"]["topic"], record["key"]["partition"]
        if record["transactional"] or not record.get("value"):
            others.add(key)
        else:
            found[key].append(record["value"]["offset"])
    return {key: offsets for key, offsets in found.items() if key not in others}


@SHARES
@pytest.mark.parametrize("name", AUDITED)
def test_what_is_the_offset_before_the_first_commit(typed: Typed, name: str, share: int):
    first: dict[tuple[str, str], int] = {}
    for record in decoded(name, "OffsetCommit"):
        first.setdefault((record["key"]["group"], record["key"]["topic"]), record["timestamp"])
    start = min(record["timestamp"] for record in decoded(name))
    asked = 0
    for (group, topic), timestamp in list(first.items())[::-share]:
        if timestamp > start:
            result = typed(name, "offsets", group, "--topic", topic, "--at", at(timestamp - 1).isoformat())
            assert result.stdout == ""
            assert "o committed offset" in result.stderr
            asked += 1
    assert asked > 3 // share


@pytest.mark.parametrize("name", AUDITED)
def test_are_offsets_the_same_after_a_restart_of_the_broker(ask: Ask, name: str):
    """So it was not lost there: the fault lies in the client, or in how the coordinator loaded it."""
    (stop,) = journal(name, action="broker_stopping")
    assert at(max(record["timestamp"] for record in decoded(name))) <= at(stop["at"]) + CLOCK
    compared = 0
    for group_id, group in last_answer(name).items():
        if group.get("offsets"):
            found = {
                f"{row['topic']}-{row['partition']}": row["committed_offset"] for row in ask(name, "offsets", group_id)
            }
            assert (group_id, found) == (group_id, {key: stored["offset"] for key, stored in group["offsets"].items()})
            compared += len(found)
    assert compared > 20


# --- make the topic readable -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_does_every_record_read_as_kafkas_own_classes_read_it(name: str):
    result = CliRunner().invoke(main, ["decode", Sample(name).segments])
    assert result.exit_code == 0, result.stderr
    rows = {(row["log_partition"], row["log_offset"]): row for row in map(json.loads, result.stdout.splitlines())}
    records = Sample(name).decoded
    assert len(rows) == len(records)
    for record in records:
        row = rows[record["partition"], record["offset"]]
        assert at(row["log_timestamp"]) == at(record["timestamp"])
        if "control" in record:
            assert (row["kind"], row["control_type"]) == ("ControlRecord", record["control"])
        elif record["kind"] == "OffsetCommit":
            assert commit_of(row) == commit_of_record(record)
        else:
            assert (row["kind"], row["key_json"]) == (record["kind"], record["key"])
            assert as_kafka_prints(row["value_json"]) == record.get("value")


def as_kafka_prints(value: Any) -> Any:
    """A value without the fields that are opened beside their bytes."""
    if isinstance(value, dict):
        return {name: as_kafka_prints(one) for name, one in value.items() if not name.endswith("Fields")}
    return [as_kafka_prints(one) for one in value] if isinstance(value, list) else value


def commit_of(row: dict[str, Any]) -> tuple[Any, ...]:
    committed = row["commit_timestamp"] and at(row["commit_timestamp"])
    return row["group_id"], row["topic"], row["partition"], row["committed_offset"], row["metadata"], committed


def commit_of_record(record: dict[str, Any]) -> tuple[Any, ...]:
    key, value = record["key"], record.get("value") or {}
    committed = at(value["commitTimestamp"]) if value else None
    return key["group"], key["topic"], key["partition"], value.get("offset"), value.get("metadata"), committed


@pytest.mark.parametrize("name", AUDITED)
def test_which_kinds_and_versions_of_records_are_there(ask: Ask, name: str):
    wanted = Counter(
        (record["kind"], record["keyVersion"], None if record["tombstone"] else record["valueVersion"])
        for record in (one | {"tombstone": not one.get("value")} for one in decoded(name))
    )
    rows = ask(name, "sql", "--query", "record-kinds")
    assert {(row["kind"], row["key_version"], row["value_version"]): row["records"] for row in rows} == dict(wanted)
    assert all(row["tombstones"] == (row["records"] if row["value_version"] is None else 0) for row in rows)


# --- without the cluster ---------------------------------------------------------------------------------------------

ALONE = """
import socket, sys

def refuse(*_):
    raise AssertionError("a connection is opened")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
for name in ("pyspark", "py4j", "confluent_kafka"):
    sys.modules[name] = None
from coordinator_replay.cli.main import main
main()
"""


def typed_alone(warehouse: Path, *arguments: str) -> Rows:
    """The rows of a command that can reach no broker, start no JVM and use no Kafka client."""
    environment = {**os.environ, "COORDINATOR_REPLAY_WAREHOUSE": str(warehouse)}
    command = [sys.executable, "-c", ALONE, *arguments, "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_which_groups_are_there_asked_of_files_alone(audited: Path):
    name = "group-lifecycles"
    found = {row["group_id"]: row for row in typed_alone(audited, "groups", "--cluster", name)}
    assert {group_id: (row["state"], row["member_count"]) for group_id, row in found.items()} == {
        group_id: (group["state"], len(group.get("members") or ())) for group_id, group in last_answer(name).items()
    }


def test_what_are_all_offsets_asked_of_files_alone(audited: Path):
    name = "group-lifecycles"
    statement = (
        "SELECT group_id, topic, partition, committed_offset FROM offset_history "
        "WHERE cluster = $cluster AND to_offset IS NULL"
    )
    rows = typed_alone(audited, "sql", statement, "--cluster", name)
    assert {(row["group_id"], f"{row['topic']}-{row['partition']}"): row["committed_offset"] for row in rows} == {
        (group_id, partition): stored["offset"]
        for group_id, group in last_answer(name).items()
        for partition, stored in (group.get("offsets") or {}).items()
    }


# --- a log that was compacted while it was written -------------------------------------------------------------------


def test_what_does_a_compacted_log_say_at_the_end(ask: Ask, compacted: str):
    last = last_answer(compacted)
    found = {row["group_id"]: (row["group_type"].capitalize(), row["state"]) for row in ask(compacted, "groups")}
    assert found == {group_id: (group["type"], group["state"]) for group_id, group in last.items()}
    for group_id, group in last.items():
        rows = ask(compacted, "offsets", group_id)
        offsets = {f"{row['topic']}-{row['partition']}": row["committed_offset"] for row in rows}
        assert (group_id, offsets) == (group_id, {key: stored["offset"] for key, stored in group["offsets"].items()})


def test_of_which_groups_are_rebalances_missing(ask: Ask, compacted: str):
    """The broker's log has rebalances that compaction removed from the topic: no such group is told of as complete."""
    recording = Recording(Sample(compacted).folder)
    logged = Counter(one.group for one in Witness(recording.journal, recording.clients()).read(recording.broker_log))
    told = Counter(row["group_id"] for row in ask(compacted, "rebalances"))
    lacking = {group for group, count in logged.items() if told[group] < count}
    inexact = {row["group_id"] for row in ask(compacted, "sql", "--query", "inexact-groups")}
    known = {row["group_id"] for row in ask(compacted, "groups")}
    assert lacking & known
    assert lacking & known <= inexact


def test_how_many_records_are_missing_before_each_record(ask: Ask, compacted: str):
    offsets: dict[int, list[int]] = defaultdict(list)
    for record in Sample(compacted).decoded:
        offsets[record["partition"]].append(record["offset"])
    statement = "SELECT log_partition, log_offset, missing_before FROM group_records WHERE cluster = $cluster"
    rows = ask(compacted, "sql", statement)
    assert len(rows) == sum(record["kind"] != "OffsetCommit" for record in decoded(compacted))
    for row in rows:
        earlier = sum(offset < row["log_offset"] for offset in offsets[row["log_partition"]])
        assert (row["log_offset"], row["missing_before"]) == (row["log_offset"], row["log_offset"] - earlier)
    assert any(row["missing_before"] for row in rows)
