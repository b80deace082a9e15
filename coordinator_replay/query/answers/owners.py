"""Answers about the owners of a partition."""

from datetime import datetime

from coordinator_replay.query.answers.answered import Answered, nothing_note
from coordinator_replay.query.basis import basis_at, basis_from
from coordinator_replay.query.describe import inherited_note
from coordinator_replay.query.offsets import partitions_asked
from coordinator_replay.query.owner import Owners, handovers_note, is_shared, owned_topics, owners_at, owners_between
from coordinator_replay.query.tables import END, Tables


def owner(warehouse: Tables, group: str, topic: str, partition: int, at: datetime | None) -> Answered[Owners]:
    """Return the members of a group that owned a partition at a point in time, and the owners before and after them.

    If ``at`` is None, the point in time is the end of the log.
    """
    note = warehouse.check_moment(at)
    owners = owners_at(warehouse, group, topic, partition, at)
    inherited = inherited_note((owner.member_id, owner.is_client_inherited) for owner in owners.owners)
    basis = basis_at(warehouse, at or END, group=group)
    return Answered(content=owners, notes=[owners.hint, inherited, note], basis=basis)


def owners_in_range(
    warehouse: Tables, group: str, topic: str, partition: int, start: datetime | None, end: datetime | None
) -> Answered[Owners]:
    """Return all ownerships of a partition in a time range. The answer's fields ``before`` and ``after`` are None."""
    rows = owners_between(warehouse, group, topic, partition, start, end)
    basis = basis_from(warehouse, start, group=group)
    is_exact = basis.is_complete and all(row.is_exact for row in rows)
    inherited = inherited_note((row.member_id, row.is_client_inherited) for row in rows)
    handovers = handovers_note(rows, is_shared=is_shared(warehouse, group))
    owners = Owners(owners=tuple(rows), before=None, after=None, is_exact=is_exact, handovers=handovers)
    notes = [handovers, nothing_note(warehouse, "owner", rows, group), inherited]
    return Answered(content=owners, notes=notes, basis=basis)


def owned_partitions(warehouse: Tables, group: str, topic: str, partition: int | None) -> tuple[str, tuple[int, ...]]:
    """Return the topic and the partitions that a text like ``orders``, ``orders-4`` or ``orders:0,1`` names.

    Args:
        warehouse: the tables to read.
        group: id of the group.
        topic: the text that the user typed. If the text has only a topic, the result has all partitions of the topic
            that the group owned, or partition 0 if the group owned none.
        partition: number of the partition, if the user gave the number separately. Then ``topic`` has only a topic.
    """
    owned = owned_topics(warehouse, group)
    if partition is not None:
        return topic, (partition,)
    name, partitions = partitions_asked(topic, owned)
    if partitions:
        return name, partitions
    if name not in owned:
        # The question about partition 0 fails with a message that says what the tables know.
        return name, (0,)
    low, high = owned[name]
    return name, tuple(range(low, high + 1))
