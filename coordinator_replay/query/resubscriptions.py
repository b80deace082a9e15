"""Static members that restarted and subscribed to other topics, but whose group did not rebalance (KAFKA-12759).

When a static member restarts within the session timeout, the coordinator does not compare the subscribed topics. So a
Stable classic group does not rebalance (``GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin``).
"""

from datetime import datetime

from coordinator_replay.analysis.broker_faults import KAFKA_12759
from coordinator_replay.listing import listed
from coordinator_replay.query.tables import Tables
from coordinator_replay.times import moment_text

IS_UNANSWERED = "group_type = 'classic' AND event = 'SUBSCRIPTION_CHANGED' AND rebalance_id IS NULL"
"""SQL condition on rows of ``group_timeline``: a subscription changed and began no rebalance."""

_UNANSWERED = f"""
    SELECT instance_id, log_timestamp FROM group_timeline
    WHERE cluster = $cluster AND group_id = $group AND {IS_UNANSWERED}
      AND coalesce(log_timestamp >= $start, true) AND coalesce(log_timestamp < $end, true)
    ORDER BY seq
"""  # noqa: S608 - put together from constants
_MOST_NAMED = 3


def resubscription_note(
    warehouse: Tables, group: str, start: datetime | None = None, end: datetime | None = None
) -> str | None:
    """Return a note on static members that restarted with other topics, without a rebalance of their group.

    Return None if there are no such members.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        start: start of the time range, included; None to begin at the first record.
        end: end of the time range, excluded; None to end after the last record.
    """
    found = warehouse.rows(_UNANSWERED, group=group, start=start, end=end)
    if not found:
        return None
    names = [f"{instance} at {moment_text(at)}" if at is not None else str(instance) for instance, at in found]
    return (
        f"Subscriptions changed without a rebalance: {listed(names, _MOST_NAMED)}. {KAFKA_12759.issue} "
        f"({KAFKA_12759.versions}): {KAFKA_12759.effect}. New topics are assigned in the group's next rebalance."
    )
