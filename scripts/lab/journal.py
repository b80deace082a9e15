"""The journal: actions on clients and topics with their times, in order."""

import json
import threading
import time
from pathlib import Path
from typing import Any


class Journal:
    """A file with a JSON line for each action. Lives that run at the same time share it."""

    def __init__(self, path: Path) -> None:
        """Begin a new journal."""
        self._file = path.open("w", encoding="utf-8")
        self._lock = threading.Lock()

    def note(self, group: str | None, action: str, **details: Any) -> None:
        """Note an action that is about to begin, with the time in milliseconds."""
        with self._lock:
            line = {"at": time.time_ns() // 1_000_000, "group": group, "action": action, **details}
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
