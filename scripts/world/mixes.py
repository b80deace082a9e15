"""Mixes of triggers: how often each trigger comes in a random life.

The mixes were fixed before anybody looked at a rule of ``analysis.reasons``. *uniform* gives every trigger the same
weight. *fleet* is a guess at production, because we know no published counts of causes. So *fleet* is also judged with
each weight three times as large, and three times as small.
"""

from collections.abc import Mapping
from typing import NamedTuple

TRIGGERS = (
    "join", "leave", "crash", "restart", "restart_late", "crash_restart", "static_restart", "static_late",
    "hang", "hang_long", "sync_lost", "admin_remove", "admin_remove_static", "unsubscribe", "subscribe",
    "topic_grows", "topic_created", "topic_deleted", "topic_recreated", "enforce", "assignor_roll", "roll",
    "upgrade", "downgrade", "reload", "delete_offsets", "all_leave", "delete_group", "transaction", "quiet",
)  # fmt: skip
"""The names of all triggers, which are methods of ``Life``."""


class Mix(NamedTuple):
    """Weights of triggers, and the shape of groups.

    Attributes:
        name: name of the mix.
        weights: weight of each trigger.
        modern_share: share of groups that begin with the consumer group protocol.
        odd_share: share of groups with settings that are allowed, but rare.
        sizes: possible numbers of consumers at the beginning, all equally likely.
        overlap_share: share of triggers after which the next one does not wait until the group is at rest.
        fault_share: share of lives on a broker with a fault of an earlier release.
    """

    name: str
    weights: Mapping[str, float]
    modern_share: float
    odd_share: float
    sizes: tuple[int, ...]
    overlap_share: float
    fault_share: float

    def scaled(self, trigger: str, factor: float) -> "Mix":
        """Return the mix with a trigger more or less frequent."""
        return self._replace(weights={**self.weights, trigger: self.weights[trigger] * factor})


UNIFORM = Mix("uniform", dict.fromkeys(TRIGGERS, 1.0), 0.5, 0.5, (1, 2, 3, 4), 0.4, 0.05)

FLEET = Mix(
    "fleet",
    {
        # Deployments and autoscaling: most of what rebalances groups (a guess).
        "roll": 30, "restart": 12, "static_restart": 6, "join": 10, "leave": 10, "crash_restart": 6,
        # Failures: processes killed, long garbage collections, slow processing (a guess).
        "crash": 5, "restart_late": 3, "static_late": 1, "hang": 4, "hang_long": 6, "sync_lost": 0.3,
        # Administration and topics (a guess).
        "admin_remove": 0.5, "admin_remove_static": 0.5, "unsubscribe": 0.5, "subscribe": 2, "topic_grows": 3,
        "topic_created": 1, "topic_deleted": 0.5, "topic_recreated": 0.3, "enforce": 1,
        # Releases of clients and brokers (a guess).
        "assignor_roll": 0.5, "upgrade": 1, "downgrade": 0.3, "reload": 4,
        # Offsets, and groups that end (a guess).
        "delete_offsets": 0.5, "all_leave": 2, "delete_group": 0.5, "transaction": 1, "quiet": 6,
    },
    0.25, 0.05, (1, 2, 3, 4, 6), 0.15, 0.01,
)  # fmt: skip

MIXES: Mapping[str, Mix] = {mix.name: mix for mix in (UNIFORM, FLEET)}

LOOKED_AT = range(1_000_000)
HELD_OUT = range(1_000_000, 2_000_000)
"""Seeds of lives that may be looked at while rules change, and seeds of lives that judge pages and tests.

Some lives of the second kind proved rules wrong, and were looked at afterwards.
"""
LONG_RUN = range(2_000_000, 10_000_000)
"""Seeds of lives that only a long run judges."""
