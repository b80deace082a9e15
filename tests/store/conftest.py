"""Stores to test on: a folder of this machine, and a bucket behind an S3 API on loopback."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import fs

from coordinator_replay.log.dump import open_filesystem
from coordinator_replay.store.warehouse import Store


@pytest.fixture(params=["local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store(str(tmp_path / "ware house"))


@pytest.fixture
def remove() -> Callable[[str], None]:
    """Removes a file or a folder, wherever it is."""

    def remove(uri: str) -> None:
        filesystem, path = open_filesystem(uri)
        if filesystem.get_file_info(path).type == fs.FileType.Directory:
            filesystem.delete_dir(path)
        else:
            filesystem.delete_file(path)

    return remove
