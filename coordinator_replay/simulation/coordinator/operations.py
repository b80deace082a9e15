"""Inputs and results of operations of the coordinator.

An operation handles a request, a fired timer or a finished background job. It reads the state, checks it, and returns
an ``Outcome``. The state does not change before the records of the outcome are written. An operation that raises
``RequestError`` writes nothing. Results are written records and sent responses, in the order in which they happened.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from coordinator_replay.engine.model import Marker, Record
from coordinator_replay.simulation.coordinator.errors import RequestError
from coordinator_replay.simulation.coordinator.messages import Body, Request
from coordinator_replay.simulation.coordinator.record_helpers import NewRecord


class Outcome(NamedTuple):
    """The result of an operation.

    Attributes:
        records: the records to write, as one batch.
        response: body of the response, sent when the records are written; None if the answer was sent already, or comes
            later.
        when_written: function to call when the records are in the log, before the response is sent.
        producer: id and epoch of the producer whose transaction the records belong to.
    """

    records: Sequence[NewRecord] = ()
    response: Mapping[str, Any] | None = None
    when_written: Callable[[], None] | None = None
    producer: tuple[int, int] | None = None


NOTHING_TO_DO = Outcome()

Answer = Mapping[str, Any] | RequestError


@dataclass(slots=True, eq=False)
class Reply:
    """A receiver of the response to one request.

    The response may be sent at any time, and only once.

    Attributes:
        request: the request, with defaults for omitted fields.
        answer: the body of the response, or the error; None until the request is answered.
        is_running: whether the operation that handles the request is running. An answer is sent when it has ended.
    """

    request: Request
    send_now: Callable[[Request, Answer], None]
    answer: Answer | None = None
    is_running: bool = False

    def send(self, answer: Answer) -> None:
        """Send the answer, with defaults for omitted fields.

        If the request already has an answer, do nothing.
        """
        if self.answer is None:
            self.answer = answer
            if not self.is_running:
                self.send_now(self.request, answer)


class Batch(NamedTuple):
    """Records of one operation, written together.

    Attributes:
        at_ms: when the records were written.
        records: the records.
        producer_id: producer of a transactional batch, -1 for none.
        producer_epoch: epoch of the producer, -1 for none.
    """

    at_ms: int
    records: tuple[Record, ...]
    producer_id: int = -1
    producer_epoch: int = -1


class MarkerWritten(NamedTuple):
    """A written control record, which ends a producer's transaction."""

    at_ms: int
    marker: Marker
    producer_epoch: int


class Response(NamedTuple):
    """A response to the request with the same correlation id.

    Responses to JoinGroup and SyncGroup may come much later than their requests.
    """

    at_ms: int
    correlation_id: int
    api: str
    body: Body


class Failure(NamedTuple):
    """A failed request of an API that has no error response.

    Attributes:
        error: Kafka's name of the error.
        message: message of the error.
    """

    at_ms: int
    correlation_id: int
    api: str
    error: str
    message: str | None


Result = Batch | MarkerWritten | Response | Failure
