"""Kafka's error codes, and the exception by which a check refuses a request.

A check raises ``RequestError`` before anything is changed; what the client reads then is told by the request's error
response (``responses.py``).
"""

from collections.abc import Mapping

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
    """A JoinGroup or SyncGroup is refused, and the response names a member id that is not the request's."""

    def __init__(self, error: str, member_id: str) -> None:
        super().__init__(error)
        self.member_id = member_id
