"""Kafka's error codes, and the exception by which a check refuses a request.

A check raises ``RequestError`` before anything changes. The client gets the error response of the request's API. If the
API has no error response, the client gets no response, and the result is a ``Failure``.
"""

from collections.abc import Mapping
from typing import Any

from coordinator_replay.errors import CoordinatorReplayError
from coordinator_replay.simulation.coordinator.messages import Body, Request

CODES: Mapping[str, int] = {
    "UNKNOWN_SERVER_ERROR": -1,
    "NONE": 0,
    "OFFSET_METADATA_TOO_LARGE": 12,
    "NOT_COORDINATOR": 16,
    "ILLEGAL_GENERATION": 22,
    "INCONSISTENT_GROUP_PROTOCOL": 23,
    "INVALID_GROUP_ID": 24,
    "UNKNOWN_MEMBER_ID": 25,
    "INVALID_SESSION_TIMEOUT": 26,
    "REBALANCE_IN_PROGRESS": 27,
    "UNSUPPORTED_VERSION": 35,
    "INVALID_REQUEST": 42,
    "NON_EMPTY_GROUP": 68,
    "GROUP_ID_NOT_FOUND": 69,
    "MEMBER_ID_REQUIRED": 79,
    "GROUP_MAX_SIZE_REACHED": 81,
    "FENCED_INSTANCE_ID": 82,
    "GROUP_SUBSCRIBED_TO_TOPIC": 86,
    "UNSTABLE_OFFSET_COMMIT": 88,
    "UNKNOWN_TOPIC_ID": 100,
    "FENCED_MEMBER_EPOCH": 110,
    "UNRELEASED_INSTANCE_ID": 111,
    "UNSUPPORTED_ASSIGNOR": 112,
    "STALE_MEMBER_EPOCH": 113,
    "INVALID_REGULAR_EXPRESSION": 128,
    # Only KIP-848's draft has this error, without a number. Our number is far from all of Kafka's.
    "INVALID_ASSIGNMENT": 10_848,
}
"""Codes of the coordinator's errors, by Kafka's name (``org.apache.kafka.common.protocol.Errors``)."""

NAMES: Mapping[int, str] = {code: name for name, code in CODES.items()}


class RequestError(CoordinatorReplayError):
    """An error by which a request is refused.

    Attributes:
        error: Kafka's name of the error.
        code: the number of the error.
        message: the message in the response; None if the error has none.
    """

    def __init__(self, error: str, message: str | None = None) -> None:
        super().__init__(message or error)
        self.error = error
        self.code = CODES[error]
        self.message = message


class MemberSideError(RequestError):
    """An error by which a JoinGroup is refused. The response does not repeat the request's member id."""


class IllegalStateError(CoordinatorReplayError):
    """An error that stands for Kafka's ``IllegalStateException``.

    The client receives UNKNOWN_SERVER_ERROR.
    """


SILENT_ERRORS = frozenset({"UNKNOWN_SERVER_ERROR"})
"""Errors whose message stays in the broker's log (``CoordinatorOperationExceptionHelper``)."""


def error_response(request: Request, error: RequestError) -> Body | None:
    """Return the body of the response to a refused request; None if its API has no error response."""
    body, code = request.body, error.code
    match request.api:
        case "ConsumerGroupDescribe" | "DescribeGroups" | "OffsetFetch":
            return None
        case "JoinGroup":
            is_nameless = error.error in SILENT_ERRORS or isinstance(error, MemberSideError)
            return {"errorCode": code, "memberId": "" if is_nameless else body["memberId"]}
        case "OffsetCommit" | "TxnOffsetCommit":
            return {"topics": [_refused(topic, code) for topic in body["topics"]]}
        case "DeleteGroups":
            return {"results": [{"groupId": group_id, "errorCode": code} for group_id in body["groupsNames"]]}
    return {"errorCode": code, "errorMessage": None if error.error in SILENT_ERRORS else error.message}


def _refused(topic: Mapping[str, Any], code: int) -> Body:
    indexes = [partition["partitionIndex"] for partition in topic["partitions"]]
    return {**topic, "partitions": [{"partitionIndex": index, "errorCode": code} for index in indexes]}
