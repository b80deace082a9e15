"""Regular expressions of consumer groups.

A background job *resolves* all expressions of a group: it finds the topics that each expression matches, with the
syntax of RE2. A later operation writes a record for each expression, with these topics. Mirrors
``GroupMetadataManager.maybeUpdateRegularExpressions`` and ``handleRegularExpressionsResult`` with
``TopicRegexResolver``.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from coordinator_replay.engine.consumer_group import ConsumerGroup
from coordinator_replay.engine.model import Regex
from coordinator_replay.re2_patterns import compile_pattern
from coordinator_replay.simulation.coordinator import record_helpers
from coordinator_replay.simulation.coordinator.consumer.members import GroupUpdate, existing_group
from coordinator_replay.simulation.coordinator.errors import RequestError
from coordinator_replay.simulation.coordinator.metadata_hash import group_hash
from coordinator_replay.simulation.coordinator.operations import NOTHING_TO_DO, Outcome
from coordinator_replay.simulation.coordinator.shard import Shard
from coordinator_replay.simulation.coordinator.topics import Topics

MIN_INTERVAL_MS = 10_000
"""Shortest time between two resolutions of a group's expressions."""

METADATA_REFRESH_INTERVAL_MS = 2**31 - 1

COMPLAINTS: tuple[tuple[str, str], ...] = (
    ("missing )", "missing closing )"),
    ("missing ]", "missing closing ]"),
    ("no argument for repetition operator", "missing argument to repetition operator"),
    ("invalid perl operator", "invalid or unsupported Perl syntax"),
    ("trailing \\", "trailing backslash at end of expression"),
    ("invalid repetition size", "bad repetition operator"),
    ("bad repetition operator", "invalid nested repetition operator"),
    ("invalid character class range", "invalid character class range"),
    ("invalid escape sequence", "invalid escape sequence"),
    ("invalid named capture group", "invalid named capture"),
    ("unexpected )", "unexpected )"),
)
"""Beginnings of RE2's error messages, each with the message of brokers, which use RE2/J."""


def update_expression(update: GroupUpdate, old: str | None, new: str | None) -> tuple[bool, bool]:
    """Handle a change of a member's regular expression.

    Check the new expression. If no other member uses the old expression, add a tombstone of the old expression to
    ``update.records``. If necessary, start a job that finds the topics of the group's expressions.

    Args:
        update: the group.
        old: the member's expression before the request; None if the member had no expression.
        new: the member's expression after the request; None if the member has no expression.

    Returns:
        Whether the member's expression has changed, and whether the topics of its new expression are known. The second
        value is True if ``new`` is None.

    Raises:
        RequestError: INVALID_REGULAR_EXPRESSION, the new expression can't be parsed.
    """
    expressions = update.state.subscriptions.expressions
    has_changed = old != new
    if has_changed:
        update.shard.note(f"A member updated its subscribed regex to: {new}.")
    is_unknown = has_changed and new is not None and new not in expressions
    if has_changed and old is not None and expressions[old] == 1:
        update.records.append(
            record_helpers.tombstone("ConsumerGroupRegularExpression", groupId=update.group_id, regularExpression=old)
        )
    if is_unknown and new is not None:
        check(new)
    _refresh(update, old, new, is_required=is_unknown)
    return has_changed, new is None or (not is_unknown and new in update.group.regexes)


def _refresh(update: GroupUpdate, old: str | None, new: str | None, *, is_required: bool) -> None:
    """Start a job that finds the topics of the group's regular expressions, if a reason for the job exists.

    Reasons are an expression without stored topics, a newly created topic, and the end of the refresh interval. No job
    starts while another job is running, or within ``MIN_INTERVAL_MS`` after the last job.

    Args:
        update: the group.
        old: the member's expression before the request; None if the member had no expression.
        new: the member's expression after the request; None if the member has no expression.
        is_required: whether ``new`` is an expression that no member had before.
    """
    shard, expressions = update.shard, update.state.subscriptions.expressions
    key = f"{update.group_id}-regex"
    if not (is_required or expressions) or shard.job_is_running(key):
        return
    last = next(iter(update.group.regexes.values()), None)
    if last is not None and shard.now_ms <= last.timestamp_ms + MIN_INTERVAL_MS:
        return
    if old != new:
        expressions = expressions - Counter(filter(None, [old])) + Counter(filter(None, [new]))
    interval_ms = shard.config.number("group.consumer.regex.refresh.interval.ms")
    is_due = (
        is_required
        or len(expressions) != len(update.group.regexes)
        or (last.version if last is not None else 0) < shard.topics.version_with_new
        or last is None
        or shard.now_ms > last.timestamp_ms + interval_ms
    )
    if is_due and expressions:
        shard.start_job(key, _resolving(shard, update.group_id, tuple(expressions)))


def _resolving(shard: Shard, group_id: str, expressions: tuple[str, ...]) -> Callable[[], Callable[[], Outcome]]:
    def resolve_now() -> Callable[[], Outcome]:
        topics, started_ms = shard.topics, shard.now_ms
        resolved = {expression: matching(expression, topics) for expression in expressions}
        return lambda: take_resolved(shard, group_id, resolved, topics.version, started_ms)

    return resolve_now


def take_resolved(
    shard: Shard, group_id: str, resolved: Mapping[str, frozenset[str]], version: int, started_ms: int
) -> Outcome:
    """Return the records that store the topics of a group's regular expressions: a record for each expression.

    If these topics or the metadata hash changed, a record of a new group epoch follows. If the consumer group no longer
    exists, there are no records.

    Args:
        shard: the coordinator's state.
        group_id: the consumer group.
        resolved: the topics that each regular expression matches.
        version: version of the metadata image that had these topics.
        started_ms: the time at which the search for the topics began.
    """
    if not isinstance(shard.group(group_id), ConsumerGroup):
        return NOTHING_TO_DO
    update = existing_group(shard, group_id)
    group, state = update.group, update.state
    regexes, expressions = dict(group.regexes), state.subscriptions.expressions
    has_changed = False
    for expression, topics in resolved.items():
        if expression not in expressions:
            continue
        old = regexes.get(expression)
        has_changed = has_changed or frozenset(old.topics if old is not None else ()) != topics
        regexes[expression] = Regex(tuple(topics), version, started_ms)
        update.records.append(record_helpers.regular_expression(group_id, expression, topics, version, started_ms))
    metadata_hash = group_hash(state.subscriptions.topics(regexes), shard.topics)
    if has_changed or metadata_hash != group.reconciliation.metadata_hash:
        shard.note(f"Computed new metadata hash: {metadata_hash}.")
        epoch = group.epoch + 1
        update.records.append(record_helpers.group_epoch(group_id, epoch, metadata_hash))
        state.refresh_at_ms, state.refresh_epoch = shard.now_ms + METADATA_REFRESH_INTERVAL_MS, epoch
    return Outcome(update.records)


def check(expression: str) -> None:
    """Refuse a regular expression that can't be parsed.

    Raises:
        RequestError: INVALID_REGULAR_EXPRESSION.
    """
    try:
        compile_pattern(expression)
    except ValueError as error:
        text = str(error)
        complaint = next((ours for theirs, ours in COMPLAINTS if text.startswith(theirs)), text.partition(": ")[0])
        raise RequestError(
            "INVALID_REGULAR_EXPRESSION",
            f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {complaint}.",
        ) from None


def matching(expression: str, topics: Topics) -> frozenset[str]:
    """Return the topics whose whole name matches an expression."""
    compiled = compile_pattern(expression)
    return frozenset(name for name in topics.by_name if compiled.fullmatch(name))
