"""Why a group rebalanced.

No record has a reason. Records only show differences between one moment and the next, and times: a member more, a
member less, other topics, another hash, a silence as long as a timeout. ``table.TABLE`` is the decision table that
infers reasons from them. Each row is a function with its footprint, its rank, its confidence, and the other causes that
leave the same records. A rule says ``certain`` only if nothing else in the coordinator's code leaves that footprint and
no record can be missing.

``situation`` has the input of a row, and ``history`` the facts of earlier records. ``departures`` and ``arrivals`` have
the two decisions that several rows share. ``hindsight`` has the facts that a rebalance shows about an earlier one.
"""
