"""Rules over single rows: a large record, a transaction, an expiry, a rebalance, and what is wrong with the log."""

from collections.abc import Callable, Iterator, Mapping

from coordinator_replay.analysis.findings.case import Case, Evidence, Row
from coordinator_replay.analysis.findings.sighting import MOST_NAMED, Sighting, lasting, moment


def late_topic_change(case: Case, row: Row) -> Iterator[Sighting]:
    """The delay that a rebalance's row tells."""
    delay_ms = row.get("metadata_delay_ms")
    if delay_ms is None or delay_ms < case.limits.metadata_delay_ms:
        return
    yield Sighting(
        "late_topic_change",
        (row["rebalance_id"],),
        row["started_at"] - delay_ms,
        row["started_at"],
        f"the group took {lasting(delay_ms)} to notice that its topics had changed, until {moment(row['started_at'])}",
        case.log_partition,
        None,
        {"rebalance_id": row["rebalance_id"], "epoch": row["epoch"], "metadata_delay_ms": delay_ms},
    )


def group_near_record_limit(case: Case, row: Row) -> Iterator[Sighting]:
    """A record of the group against what the topic takes."""
    limit = case.limits.record_max_bytes
    if row["record_bytes"] * 100 >= limit * case.limits.size_percent:
        yield Sighting(
            "group_near_record_limit",
            (),
            row["at"],
            row["at"],
            f"a record {row['kind']} of {row['record_bytes']} bytes was written on {moment(row['at'])}; the topic "
            f"takes {limit}",
            row["log_partition"],
            row["log_offset"],
            {"kind": row["kind"], "record_bytes": row["record_bytes"]},
        )


def open_transaction(case: Case, row: Row) -> Iterator[Sighting]:
    """Pending at the end of the log, longer than a transaction may last."""
    if row["settled_at"] is None and row["is_open"]:
        yield from _transaction(case, row, "open_transaction", case.end_ms, "is open")


def long_transaction(case: Case, row: Row) -> Iterator[Sighting]:
    """Pending for longer than a transaction may last, and settled then."""
    if row["settled_at"] is not None:
        yield from _transaction(case, row, "long_transaction", row["settled_at"], "was open")


def _transaction(case: Case, row: Row, rule: str, until_ms: int, verb: str) -> Iterator[Sighting]:
    since, counted = row["pending_since"], row["partitions"]
    if until_ms - since < case.limits.pending_ms:
        return
    yield Sighting(
        rule,
        (row["producer_id"], row["log_partition"], row["log_offset"]),
        since,
        until_ms,
        f"a transaction of producer {row['producer_id']} {verb} since {moment(since)} on {counted} "
        f"partition{'' if counted == 1 else 's'}, for {lasting(until_ms - since)}",
        row["log_partition"],
        row["log_offset"],
        {
            "producer_id": row["producer_id"],
            "producer_epoch": row["producer_epoch"],
            "ended_by": row["ended_by"],
            "pending_ms": until_ms - since,
        },
        occurrences=counted,
        topic=row["topic"],
    )


def offset_due(case: Case, row: Row) -> Iterator[Sighting]:
    """Past its time, and still there."""
    if row["status"] == "DUE":
        yield from _expiry(case, row, "offset_due", f"are past retention since {moment(row['first_at'])}")


def offset_expiring(case: Case, row: Row) -> Iterator[Sighting]:
    """Its time comes within the horizon."""
    if row["status"] == "EXPIRING":
        yield from _expiry(case, row, "offset_expiring", f"expire from {moment(row['first_at'])} on")


def offset_lost(case: Case, row: Row) -> Iterator[Sighting]:
    """Its tombstone was seen."""
    if row["status"] == "EXPIRED":
        yield from _expiry(case, row, "offset_lost", f"were taken by retention on {moment(row['last_at'])}")


def _expiry(case: Case, row: Row, rule: str, what: str) -> Iterator[Sighting]:
    is_over = row["status"] == "EXPIRED"
    judged_ms, first_ms = row["last_at"] if is_over else case.end_ms, row["first_at"]
    owners = {number: case.owned_until(row["topic"], number) for number in sorted(row["partitions"])}
    lately = {
        number: owner
        for number, owner in owners.items()
        if owner is not None and judged_ms - owner.at_ms <= case.limits.owned_lately_ms
    }
    if not lately:
        return
    last = max(lately.values(), key=lambda owner: owner.at_ms)
    numbers = list(lately)
    yield Sighting(
        rule,
        (row["topic"], row["rule"], *([row["last_at"]] if is_over else [])),
        first_ms if is_over else min(first_ms, case.end_ms),
        judged_ms,
        f"{len(numbers)} offset{'' if len(numbers) == 1 else 's'} of {row['topic']} {what} (rule {row['rule']}); a "
        f"member owned {'the partition' if len(numbers) == 1 else 'a partition'} until {moment(last.at_ms)}",
        case.log_partition,
        row["log_offset"],
        {
            "rule": row["rule"],
            "partitions": numbers[:MOST_NAMED],
            "partition_count": len(numbers),
            "confidence": row["confidence"],
            "expire_at": moment(first_ms),
        },
        occurrences=len(numbers),
        topic=row["topic"],
        topic_partition=numbers[0] if len(numbers) == 1 else None,
        member_id=last.member_id,
    )


def log_gap(case: Case, row: Row) -> Iterator[Sighting]:
    """A stretch between what the audits have read."""
    start, end = row["from_offset"], row["to_offset"]
    yield Sighting(
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


def unreadable_records(case: Case, row: Row) -> Iterator[Sighting]:
    """What lies in quarantine, by what was wrong with it."""
    yield Sighting(
        "unreadable_records",
        (row["log_partition"], row["error_class"]),
        row["first_at"],
        row["last_at"],
        f"{row['records']} records or stretches of log partition {row['log_partition']} could not be decoded: "
        f"{row['error_class']}",
        row["log_partition"],
        row["log_offset"],
        {"error_class": row["error_class"], "error_message": row["error_message"]},
        occurrences=row["records"],
    )


ROW_RULES: Mapping[Evidence, tuple[Callable[[Case, Row], Iterator[Sighting]], ...]] = {
    Evidence.LARGE_RECORD: (group_near_record_limit,),
    Evidence.PENDING: (open_transaction, long_transaction),
    Evidence.EXPIRY: (offset_due, offset_expiring, offset_lost),
    Evidence.UNREADABLE: (unreadable_records,),
    Evidence.GAP: (log_gap,),
}
"""Rules by the evidence that each row of is a case of its own. Rebalances come among what happened."""
