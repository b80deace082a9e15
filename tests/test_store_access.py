"""A store that refuses access ends a command at the first request, with a sentence and exit code 2."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from pyarrow import fs

from coordinator_replay.cli.main import main
from coordinator_replay.errors import StoreError
from coordinator_replay.filesystem import FAILURES, open_filesystem
from coordinator_replay.pipeline.stage import result_row, results_of
from coordinator_replay.store_access import refusal
from tests.refusing_store import RefusingStore, refuse
from tests.samples import Sample

SAMPLE = Sample("transactions")
STORES = ("s3", "gs", "abfss")
PLAIN = {
    "s3": "s3://lake/audit",
    "gs": "gs://lake/audit",
    "abfss": "abfss://lake@account.dfs.core.windows.net/audit",
}
"""The same place in each store, as deltalake finds it by the environment."""

REFUSALS = [(401, "InvalidAuthenticationInfo"), (403, "AccessDenied"), (403, "AuthorizationFailure"), (403, "NoName")]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RefusingStore]:
    with refuse(tmp_path) as store:
        for name, value in store.environment().items():
            monkeypatch.setenv(name, value)
        yield store


def written(filesystem: Any, path: str) -> None:
    with filesystem.open_output_stream(f"{path}/file") as stream:
        stream.write(b"text")


ACCESSES: dict[str, Callable[[Any, str], Any]] = {
    "look": lambda filesystem, path: filesystem.get_file_info(path),
    "list": lambda filesystem, path: filesystem.get_file_info(fs.FileSelector(path, recursive=True)),
    "read": lambda filesystem, path: filesystem.open_input_stream(f"{path}/file").read(1),
    "write": written,
}


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("name", STORES)
def test_each_store_is_asked_once_and_its_words_are_known(store: RefusingStore, name: str, access: str):
    for store.status, store.code in REFUSALS:
        store.requests.clear()
        filesystem, path = open_filesystem(store.uris()[name])
        with pytest.raises(FAILURES) as raised:
            ACCESSES[access](filesystem, path)
        assert refusal(raised.value), raised.value
        assert len(store.requests) == 1, store.requests


@pytest.mark.parametrize("name", STORES)
def test_the_library_of_the_tables_asks_once_and_its_words_are_known(store: RefusingStore, name: str):
    for store.status, store.code in REFUSALS:
        store.requests.clear()
        with pytest.raises(OSError, match="lacked") as raised:
            DeltaTable(PLAIN[name])
        assert refusal(raised.value)
        assert len(store.requests) == 1, store.requests


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidToken"])
def test_a_token_that_has_expired_is_refused(store: RefusingStore, code: str):
    store.status, store.code = 400, code
    filesystem, path = open_filesystem("s3://lake/audit")
    for access in (lambda: ACCESSES["list"](filesystem, path), lambda: DeltaTable(PLAIN["s3"])):
        with pytest.raises(OSError) as raised:
            access()
        assert refusal(raised.value), raised.value


def test_other_problems_are_no_refusals(store: RefusingStore, tmp_path: Path):
    store.status, store.code = 400, "InvalidArgument"
    for name in STORES:
        with pytest.raises(FAILURES) as listed:
            ACCESSES["list"](*open_filesystem(store.uris()[name]))
        with pytest.raises(OSError) as opened:
            DeltaTable(PLAIN[name])
        assert (refusal(listed.value), refusal(opened.value)) == (None, None), (listed.value, opened.value)
    locked = tmp_path / "locked"
    with pytest.raises(OSError) as raised:
        ACCESSES["read"](fs.LocalFileSystem(), str(locked))
    assert refusal(raised.value) is None
    assert refusal(PermissionError(13, "Permission denied", "/data/403 Forbidden")) is None


QUESTIONS = {
    "groups": ["groups"],
    "metrics": ["metrics"],
    "sql": ["sql", "SELECT 1 FROM rebalances"],
    "maintain": ["maintain"],
    "audit into it": ["audit", SAMPLE.segments],
}


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_command_on_a_warehouse_ends_at_the_first_request(store: RefusingStore, name: str, question: str):
    if question == "maintain" and name != "s3":
        pytest.skip("looks for the ledger by pyarrow first, which finds only S3 by the environment")
    check_ends(store, [*QUESTIONS[question], "--warehouse", PLAIN[name]])


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("command", [["decode"], ["audit", "--warehouse", "{here}"]], ids=["decode", "audit"])
def test_a_command_on_a_dump_ends_at_the_first_request(
    store: RefusingStore, name: str, command: list[str], tmp_path: Path
):
    check_ends(store, [*(part.format(here=tmp_path / "warehouse") for part in command), store.uris()[name]])
    assert not (tmp_path / "warehouse" / "audit_runs").exists()


def check_ends(store: RefusingStore, command: list[str]) -> None:
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2, result.output
    assert len(store.requests) == 1, store.requests
    (told,) = result.output.splitlines()
    assert told.startswith("Error: ")
    assert "docs/cluster.md" in told
    assert "traceback" not in told
    assert "\x1b" not in told and "\\x1b" not in told


def test_a_machine_without_credentials_for_google_is_told_soon(store: RefusingStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GCE_METADATA_ROOT", store.address)
    monkeypatch.setenv("HOME", str(store.folder))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    # A service of tokens that is out of order is asked again, but not for a quarter of an hour.
    for store.status, limit in ((403, 5), (503, 15)):
        filesystem, path = open_filesystem("gs://lake/audit?retry_limit_seconds=1")
        began = time.monotonic()
        with pytest.raises(OSError) as raised:
            filesystem.get_file_info(path)
        assert time.monotonic() - began < limit
        assert refusal(raised.value)


def test_the_time_to_try_is_bounded_unless_the_uri_says_otherwise():
    def options(uri: str) -> dict[str, Any]:
        return dict(open_filesystem(uri)[0].__reduce__()[1][0])

    assert options("gs://lake/audit")["retry_time_limit"].total_seconds() == 30
    assert options("gs://lake/audit?retry_limit_seconds=90")["retry_time_limit"].total_seconds() == 90


def refused(number: int) -> int:
    raise OSError(f"When reading information for key '{number}': AWS Error ACCESS_DENIED during HeadObject operation")


def refused_below(number: int) -> int:
    try:
        return refused(number)
    except OSError as problem:
        raise ValueError(f"file {number} can't be read") from problem


def broken(number: int) -> int:
    raise OSError(5, "Input/output error", str(number))


def doubled(number: int) -> int:
    return 2 * number


@pytest.mark.parametrize("stage", [refused, refused_below])
def test_a_task_that_is_refused_does_not_fail_and_the_stage_does(stage: Callable[[int], int]):
    rows = [result_row(0, "7", stage), result_row(1, "8", doubled)]
    with pytest.raises(StoreError, match=r"read files: 1 of 2 tasks were refused: When reading.*Credentials for exec"):
        results_of("read files", rows, stage)


def test_a_task_that_fails_otherwise_is_tried_again():
    with pytest.raises(OSError, match="Input/output"):
        result_row(0, "7", broken)
    assert results_of("double", [result_row(0, "7", doubled)], doubled) == [14]
