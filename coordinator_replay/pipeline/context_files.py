"""What is known of groups and their partitions, out of the tables' files: the same events as Spark makes of them.

A task wants those of its groups only, and reads faster what it wants than Spark shapes and writes all of it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_replay.pipeline.commit_intervals import LATEST, Event
from coordinator_replay.pipeline.commit_shares import SHARED, typed
from coordinator_replay.pipeline.data_files import conform
from coordinator_replay.pipeline.sums import as_bools
from coordinator_replay.pipeline.task_rows import TEXT_BY_NUMBER, are_among, open_file
from coordinator_replay.pipeline.warehouse import Warehouse

_BATCH_ROWS = 50_000
_MOMENT = pa.timestamp("us", tz="UTC")


def _micros(moments: pa.Array) -> pa.Array:
    return moments.cast(_MOMENT).cast(pa.int64())


def _kind(event: Event) -> pa.Scalar:
    return pa.scalar(int(event), pa.int8())


def _owners(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Who owned a partition from a moment on, and until when."""
    rows = rows.filter(pc.and_(rows.column("topic").is_valid(), rows.column("owned_from").is_valid()))
    owned_from, owned_to = (rows.column(name).cast(_MOMENT) for name in ("owned_from", "owned_to"))
    return conform(
        rows.select(["group_id", "topic", "partition"]),
        SHARED,
        kind=_kind(Event.OWNER),
        at_timestamp=owned_from,
        expire_timestamp=owned_to,
        log_offset=-1,
        name=rows.column("member_id"),
        first=_micros(owned_from),
        second=_micros(owned_to).fill_null(LATEST),
    )


def _states(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Each change of a group's state, and the state it begins with."""
    before, after = rows.column("from_state"), rows.column("to_state")
    is_change = pc.not_equal(before, after).fill_null(True)
    is_told = pc.and_(after.is_valid(), rows.column("log_timestamp").is_valid())
    is_first = pc.equal(rows.column("seq"), 0).fill_null(False)
    rows = rows.filter(pc.and_(pc.or_(is_change, is_first), is_told).fill_null(False))
    at = rows.column("log_timestamp").cast(_MOMENT)
    return conform(
        rows.select(["group_id", "log_offset"]),
        SHARED,
        kind=_kind(Event.STATE),
        at_timestamp=at,
        name=rows.column("to_state"),
        first=_micros(at),
        second=rows.column("seq").cast(pa.int64()),
    )


def _rules(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Each change of how a group's offsets expire."""
    is_tombstone = rows.column("is_group_tombstone").fill_null(False)
    offsets = rows.column("log_offset")
    return conform(
        rows.select(["group_id", "log_partition", "group_state", "spared_topics"]),
        SHARED,
        kind=pc.if_else(is_tombstone, _kind(Event.GROUP_TOMBSTONE), _kind(Event.RULE)),
        at_offset=offsets,
        at_timestamp=rows.column("log_timestamp").cast(_MOMENT),
        name=rows.column("rule"),
        commit_timestamp=rows.column("base_timestamp").cast(_MOMENT),
        first=offsets,
        second=0,
    )


Shape = Callable[[pa.RecordBatch], pa.RecordBatch]

_SHAPES: Mapping[str, tuple[Shape, Sequence[str]]] = {
    "partition_ownership": (_owners, ("topic", "partition", "member_id", "owned_from", "owned_to")),
    "group_timeline": (_states, ("from_state", "to_state", "seq", "log_timestamp", "log_offset")),
    "expiry_rules": (
        _rules,
        (
            *("log_partition", "log_offset", "log_timestamp", "rule", "base_timestamp"),
            *("group_state", "spared_topics", "is_group_tombstone"),
        ),
    ),
}
"""The tables that tell, each with what makes events of its rows, and the columns that takes."""


@dataclass(frozen=True, slots=True)
class ContextFiles:
    """What is known of the groups of a cluster, as files on this machine.

    Attributes:
        paths: those of each table.
        cluster: whose groups.
    """

    paths: Mapping[str, Sequence[str]]
    cluster: str

    def events(self, groups: pa.Array) -> Iterator[pa.RecordBatch]:
        """What is known of some groups: batches in SHARED, in no order.

        Args:
            groups: their ids.
        """
        for name, (shape, columns) in _SHAPES.items():
            wanted = ["cluster", "group_id", *columns]
            for path in self.paths[name]:
                with open_file(path, [text for text in TEXT_BY_NUMBER if text in wanted]) as file:
                    for rows in file.iter_batches(_BATCH_ROWS, columns=wanted):
                        is_mine = as_bools(pc.equal(rows.column("cluster"), self.cluster))
                        mine = rows.filter(pa.array(is_mine & are_among(rows.column("group_id"), groups)))
                        if mine.num_rows:
                            yield shape(typed(mine.drop_columns(["cluster"])))


def context_files(warehouse: Warehouse, cluster: str) -> ContextFiles | None:
    """What a warehouse knows of groups, as files; None where only Spark can read them.

    Args:
        warehouse: holds the tables.
        cluster: whose groups.
    """
    paths: dict[str, list[str]] = {}
    for name in _SHAPES:
        held = warehouse.held(name)
        if held is None:
            return None
        paths[name] = [file.path for file in held]
    return ContextFiles(paths, cluster)
