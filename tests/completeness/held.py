"""A warehouse whose tables are read once and then asked from memory: thousands of questions about one audit."""

from collections.abc import Mapping
from pathlib import Path

from coordinator_replay import Warehouse
from coordinator_replay.api.moments import Moments
from coordinator_replay.query.tables import Engine, Tables


class _HeldTables(Tables):
    """The tables, each read from its files when it is first asked for."""

    def __init__(self, uri: str, cluster: str) -> None:
        super().__init__(uri, cluster)
        self._held: set[str] = set()

    def offer(
        self,
        name: str,
        bounds: Mapping[str, str] | None = None,
        engine: Engine | None = None,
    ) -> None:
        """Make a table known by its name; all of it, since later questions want other rows."""
        if engine is not None and engine.connection is not self.connection:
            super().offer(name, bounds, engine)
            return
        if name in self._held:
            return
        super().offer(name)
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE held_{name} AS SELECT * FROM {name}")
        self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM held_{name}")
        self._held.add(name)


def open_held(uri: Path, cluster: str = "default") -> Warehouse:
    """Open a warehouse that nobody writes to any more."""
    warehouse = Warehouse(uri, cluster)
    warehouse._tables = _HeldTables(str(uri), cluster)
    warehouse._times = Moments(warehouse._tables)
    return warehouse
