"""A session that knows the data source and the functions."""

import pytest

from coordinator_replay.spark import register


@pytest.fixture(scope="session")
def session(spark):
    register(spark)
    return spark
