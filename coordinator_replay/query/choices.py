"""The words that options of questions take; ``--help`` shows them, so this module loads neither DuckDB nor Arrow."""

GROUP_TYPES = ("classic", "consumer", "share", "streams")

GROUP_STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Stable",
    "Unknown",
)
"""States of groups of all types in Kafka's spelling, and the word for a state that the log does not prove."""

SEVERITIES = ("error", "warning", "info")
"""Severities of findings, from most to least severe."""

STATUSES = ("EXPIRED", "DUE", "EXPIRING")
"""Statuses of committed offsets: removed by the broker; past retention and not removed yet; about to expire."""
