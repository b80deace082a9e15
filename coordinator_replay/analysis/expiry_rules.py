"""How a group's offsets expire, from which record on, as rows of ``expiry_rules``."""

from collections.abc import Iterator, Mapping
from typing import Any

from coordinator_replay.analysis.expiration import DECIDING_KINDS, FIELDS, GROUP_KINDS, Expiry, ExpiryState
from coordinator_replay.analysis.rows import Row, Scope
from coordinator_replay.engine.model import Record

TABLE = "expiry_rules"

_Deciding = tuple[str | None, str | None, str | None, Expiry]
"""Type of group, protocol type, state, and the rule."""


class ExpiryRules:
    """Makes a row of each change of what decides about a group's offsets, and of each tombstone of the group."""

    __slots__ = ("_last", "_scope", "_state")

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._state = ExpiryState()
        self._last: _Deciding | None = None

    def fold(self, record: Record) -> Iterator[Row]:
        """The row that a record makes, if it changes anything."""
        if record.kind not in DECIDING_KINDS:
            return
        self._state.apply(record.kind, record.key, record.value)
        is_tombstone = record.value is None and record.kind in GROUP_KINDS
        deciding = self._now()
        if deciding != self._last or is_tombstone:
            self._last = deciding
            at = record.partition, record.offset, record.timestamp_ms
            yield TABLE, self._row(*at, deciding, is_tombstone=is_tombstone)

    def interrupt(self, partition: int, offset: int, timestamp_ms: int | None) -> Iterator[Row]:
        """The row that says what decides from where records are missing, as far as records confirm it."""
        self._last = self._now()
        yield TABLE, self._row(partition, offset, timestamp_ms, self._last, is_tombstone=False)

    def _now(self) -> _Deciding:
        return self._state.group_type, self._state.protocol_type, self._state.state, self._state.expiry()

    def _row(
        self, partition: int, offset: int, timestamp_ms: int | None, deciding: _Deciding, *, is_tombstone: bool
    ) -> dict[str, Any]:
        group_type, protocol_type, state, expiry = deciding
        return {
            "cluster": self._scope.cluster,
            "group_id": self._scope.group_id,
            "group_type": group_type,
            "protocol_type": protocol_type,
            "group_state": state,
            "rule": str(expiry.rule),
            "base_timestamp": expiry.base_ms,
            "spared_topics": sorted(expiry.spared),
            "is_group_tombstone": is_tombstone,
            "log_partition": partition,
            "log_offset": offset,
            "log_timestamp": timestamp_ms,
        }

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data fit for JSON."""
        return {**FIELDS.write(self._state), "has_row": self._last is not None}

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Continue from ``snapshot``."""
        FIELDS.read(self._state, plain)
        self._last = self._now() if plain["has_row"] else None
