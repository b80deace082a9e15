"""Blobs of classic consumers: read as the record decoder reads them, written so that it reads them back."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.coordinator.consumer_protocol import (
    ConsumerProtocolError,
    open_assignment,
    open_subscription,
    read_assignment,
    read_subscription,
    read_version,
    subscribed_topics,
    write_assignment,
)
from coordinator_replay.records import protocol
from tests.samples import NAMES, Sample


def _members() -> list[dict[str, str]]:
    return [
        member
        for name in NAMES
        for record in Sample(name).decoded
        if record.get("kind") == "GroupMetadata" and record.get("value") is not None
        for member in record["value"]["members"]
        if record["value"]["protocolType"] == "consumer"
    ]


def test_recorded_blobs_open_as_the_record_decoder_opens_them() -> None:
    members = _members()
    assert len(members) > 50
    for member in members:
        assert open_subscription(member["subscription"]) == protocol.open_subscription(member["subscription"])
        assert open_assignment(member["assignment"]) == protocol.open_assignment(member["assignment"])


@given(
    st.dictionaries(st.text(max_size=5), st.lists(st.integers(0, 2**31 - 1), max_size=4), max_size=4),
    st.integers(0, 5),
)
def test_written_assignments_read_back(partitions: dict[str, list[int]], version: int) -> None:
    partitions = {topic.encode("utf-8", "ignore").decode(): numbers for topic, numbers in partitions.items()}
    blob = write_assignment(partitions, version)
    assert read_version(blob) == min(version, 3)
    read = read_assignment(blob)
    assert {topic: list(numbers) for topic, numbers in read.partitions} == partitions
    opened = protocol.open_assignment(blob)
    assert opened == read.as_fields()


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    blob = base64.b64encode(data).decode()
    for read in (read_subscription, read_assignment, subscribed_topics):
        try:
            read(blob)
        except ConsumerProtocolError:
            continue


def test_later_versions_count_as_the_highest_known() -> None:
    told = base64.b64encode(b"\0\x09\0\0\0\1\0\3foo\xff\xff\xff\xff\0\0\0\0\0\0\0\7\0\1a").decode()
    assert read_subscription(told) == (3, ("foo",), None, (), 7, "a")


@pytest.mark.parametrize("blob", ["", "AA==", "//8AAAAA", "not base64"])
def test_unreadable_subscriptions(blob: str) -> None:
    with pytest.raises(ConsumerProtocolError):
        read_subscription(blob)
    assert open_subscription(blob) is None
