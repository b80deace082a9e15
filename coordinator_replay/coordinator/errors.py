"""Kafka's error codes, and the exception by which a check refuses a request.

A check raises ``RequestError`` before anything is changed; the client reads the error response of the request's
kind then; a kind without one fails as a whole.
"""

from collections.abc import Callable, Mapping
from typing import Any

from coordinator_replay.coordinator.messages import Body, Request
from coordinator_replay.errors import CoordinatorReplayError

CODES: Mapping[str, int] = {
    "UNKNOWN_SERVER_ERROR": -1,
    "NONE": 0,
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "OFFSET_METADATA_TOO_LARGE": 12,
    "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "COORDINATOR_NOT_AVAILABLE": 15,
    "NOT_COORDINATOR": 16,
    "ILLEGAL_GENERATION": 22,
    "INCONSISTENT_GROUP_PROTOCOL": 23,
    "INVALID_GROUP_ID": 24,
    "UNKNOWN_MEMBER_ID": 25,
    "INVALID_SESSION_TIMEOUT": 26,
    "REBALANCE_IN_PROGRESS": 27,
    "GROUP_AUTHORIZATION_FAILED": 30,
    "UNSUPPORTED_VERSION": 35,
    "INVALID_REQUEST": 42,
    "INVALID_PRODUCER_EPOCH": 47,
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
    # Only in KIP-848's draft, which gives it no number; ours is far from those that Kafka has.
    "INVALID_ASSIGNMENT": 10_848,
}
"""Errors the coordinator answers with, by Kafka's name (``org.apache.kafka.common.protocol.Errors``)."""

NAMES: Mapping[int, str] = {code: name for name, code in CODES.items()}


class RequestError(CoordinatorReplayError):
    """A request is refused.

    Attributes:
        error: Kafka's name of the error.
        code: its number.
        message: what the response says of it; None where the response says nothing.
    """

    def __init__(self, error: str, message: str | None = None) -> None:
        super().__init__(message or error)
        self.error = error
        self.code = CODES[error]
        self.message = message


class MemberSideError(RequestError):
    """A JoinGroup is refused, and the response does not name the request's member id."""


class IllegalStateError(CoordinatorReplayError):
    """Kafka's group throws ``IllegalStateException`` here, of which clients read as an unknown server error."""


SILENT_ERRORS = frozenset({"UNKNOWN_SERVER_ERROR"})
"""Errors whose message stays in the broker's log (``CoordinatorOperationExceptionHelper``)."""


def error_response(request: Request, error: RequestError) -> Body | None:
    """The body of the response to a request that is refused, None where its kind has no error response."""
    build = ERROR_RESPONSES.get(request.api)
    return build(request.body, error) if build is not None else None


def _with_message(_: Mapping[str, Any], error: RequestError) -> Body:
    message = None if error.error in SILENT_ERRORS else error.message
    return {"errorCode": error.code, "errorMessage": message}


def _code_only(_: Mapping[str, Any], error: RequestError) -> Body:
    return {"errorCode": error.code}


def _join_group(body: Mapping[str, Any], error: RequestError) -> Body:
    is_nameless = error.error in SILENT_ERRORS or isinstance(error, MemberSideError)
    return {"errorCode": error.code, "memberId": "" if is_nameless else body["memberId"]}


def _every_partition(body: Mapping[str, Any], error: RequestError) -> Body:
    return {
        "topics": [
            {
                **{name: topic[name] for name in ("name", "topicId") if name in topic},
                "partitions": [
                    {"partitionIndex": partition["partitionIndex"], "errorCode": error.code}
                    for partition in topic["partitions"]
                ],
            }
            for topic in body["topics"]
        ]
    }


def _every_group(body: Mapping[str, Any], error: RequestError) -> Body:
    return {"results": [{"groupId": group_id, "errorCode": error.code} for group_id in body["groupsNames"]]}


ERROR_RESPONSES: Mapping[str, Callable[[Mapping[str, Any], RequestError], Body]] = {
    "ConsumerGroupHeartbeat": _with_message,
    "PrepareAssignment": _with_message,
    "InstallAssignment": _with_message,
    "JoinGroup": _join_group,
    "SyncGroup": _code_only,
    "Heartbeat": _code_only,
    "LeaveGroup": _code_only,
    "OffsetCommit": _every_partition,
    "TxnOffsetCommit": _every_partition,
    "OffsetDelete": _code_only,
    "DeleteGroups": _every_group,
    "ListGroups": _code_only,
}
