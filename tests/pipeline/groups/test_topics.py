"""Names of topics that a user gives in a file."""

import json

import pytest

from coordinator_replay.errors import InputError
from coordinator_replay.pipeline.groups.topics import from_file

TOPIC_ID = "A" * 22
GOOD = f"{TOPIC_ID},orders,3"


def test_names_and_counts_are_read(tmp_path):
    lines = ["topic_id,topic,partitions", GOOD, json.dumps({"id": "B" * 22, "name": "a\u2028b"}), ""]
    (tmp_path / "topics").write_text("\n".join(lines), encoding="utf-8")
    named = [(one.topic_id[:1], one.topic, one.partition_count) for one in from_file(str(tmp_path / "topics"))]
    assert named == [("A", "orders", 3), ("B", "a\u2028b", None)]


@pytest.mark.parametrize(
    "line",
    [
        f"{TOPIC_ID},orders,{2**31}",
        f"{TOPIC_ID},orders,-1",
        f"{TOPIC_ID},orders,{'9' * 5000}",
        f"{TOPIC_ID},",
        "é" * 22 + ",orders",
        *(
            json.dumps({"id": TOPIC_ID, "name": "orders"} | wrong)
            for wrong in ({"partitions": 1e400}, {"name": 5}, {"name": "\ud800"}, {"id": [TOPIC_ID]}, {"id": None})
        ),
        "[" * 100_000,
        "{" + '"a":[' * 100_000,
    ],
    ids=lambda line: line[:60],
)
def test_a_line_that_names_no_topic_is_refused(line, tmp_path):
    (tmp_path / "topics").write_text(f"{GOOD}\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 2: expected a topic id of 22 characters"):
        from_file(str(tmp_path / "topics"))
