"""``decode FILE``: every record of a file as a JSON line, without Spark."""

import base64
import json
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from coordinator_replay.cli import compute, output
from coordinator_replay.cli.decoded import record_text
from coordinator_replay.cli.main import main
from coordinator_replay.records.kinds import kinds_by_name
from tests.samples import EXPORTED, NAMES, Sample


def decode(*arguments):
    return CliRunner().invoke(main, ["decode", *map(str, arguments)])


def lines_of(result):
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def without_fields(value):
    """A value as Kafka's own tools print it, without what is opened of its bytes."""
    if isinstance(value, dict):
        return {name: without_fields(item) for name, item in value.items() if not name.endswith("Fields")}
    return [without_fields(item) for item in value] if isinstance(value, list) else value


def check(rows, records):
    found = {(row["log_partition"], row["log_offset"]): row for row in rows}
    assert len(found) == len(rows) == len(records)
    for record in records:
        row = found[(record["partition"], record["offset"])]
        if "kind" not in record:
            assert (row["kind"], row["control_type"]) == ("ControlRecord", record["control"])
        elif record["kind"] == "OffsetCommit":
            assert row["kind"] == "OffsetCommit"
            assert {"group": row["group_id"], "topic": row["topic"], "partition": row["partition"]} == record["key"]
            assert row["committed_offset"] == (record.get("value") or {}).get("offset")
        else:
            assert (row["kind"], row["key_json"], without_fields(row["value_json"])) == (
                record["kind"],
                record["key"],
                record.get("value"),
            )


@pytest.mark.parametrize("name", NAMES)
def test_segments_print_what_kafka_says(name):
    check(lines_of(decode(Sample(name).segments)), Sample(name).decoded)


@pytest.mark.parametrize("name", EXPORTED)
@pytest.mark.parametrize("form", ["parquet", "records.jsonl"])
def test_exports_print_what_kafka_says(name, form):
    records = [record for record in Sample(name).decoded if "kind" in record]
    check(lines_of(decode(Sample(name).folder / form)), records)


def test_classic_subscriptions_and_assignments_stand_beside_their_bytes():
    rows = [row for row in lines_of(decode(Sample("group-lifecycles").segments)) if row.get("kind") == "GroupMetadata"]
    members = [member for row in rows if row["value_json"] for member in row["value_json"]["members"]]
    assert {topic for member in members for topic in member["subscriptionFields"]["topics"]} >= {"shop.orders"}
    owned = {
        (entry["topic"], partition)
        for member in members
        if member["assignmentFields"]
        for entry in member["assignmentFields"]["assignedPartitions"]
        for partition in entry["partitions"]
    }
    assert ("shop.orders", 0) in owned
    assert all(member["subscription"] for member in members)


def test_lines_come_in_the_order_of_the_file():
    rows = lines_of(decode(f"{Sample('group-lifecycles').segments}/__consumer_offsets-0"))
    assert [row["log_offset"] for row in rows] == sorted(row["log_offset"] for row in rows)


def test_damage_is_printed_with_its_bytes_and_notes_go_to_standard_error(tmp_path):
    folder = tmp_path / "__consumer_offsets-1"
    folder.mkdir()
    raw = bytearray(
        (Sample("java-clients").folder / "segments/__consumer_offsets-1/00000000000000000000.log").read_bytes()
    )
    raw[80] ^= 0xFF
    (folder / "00000000000000000000.log").write_bytes(raw + b"torn")
    result = decode(folder)
    bad = [row for row in lines_of(result) if "error_class" in row]
    assert [row["error_class"] for row in bad] == ["ChecksumMismatch"]
    assert base64.b64decode(bad[0]["value"]) == bytes(raw[: len(base64.b64decode(bad[0]["value"]))])
    assert result.stderr.startswith("note: ")


@pytest.mark.parametrize("content", [b"", b"\x00" * 4096])
def test_an_empty_or_preallocated_segment_prints_nothing(tmp_path, content):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(content)
    result = decode(folder)
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize("make", [lambda p: p / "missing.log", lambda p: p])
def test_a_wrong_input_ends_in_one_sentence_and_code_2(tmp_path, make):
    (tmp_path / "note.txt").write_text("hello")
    result = decode(make(tmp_path))
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


KINDS = {*kinds_by_name(), "ControlRecord"}


def on_terminal(monkeypatch: pytest.MonkeyPatch, path: object, width: int = 80) -> tuple[list[str], str]:
    """Return the lines that a terminal shows of a dump, and the notes beside them as one line."""
    for module in (compute, output):
        monkeypatch.setattr(module, "terminal_width", lambda *, err=False: width)
    monkeypatch.setenv("NO_COLOR", "1")
    result = decode(path)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines(), " ".join(result.stderr.split())


@pytest.mark.parametrize("name", ["group-lifecycles", "transactions", "java-clients"])
def test_a_terminal_shows_a_screen_of_records_and_says_how_many_follow(monkeypatch, name: str):
    rows = lines_of(decode(Sample(name).segments))
    shown, beside = on_terminal(monkeypatch, Sample(name).segments)
    assert len(shown) <= 20
    assert all(cell_len(line) <= 80 for line in shown)
    assert not any(line.startswith("{") for line in shown)
    # Kinds and groups are never cut. A record whose content has no room beside them has it below.
    records = [words for line in shown if (words := line.split()) and KINDS & set(words)]
    assert 5 <= len(records) <= 16
    groups = {row.get("group_id") for row in rows[: len(records)]} - {None}
    assert all(group in " ".join([*shown, beside]) for group in groups)
    assert "Left out" not in beside
    assert f"{len(rows) - len(records):,} more records. --wide and a pipe have all records in full" in beside
    assert not any("members[" in line for line in shown)


def test_a_terminal_shows_what_a_record_is_about(monkeypatch, tmp_path: Path):
    """The member of its key, topics and partitions, and all members of a classic group."""
    source = Sample("group-lifecycles").folder / "records.jsonl"
    of_kind: dict[str, str] = {}
    for line, row in zip(source.read_text().splitlines(), lines_of(decode(source)), strict=True):
        if row.get("value_json"):
            of_kind[row["kind"]] = line
    kinds = ("ConsumerGroupMemberMetadata", "ConsumerGroupCurrentMemberAssignment", "ConsumerGroupRegularExpression")
    paths = [tmp_path / f"{kind}.jsonl" for kind in kinds]
    for path in paths:
        path.write_text(of_kind[path.stem] + "\n")
    members = [lines_of(decode(path))[0]["member_id"] for path in paths]
    shown = {path.stem: " ".join(" ".join(on_terminal(monkeypatch, path)[0]).split()) for path in paths}
    for kind, member in zip(kinds, members, strict=True):
        assert member is None or f"member {member}: " in shown[kind]
    assert "clientId=" in shown["ConsumerGroupMemberMetadata"]
    assert "memberEpoch=" in shown["ConsumerGroupCurrentMemberAssignment"]
    assert "topics=shop.rx" in shown["ConsumerGroupRegularExpression"]


def commits_of(path: Path, *topics: str) -> Path:
    """Write commits of offset 7 in partition 0 of each topic as JSON lines."""

    def string(text: str) -> bytes:
        return struct.pack(">h", len(text.encode())) + text.encode()

    value = base64.b64encode(struct.pack(">hqi", 3, 7, -1) + string("") + struct.pack(">q", 1_700_000_000_000)).decode()
    keys = [struct.pack(">h", 1) + string("g") + string(topic) + struct.pack(">i", 0) for topic in topics]
    lines = [
        {"topic": "__consumer_offsets", "partition": 0, "offset": offset, "ts": 1_700_000_000_000 + offset,
         "key": base64.b64encode(key).decode(), "payload": value}
        for offset, key in enumerate(keys)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("width", [80, 200])
def test_no_record_with_a_content_has_the_sign_for_null(monkeypatch, tmp_path: Path, width: int):
    path = commits_of(tmp_path / "r.jsonl", "orders", "a-topic-whose-name-is-too-long-for-the-line")
    shown, _ = on_terminal(monkeypatch, path, width)
    text = "\n".join(shown)
    assert "orders-0: 7" in text
    assert "a-topic-whose-name-is-too-long-for-the-line-0: 7" in text
    assert "-" not in text.split()
    assert not any(line.strip().endswith(":") for line in shown)


def test_a_terminal_counts_the_cells_of_a_content(monkeypatch, tmp_path: Path):
    """Each of these 28 characters takes two cells, so the text is wider than a line of its record has room for."""
    shown, _ = on_terminal(monkeypatch, commits_of(tmp_path / "r.jsonl", "orders", "漢字" * 14), 80)
    [below] = [line for line in shown if "漢字" in line]
    assert below.strip().startswith("VALUE: ")


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"value_json": {"leader": "a", "members": None}}, "leader=a members=null"),
        ({"value_json": {"leader": "a", "members": ["b", {"memberId": 3}]}}, "leader=a 2 members (3)"),
        ({"value_json": [1, 2]}, "[1,2]"),
        ({"value_json": "text", "key_json": "k"}, 'k: "text"'),
    ],
)
def test_a_content_in_a_form_that_kafka_does_not_write_is_shown_as_it_is(record: dict[str, object], text: str):
    assert record_text(record) == text


def test_wide_prints_every_record_in_full_on_a_terminal(monkeypatch):
    source = Sample("transactions").segments
    piped = decode(source).stdout
    for module in (compute, output):
        monkeypatch.setattr(module, "terminal_width", lambda *, err=False: 80)
    assert decode(source, "--wide").stdout == piped


def test_a_terminal_shows_all_of_a_few_records_and_names_a_tombstone(monkeypatch, tmp_path: Path):
    source = Sample("group-lifecycles").folder / "records.jsonl"
    kept: dict[bool, str] = {}
    for line, row in zip(source.read_text().splitlines(), lines_of(decode(source)), strict=True):
        if row["kind"] == "OffsetCommit":
            kept.setdefault(row["is_tombstone"], line)
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(kept.values()) + "\n")
    shown, beside = on_terminal(monkeypatch, path, 100)
    committed, removed = (line.split() for line in shown if "OffsetCommit" in line)
    assert committed[-2:] == ["shop.orders-0:", "20"]
    assert removed[-1] == "tombstone"
    assert "more record" not in beside


def test_a_terminal_gets_only_the_notes_of_an_empty_segment(monkeypatch, tmp_path: Path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(b"")
    shown, beside = on_terminal(monkeypatch, folder)
    assert shown == []
    assert beside.startswith("--wide and a pipe have all records in full")
