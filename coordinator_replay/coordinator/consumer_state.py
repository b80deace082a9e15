"""What a consumer group has beside its records."""

from coordinator_replay.engine import Record


class ConsumerState:
    """Soft state of one consumer group; follows its records as they are written."""

    __slots__ = ()

    def take(self, record: Record) -> None:
        """Follow a record of the group that the engine has just replayed."""
