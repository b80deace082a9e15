"""Whether a table still says of a cluster what it said at an earlier version.

Upkeep puts rows into other files, and runs of other clusters write to the same tables; neither changes what a run of
this cluster can go on from.
"""

import json
from collections.abc import Mapping
from typing import Any

from coordinator_replay.pipeline.delta_log import HeldFile, actions_since, held_files, newest_version

_SAYS_NOTHING = frozenset({"commitInfo", "txn", "domainMetadata"})
"""Actions that change neither rows nor what is known of the table."""


def cluster_of(file: HeldFile) -> str | None:
    """The cluster that all rows of a file belong to; None where they may be of several."""
    return _only_cluster(file.lowest, file.highest)


def _only_cluster(lowest: Mapping[str, Any], highest: Mapping[str, Any]) -> str | None:
    low = lowest.get("cluster")
    return low if low == highest.get("cluster") else None


def is_as_left(path: str, version: int | None, cluster: str) -> bool:
    """Whether nobody has added or taken away rows of a cluster since a version of the table.

    Args:
        path: the table.
        version: its version then; None for none.
        cluster: whose rows.

    Returns:
        False also where that can't be told: files may hold rows of several clusters, and old commits be gone.
    """
    newest = newest_version(path)
    if version is None or newest is None or newest <= version:
        return version is not None and newest == version
    held = held_files(path, version)
    actions = None if held is None else actions_since(path, version)
    if held is None or actions is None:
        return False
    clusters = {file.path.rsplit("/", 1)[-1]: cluster_of(file) for file in held}
    for kind, told in ((kind, told) for action in actions for kind, told in action.items()):
        if kind in _SAYS_NOTHING:
            continue
        if kind not in ("add", "remove"):
            return False
        name = told["path"].rsplit("/", 1)[-1]
        if kind == "add":
            stats = json.loads(told.get("stats") or "{}")
            clusters[name] = _only_cluster(stats.get("minValues", {}), stats.get("maxValues", {}))
        if told.get("dataChange", True) and clusters.get(name) in (None, cluster):
            return False
    return True
