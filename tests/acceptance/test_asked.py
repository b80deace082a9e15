"""Questions about states, offsets, expiry and counts, by the command tried first.

The answers are held against what the brokers of the recorded dumps answered at the time (``checkpoints.jsonl``), what
was done to the clients (``journal.jsonl``), what the brokers logged, and what Kafka's own classes decoded. Questions
about reasons are in ``test_questions.py``, about members in ``test_asked_members.py``,
about the log itself in ``test_asked_log.py``.
"""

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from tests.acceptance.conftest import AUDITED
from tests.acceptance.recorded import CLOCK, answered, at, decoded, journal
from tests.acceptance.test_checkpoints import SHARES
from tests.samples import Sample, lines


@SHARES
@pytest.mark.parametrize("name", AUDITED)
def test_what_groups_are_there_of_every_type_and_in_which_state(ask, name: str, share: int):
    compared: Counter[str] = Counter()
    for time, groups in list(answered(name))[::-share]:
        found = {row["group_id"]: row for row in ask(name, "groups", "--at", time)}
        for group_id, group in groups.items():
            told = (found[group_id]["group_type"].capitalize(), found[group_id]["state"])
            assert (time, group_id, told) == (time, group_id, (group["type"], group["state"]))
            compared[group["type"]] += 1
    assert set(compared) >= {"Classic", "Consumer"}


def test_when_and_why_were_offsets_removed(ask, typed, expired: str):
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


@SHARES
def test_what_were_removed_offsets_before_their_removal(ask, expired: str, share: int):
    for time, groups in list(answered(expired))[::-share]:
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


def test_which_groups_were_removed_and_by_what(ask, expired: str):
    found = {row["group_id"]: row for row in ask(expired, "groups", "--deleted")}
    seen = {group_id for _, groups in answered(expired) for group_id in groups}
    last = set(list(answered(expired))[-1][1])
    deleted = {entry["group"] for entry in journal(expired, action="group_deleted")}
    assert set(found) == (seen - last) | deleted
    assert {group_id for group_id, row in found.items() if row["reason"] == "GROUP_DELETED"} == deleted
    for entry in journal(expired, action="group_deleted"):
        assert abs(at(found[entry["group"]]["deleted_at"]) - at(entry["at"])) < CLOCK


@pytest.mark.parametrize("name", AUDITED)
def test_can_the_offsets_of_a_removed_group_be_restored(typed, name: str, tmp_path: Path):
    checkpoints = list(answered(name))
    time, groups = checkpoints[len(checkpoints) // 2]
    written = 0
    for group_id, group in groups.items():
        if group.get("offsets"):
            file = tmp_path / f"{group_id}.csv"
            typed(name, "offsets", group_id, "--at", time, "--reset-file", str(file), "--include-unproven")
            rows = [line.rsplit(",", 2) for line in file.read_text().splitlines()]
            assert {f"{topic}-{partition}": int(offset) for topic, partition, offset in rows} == {
                partition: stored["offset"] for partition, stored in group["offsets"].items()
            }
            written += len(rows)
    assert written > 3


def test_which_offsets_expire_next(ask):
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


def test_did_an_offset_go_back_and_when(ask, expired: str):
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


def test_which_producer_keeps_offsets_unstable(ask, transactional: str):
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


def test_how_many_transactions_were_committed_and_aborted(ask, transactional: str):
    outcomes = Counter(entry["outcome"] for entry in journal(transactional, group="bank-eos", action="txn_offsets"))
    (event,) = (row for row in ask(transactional, "timeline", "bank-eos") if row["event"] == "OFFSETS_PENDING")
    partitions = len(event["detail"]["partitions"])
    told = {name: event["detail"][name] // partitions for name in ("committed", "aborted", "open")}
    assert told == {"committed": outcomes["commit"], "aborted": outcomes["abort"], "open": outcomes["open"]}


@pytest.mark.parametrize("name", AUDITED)
def test_how_much_of_the_log_is_each_groups(ask, name: str):
    """Sizes are those of the keys and values that a consumer read."""
    exported = Sample(name).exported
    records: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for record in decoded(name):
        group = record["key"].get("group", record["key"].get("groupId"))
        key, value = exported[record["partition"], record["offset"]]
        records[group] += 1
        sizes[group] += len(key) + len(value or b"")
    rows = ask(name, "sql", "--query", "what-fills-the-topic")
    assert {row["group_id"]: row["records"] for row in rows} == dict(records)
    assert {row["group_id"]: row["bytes"] for row in rows} == dict(sizes)
    assert rows[0]["bytes"] == max(sizes.values())
    grown = ask(name, "sql", "--query", "log-partition-growth")
    assert sum(row["bytes"] for row in grown) == sum(sizes.values())
    assert grown == sorted(grown, key=lambda row: -row["bytes"])
    assert {row["largest_group_bytes"] for row in grown} <= set(sizes.values())


@pytest.mark.parametrize("name", AUDITED)
def test_which_group_commits_most(ask, name: str):
    busiest = ask(name, "sql", "--query", "hot-committers")[0]
    commits = Counter(record["key"]["group"] for record in decoded(name, "OffsetCommit"))
    assert busiest["commits"] == commits[busiest["group_id"]] == max(commits.values())


@pytest.mark.parametrize("name", AUDITED)
def test_is_every_record_accounted_for(ask, name: str):
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
