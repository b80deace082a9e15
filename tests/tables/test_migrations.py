"""Which version of the contract a table follows, and which tables are refused."""

import pytest

from coordinator_replay.errors import WarehouseError
from coordinator_replay.tables.migrations import SCHEMA_VERSION, SCHEMA_VERSION_PROPERTY, check_version, version_of


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
