"""What all tests share: where the recorded samples are, how hard hypothesis tries, and one Spark session."""

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from tests.object_store import BUCKET, serve_s3

if TYPE_CHECKING:
    from tests.pipeline.audited_once import AuditedOnce

DATA = Path(__file__).parent / "data"

# Few, repeatable examples by default; HYPOTHESIS_PROFILE=exhaustive looks for the rare ones.
settings.register_profile(
    "fast",
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "exhaustive",
    max_examples=2000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Hand out to workers together what shares a fixture, see ``tests/handing_out.py``."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.handing_out import SharedFixtures

    return SharedFixtures(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a worker, bring the tests into the order in which they are handed out."""
    if hasattr(config, "workerinput"):
        from tests.handing_out import dearest_first

        dearest_first(items)


def pytest_unconfigure() -> None:
    """Let Python end as it does for users: Hypothesis leaves a function that each look for garbage calls.

    Called while modules are torn down, it keeps DuckDB's classes alive, and their binding prints what was leaked.
    """
    gc.callbacks.clear()


@pytest.fixture(scope="session", autouse=True)
def no_settings_of_the_shell() -> Iterator[None]:
    """No test, and no program that one starts, takes the settings of the shell that runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("COORDINATOR_REPLAY_") or name == "TZ"]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """One session for the whole run, started only when a test asks for it."""
    from coordinator_replay.pipeline.host.session import open_session

    os.environ["SPARK_LOCAL_DIRS"] = str(tmp_path_factory.mktemp("spark"))
    session = open_session("coordinator-replay-tests", with_delta=True)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def audited_once(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[AuditedOnce]":
    """Warehouses of recorded dumps, for tests that only ask: a write to one of them is an error at the end."""
    from tests.pipeline.audited_once import AuditedOnce

    base = tmp_path_factory.getbasetemp()
    with AuditedOnce((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "audited-once") as audits:
        yield audits


@pytest.fixture(scope="session")
def object_store() -> Iterator[str]:
    """A bucket behind an S3 API on loopback, which this process and those it starts find by their environment."""
    with serve_s3() as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield f"s3://{BUCKET}"


@pytest.fixture
def s3(object_store: str) -> str:
    """A folder of its own in an object store."""
    return f"{object_store}/{uuid4()}"


@pytest.fixture
def remove() -> Callable[[str], None]:
    """Removes a file or a folder, wherever it is."""
    from pyarrow import fs

    from coordinator_replay.filesystem import open_filesystem

    def remove(uri: str) -> None:
        filesystem, path = open_filesystem(uri)
        if filesystem.get_file_info(path).type == fs.FileType.Directory:
            filesystem.delete_dir(path)
        else:
            filesystem.delete_file(path)

    return remove
