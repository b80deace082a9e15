"""A statement reaches the tables, and nothing else of this machine or its network."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from pyarrow import fs

from coordinator_replay.api import Warehouse
from coordinator_replay.cli.main import main
from coordinator_replay.errors import CoordinatorReplayError, UsageError
from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.query import sandbox
from coordinator_replay.query.fetch import fetch
from coordinator_replay.query.sql import run_sql
from coordinator_replay.query.table_files import Engine
from coordinator_replay.query.tables import Tables
from coordinator_replay.store.arrow_files import ArrowFiles
from coordinator_replay.store.statement_files import ScratchFiles, TableFiles
from tests.query.every_statement import HARMLESS, READING, WRITING, in_places, untried_kinds

SECRET = "the-secret-words"


@dataclass
class Scene:
    """A warehouse, files around it, and a server that counts who asks it."""

    root: Path
    port: int
    requests: list[str] = field(default_factory=list)

    @property
    def warehouse(self) -> Path:
        return self.root / "inside"

    def places(self) -> list[str]:
        """Folders that statements try."""
        log = self.warehouse / "offset_history" / "_delta_log"
        inside = [str(self.warehouse), str(log), str(self.root), str(self.root / "current"), "."]
        return [*inside, f"http://127.0.0.1:{self.port}", "s3://bucket"]

    def filled(self, text: str, here: str) -> str:
        """A text of ``every_statement`` with the names of files."""
        secret = f"{here}/secret.csv"
        data = next(self.warehouse.glob("rebalances/**/*.parquet"))
        return text.replace("{here}", here).replace("{secret}", secret).replace("{data}", str(data))

    def on_disk(self) -> dict[str, str]:
        """All that lies on disk, with its contents."""
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
            for path in self.root.rglob("*")
        }


@contextmanager
def counting_server(requests: list[str]) -> Iterator[int]:
    class Counting(BaseHTTPRequestHandler):
        def _count(self) -> None:
            requests.append(f"{self.command} {self.path}")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"{SECRET}\n".encode())

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _count  # noqa: N815 - the names that the server calls

        def log_message(self, *_arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Counting)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def scene(tmp_path, folder, monkeypatch) -> Iterator[Scene]:
    shutil.copytree(folder, tmp_path / "inside")
    for name in ("current/.tmp", "home/.duckdb/stored_secrets", "scratch"):
        (tmp_path / name).mkdir(parents=True)
    for name in (".", "current", "current/.tmp", "inside", "inside/offset_history/_delta_log", "scratch"):
        (tmp_path / name / "secret.csv").write_text(f"{SECRET}\n")
    monkeypatch.chdir(tmp_path / "current")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    requests: list[str] = []
    with counting_server(requests) as port:
        for name, value in (("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}"), ("AWS_ACCESS_KEY_ID", "tests")):
            monkeypatch.setenv(name, value)
        yield Scene(tmp_path, port, requests)


@contextmanager
def shut_engine(warehouse: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """An engine as ``run_sql`` makes it, for more than one statement."""
    tables = Tables(str(warehouse))
    with tables.new_connection() as connection, sandbox.named_files(connection) as name_files:
        tables.offer("rebalances", engine=Engine(connection, name_files))
        connection.execute("CREATE TEMP TABLE held (a VARCHAR)")
        sandbox.shut(connection)
        yield connection
    tables.close()


def answer(connection: duckdb.DuckDBPyConnection, statement: str) -> str:
    """What a person is shown of a statement: its rows, or what is wrong."""
    try:
        return repr(fetch(connection, statement, {}))
    except (duckdb.Error, UsageError) as problem:
        # An error repeats the statement; no statement has the secret in it.
        return repr(problem)


def tried(scene: Scene, text: str, first: int, count: int) -> list[str]:
    """Try a statement everywhere, each time with some of the folders; what was shown of each."""
    shown = []
    folders = scene.places() * 2
    with shut_engine(scene.warehouse) as connection:
        for number, statements in enumerate(in_places(text), first):
            start = number % len(scene.places())
            for here in folders[start : start + count]:
                shown += [answer(connection, scene.filled(statement, here)) for statement in statements]
    return shown


def try_all(scene: Scene, texts: list[str], folders: int) -> None:
    before = scene.on_disk()
    for number, text in enumerate(texts):
        shown = tried(scene, text, number, folders)
        assert [one for one in shown if SECRET in one] == [], text
        assert scene.on_disk() == before, text
    assert scene.requests == []


@pytest.mark.parametrize("texts", [READING[::3], WRITING[::3]], ids=["reading", "writing"])
def test_nothing_but_the_tables_is_read_and_nothing_is_written(scene, texts):
    try_all(scene, texts, 1)


@pytest.mark.long
@pytest.mark.parametrize("texts", [READING, WRITING, HARMLESS], ids=["reading", "writing", "harmless"])
def test_so_it_is_in_every_folder(scene, texts):
    try_all(scene, texts, len(scene.places()))


def test_every_kind_of_statement_is_tried():
    assert untried_kinds() == set()


@pytest.mark.parametrize("text", [*READING, *WRITING])
def test_what_touches_files_is_refused_with_a_sentence(scene, text):
    before = scene.on_disk()
    with pytest.raises(UsageError) as refused:
        for here in scene.places():
            # A statement that finds nothing to read in one place is refused in another.
            run_sql(Tables(str(scene.warehouse)), scene.filled(text, here))
    assert "Traceback" not in str(refused.value)
    assert scene.on_disk() == before


ATTACKS = [
    "with x as (copy (select 42) to '{here}/f.csv' (format csv)) select 'harmless' as answer",
    "with x as (copy (select 42) to '{data}' (format parquet, use_tmp_file false)) select 1",
    "explain analyze with x as (copy (select 42) to '{here}/f.csv') select 1",
    "with x as (copy (select 42) to '.tmp/f.csv') select 1",
    "from read_text('.tmp/secret.csv')",
    "update extensions",
    "create persistent secret s (type http, bearer_token 'x')",
]


@pytest.mark.parametrize("text", ATTACKS)
def test_a_refusal_ends_with_exit_code_2(scene, text):
    before = scene.on_disk()
    statement = scene.filled(text, str(scene.warehouse))
    done = CliRunner().invoke(main, ["sql", statement, "--warehouse", str(scene.warehouse)])
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    with pytest.raises(UsageError):
        Warehouse(str(scene.warehouse)).sql(statement)
    assert scene.on_disk() == before


def test_a_refusal_of_our_own_file_systems_names_the_option(scene):
    statement = "WITH x AS (COPY (SELECT 1) TO 'tables://0/new.csv' (USE_TMP_FILE false)) SELECT 1"
    with pytest.raises(UsageError, match=r"^without --allow-files, .*tables://0/new\.csv can be read, not written$"):
        run_sql(Tables(str(scene.warehouse)), statement)


def test_secrets_of_this_user_are_not_read(scene):
    with duckdb.connect() as connection:
        connection.execute("CREATE PERSISTENT SECRET kept (TYPE http, BEARER_TOKEN 'words')")
    assert any((scene.root / "home").rglob("kept*"))
    assert run_sql(Tables(str(scene.warehouse)), "FROM duckdb_secrets()")[1] == []


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM rebalances",
        "PIVOT rebalances ON cause USING count(*)",
        "SUMMARIZE rebalances",
        "DESCRIBE SELECT * FROM rebalances",
        "EXPLAIN SELECT * FROM rebalances",
        "EXPLAIN ANALYZE SELECT * FROM rebalances",
        "WITH a AS (FROM rebalances) FROM a",
        "VALUES (1)",
        "FROM event_log",
        "SELECT * FROM pragma_database_size()",
    ],
)
def test_questions_about_the_tables_are_answered(folder, statement):
    names, rows = run_sql(Tables(str(folder)), statement)
    assert names
    assert rows


@pytest.mark.parametrize("name", ["in[side]", "with blank", "it's", "a%b", "a?b"])
def test_so_they_are_in_folders_of_any_name(scene, name):
    scene.warehouse.rename(scene.root / name)
    for uri in (str(scene.root / name), (scene.root / name).as_uri()):
        _, rows = run_sql(Tables(uri), "SELECT count(*) FROM rebalances")
        assert rows[0][0] > 0


def test_a_warehouse_in_an_object_store_is_read_and_not_written(folder, s3):
    for path in folder.rglob("*"):
        if path.is_file():
            filesystem, key = open_filesystem(f"{s3}/{path.relative_to(folder)}")
            with filesystem.open_output_stream(key) as out:
                out.write(path.read_bytes())
    root, key = open_filesystem(s3)
    before = {found.path: found.size for found in root.get_file_info(fs.FileSelector(key, recursive=True))}
    question = "SELECT count(*) FROM rebalances"
    assert run_sql(Tables(s3), question) == run_sql(Tables(str(folder)), question)
    data = next(path for path in before if "/rebalances/" in path and path.endswith(".parquet"))
    for target in (f"{s3}/f.csv", f"s3://{data}", f"arrow://{s3}/f.csv", f"tables://{s3}/f.csv"):
        with pytest.raises(UsageError):
            copy = f"COPY (SELECT 42) TO '{target}' (FORMAT csv, USE_TMP_FILE false)"
            run_sql(Tables(s3), f"WITH x AS ({copy}) SELECT count(*) FROM rebalances")
    assert {found.path: found.size for found in root.get_file_info(fs.FileSelector(key, recursive=True))} == before


def test_a_table_whose_file_is_missing_names_the_file(scene):
    file = next(scene.warehouse.glob("rebalances/**/*.parquet"))
    file.unlink()
    with pytest.raises(CoordinatorReplayError, match=file.name):
        run_sql(Tables(str(scene.warehouse)), "SELECT count(*) FROM rebalances")


def test_allow_files_opens_them(scene):
    secret, copy = scene.root / "secret.csv", scene.root / "copy.csv"
    statement = f"COPY (SELECT * FROM read_csv('{secret}', header = false)) TO '{copy}'"
    run = CliRunner()
    refused = run.invoke(main, ["sql", statement, "--warehouse", str(scene.warehouse)])
    assert (refused.exit_code, copy.exists()) == (2, False)
    assert "--allow-files" in refused.output
    done = run.invoke(main, ["sql", statement, "--warehouse", str(scene.warehouse), "--allow-files"])
    assert done.exit_code == 0, done.output
    assert SECRET in copy.read_text()


def test_allow_files_still_reads_the_tables(scene):
    made = scene.root / "made.parquet"
    run_sql(Tables(str(scene.warehouse)), f"COPY (FROM rebalances) TO '{made}'", allow_files=True)
    question = f"SELECT count(*) = (SELECT count(*) FROM rebalances) FROM '{made}'"
    assert run_sql(Tables(str(scene.warehouse)), question, allow_files=True)[1] == [(True,)]


BIG = 1_000_000


def test_what_does_not_fit_into_memory_goes_to_files_without_names(scene):
    before = scene.on_disk()
    opened: list[str] = []
    with (
        Tables(str(scene.warehouse)).new_connection() as connection,
        sandbox.named_files(connection),
        pytest.MonkeyPatch.context() as patch,
    ):
        connection.execute("SET memory_limit = '60MB'; SET threads = 2")
        sandbox.shut(connection)
        whole = ScratchFiles.open

        def noted(self: ScratchFiles, path: str, mode: str = "rb") -> object:
            opened.append(path)
            return whole(self, path, mode)

        patch.setattr(ScratchFiles, "open", noted)
        texts = f"SELECT i, md5(i::VARCHAR) AS text FROM range({BIG}) AS r(i)"
        placed = f"SELECT i, text, row_number() OVER (ORDER BY text) AS place FROM ({texts})"
        [found] = connection.execute(f"SELECT count(*), sum(place), sum(i), max(text) FROM ({placed})").fetchall()
        assert found[:3] == (BIG, BIG * (BIG + 1) // 2, BIG * (BIG - 1) // 2)
        assert opened
        # Neither by the names that DuckDB gives them, nor by their folder's.
        for path in opened:
            with pytest.raises(duckdb.Error):
                connection.execute(f"SELECT content FROM read_blob('{path}/*')")
        assert scene.on_disk() == before
    assert scene.on_disk() == before


def test_threads_that_share_a_file_each_read_their_own_place(tmp_path):
    file = tmp_path / "numbers"
    file.write_bytes(b"".join(number.to_bytes(4, "big") for number in range(50_000)))
    wrong = []
    handle = ArrowFiles().open(f"arrow://{file}")

    def read(start: int) -> None:
        for number in range(start, 50_000, 8):
            handle.seek(number * 4)
            if (found := handle.read(4)) != number.to_bytes(4, "big"):
                wrong.append((number, found))

    threads = [threading.Thread(target=read, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handle.close()
    assert wrong == []


@pytest.mark.parametrize("mode", ["wb", "ab", "rb+", "wb+", "ab+"])
def test_a_file_of_a_table_opens_for_reading_alone(tmp_path, mode):
    file = tmp_path / "file"
    file.write_bytes(b"contents")
    files = TableFiles()
    [name] = files.name([str(file)])
    assert files.open(name).read(100) == b"contents"
    with pytest.raises(PermissionError):
        files.open(name, mode)
    for other in (str(file), f"tables://{file}", f"{name}/../file", f"{name} "):
        with pytest.raises(PermissionError):
            files.open(other)
    for change in (files.rm, files.rm_file, files.touch, lambda path: files.mv(path, "tables://x")):
        with pytest.raises((PermissionError, NotImplementedError)):
            change(name)
    assert file.read_bytes() == b"contents"


def allowed_versions() -> list[str]:
    """The requirements for the lowest and the highest DuckDB that the package may be installed with."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    [allowed] = [one for one in map(Requirement, project["project"]["dependencies"]) if one.name == "duckdb"]
    [lowest] = [limit.version for limit in allowed.specifier if limit.operator == ">="]
    return [f"duckdb=={lowest}", str(allowed)]


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 1], ids=["lowest", "highest"])
def test_so_it_is_with_every_duckdb_that_is_allowed(tmp_path, number):
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path)]
    subprocess.run([*install, allowed_versions()[number]], check=True)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    where = [sys.executable, "-c", "import duckdb; print(duckdb.__file__)"]
    found = subprocess.run(where, env=environment, check=True, capture_output=True, text=True).stdout
    assert found.startswith(str(tmp_path))
    tests = [sys.executable, "-m", "pytest", "-q", "-m", "not long", __file__]
    done = subprocess.run(tests, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
