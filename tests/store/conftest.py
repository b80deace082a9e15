"""Stores to test on: a folder of this machine, and a bucket behind an S3 API on loopback."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import fs

from coordinator_replay.log.dump import open_filesystem
from coordinator_replay.store.warehouse import Store


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "local":
        return Store(str(tmp_path / "ware house"))
    return Store(f"{request.getfixturevalue('s3')}/warehouse")


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
