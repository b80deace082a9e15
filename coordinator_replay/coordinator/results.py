"""What the coordinator gives back: records it wrote, responses it sent, in the order they happened."""

from typing import NamedTuple

from coordinator_replay.coordinator.messages import Body
from coordinator_replay.engine import Marker, Record


class Batch(NamedTuple):
    """Records of one operation, written together.

    Attributes:
        at_ms: when they were written.
        records: the records, as the engine replayed them.
        producer_id: producer of a transactional batch, -1 for none.
        producer_epoch: its epoch, -1 for none.
    """

    at_ms: int
    records: tuple[Record, ...]
    producer_id: int = -1
    producer_epoch: int = -1


class MarkerWritten(NamedTuple):
    """A control record was written: the end of a producer's transaction."""

    at_ms: int
    marker: Marker
    producer_epoch: int


class Response(NamedTuple):
    """A response, to the request with this correlation id; JoinGroup and SyncGroup may be answered long after."""

    at_ms: int
    correlation_id: int
    api: str
    body: Body


class Failure(NamedTuple):
    """A call that has no error response of its own failed.

    Attributes:
        error: Kafka's name of the error.
        message: what it says.
    """

    at_ms: int
    correlation_id: int
    api: str
    error: str
    message: str | None


Result = Batch | MarkerWritten | Response | Failure
