"""The views of the end of the log say what describe and owner say."""

from collections import Counter

from coordinator_replay.query.describe import describe_at
from coordinator_replay.query.groups import groups_at
from coordinator_replay.query.sql import run_sql
from coordinator_replay.query.tables import Tables

MEMBERS = """
    SELECT group_id, member_id, client_id, client_host, member_state, partition_count FROM current_members
    WHERE cluster = $cluster ORDER BY ALL
"""


def test_current_members_are_those_that_describe_shows(warehouse: Tables):
    _, rows = run_sql(warehouse, MEMBERS)
    described = [
        (group.group_id, one.member_id, one.client_id, one.client_host)
        for group in groups_at(warehouse)
        for one in describe_at(warehouse, group.group_id).members
    ]
    assert described
    assert [row[:4] for row in rows] == sorted(described)


def test_current_owners_are_the_partitions_of_current_members(warehouse: Tables):
    _, rows = run_sql(warehouse, "SELECT group_id, member_id FROM current_owners WHERE cluster = $cluster")
    _, members = run_sql(warehouse, MEMBERS)
    assert rows
    owned = Counter(rows)
    assert {row[:2]: row[5] for row in members if row[5]} == {
        key: count for key, count in owned.items() if key in {row[:2] for row in members}
    }
