"""The Python API: the answers of the command line as typed objects, without a JVM.

Users begin with ``from coordinator_replay import Warehouse``. The page *Python and Spark* of the documentation lists
the names that stay stable.
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
