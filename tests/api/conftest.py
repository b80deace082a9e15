"""The small warehouse, asked from Python."""

from pathlib import Path

import pytest

from coordinator_replay import Warehouse
from tests.query.small_warehouse import write_small_warehouse


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_warehouse(tmp_path_factory.mktemp("small warehouse"))


@pytest.fixture(scope="session")
def warehouse(folder: Path) -> Warehouse:
    return Warehouse(folder)
