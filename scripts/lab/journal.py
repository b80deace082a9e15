"""The journal: what was done to clients and topics, and when, in the order in which it was done."""

import json
import threading
import time
from pathlib import Path
from typing import Any


class Journal:
    """Notes each action as one JSON line; lives that go on side by side share it."""

    def __init__(self, path: Path) -> None:
        """Begin a new journal."""
        self._file = path.open("w", encoding="utf-8")
        self._lock = threading.Lock()

    def note(self, group: str | None, action: str, **details: Any) -> None:
        """Note what is about to be done, with the moment in milliseconds."""
        with self._lock:
            line = {"at": time.time_ns() // 1_000_000, "group": group, "action": action, **details}
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()

    def close(self) -> None:
        """End it."""
        self._file.close()
