from pathlib import Path

import pytest

from tests.query.small_warehouse import write_small_warehouse


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small warehouse of the tests of questions."""
    return write_small_warehouse(tmp_path_factory.mktemp("small warehouse"))
