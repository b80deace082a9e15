"""A statement reaches the tables, and nothing else of this machine."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator_replay.cli.main import main
from coordinator_replay.errors import UsageError
from coordinator_replay.query.sql import run_sql
from coordinator_replay.query.tables import Tables

HARMFUL = [
    "FROM read_text('{secret}')",
    "FROM '{secret}'",
    "FROM read_csv('{secret}')",
    "FROM read_blob('{inside}/../secret.csv')",
    "FROM glob('{folder}/*')",
    "FROM parquet_metadata('{secret}')",
    "FROM read_csv('https://127.0.0.1:1/x.csv')",
    "COPY (SELECT 1) TO '{folder}/written.csv'",
    "COPY (SELECT 1) TO '{inside}/written.csv'",
    "COPY (PIVOT findings ON severity) TO '{inside}/written.csv'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{inside}/written.csv'",
    "EXPLAIN (FORMAT JSON) COPY (SELECT 1) TO '{inside}/written.csv'",
    "/* a */ EXPLAIN /* b */ ANALYZE /* c */ COPY (SELECT 1) TO '{inside}/written.csv'",
    "SELECT 1; COPY (SELECT 1) TO '{inside}/written.csv'",
    "PREPARE p AS COPY (SELECT 1) TO '{inside}/written.csv'; EXECUTE p",
    "FROM query('COPY (SELECT 1) TO ''{inside}/written.csv''')",
    "CREATE MACRO m() AS TABLE FROM read_text('{secret}'); FROM m()",
    "CREATE TABLE t AS FROM read_text('{secret}')",
    "EXPORT DATABASE '{inside}/written.csv'",
    "ATTACH '{inside}/written.csv' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true; FROM read_text('{secret}')",
    "SET allowed_directories = ['/']; FROM read_text('{secret}')",
    "PRAGMA import_database('{inside}')",
    "CALL enable_logging(storage = 'file', storage_path = '{inside}/written.csv')",
    "PRAGMA profile_output = '{inside}/written.csv'",
    "FROM words",
]


@pytest.fixture
def place(tmp_path, folder) -> Path:
    shutil.copytree(folder, tmp_path / "inside")
    (tmp_path / "secret.csv").write_text("the secret\n")
    return tmp_path


@pytest.mark.parametrize("statement", HARMFUL)
def test_no_statement_reads_or_writes_a_file(place, statement):
    before = sorted(place.rglob("*"))
    filled = statement.format(secret=place / "secret.csv", inside=place / "inside", folder=place)
    with pytest.raises(UsageError) as refused:
        run_sql(Tables(str(place / "inside")), filled)
    assert "\n" not in str(refused.value).strip() or "LINE" in str(refused.value)
    assert sorted(place.rglob("*")) == before


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
    ],
)
def test_questions_about_the_tables_are_answered(place, statement):
    names, rows = run_sql(Tables(str(place / "inside")), statement)
    assert names
    assert rows


@pytest.mark.parametrize("name", ["in[side]", "with blank", "it's"])
def test_so_they_are_in_folders_of_any_name(place, name):
    (place / "inside").rename(place / name)
    _, rows = run_sql(Tables(str(place / name)), "SELECT count(*) FROM rebalances")
    assert rows[0][0] > 0


def test_allow_files_opens_them(place):
    statement = f"COPY (SELECT * FROM read_csv('{place / 'secret.csv'}', header = false)) TO '{place / 'copy.csv'}'"
    run = CliRunner()
    refused = run.invoke(main, ["sql", statement, "--warehouse", str(place / "inside")])
    assert (refused.exit_code, (place / "copy.csv").exists()) == (2, False)
    assert "--allow-files" in refused.output
    done = run.invoke(main, ["sql", statement, "--warehouse", str(place / "inside"), "--allow-files"])
    assert done.exit_code == 0, done.output
    assert "the secret" in (place / "copy.csv").read_text()
