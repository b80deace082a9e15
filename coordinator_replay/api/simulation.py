"""Questions of the commands in the section *Simulation* of ``coordinator-replay --help``."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator_replay.api.answer import Answer
from coordinator_replay.api.answers import Replayed
from coordinator_replay.api.moments import Time
from coordinator_replay.api.tables_and_times import TablesAndTimes
from coordinator_replay.simulation import door


class Simulation(TablesAndTimes):
    """Questions about what would have happened to recorded groups under other settings."""

    def what_if(
        self,
        group: str,
        *alternatives: Mapping[str, str | int],
        start: Time | None = None,
        end: Time | None = None,
        without_restarts: bool = False,
        members: int | None = None,
        known: Mapping[str, str | int] | None = None,
    ) -> Replayed:
        """Return a group's life under other settings, simulated and compared with the recorded life.

        The first two rows are the recorded life and its simulation; ``fidelity`` says how much these two rows agree. If
        the agreement is too low, no alternative is simulated.

        Args:
            group: a classic or consumer group.
            alternatives: settings to try, under Kafka's names; one mapping for each alternative. If there is no
                mapping, ``without_restarts`` and ``members`` make a single alternative.
            start: start of the time range, included; None to begin at the group's first record.
            end: end of the time range, excluded; None to end after the group's last record.
            without_restarts: simulate every alternative as if no client had restarted: a client that left and came back
                stays in the group.
            members: the number of clients in every alternative; None for the number on record.
            known: settings of the recorded life that are not in the log, such as ``heartbeat.interval.ms``.
        """
        tried = list(alternatives) or ([{}] if without_restarts or members is not None else [])
        since = self._times.at(start)
        replay = door.what_if(
            self._tables,
            group,
            [door.alternative_of(values, without_restarts=without_restarts, members=members) for values in tried],
            since,
            self._times.end(end),
            known,
        )
        return Replayed(replay, self._from(since, group))

    def what_if_all(
        self,
        alternative: Mapping[str, str | int],
        *,
        start: Time | None = None,
        end: Time | None = None,
        without_restarts: bool = False,
        members: int | None = None,
        known: Mapping[str, str | int] | None = None,
    ) -> Answer[door.Gain]:
        """Return every group's life replayed under other settings.

        The groups that the alternative spares the most interruptions come first. An interruption is a rebalance in
        which a member that stays would have to give up partitions. The column ``ranges`` has the lowest and the highest
        value of each prediction. Only the first ten groups have ranges; for all others the column is null.

        Args:
            alternative: settings to try, under Kafka's names.
            start: start of the time range, included; None to begin at each group's first record.
            end: end of the time range, excluded; None to end after the last record of the log.
            without_restarts: simulate as if no client had restarted: a client that left and came back stays in the
                group.
            members: the number of clients in every group; None for the number on record.
            known: settings that the groups really had, for settings that the log does not have.
        """
        since = self._times.at(start)
        gains, notes = door.what_if_all(
            self._tables,
            door.alternative_of(alternative, without_restarts=without_restarts, members=members),
            since,
            self._times.end(end),
            known,
        )
        return Answer(gains, door.Gain, notes=notes, basis=self._from(since))

    @staticmethod
    def what_if_settings() -> Answer[door.TriedSetting]:
        """Return the settings that ``what_if`` can try."""
        return Answer(door.tried_settings(), door.TriedSetting)
