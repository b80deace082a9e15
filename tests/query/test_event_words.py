"""Every kind of event says its detail in words."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.engine.events import EventKind
from coordinator_replay.query.event_words import words_of
from coordinator_replay.query.offset_events import ENDED, FIRST_COMMIT, PENDING, RESET, REWIND


def orders(*partitions: int) -> list[dict[str, Any]]:
    return [{"topic_id": "x", "topic": "orders", "partitions": list(partitions)}] if partitions else []


REMOVED = {"topic": "orders", "partitions": [0], "lowest": 9, "highest": 9, "confidence": "likely"}


@pytest.mark.parametrize(
    ("event", "detail", "words"),
    [
        ("GROUP_CONVERTED", {"group_type": ["classic", "consumer"]},
         "group type consumer (before: classic), or deleted and created again within the millisecond"),
        ("GROUP_CONVERTED", {"group_type": ["classic", "consumer"], "assigned": {"m": []}},
         "group type consumer (before: classic)"),
        ("MEMBER_JOINED",
         {"client_id": "a", "client_host": "/10.0.0.1", "instance_id": "i", "regex": "^o", "session_timeout_ms": 6000},
         "client a on 10.0.0.1, group.instance.id i, subscribed to regex '^o', session.timeout.ms 6000"),
        ("MEMBER_LEFT", {"member_epoch": 4, "assigned": orders(0, 1, 2)}, "left or was removed, owned orders:0-2"),
        ("MEMBER_LEFT", {"assigned": [{"subtopology": "0", "partitions": [0, 1]}]},
         "left or was removed, owned subtopology 0:0,1"),
        ("MEMBER_AWAY", {"member_epoch": [4, -2], "assigned": [orders(4), orders(4)]},
         "static member left temporarily (member epoch -2), keeps orders:4"),
        ("MEMBER_RECONCILING",
         {"member_epoch": [2, 2], "member_state": ["STABLE", "UNREVOKED_PARTITIONS"],
          "assigned": [orders(0, 1), orders(0)], "pending_revocation": [[], orders(1)]},
         "owns orders:0, to revoke orders:1, UNREVOKED_PARTITIONS, member epoch 2"),
        ("MEMBER_REPLACED", {"member_ids": ["a", "b"]}, "member id b in place of a"),
        ("METADATA_CHANGED", {"protocols": [[{"name": "range"}], [{"name": "range"}, {"name": "sticky"}]]},
         "protocols range, sticky (before: range)"),
        ("PROTOCOL_CHANGED", {"protocol": ["range", "sticky"]}, "assignor sticky (before: range)"),
        ("PROTOCOL_CHANGED", {"assignor": ["range", None]}, "no assignor (before: range)"),
        ("REGEX_RESOLVED", {"regex": "^o", "topics": [["a"], ["a", "b"]]}, "regex '^o' now also matches b"),
        ("REGEX_REMOVED", {"regex": "^o", "topics": [["a"], None]}, "regex '^o' is no longer used"),
        ("SUBSCRIPTION_CHANGED", {"topics": [["a", "b"], ["b", "c"]]},
         "subscribed to c as well, no longer subscribed to a"),
        ("TOPIC_METADATA_CHANGED",
         {"topics": [[{"topic": "a", "partitions": 3}],
                     [{"topic": "a", "partitions": 6}, {"topic": "b", "partitions": 1}]]},
         "partitions of a increased from 3 to 6, b with 1 partition"),
        ("REBALANCE_STARTED", {"epoch": [2, 3], "metadata_hash": [5, 6]},
         "epoch 3 (before: 2), topic metadata changed"),
        ("REBALANCE_COMPLETED",
         {"epoch": [0, 1], "protocol": "range", "leader": "m", "assigned": {"m": orders(0, 1), "n": orders()}},
         "generation 1 (before: 0), protocol range, 2 partitions to 2 members, leader m"),
        ("TARGET_ASSIGNED", {"assignment_epoch": [None, 2], "targets": {"m": orders(0)}},
         "m: orders:0, assignment epoch 2"),
        ("OFFSETS_DELETED", {**REMOVED, "cause": "DELETED"},
         "orders:0 offset 9, DeleteOffsets or topic deleted (likely)"),
        ("OFFSETS_DELETED", {**REMOVED, "cause": "DELETED", "is_topic_deleted": True},
         "orders:0 offset 9, deleted with its topic (likely)"),
        ("OFFSETS_EXPIRED", {**REMOVED, "cause": "EXPIRED"}, "orders:0 offset 9 (likely)"),
        ("INVARIANT_BROKEN", {"invariant": "epochs_never_fall"}, "invariant: epochs_never_fall"),
        ("LEADER_CHANGED", {"leader": 5, "of": "another release"}, "leader 5"),
        ("TARGET_ASSIGNED", {"targets": "of another release"}, "targets: of another release"),
        ("GROUP_CREATED", {}, None),
        ("GROUP_CREATED", None, None),
    ],
)  # fmt: skip
def test_details_are_said_in_words(event: str, detail: Any, words: str | None):
    assert words_of(event, detail) == words


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)


@given(
    st.sampled_from([*map(str, EventKind), FIRST_COMMIT, PENDING, RESET, REWIND, *ENDED.values()]),
    st.dictionaries(
        st.sampled_from(["topics", "assigned", "epoch", "targets", "regex", "leader", "metadata_hash", "protocols"]),
        json_values,
    ),
)
def test_no_detail_of_another_release_is_fatal(event: str, detail: dict[str, Any]):
    said = words_of(event, json.loads(json.dumps(detail)))
    assert said is None or isinstance(said, str)
