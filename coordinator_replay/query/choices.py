"""The words that options of questions take, where they load neither an engine nor Arrow: ``--help`` shows them."""

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
"""States of groups of all types, in Kafka's spelling; and of those whose state the log does not prove."""

SEVERITIES = ("error", "warning", "info")
"""Of findings, from most to least severe."""

STATUSES = ("EXPIRED", "DUE", "EXPIRING")
"""Of committed offsets: removed by the broker; past retention and not removed yet; about to expire."""
