"""A session that knows the data source and the functions; tests of what the Spark in use lacks are left out."""

import pytest

from coordinator_replay.pipeline.host.spark_versions import Feature, version
from coordinator_replay.spark import register

_WITH_DATA_SOURCE = ["test_datasource.py", "test_documented.py", "test_object_store.py"]
_WITH_FUNCTIONS = ["test_documented.py", "test_functions.py", "test_replay.py"]

collect_ignore = [
    *(_WITH_DATA_SOURCE if version() < Feature.DATA_SOURCE.since else ()),
    *(_WITH_FUNCTIONS if version() < Feature.SQL_FUNCTIONS.since else ()),
]


@pytest.fixture(scope="session")
def session(spark):
    register(spark)
    return spark
