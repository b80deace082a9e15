"""Audits that go on: what a follower writes into a dump is in the tables soon after.

Each round audits the folders of exports that have become complete since the one before, by the audit that a night
runs. A merged folder has nothing new. Once in a while the tables are maintained, because each audit adds files to them.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from coordinator_replay.errors import LockedError
from coordinator_replay.log.exports import ExportFolder, superseded
from coordinator_replay.pipeline.export_folders import ExportedDump


@dataclass(slots=True, kw_only=True)
class AuditFollower:
    """What one that goes on does, and what it has done.

    Attributes:
        dump: what a follower exports into.
        audit: audits folders.
        maintain: compacts the tables.
        log: gets a line where something is put off.
        maintain_every: seconds between two rounds of upkeep.
        audited: batches that were audited.
        maintained_at: when it has maintained the tables last, on a clock that only goes forward. It does so
            after its first audit, too: a follower that was killed within the hour has left its files to the next one.
    """

    dump: ExportedDump
    audit: Callable[[Sequence[str]], None]
    maintain: Callable[[], None]
    log: Callable[[str], None]
    maintain_every: float
    audited: set[int] = field(default_factory=set)
    maintained_at: float = -math.inf

    def run(self, stopped: threading.Event, every: float) -> None:
        """Go on until it is stopped.

        Args:
            stopped: is set when it is to end, which it does between two audits.
            every: seconds between two looks at the dump.
        """
        while not stopped.is_set():
            try:
                self.step()
            except LockedError as busy:
                self.log(f"{busy}; trying again")
            stopped.wait(every)

    def step(self) -> None:
        """Audit what is new, and maintain the tables if it is time."""
        if new := self.new_folders():
            self.audit([self.dump.uri_of(folder) for folder in new])
            for folder in new:
                self.audited.update(range(folder.first, folder.last + 1))
        if self.audited and time.monotonic() - self.maintained_at >= self.maintain_every:
            self.maintain()
            self.maintained_at = time.monotonic()

    def new_folders(self) -> list[ExportFolder]:
        """Complete folders that have batches which were not audited, in order."""
        complete = {folder for folder, done in self.dump.folders().items() if done}
        return sorted(
            folder
            for folder in complete - superseded(complete)
            if not self.audited.issuperset(range(folder.first, folder.last + 1))
        )
