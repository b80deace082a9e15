"""Rules over what happened: a large record, a transaction, an expiry, a rebalance, and what is wrong with the log."""

from collections.abc import Callable, Iterator, Mapping

from coordinator_replay.analysis.findings.case import Case, Row, Transaction
from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.observation import MOST_NAMED, Observation, lasting, moment


def late_topic_change(case: Case, row: Row) -> Iterator[Observation]:
    """The delay that a rebalance's row tells."""
    delay_ms = row.get("metadata_delay_ms")
    if delay_ms is None or delay_ms < case.limits.metadata_delay_ms:
        return
    yield Observation(
        "late_topic_change",
        (row["rebalance_id"],),
        row["started_at"] - delay_ms,
        row["started_at"],
        f"the group took {lasting(delay_ms)} to notice that its topics had changed, until {moment(row['started_at'])}",
        case.log_partition,
        None,
        {"rebalance_id": row["rebalance_id"], "epoch": row["epoch"], "metadata_delay_ms": delay_ms},
    )


def group_near_record_limit(case: Case) -> Iterator[Observation]:
    """The largest record of the group against what the topic takes."""
    row, limit = case.largest, case.limits.record_max_bytes
    if row is not None and row["record_bytes"] * 100 >= limit * case.limits.size_percent:
        at_ms = row["timestamp_ms"]
        yield Observation(
            "group_near_record_limit",
            (),
            at_ms,
            at_ms,
            f"a record {row['kind']} of {row['record_bytes']} bytes was written on {moment(at_ms)}; max.message.bytes "
            f"is {limit}",
            row["log_partition"],
            row["log_offset"],
            {"kind": row["kind"], "record_bytes": row["record_bytes"]},
        )


def open_transaction(case: Case) -> Iterator[Observation]:
    """Pending at the end of the log, longer than a transaction may last."""
    for one in case.transactions.values():
        if one.settled_ms is None:
            yield from _transaction(case, one, "open_transaction", case.end_ms, "is open")


def long_transaction(case: Case) -> Iterator[Observation]:
    """Pending for longer than a transaction may last, and settled then."""
    for one in case.transactions.values():
        if one.settled_ms is not None:
            yield from _transaction(case, one, "long_transaction", one.settled_ms, "was open")


def _transaction(case: Case, one: Transaction, rule: str, until_ms: int, verb: str) -> Iterator[Observation]:
    since, counted = one.since_ms, one.partitions
    if until_ms - since < case.limits.pending_ms:
        return
    yield Observation(
        rule,
        (one.producer_id, one.log_partition, one.log_offset),
        since,
        until_ms,
        f"a transaction of producer id {one.producer_id}, epoch {one.producer_epoch}, {verb} since {moment(since)} "
        f"on {counted} partition{'' if counted == 1 else 's'}, for {lasting(until_ms - since)}",
        one.log_partition,
        one.log_offset,
        {
            "producer_id": one.producer_id,
            "producer_epoch": one.producer_epoch,
            "ended_by": one.ended_by,
            "pending_ms": until_ms - since,
        },
        occurrences=counted,
        topic=next(iter(one.topics)) if len(one.topics) == 1 else None,
    )


def offset_due(case: Case) -> Iterator[Observation]:
    """Past its time, and still there."""
    yield from _expiries(case, "offset_due", "DUE", "are past retention, not removed yet, since")


def offset_expiring(case: Case) -> Iterator[Observation]:
    """Its time comes within the horizon."""
    yield from _expiries(case, "offset_expiring", "EXPIRING", "expire at")


def offset_lost(case: Case) -> Iterator[Observation]:
    """Its tombstone was seen."""
    yield from _expiries(case, "offset_lost", "EXPIRED", "expired on")


def _expiries(case: Case, rule: str, status: str, what: str) -> Iterator[Observation]:
    is_over = status == "EXPIRED"
    for (topic, told, expiry_rule, taken_ms), one in case.expiries.items():
        if told != status:
            continue
        numbers, count = sorted(one.numbers), len(one.numbers)
        until_ms = one.last_ms if is_over else case.end_ms
        yield Observation(
            rule,
            (topic, expiry_rule, *([taken_ms] if is_over else [])),
            min(one.first_ms, until_ms),
            until_ms,
            f"{count} offset{'' if count == 1 else 's'} of {topic} {what} {moment(one.first_ms)} (rule {expiry_rule}); "
            f"a member owned {'the' if count == 1 else 'a'} partition until {moment(one.owner.at_ms)}",
            case.log_partition,
            one.log_offset,
            {
                "rule": expiry_rule,
                "partitions": numbers[:MOST_NAMED],
                "partition_count": count,
                "confidence": one.confidence,
                "expire_at": moment(one.first_ms),
            },
            occurrences=count,
            topic=topic,
            topic_partition=numbers[0] if count == 1 else None,
            member_id=one.owner.member_id,
        )


def log_gap(case: Case, row: Row) -> Iterator[Observation]:
    """A range of offsets that no audit has read."""
    start, end = row["from_offset"], row["to_offset"]
    yield Observation(
        "log_gap",
        (row["log_partition"], start, end),
        None,
        None,
        f"log partition {row['log_partition']} was not read from offset {start} up to {end}",
        row["log_partition"],
        start,
        {"from_offset": start, "to_offset": end},
        occurrences=end - start,
    )


def group_not_evaluated(case: Case, row: Row) -> Iterator[Observation]:
    """A step for the group that failed on what its records say."""
    yield Observation(
        "group_not_evaluated",
        (),
        None,
        case.end_ms,
        f"the group could not be evaluated: {row['step']} failed with {row['error']}",
        row["log_partition"],
        row["log_offset"],
        {"step": row["step"], "error": row["error"], "where": row["where"]},
    )


def log_truncated(case: Case, row: Row) -> Iterator[Observation]:
    """A range of offsets of which audits have read records that an election of a leader has truncated since."""
    start, end = row["from_offset"], row["to_offset"]
    yield Observation(
        "log_truncated",
        (row["log_partition"], start, end),
        None,
        None,
        f"log partition {row['log_partition']} lost what audits had read of it from offset {start} up to {end}",
        row["log_partition"],
        start,
        {"from_offset": start, "to_offset": end},
        occurrences=end - start,
    )


def unreadable_records(case: Case, row: Row) -> Iterator[Observation]:
    """Records in quarantine, by what is wrong with them."""
    yield Observation(
        "unreadable_records",
        (row["log_partition"], row["error_class"]),
        row["first_at"],
        row["last_at"],
        f"{row['records']} records of log partition {row['log_partition']} could not be decoded: {row['error_class']}",
        row["log_partition"],
        row["log_offset"],
        {"error_class": row["error_class"], "error_message": row["error_message"]},
        occurrences=row["records"],
    )


LOG_RULES: Mapping[Evidence, Callable[[Case, Row], Iterator[Observation]]] = {
    Evidence.UNREADABLE: unreadable_records,
    Evidence.GAP: log_gap,
    Evidence.LOST: log_truncated,
}
"""Rules over the log itself, by the evidence that each row of is a case of its own."""

KEPT_RULES: tuple[Callable[[Case], Iterator[Observation]], ...] = (
    group_near_record_limit,
    open_transaction,
    long_transaction,
    offset_due,
    offset_expiring,
    offset_lost,
)
"""Rules over the few happenings that a case keeps."""
