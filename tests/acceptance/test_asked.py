"""Questions about states, offsets, expiry and the topic itself (design/questions.md), by the command tried first.

The answers are held against what the brokers of the recorded dumps answered at the time (``checkpoints.jsonl``), what
was done to the clients (``journal.jsonl``), what the brokers logged, and what Kafka's own classes decoded. The numbers
are those of the list; questions about reasons are in ``test_questions.py``.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from coordinator_replay.cli.main import main
from tests.acceptance.conftest import AUDITED
from tests.acceptance.test_checkpoints import moment, quiet
from tests.samples import Sample, lines

pytestmark = pytest.mark.spark

CLOCK = timedelta(milliseconds=1500)
"""The journal notes a commit when the client was told of it; the coordinator took it up to this long before."""

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def typed(audited: Path) -> Callable[..., Result]:
    """Type a command; what came of it."""
    runner = CliRunner(env={"COORDINATOR_REPLAY_WAREHOUSE": str(audited)})

    def run(cluster: str, *arguments: str) -> Result:
        result = runner.invoke(main, [*arguments, "--cluster", cluster, "--output", "json"])
        assert result.exit_code == 0, result.output
        return result

    return run


@pytest.fixture(scope="module")
def ask(typed: Callable[..., Result]) -> Callable[..., Rows]:
    """Type a command; the rows it answers with."""
    return lambda *arguments: [json.loads(line) for line in typed(*arguments).stdout.splitlines()]


def at(time: str | int) -> datetime:
    """A time of an answer, or milliseconds of the journal."""
    return datetime.fromtimestamp(time / 1000, UTC) if isinstance(time, int) else datetime.fromisoformat(time)


def journal(name: str, **wanted: object) -> Rows:
    return [
        entry
        for entry in lines(Sample(name).folder / "journal.jsonl")
        if all(entry.get(key) == value for key, value in wanted.items())
    ]


def answered(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each quiet checkpoint: its time as it is typed, and what the broker answered of each group."""
    for checkpoint in quiet(name):
        yield moment(name, checkpoint).isoformat(), {group["groupId"]: group for group in checkpoint["groups"]}


def decoded(name: str, kind: str | None = None) -> Rows:
    return [record for record in Sample(name).decoded if "kind" in record and kind in (None, record["kind"])]


@pytest.mark.parametrize("name", AUDITED)
def test_20_groups_of_every_type_are_there_in_the_state_that_the_broker_said(ask, name: str):
    compared: Counter[str] = Counter()
    for time, groups in answered(name):
        found = {row["group_id"]: row for row in ask(name, "groups", "--at", time)}
        for group_id, group in groups.items():
            told = (found[group_id]["group_type"].capitalize(), found[group_id]["state"])
            assert (time, group_id, told) == (time, group_id, (group["type"], group["state"]))
            compared[group["type"]] += 1
    assert set(compared) >= {"Classic", "Consumer"}


@pytest.mark.parametrize("name", AUDITED)
def test_15_the_owner_of_a_partition_is_the_member_that_the_broker_said(ask, name: str):
    time, groups = list(answered(name))[-1]
    compared = 0
    for group_id, group in groups.items():
        for member in group.get("members") or ():
            for partition in (member["assignment"] or ())[:1] if isinstance(member["assignment"], list) else ():
                topic, _, number = partition.rpartition("-")
                owners = ask(name, "owner", group_id, topic, number, "--at", time)
                assert member["memberId"] in {owner["member_id"] for owner in owners}, (group_id, partition)
                compared += 1
    assert compared > 3


def test_8_offsets_that_are_gone_are_told_with_when_and_why(ask, typed, expired: str):
    cleaned = [
        at(entry["at"])
        for entry in lines(Sample(expired).folder / "broker-log.jsonl")
        if "while cleaning up group metadata" in entry["text"]
    ]
    last = [groups for _, groups in answered(expired)]
    had = {(group_id, name) for groups in last for group_id, group in groups.items() for name in group["offsets"]}
    kept = {(group_id, name) for group_id, group in last[-1].items() for name in group["offsets"]}
    lost = {(group_id, name.rpartition("-")[0]) for group_id, name in had - kept}
    assert len(lost) >= 5
    for group_id, topic in lost:
        result = typed(expired, "offsets", group_id, "--topic", topic)
        assert result.stdout == ""
        assert f"{topic}:" in result.stderr
        assert "expired (offsets.retention.minutes) at" in result.stderr
        (when,) = {row["valid_to"] for row in ask(expired, "offsets", group_id, "--history", topic)[-1:]}
        assert min(abs(at(when) - time) for time in cleaned) < CLOCK, (group_id, when)


def test_8_and_before_they_went_they_were_what_the_broker_said(ask, expired: str):
    for time, groups in answered(expired):
        for group_id, group in groups.items():
            told = {
                f"{row['topic']}-{row['partition']}": row["committed_offset"]
                for row in ask(expired, "offsets", group_id, "--at", time)
            }
            assert (time, group_id, told) == (
                time,
                group_id,
                {name: stored["offset"] for name, stored in group["offsets"].items()},
            )


def test_23_groups_that_are_gone_are_listed_with_what_took_them(ask, expired: str):
    found = {row["group_id"]: row for row in ask(expired, "groups", "--deleted")}
    seen = {group_id for _, groups in answered(expired) for group_id in groups}
    last = set(list(answered(expired))[-1][1])
    deleted = {entry["group"] for entry in journal(expired, action="group_deleted")}
    assert set(found) == (seen - last) | deleted
    assert {group_id for group_id, row in found.items() if row["reason"] == "GROUP_DELETED"} == deleted
    for entry in journal(expired, action="group_deleted"):
        assert abs(at(found[entry["group"]]["deleted_at"]) - at(entry["at"])) < CLOCK


def test_9_what_expires_next_is_told_for_any_horizon(ask):
    name = "group-lifecycles"
    last = list(answered(name))[-1][1]
    assert ask(name, "expired", "shop-simple", "--within", "3d") == []
    found = {f"{row['topic']}-{row['partition']}": row for row in ask(name, "expired", "shop-simple", "--within", "7d")}
    assert {partition: row["committed_offset"] for partition, row in found.items()} == {
        partition: stored["offset"] for partition, stored in last["shop-simple"]["offsets"].items()
    }
    newest = journal(name, group="shop-simple", action="commit")[-1]
    expires = at(found[f"{newest['topic']}-{newest['partition']}"]["expire_at"])
    assert abs(expires - at(newest["at"]) - timedelta(days=7)) < CLOCK
    stored = {group_id for group_id, group in last.items() if group.get("offsets")}
    assert {row["group_id"] for row in ask(name, "expired", "--within", "4000d")} <= stored


def test_11_every_commit_is_in_the_history_and_the_rewind_in_the_timeline(ask, expired: str):
    commits = journal(expired, group="shop-simple", action="commit", partition=0)
    history = ask(expired, "offsets", "shop-simple", "--history", "shop.simple:0")
    assert [row["committed_offset"] for row in history] == [entry["offset"] for entry in commits]
    for row, entry in zip(history, commits, strict=True):
        assert abs(at(row["valid_from"]) - at(entry["at"])) < CLOCK
    back = [row for row in history if (row["delta"] or 0) < 0]
    assert [(row["committed_offset"], row["delta"]) for row in back] == [(7, 7 - 25)]
    events = {row["event"]: row for row in ask(expired, "timeline", "shop-simple")}
    assert set(events) == {"OFFSETS_FIRST_COMMIT", "OFFSETS_REWOUND", "OFFSETS_EXPIRED"}
    assert events["OFFSETS_REWOUND"]["log_timestamp"] == back[0]["valid_from"]


def test_13_unstable_partitions_are_those_that_the_broker_withheld_and_name_the_producer(ask, transactional: str):
    producers = {
        (record["key"]["group"], record["key"]["topic"], record["key"]["partition"], record["producerId"])
        for record in decoded(transactional, "OffsetCommit")
        if record["transactional"]
    }
    compared = 0
    for time, groups in answered(transactional):
        for group_id, group in groups.items():
            rows = ask(transactional, "offsets", group_id, "--at", time, "--require-stable")
            unstable = {f"{row['topic']}-{row['partition']}" for row in rows if row["is_unstable"]}
            assert (time, group_id, unstable) == (time, group_id, set(group["unstable"]))
            for row in (row for row in rows if row["is_unstable"]):
                assert (group_id, row["topic"], row["partition"], row["producer_id"]) in producers
                assert at(row["pending_since"]) <= at(time)
                compared += 1
    assert compared > 10


def test_13_the_timeline_counts_transactions_by_outcome(ask, transactional: str):
    outcomes = Counter(entry["outcome"] for entry in journal(transactional, group="bank-eos", action="txn_offsets"))
    (event,) = (row for row in ask(transactional, "timeline", "bank-eos") if row["event"] == "OFFSETS_PENDING")
    partitions = len(event["detail"]["partitions"])
    told = {name: event["detail"][name] // partitions for name in ("committed", "aborted", "open")}
    assert told == {"committed": outcomes["commit"], "aborted": outcomes["abort"], "open": outcomes["open"]}


@pytest.mark.parametrize("name", AUDITED)
def test_16_and_18_records_and_commits_of_each_group_are_all_counted(ask, name: str):
    records = Counter(record["key"].get("group", record["key"].get("groupId")) for record in decoded(name))
    found = {row["group_id"]: row for row in ask(name, "sql", "--query", "what-fills-the-topic")}
    assert {group_id: row["records"] for group_id, row in found.items()} == dict(records)
    busiest = ask(name, "sql", "--query", "hot-committers")[0]
    commits = Counter(record["key"]["group"] for record in decoded(name, "OffsetCommit"))
    assert busiest["commits"] == commits[busiest["group_id"]] == max(commits.values())


@pytest.mark.parametrize("name", AUDITED)
def test_17_the_last_commit_of_each_group_is_the_newest_in_force(ask, name: str):
    last = list(answered(name))[-1][1]
    found = {row["group_id"]: row["last_commit"] for row in ask(name, "sql", "--query", "last-commits")}
    for group_id, group in last.items():
        newest = [
            record["value"]["commitTimestamp"]
            for record in decoded(name, "OffsetCommit")
            if record["key"]["group"] == group_id
            and record.get("value")
            and f"{record['key']['topic']}-{record['key']['partition']}" in group["offsets"]
            and not record["transactional"]
        ]
        if newest and found[group_id] is not None:
            assert at(found[group_id]) >= at(max(newest)), group_id


@pytest.mark.parametrize("name", AUDITED)
def test_22_every_record_is_accounted_for(ask, name: str):
    (run,) = ask(name, "sql", "--query", "audit-runs")
    assert (run["records_decoded"], run["records_quarantined"], run["unaccounted"]) == (len(decoded(name)), 0, 0)
    kinds = Counter(record["kind"] for record in decoded(name))
    statement = (
        "SELECT kind, count(*) AS n FROM group_records WHERE cluster = $cluster GROUP BY kind "
        "UNION ALL SELECT 'OffsetCommit', count(*) FROM offset_commits WHERE cluster = $cluster"
    )
    assert {row["kind"]: row["n"] for row in ask(name, "sql", statement)} == dict(kinds)


def test_times_are_typed_as_people_say_them(ask, expired: str):
    (stop,) = journal(expired, action="waiting_for_retention")
    clock = at(stop["at"]).strftime("%H:%M:%S")
    same = ask(expired, "groups", "--at", at(stop["at"]).strftime("%Y-%m-%dT%H:%M:%SZ"))
    assert ask(expired, "groups", "--at", clock) == ask(expired, "groups", "--at", f"today {clock}") == same
    assert ask(expired, "groups", "--at", "now") == ask(expired, "groups")
