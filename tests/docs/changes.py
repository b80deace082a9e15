"""Changes of the kinds that docs/changing.md lists, each as edits of files: what a contributor would write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Edit = tuple[str, str]
"""A line that a file has, and what is inserted after it."""

REASONS = "coordinator_replay/analysis/reasons"


@dataclass(frozen=True)
class Change:
    """A change.

    Attributes:
        edits: of files that are there, by path.
        added: files that are new, by path.
        made: pages that scripts make of it.
        probe: its own test.
        checks: tests of the quick ones that it must pass, as pytest takes them.
    """

    edits: Mapping[str, Sequence[Edit]]
    made: Sequence[str]
    probe: str
    checks: Sequence[str]
    added: Mapping[str, str]

    @property
    def files(self) -> list[str]:
        """Every file that it touches."""
        return sorted({*self.edits, *self.added, *self.made})


CAUSE = Change(
    edits={
        f"{REASONS}/vocabulary.py": [
            ('    LEADER_REJOIN = "LEADER_REJOIN"\n', '    RACK_CHANGE = "RACK_CHANGE"\n'),
            ("MEANING: Mapping[Cause, str] = {\n", '    Cause.RACK_CHANGE: "a member moved to another rack",\n'),
        ],
        f"{REASONS}/change_rules.py": [
            (
                "    return Explanation(POSSIBLE, [_unchanged(situation)], alternatives, "
                "(leader,) if leader else ())\n",
                '''

@CHANGE_RULES.row(Cause.RACK_CHANGE, CLASSIC, is_quiet=True)
def rack_change(situation: Situation) -> Explanation | None:
    """A member moved to another rack.

    Footprint: a member of the generation before has another rack.
    Confidence: certain.
    """
    moved = [event for event in situation.of_kind(EventKind.METADATA_CHANGED) if "rack_id" in event.changes]
    if not moved:
        return None
    return Explanation(
        CERTAIN,
        [
            (about(FactKind.MEMBER_CHANGED, event.member, place=situation.place(event.offset)),)
            for event in moved
            if event.member
        ],
    )
''',
            )
        ],
    },
    added={},
    made=["docs/reasons-table.md"],
    probe="""
from coordinator_replay.analysis.reasons.table import TABLE
from coordinator_replay.analysis.reasons.vocabulary import Cause


def test_the_cause_has_a_row():
    assert [rule.find.__name__ for rule in TABLE if rule.cause is Cause.RACK_CHANGE] == ["rack_change"]
""",
    checks=[
        "tests/analysis/test_reasons.py::test_every_cause_has_a_meaning_and_a_row",
        "tests/docs/test_reasons_table.py",
    ],
)

AUDITED = """
from pathlib import Path

from coordinator_replay import Warehouse
from tests.pipeline.in_process import audit_here

SEGMENTS = Path(__file__).parents[1] / "data" / "expiration" / "segments"

"""
MADE_PAGES = "tests/docs/test_site.py::test_made_pages_are_those_of_the_definitions"

COLUMN = Change(
    edits={
        "schemas/tables/member_timeline.json": [
            (
                '  "columns": [\n',
                '    {"name": "assigned_topics", "type": "int", "about": "Of how many topics it had partitions."},\n',
            )
        ],
        "coordinator_replay/analysis/members.py": [
            (
                '            "assigned": None if is_unassigned else structs(group_type, current.assigned),\n',
                '            "assigned_topics": len(current.assigned or ()),\n',
            )
        ],
        "coordinator_replay/query/timeline.py": [
            (
                '    member_id: str = column("CONSUMER-ID", 3, 10, is_id=True)\n',
                '    assigned_topics: int | None = column("#TOPICS", 5)\n',
            )
        ],
    },
    added={},
    made=[],
    probe=f"""{AUDITED}
def test_the_column_is_shown(tmp_path):
    audit_here(tmp_path / "warehouse", SEGMENTS)
    members = Warehouse(tmp_path / "warehouse").members("shop-billing")
    assert [one.assigned_topics for one in members] == [len(one.assigned or ()) for one in members]
    assert len(members) > 0
""",
    checks=["tests/tables"],
)

TABLE = Change(
    edits={
        "coordinator_replay/analysis/group_life.py": [
            (
                "        rows.extend(self._expiry_rules.fold(record, self.replay.group))\n",
                """        if record.value is None and record.kind.endswith("GroupMetadata"):
            place = {"log_partition": record.partition, "log_offset": record.offset}
            rows.append(("group_tombstones", place))
""",
            )
        ],
        "coordinator_replay/pipeline/groups/replay.py": [("GROUP_TABLES = (\n", '    "group_tombstones",\n')],
        "docs/audit.md": [
            (
                "| `expiry_rules` | each change of the rule by which a group's offsets expire |\n",
                "| `group_tombstones` | each tombstone of a group |\n",
            )
        ],
    },
    added={
        "schemas/tables/group_tombstones.json": """{
  "name": "group_tombstones",
  "about": "One row for each tombstone of a group.",
  "keys": ["cluster", "group_id", "log_partition", "log_offset"],
  "clustering": ["cluster", "group_id"],
  "partitioned_by": ["cluster", "bucket", "is_open"],
  "columns": [
    {"name": "cluster", "type": "string", "required": true, "about": "Name of the Kafka cluster."},
    {"name": "group_id", "type": "string", "required": true, "about": "The group."},
    {"name": "log_partition", "type": "int", "required": true, "about": "Partition of __consumer_offsets."},
    {"name": "log_offset", "type": "bigint", "required": true, "about": "Log offset of the tombstone."},
    {"name": "settled_at_offset", "type": "bigint", "about": "Log offset of the record that made the row final."},
    {"name": "bucket", "type": "int", "required": true, "about": "Partition column."},
    {"name": "is_open", "type": "boolean", "required": true, "about": "Partition column."}
  ]
}
"""
    },
    made=["docs/tables/index.md"],
    probe=f"""{AUDITED}
def test_the_table_is_filled(tmp_path):
    audit_here(tmp_path / "warehouse", SEGMENTS)
    # Rows of before are replaced, not joined by others.
    audit_here(tmp_path / "warehouse", SEGMENTS, full=True)
    warehouse = Warehouse(tmp_path / "warehouse")
    [(tombstones,)] = warehouse.sql("SELECT count(*) FROM group_tombstones")
    assert [(tombstones,)] == list(warehouse.sql("SELECT count(*) FROM expiry_rules WHERE is_group_tombstone"))
    assert tombstones > 0
""",
    checks=["tests/tables", MADE_PAGES, "tests/docs/test_docs.py"],
)

CHANGES = {"a new cause": CAUSE, "a new column of an answer": COLUMN, "a new table": TABLE}
"""By the row of docs/changing.md."""
