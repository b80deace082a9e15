"""Rules by which a group's offsets expire, and the records from which they apply: rows of ``expiry_rules``."""

from coordinator_replay.analysis.expiration import DECIDING_KINDS, GROUP_KINDS, Deciding, deciding
from coordinator_replay.analysis.rows import Row
from coordinator_replay.engine.model import Record
from coordinator_replay.engine.notes import Group
from coordinator_replay.engine.plain import Fields

TABLE = "expiry_rules"


class ExpiryRules:
    """Conversion of a group's records into rows that say by which rule the group's offsets expire.

    There is a row for each change of the rule, and for each tombstone of the group.
    """

    _last: Deciding | None = None

    def fold(self, record: Record, group: Group | None) -> list[Row]:
        """Return the row of a record that changes when the group's offsets expire, or of a tombstone of the group.

        Return an empty list for any other record.

        Args:
            record: the group's next record.
            group: the group after the record.
        """
        if record.kind not in DECIDING_KINDS:
            return []
        is_tombstone = record.value is None and record.kind in GROUP_KINDS
        if (now := deciding(group)) == self._last and not is_tombstone:
            return []
        return [self._row(now, record.partition, record.offset, record.timestamp_ms, is_tombstone=is_tombstone)]

    def interrupt(self, partition: int, offset: int, timestamp_ms: int | None, group: Group | None) -> Row:
        """Return the row that says by which rule the group's offsets expire after missing records."""
        return self._row(deciding(group), partition, offset, timestamp_ms, is_tombstone=False)

    def _row(self, now: Deciding, partition: int, offset: int, timestamp_ms: int | None, *, is_tombstone: bool) -> Row:
        self._last = now
        return TABLE, {
            "group_type": now.group_type,
            "protocol_type": now.protocol_type,
            "group_state": now.group_state,
            "rule": str(now.expiry.rule),
            "base_timestamp": now.expiry.base_ms,
            "spared_topics": sorted(now.expiry.spared),
            "is_group_tombstone": is_tombstone,
            "log_partition": partition,
            "log_offset": offset,
            "log_timestamp": timestamp_ms,
        }


FIELDS = Fields(ExpiryRules, "_last")
"""The fields in a snapshot."""
