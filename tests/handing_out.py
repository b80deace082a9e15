"""How a run of all tests hands them out to its workers: what shares a costly fixture together, the dearest first.

A file that is named nowhere here is a group of its own, behind those that are; what is left out costs time only.
"""

from collections.abc import Sequence

import pytest
from xdist.scheduler import LoadFileScheduling

SPARK = (
    "tests/spark/",
    "tests/acceptance/test_readers.py",
    "tests/docs/test_engines.py",
    "tests/examples/test_notebooks.py",
    "tests/hostile/test_mutated_rows.py",
    "tests/pipeline/test_audit.py",
    "tests/pipeline/test_session.py",
    "tests/pipeline/test_stage.py",
    "tests/pipeline/read/test_sources.py",
)
"""Files that take the session ``spark``: starting one takes ten seconds, and one that has run is quicker."""

AUDITED = (
    "tests/acceptance/test_asked",
    "tests/acceptance/test_checkpoints.py",
    "tests/acceptance/test_findings.py",
    "tests/acceptance/test_first_commands.py",
    "tests/acceptance/test_questions.py",
    "tests/acceptance/test_reasons.py",
)
"""Files that ask the warehouse ``audited`` of the acceptance tests."""

JUDGED = (
    "tests/completeness/test_compacted_copy.py",
    "tests/completeness/test_damaged_copy.py",
    "tests/completeness/test_several_dumps.py",
)
"""Files whose answers are held against those of whole logs, which ``judge_of`` asks once."""

DEAREST = (
    "tests/acceptance/test_object_store.py",
    "tests/acceptance/test_connect.py",
    "tests/report/test_browser.py",
    "tests/pipeline/test_same_log.py",
    "tests/pipeline/broker_logs/test_read.py",
    "tests/hostile/test_no_record_decides.py",
    "tests/pipeline/offsets/test_positions.py",
    "tests/completeness/test_lost_tail.py",
    "tests/pipeline/test_group_moves.py",
    "tests/hostile/test_every_field.py",
    "tests/pipeline/test_incremental.py",
    "tests/acceptance/test_killed_commits.py",
    "tests/pipeline/offsets/test_causes.py",
    "tests/install/test_platform_spark.py",
    "tests/install/test_wheel.py",
)
"""Files that take half a minute or more each: one that began last would keep a single worker busy at the end."""

GROUPS = {"spark": SPARK, "audited": AUDITED, "judged": JUDGED}
"""Files, or how their names begin, by the name of what they share; in the order in which they are handed out."""


def group_of(nodeid: str) -> str:
    """Return the name of the group that a test is handed out with."""
    file = nodeid.split("::", 1)[0]
    return next((name for name, files in GROUPS.items() if file.startswith(files)), file)


def dearest_first(items: list[pytest.Item]) -> None:
    """Sort collected tests by when their group is handed out; within a group they stay as they are."""
    order: Sequence[str] = [*GROUPS, *DEAREST]
    sizes: dict[str, int] = {}
    for item in items:
        sizes[group_of(item.nodeid)] = sizes.get(group_of(item.nodeid), 0) + 1

    def place(item: pytest.Item) -> tuple[int, int, str]:
        group = group_of(item.nodeid)
        return (order.index(group) if group in order else len(order)), -sizes[group], group

    items.sort(key=place)


class SharedFixtures(LoadFileScheduling):
    """Hands out whole groups, in the order in which the workers have collected them."""

    def schedule(self) -> None:
        self.config.option.loadscopereorder = False
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
