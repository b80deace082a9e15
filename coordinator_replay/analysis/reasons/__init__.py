"""Reasons of rebalances.

No record has a reason. Records show only differences and times: a new member, a removed member, other topics, another
metadata hash, a member without a record for as long as a timeout. The decision table ``table.TABLE`` infers reasons
from these. Each row of the table is a function that looks for the footprint of a cause: the records that the cause
leaves. A row also has a rank, a confidence, and the other causes with the same footprint. A row says ``certain`` only
if nothing else in the coordinator's code leaves this footprint, and no record can be missing.

``situation`` has the input of a row, and ``history`` has the facts of earlier records. Several rows use ``departures``,
which decides why a member was removed, and ``arrivals``, which decides whether a new member was in the group before.
``hindsight`` has the facts that a rebalance shows about an earlier rebalance.
"""
