"""The class ``Warehouse`` for Python users, with a method for each command that asks a question.

``coordinator-replay --help`` lists the commands in sections. For each section with questions, this package has a module
of the same name. The module's class has the methods of the section's commands, and ``Warehouse`` inherits from all
these classes.

A method imports the code for its question only when it is called, because importing the code for all questions takes as
long as some answers.
"""

from __future__ import annotations

from datetime import UTC, tzinfo
from pathlib import Path

from coordinator_replay.api.offsets import Offsets
from coordinator_replay.api.over_all_groups import OverAllGroups
from coordinator_replay.api.pictures_and_metrics import PicturesAndMetrics
from coordinator_replay.api.simulation import Simulation
from coordinator_replay.api.what_happened import WhatHappened
from coordinator_replay.query.tables import Coverage, Tables
from coordinator_replay.zones import parse_zone


class Warehouse(WhatHappened, Offsets, OverAllGroups, PicturesAndMetrics, Simulation):
    """The tables of a warehouse, with questions as methods. The tables are read directly, without Spark or a JVM.

    Args:
        uri: the warehouse, as a path or an object-store URI. It has a folder for each table.
        cluster: the cluster that questions are about; not needed if the warehouse has only one.
        zone: the time zone of texts that name a time without a zone; UTC by default.

    Every method may raise ``UsageError`` for a wrong argument, such as an unknown group or a text that is not a time.
    It may raise ``WarehouseError`` if a table is missing or damaged. Both messages are one sentence: what was found,
    and what is expected.

    Example:
        >>> from coordinator_replay import Warehouse
        >>> warehouse = Warehouse("/data/audit", cluster="prod")
        >>> warehouse.rebalances("payments", start="-6h").to_pandas()  # doctest: +SKIP
    """

    def __init__(self, uri: str | Path, cluster: str | None = None, *, zone: str | tzinfo = UTC) -> None:
        super().__init__(Tables(str(uri), cluster, parse_zone(zone) if isinstance(zone, str) else zone))

    def __repr__(self) -> str:
        return f"Warehouse({self._tables.uri!r}, cluster={self.cluster!r})"

    def close(self) -> None:
        """Release memory and files of the embedded engine.

        A later question opens the engine again.
        """
        self._tables.close()

    @property
    def cluster(self) -> str:
        """Return the cluster that questions are about."""
        return self._tables.cluster

    @property
    def clusters(self) -> tuple[str, ...]:
        """Return all clusters that were audited into this warehouse."""
        return self._tables.clusters

    @property
    def coverage(self) -> Coverage:
        """Return the time range that the tables cover, and the end of the last audit."""
        return self._tables.coverage

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes that apply to all answers so far, for example that early rows were purged."""
        return tuple(self._tables.notes)
