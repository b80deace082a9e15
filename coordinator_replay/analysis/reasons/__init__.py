"""Why a group rebalanced.

No record holds a reason. What there is are differences between one moment and the next, and time: a member more, a
member less, other topics, another hash, a silence as long as a timeout. ``table.TABLE`` is the decision table that
makes reasons of them: one row = one function with the footprint it needs, its rank, its confidence and what else
leaves the same records. A rule says ``certain`` only where nothing else in the coordinator's code leaves that
footprint and no record can be missing.

``situation`` is what a row may look at, ``history`` what of earlier records has to be remembered for it; ``departures``
and ``arrivals`` hold the two decisions that several rows share; ``hindsight`` is what a rebalance shows of an earlier
one.
"""
