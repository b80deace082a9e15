"""Rules over single records, transactions, expired offsets and rebalances, and over missing parts of the log."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from coordinator_replay.analysis.expiring import ExpiryRule
from coordinator_replay.analysis.findings.context import GroupContext
from coordinator_replay.analysis.findings.evidence import Evidence
from coordinator_replay.analysis.findings.evidence_rows import (
    FailedStep,
    Loading,
    LogRange,
    LongTransaction,
    MovedGroups,
    RebalanceTimes,
    UnreadableRecords,
)
from coordinator_replay.analysis.findings.observation import MOST_NAMED, Observation, at, lasting
from coordinator_replay.analysis.ownership import RECORDS_MISSING
from coordinator_replay.listing import counted, listed
from coordinator_replay.times import elapsed_ms, time_text


def late_topic_change(context: GroupContext, row: RebalanceTimes) -> Iterator[Observation]:
    """Yield a rebalance that began long after the change of topics that caused it."""
    delay_ms = row["metadata_delay_ms"]
    if delay_ms is None or delay_ms < context.limits.metadata_delay_ms:
        return
    yield Observation(
        (row["rebalance_id"],),
        elapsed_ms(delay_ms, row["started_at"]),
        row["started_at"],
        f"the group took {lasting(delay_ms)} to notice that its topics had changed, until "
        f"{time_text(row['started_at'])}",
        context.log_partition,
        None,
        {"rebalance_id": row["rebalance_id"], "epoch": row["epoch"], "metadata_delay_ms": delay_ms},
    )


def group_near_record_limit(context: GroupContext) -> Iterator[Observation]:
    """Yield the group's largest record if its size is near the topic's limit."""
    row, limit = context.largest, context.limits.record_max_bytes
    if row is not None and row["record_bytes"] * 100 >= limit * context.limits.size_percent:
        at_ms = row["timestamp_ms"]
        yield Observation(
            (),
            at_ms,
            at_ms,
            f"a record {row['kind']} of {row['record_bytes']} bytes was written {at(at_ms)}; max.message.bytes "
            f"is {limit}",
            row["log_partition"],
            row["log_offset"],
            {"kind": row["kind"], "record_bytes": row["record_bytes"]},
        )


def open_transaction(context: GroupContext) -> Iterator[Observation]:
    """Yield transactions that have been open for at least ``pending_ms`` at the end of the log."""
    for transaction in context.transactions:
        if transaction["ended_at"] is None:
            yield from _transaction(context, transaction, context.end.ms, "has been open since")


def long_transaction(context: GroupContext) -> Iterator[Observation]:
    """Yield transactions that have ended after they had been open for at least ``pending_ms``."""
    for transaction in context.transactions:
        if transaction["ended_at"] is not None:
            yield from _transaction(context, transaction, transaction["ended_at"], "was open from")


def _transaction(context: GroupContext, row: LongTransaction, until_ms: int, verb: str) -> Iterator[Observation]:
    since, producer_id = row["pending_since"], row["producer_id"]
    is_end_open = row["ended_by"] == RECORDS_MISSING
    least = "at least " if is_end_open else ""
    if until_ms - since < context.limits.pending_ms:
        return
    yield Observation(
        (producer_id, row["log_partition"], row["from_offset"]),
        since,
        until_ms,
        f"a transaction of producer id {producer_id}, epoch {row['producer_epoch']}, {verb} {time_text(since)}, "
        f"for {least}{lasting(until_ms - since)}, on {counted(row['partitions'], 'partition')}",
        row["log_partition"],
        row["from_offset"],
        {name: row[name] for name in ("producer_id", "producer_epoch", "ended_by")} | {"pending_ms": until_ms - since},
        goes_on_ms=None if row["ended_at"] is None else 0,
        occurrences=row["partitions"],
        topic=row["topic"],
        is_end_open=is_end_open,
    )


def offset_due(context: GroupContext) -> Iterator[Observation]:
    """Yield offsets that are past retention and not removed yet, at the end of the log or at an earlier time."""
    yield from _expiries(context, "DUE", "past retention, not removed yet, since")


def offset_expiring(context: GroupContext) -> Iterator[Observation]:
    """Yield offsets that will expire soon. Also yield offsets that were close to expiry in an earlier period."""
    yield from _expiries(context, "EXPIRING", "to expire at")


def offset_lost(context: GroupContext) -> Iterator[Observation]:
    """Yield offsets that expired and whose tombstones are on record."""
    yield from _expiries(context, "EXPIRED", "expired on")


def _expiries(context: GroupContext, status: str, what: str) -> Iterator[Observation]:
    is_expired = status == "EXPIRED"
    for (topic, expiry_status, expiry_rule, expired_ms, is_past), expiry in context.expiries.items():
        if expiry_status != status:
            continue
        numbers, count = sorted(expiry.numbers), len(expiry.numbers)
        is_over = is_expired or is_past
        until_ms = expiry.last_ms if is_expired else context.end.ms if expiry.until_ms is None else expiry.until_ms
        verbs = ("was ", "were ") if is_past else ("is ", "are ")
        be = ("may have " if expiry.confidence == "possible" else "") if is_expired else verbs[count > 1]
        rule = "a member subscribed to it" if expiry_rule == ExpiryRule.NEVER_WHILE_ACTIVE else f"rule {expiry_rule}"
        over = f", {'' if count == 1 else 'the last of them '}until {time_text(until_ms)}" if is_past else ""
        last = f" (the last: {time_text(expiry.last_ms)})" if expiry.last_ms != expiry.first_ms else ""
        yield Observation(
            (topic, expiry_rule, *([expired_ms] if is_expired else [])),
            min(expiry.first_ms, until_ms) if expiry.since_ms is None else expiry.since_ms,
            until_ms,
            f"{counted(count, 'offset')} of {topic} {be}{what} {time_text(expiry.first_ms)}{last}{over} "
            f"({rule}); "
            f"{'the partition' if count == 1 else 'one of the partitions'} had an owner until "
            f"{time_text(expiry.owner.at_ms)}",
            context.log_partition,
            expiry.log_offset,
            {
                "rule": expiry_rule,
                "partitions": numbers[:MOST_NAMED],
                "partition_count": count,
                "confidence": expiry.confidence,
                "expire_at": time_text(expiry.first_ms),
            },
            goes_on_ms=0 if is_over else None,
            occurrences=count,
            topic=topic,
            topic_partition=numbers[0] if count == 1 else None,
            member_id=expiry.owner.member_id,
        )


def log_gap(context: GroupContext, row: LogRange) -> Iterator[Observation]:
    """Yield a range of log offsets that no audit has read."""
    yield _range(row, "was not read")


def group_not_evaluated(context: GroupContext, row: FailedStep) -> Iterator[Observation]:
    """Yield a step that failed on the records of the group."""
    yield Observation(
        (),
        None,
        context.end.ms,
        f"the group could not be evaluated: {row['step']} failed with {row['error']}",
        row["log_partition"],
        row["log_offset"],
        {"step": row["step"], "error": row["error"], "where": row["where"]},
        goes_on_ms=None,
    )


def log_truncated(context: GroupContext, row: LogRange) -> Iterator[Observation]:
    """Yield a range of log offsets that an election truncated after audits had read it."""
    yield _range(row, "lost what audits had read of it")


def _range(row: LogRange, what: str) -> Observation:
    partition, start, end = row["log_partition"], row["from_offset"], row["to_offset"]
    return Observation(
        (partition, start, end),
        None,
        None,
        f"log partition {partition} {what} from offset {start} up to {end}",
        partition,
        start,
        {"from_offset": start, "to_offset": end},
        occurrences=end - start,
    )


def slow_loading(context: GroupContext, row: Loading) -> Iterator[Observation]:
    """Yield a broker that took long to load a log partition."""
    loading_ms, partition = row["loading_ms"], row["log_partition"]
    if loading_ms is None or loading_ms < context.limits.loading_ms:
        return
    yield Observation(
        (partition, row["leader_epoch"]),
        row["loaded_at"] - loading_ms,
        row["loaded_at"],
        f"broker {row['broker']} took {lasting(loading_ms)} to load log partition {partition}, until "
        f"{time_text(row['loaded_at'])}",
        partition,
        None,
        {name: row[name] for name in ("leader_epoch", "broker", "loading_ms", "sources")},
    )


def group_moved(context: GroupContext, row: MovedGroups) -> Iterator[Observation]:
    """Yield groups whose records moved to another log partition."""
    moves = row["moves"]
    shown = [f"{move['group_id']} from {move['log_partition']} to {move['to_log_partition']}" for move in moves]
    since = "" if row["first_at"] is None else f", the first at {time_text(row['first_at'])}"
    yield Observation(
        (),
        row["first_at"],
        row["last_at"],
        f"{counted(row['groups'], 'group')} moved to another log partition{since}: {listed(shown, MOST_NAMED)}",
        None,
        None,
        {"moves": moves[:MOST_NAMED], "overlaps_until": row["overlaps_until"]},
        occurrences=row["groups"],
    )


def unreadable_records(context: GroupContext, row: UnreadableRecords) -> Iterator[Observation]:
    """Yield the records of a log partition that are in quarantine because of the same error."""
    yield Observation(
        (row["log_partition"], row["error_class"]),
        row["first_at"],
        row["last_at"],
        f"{counted(row['records'], 'record')} of log partition {row['log_partition']} could not be decoded: "
        f"{row['error_class']}",
        row["log_partition"],
        row["log_offset"],
        {"error_class": row["error_class"], "error_message": row["error_message"]},
        occurrences=row["records"],
    )


def unknown_records(context: GroupContext, row: UnreadableRecords) -> Iterator[Observation]:
    """Yield the records of a log partition that have the same kind, if this release does not know the kind."""
    groups = row["groups"]
    of_groups = f" of {counted(len(groups), 'group')}: {listed(groups, MOST_NAMED)}" if groups else ""
    yield Observation(
        (row["log_partition"], row["error_message"]),
        row["first_at"],
        row["last_at"],
        f"{counted(row['records'], 'record')} of log partition {row['log_partition']} not read: "
        f"{row['error_message']}{of_groups}",
        row["log_partition"],
        row["log_offset"],
        {"error_class": row["error_class"], "error_message": row["error_message"], "groups": groups[:MOST_NAMED]},
        occurrences=row["records"],
    )


LOG_RULES: Mapping[Evidence, Callable[[GroupContext, Any], Iterator[Observation]]] = {
    Evidence.UNREADABLE: unreadable_records,
    Evidence.UNKNOWN_KIND: unknown_records,
    Evidence.GAP: log_gap,
    Evidence.LOST: log_truncated,
    Evidence.LOADING: slow_loading,
    Evidence.MOVED: group_moved,
}
"""Rules over the log itself, by the kind of evidence; each row is a finding of its own."""

RECORD_RULES: tuple[Callable[[GroupContext], Iterator[Observation]], ...] = (
    group_near_record_limit,
    open_transaction,
    long_transaction,
    offset_due,
    offset_expiring,
    offset_lost,
)
"""Rules over the few records, transactions and expired offsets that the context keeps."""
