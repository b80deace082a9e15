from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator_replay.query.tables import Tables
from tests.query.small_warehouse import write_small_warehouse
from tests.report.hostile import write_hostile_rows


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_small_warehouse(tmp_path_factory.mktemp("warehouse"))
    write_hostile_rows(folder)
    return folder


@pytest.fixture(scope="session")
def warehouse(folder: Path) -> Iterator[Tables]:
    opened = Tables(str(folder))
    yield opened
    opened.connection.close()
