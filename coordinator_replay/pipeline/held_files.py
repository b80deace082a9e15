"""Offsets that hold where a night begins, out of the files of the history: the same events as Spark makes of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.pipeline.commit_intervals import Event
from coordinator_replay.pipeline.commit_shares import SHARED, typed
from coordinator_replay.pipeline.data_files import conform
from coordinator_replay.pipeline.restart import Restart
from coordinator_replay.pipeline.sums import as_bools
from coordinator_replay.pipeline.task_rows import open_file
from coordinator_replay.pipeline.warehouse import Warehouse

_TABLE = "offset_history"
_BATCH_ROWS = 50_000
_SAME = (
    *("group_id", "topic", "partition", "log_partition", "committed_offset", "leader_epoch", "metadata"),
    *("commit_timestamp", "expire_timestamp", "group_state", "previous_offset"),
)
_READ = (
    *("cluster", *_SAME, "from_offset", "to_offset", "valid_from", "valid_to"),
    *("record_offset", "is_transactional", "owner_member_id"),
)


def _events(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of the history as what held, with what was told of each when it was committed."""
    begins, records = rows.column("from_offset"), rows.column("record_offset")
    since = rows.column("valid_from").cast(SHARED.field("at_timestamp").type)
    producers = pa.scalar(0, pa.int64()), pa.scalar(-1, pa.int64())
    return conform(
        rows.select(list(_SAME)),
        SHARED,
        kind=pa.scalar(int(Event.HELD), pa.int8()),
        at_offset=begins,
        at_timestamp=since,
        log_offset=records,
        log_timestamp=since,
        producer_id=pc.if_else(rows.column("is_transactional"), *producers),
        name=rows.column("owner_member_id"),
        first=begins,
        second=records,
    )


@dataclass(frozen=True, slots=True)
class HeldFiles:
    """Files of the history, on this machine, that may hold such rows.

    Attributes:
        paths: where they lie.
        cluster: whose offsets.
        restart: where the night begins.
    """

    paths: Sequence[str]
    cluster: str
    restart: Restart

    def events(self) -> Iterator[pa.RecordBatch]:
        """What held: batches in SHARED, in no order."""
        for path in self.paths:
            with open_file(path) as file:
                for rows in file.iter_batches(_BATCH_ROWS, columns=list(_READ)):
                    is_mine = as_bools(pc.equal(rows.column("cluster"), self.cluster))
                    is_held = self.restart.are_replaced(rows) & ~self.restart.are_covered(rows, "from_offset")
                    held = rows.filter(pa.array(is_mine & is_held))
                    if held.num_rows:
                        yield _events(typed(held))


def held_files(warehouse: Warehouse, cluster: str, restart: Restart) -> HeldFiles | None:
    """The files of a warehouse; None where only Spark can read them.

    Args:
        warehouse: holds the history.
        cluster: whose offsets.
        restart: where the night begins.
    """
    held = warehouse.held(_TABLE)
    if held is None:
        return None
    return HeldFiles([file.path for file in held if restart.may_replace(file)], cluster, restart)
