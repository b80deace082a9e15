import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.broker_log.layouts import MOST_CHARACTERS, LogLine, parse_line
from tests.samples import DATA

RECORDED = DATA / "broker-logs"

MESSAGE = (
    "[GroupCoordinator id=1 topic=__consumer_offsets partition=3] Stabilized group g (a) generation 1 with 2 members."
)
LOGGER = "org.apache.kafka.coordinator.group.GroupMetadataManager"
AT_MS = 1_795_249_946_195
"""2026-11-21T08:32:26.195Z"""


@pytest.mark.parametrize(
    ("text", "has_zone"),
    [
        (f"[2026-11-21 08:32:26,195] INFO {MESSAGE} ({LOGGER})", False),
        (f"2026-11-21 08:32:26,195 INFO {MESSAGE} ({LOGGER}) [group-coordinator-event-processor-0]", False),
        (f"2026-11-21 08:32:26.195 INFO  {MESSAGE} ({LOGGER})", False),
        (f"[2026-11-21T08:32:26.195Z] INFO {MESSAGE} ({LOGGER})", True),
        (f"2026-11-21T09:32:26,195+0100 INFO {MESSAGE} ({LOGGER})", True),
        (f"2026-11-21T14:02:26.195123+05:30 WARN {MESSAGE} ({LOGGER})", True),
        (f"1795249946195 INFO {MESSAGE} ({LOGGER})", True),
        (f"[2026-11-21 08:32:26,195] INFO {MESSAGE}", False),
    ],
)
def test_the_message_and_time_of_a_text_layout(text, has_zone):
    assert parse_line(text) == LogLine(AT_MS, has_zone, MESSAGE)


@pytest.mark.parametrize(
    ("fields", "has_zone"),
    [
        ({"timeMillis": AT_MS, "level": "INFO", "loggerName": LOGGER, "message": MESSAGE}, True),
        (
            {"instant": {"epochSecond": 1795249946, "nanoOfSecond": 195_000_000}, "level": "INFO", "message": MESSAGE},
            True,
        ),
        (
            {"@timestamp": "2026-11-21T08:32:26.195Z", "log.level": "INFO", "log.logger": LOGGER, "message": MESSAGE},
            True,
        ),
        ({"@timestamp": "2026-11-21T08:32:26.195Z", "log": {"level": "INFO"}, "message": MESSAGE}, True),
        ({"timestamp": "2026-11-21 08:32:26,195", "level": "INFO", "logger": LOGGER, "message": MESSAGE}, False),
        ({"log": f"[2026-11-21 08:32:26,195] INFO {MESSAGE} ({LOGGER})\n", "time": "2026-11-21T08:32:27.0Z"}, False),
        ({"time": 1795249946.195, "msg": MESSAGE}, True),
    ],
)
def test_the_message_and_time_of_a_json_layout(fields, has_zone):
    assert parse_line(json.dumps(fields)) == LogLine(AT_MS, has_zone, MESSAGE)


@pytest.mark.parametrize("written", sorted((RECORDED / "log4j-json").iterdir()), ids=lambda path: path.stem)
def test_a_line_that_log4j_wrote_as_json_says_what_the_text_layout_says(written):
    lines = (RECORDED / "4.1" / "server.log").read_text().splitlines()
    text = [parse_line(line) for line in lines if "wharf-pollers" in line]
    assert len(text) == 17
    expected = [replace(line, has_zone=True) for line in text if line is not None]
    assert [parse_line(line) for line in written.read_text().splitlines()] == expected


@pytest.mark.parametrize("time", [AT_MS // 1000, float(AT_MS // 1000), AT_MS // 1000 * 1000])
def test_numbers_are_seconds_or_milliseconds(time):
    assert parse_line(json.dumps({"time": time, "msg": MESSAGE})) == LogLine(AT_MS // 1000 * 1000, True, MESSAGE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\tat java.base/java.lang.Thread.run(Thread.java:840)",
        "[2026-13-41 08:32:26,195] INFO message (logger)",
        "[2026-11-21 08:32:26,195] message without a level (logger)",
        '{"message": "no time"}',
        '{"timestamp": true, "message": "no time either"}',
        '{"timestamp": 1, "message": 7}',
        '["2026-11-21T08:32:26.195Z", "message"]',
        "{" * 10_000,
        '{"log": ' * 20_000,
    ],
)
def test_what_is_in_no_layout_is_no_line(text):
    assert parse_line(text) is None


def test_a_line_longer_than_any_of_a_coordinator_is_no_line():
    start = f"[2026-11-21 08:32:26,195] INFO {MESSAGE}"
    assert parse_line(start + " " * (MOST_CHARACTERS - len(start))) is not None
    assert parse_line(start + " " * (MOST_CHARACTERS - len(start) + 1)) is None


def test_half_a_character_of_json_becomes_one_that_tables_hold():
    line = parse_line('{"timestamp": 1795249946195, "message": {"groupId": "a\\ud800b", "ok": "\\ud83d\\ude00"}}')
    assert line is not None
    assert line.fields == {"groupId": "a?b", "ok": "😀"}
    line.message.encode()


@given(st.text(max_size=200), st.sampled_from(["", "[2026-11-21 08:32:26,195] INFO ", '{"time":1,"message":"']))
def test_no_text_fails(text, start):
    line = parse_line(start + text)
    assert line is None or isinstance(line.message, str)


@given(st.dictionaries(st.sampled_from(["message", "time", "instant", "log", "ts"]), st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
)))  # fmt: skip
def test_no_object_fails(fields):
    line = parse_line(json.dumps(fields))
    assert line is None or isinstance(line.time_ms, int)
