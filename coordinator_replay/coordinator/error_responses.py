"""What a client reads when its request is refused: an error response for each kind of request.

A kind that is not in the table has none: its call fails as a whole.
"""

from collections.abc import Callable, Mapping
from typing import Any

from coordinator_replay.coordinator.errors import MemberSideError, RequestError
from coordinator_replay.coordinator.messages import Body, Request

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
    member_id = "" if error.error in SILENT_ERRORS else body["memberId"]
    if isinstance(error, MemberSideError):
        member_id = error.member_id
    return {"errorCode": error.code, "memberId": member_id}


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
