"""Definitions of messages: what is left out has a default of the field's own type, and a version has its own fields."""

import json

import pytest

from coordinator_replay.simulation.coordinator import Request
from coordinator_replay.simulation.coordinator.coordinator import DRAFT_HANDLERS, HANDLERS
from coordinator_replay.simulation.coordinator.messages import complete, messages, respond


def test_every_request_that_is_handled_is_defined_and_has_a_response() -> None:
    assert messages("Request").keys() == messages("Response").keys() == HANDLERS.keys()
    assert messages("Request", is_draft=True).keys() == DRAFT_HANDLERS.keys()


@pytest.mark.parametrize("is_draft", [False, True])
def test_the_defaults_of_a_request_are_values_that_it_may_have(is_draft: bool) -> None:
    for api in messages("Request", is_draft=is_draft):
        filled = complete(Request(api, {}), is_draft=is_draft)
        again = complete(filled, is_draft=is_draft)
        assert json.dumps(again.body) == json.dumps(filled.body)


def test_a_response_has_the_fields_of_its_version_alone() -> None:
    body = {"errorCode": 25, "members": [{"memberId": "a", "groupInstanceId": "i", "metadata": "AA=="}]}
    assert "throttleTimeMs" not in respond("JoinGroup", 1, body)
    assert respond("JoinGroup", 4, body)["members"] == [{"memberId": "a", "metadata": "AA=="}]
    assert respond("JoinGroup", 5, body)["members"] == body["members"]
    assert respond("JoinGroup", 9, {})["skipAssignment"] is False


def test_the_draft_takes_the_place_of_the_message_that_was_shipped() -> None:
    shipped = complete(Request("ConsumerGroupHeartbeat", {})).body
    draft = complete(Request("ConsumerGroupHeartbeat", {}), is_draft=True).body
    assert draft.keys() - shipped.keys() == {"clientAssignors"}
