"""Answers about the readers of a topic."""

from datetime import datetime

from coordinator_replay.query.answers.answered import Rows, nothing_note
from coordinator_replay.query.basis import basis_from
from coordinator_replay.query.consumers import NOT_IN_THE_LOG, TopicConsumer, consumers_of
from coordinator_replay.query.group_partitions import unaudited_note
from coordinator_replay.query.tables import Tables
from coordinator_replay.query.unread_subscriptions import unnamed_topics_note, unread_between
from coordinator_replay.query.who import Who


def consumers(
    warehouse: Tables, topic: str, start: datetime | None, end: datetime | None, *, who: Who
) -> Rows[TopicConsumer]:
    """Return every group, client and host that read a topic in a time range.

    Args:
        warehouse: the tables to read.
        topic: the topic's name or id.
        start: start of the time range, included; None for no lower bound.
        end: end of the time range, excluded; None for no upper bound.
        who: only groups, clients and hosts with these names.
    """
    found = [
        consumer
        for consumer in consumers_of(warehouse, topic, start, end)
        if who.has_name(consumer.group_id) and who.has_client(consumer.client_id, consumer.client_host)
    ]
    unnamed = unnamed_topics_note(unread_between(warehouse, start, end))
    notes = [nothing_note(warehouse, "consumer", found), unnamed, NOT_IN_THE_LOG, unaudited_note(warehouse)]
    return Rows(content=found, row_type=TopicConsumer, notes=notes, basis=basis_from(warehouse, start))
