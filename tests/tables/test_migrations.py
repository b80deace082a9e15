"""Which migrations a table needs, and which tables are refused."""

import pytest

from coordinator_replay.errors import WarehouseError
from coordinator_replay.tables.definition import tables
from coordinator_replay.tables.migrations import (
    MIGRATIONS,
    SCHEMA_VERSION,
    SCHEMA_VERSION_PROPERTY,
    Migration,
    check_version,
    steps,
    version_of,
)


def migration(table, to_version):
    return Migration(table=table, to_version=to_version, about="a test")


def test_a_table_needs_what_came_after_its_version_in_order():
    known = [migration("topics", 3), migration("topics", 1), migration("findings", 2), migration("topics", 2)]
    assert [one.to_version for one in steps("topics", 1, known)] == [2, 3]
    assert steps("topics", 3, known) == []


def test_a_table_without_a_version_is_older_than_all():
    assert version_of({}) == 0
    assert version_of({SCHEMA_VERSION_PROPERTY: "7"}) == 7


@pytest.mark.parametrize("written", ["", "one", "-1", "²"])
def test_a_version_that_is_none_is_refused(written):
    with pytest.raises(WarehouseError, match="no version"):
        version_of({SCHEMA_VERSION_PROPERTY: written})


def test_only_a_newer_version_is_refused():
    check_version(0, "here")
    check_version(SCHEMA_VERSION, "here")
    with pytest.raises(WarehouseError, match="here was written by a newer release"):
        check_version(SCHEMA_VERSION + 1, "here")


def test_the_registry_ends_at_the_version_of_this_release():
    for one in MIGRATIONS:
        assert one.table in tables()
        assert 1 <= one.to_version <= SCHEMA_VERSION
    assert max((one.to_version for one in MIGRATIONS), default=1) == SCHEMA_VERSION
