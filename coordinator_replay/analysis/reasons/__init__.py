"""Reasons of rebalances.

No record has a reason. Records show only differences and times: a new member, a removed member, other topics, another
metadata hash, no record of a member for as long as a timeout. ``table.TABLE`` is the decision table that infers reasons
from these. Each row is a function with its footprint, its rank, its confidence, and the other causes that leave the
same records. A rule says ``certain`` only if nothing else in the coordinator's code leaves that footprint and no record
can be missing.

``situation`` has the input of a row, and ``history`` has the facts of earlier records. Several rows use ``departures``,
which decides why a member was removed, and ``arrivals``, which decides whether a new member was in the group before.
``hindsight`` has the facts that a rebalance shows about an earlier rebalance.
"""
