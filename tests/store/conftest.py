"""Stores to test on: a folder of this machine, and a bucket behind an S3 API on loopback."""

from pathlib import Path

import pytest

from coordinator_replay.store.warehouse import Store


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.long)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "local":
        return Store(str(tmp_path / "ware house"))
    return Store(f"{request.getfixturevalue('s3')}/warehouse")
