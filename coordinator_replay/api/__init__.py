"""The Python API: the answers of the command line as typed objects, without a JVM.

``Warehouse`` is the way in; ``from coordinator_replay import Warehouse`` is its public place. The page *Python and
Spark* of the documentation lists the stable names.
"""

from coordinator_replay.api.answer import Answer, SqlAnswer
from coordinator_replay.api.answers import Compared, Described, Impacted, Owned, Reasons, Replayed
from coordinator_replay.api.page import Page, Pages, Trace
from coordinator_replay.api.warehouse import Warehouse

__all__ = [
    "Answer",
    "Compared",
    "Described",
    "Impacted",
    "Owned",
    "Page",
    "Pages",
    "Reasons",
    "Replayed",
    "SqlAnswer",
    "Trace",
    "Warehouse",
]
