"""Every statement of DuckDB that may touch files, in every place where a statement may stand.

``{here}`` in a statement stands for a place, ``{secret}`` for a file with a secret in it, ``{data}`` for a data file
of the warehouse.
"""

from collections.abc import Iterator

import duckdb

READING = [
    "FROM '{secret}'",
    "FROM read_csv('{secret}')",
    "FROM read_text('{secret}')",
    "FROM read_text('{here}/*')",
    "FROM read_text('{here}/nothing/../secret.csv')",
    "FROM read_blob(['{secret}'])",
    "FROM read_json('{secret}')",
    "FROM read_parquet('{data}')",
    "FROM parquet_metadata('{data}')",
    "FROM sniff_csv('{secret}')",
    "FROM glob('{here}/*')",
    "FROM glob('{here}/**')",
    "SELECT content FROM read_text(current_setting('temp_directory') || '/*')",
    "SELECT content FROM read_text('tables://{secret}')",
    "SELECT content FROM read_text('tables://../{secret}')",
    "SELECT content FROM read_text('arrow://{secret}')",
    "SELECT content FROM read_text('file://{secret}')",
    "SELECT content FROM read_text('scratch://spilled/duckdb_temp_1')",
    "FROM duckdb_extensions()",
]
"""Statements that read, and could stand inside of others."""

WRITING = [
    "COPY (SELECT 42 AS a) TO '{here}/new.csv'",
    "COPY (SELECT 42 AS a) TO '{here}/new.csv' (FORMAT csv, USE_TMP_FILE false)",
    "COPY (SELECT 42 AS a) TO '{here}/new.parquet' (FORMAT parquet)",
    "COPY (SELECT 42 AS a) TO '{here}/new.json' (FORMAT json, USE_TMP_FILE false)",
    "COPY (SELECT 42 AS a, 1 AS b) TO '{here}/new' (FORMAT csv, PARTITION_BY (b), OVERWRITE_OR_IGNORE)",
    "COPY (SELECT 42 AS a, 1 AS b) TO '{here}' (FORMAT csv, PARTITION_BY (b), OVERWRITE)",
    "COPY (SELECT 42 AS a) TO '{here}/new' (FORMAT csv, PER_THREAD_OUTPUT true)",
    "COPY (SELECT 42 AS a) TO '{secret}' (FORMAT csv, USE_TMP_FILE false)",
    "COPY (SELECT 42 AS a) TO '{data}' (FORMAT parquet, USE_TMP_FILE false)",
    "COPY (SELECT 42 AS a) TO (current_setting('temp_directory') || '/new.csv')",
    "COPY (SELECT 42 AS a) TO 'tables://{here}/new.csv' (FORMAT csv, USE_TMP_FILE false)",
    "COPY (SELECT 42 AS a) TO 'tables://0/new.csv'",
    "COPY (SELECT 42 AS a) TO 'arrow://{here}/new.csv' (FORMAT csv, USE_TMP_FILE false)",
    "COPY (SELECT 42 AS a) TO 'file://{here}/new.csv' (FORMAT csv, USE_TMP_FILE false)",
    "COPY (SELECT 42 AS a) TO '.tmp/new.csv' (FORMAT csv, USE_TMP_FILE false)",
    "COPY (SELECT 42 AS a) TO 'new.csv' (FORMAT csv, USE_TMP_FILE false)",
    "COPY (FROM read_text('{secret}')) TO 'scratch://spilled/new.csv'",
    "COPY held FROM '{secret}'",
    "COPY FROM DATABASE memory TO other",
    "EXPORT DATABASE '{here}/new'",
    "IMPORT DATABASE '{here}'",
    "ATTACH '{here}/new.db' AS other",
    "ATTACH '{here}/new.db' AS other (READ_ONLY)",
    "ATTACH 'tables://0/new.db' AS other",
    "INSTALL httpfs",
    "FORCE INSTALL httpfs FROM '{here}'",
    "LOAD httpfs",
    "LOAD '{here}/new.duckdb_extension'",
    "UPDATE EXTENSIONS",
    "CREATE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'x')",
    "SET enable_external_access = true",
    "SET allowed_directories = ['/']",
    "SET allowed_paths = ['{secret}']",
    "SET temp_directory = '{here}'",
    "SET secret_directory = '{here}'",
    "SET extension_directory = '{here}'",
    "SET log_query_path = '{here}/new.log'",
    "RESET lock_configuration",
    "PRAGMA profile_output = '{here}/new.json'",
    "PRAGMA enable_profiling = 'json'",
    "PRAGMA import_database('{here}')",
    "CALL enable_logging(storage = 'file', storage_path = '{here}/new')",
    "FROM enable_logging(storage = 'file', storage_path = '{here}/new')",
    "FROM enable_profiling(format = 'json', save_location = '{here}/new.json')",
]
"""Statements that change files, or what an engine may do with files. Each is refused."""

HARMLESS = [
    "SELECT 1",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "DEALLOCATE p",
    "CREATE TABLE made AS SELECT 1 AS a",
    "ALTER TABLE made ADD COLUMN b INTEGER",
    "INSERT INTO made VALUES (1, 2)",
    "UPDATE made SET a = 2",
    "MERGE INTO made USING (SELECT 2 AS a) AS other ON made.a = other.a WHEN MATCHED THEN DELETE",
    "DELETE FROM made",
    "ANALYZE",
    "VACUUM",
    "CHECKPOINT",
    "FORCE CHECKPOINT",
    "CREATE MACRO twice(a) AS a * 2",
    "DROP TABLE made",
    "SET VARIABLE a = 1",
    "PIVOT (SELECT 1 AS a) ON a USING count(*)",
    "EXPLAIN SELECT 1",
    "ATTACH ':memory:' AS another",
    "DETACH another",
    "CREATE SECRET s (TYPE http, BEARER_TOKEN 'x')",
    "BEGIN",
    "COMMIT",
    "SHOW TABLES",
    "FROM duckdb_secrets()",
]
"""Statements of the remaining kinds. They touch the engine's memory alone."""

PLACES = [
    ["{it}"],
    ["WITH x AS ({it}) SELECT 'harmless' AS answer"],
    ["WITH x AS MATERIALIZED ({it}) FROM x"],
    ["WITH a AS (WITH b AS ({it}) FROM b) FROM a"],
    ["WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r, ({it}) WHERE i < 2) FROM r"],
    ["WITH x AS ({it}) SELECT 1 UNION ALL SELECT count(*) FROM x"],
    ["FROM ({it})"],
    ["SELECT ({it})"],
    ["SELECT 1 WHERE EXISTS ({it})"],
    ["FROM range(2) AS r(i), LATERAL ({it})"],
    ["FROM range(2) AS r(i), LATERAL (WITH x AS ({it}) FROM x)"],
    ["EXPLAIN {it}"],
    ["EXPLAIN ANALYZE {it}"],
    ["EXPLAIN ANALYZE WITH x AS ({it}) SELECT 1"],
    ["/* a */ EXPLAIN /* b */ ANALYZE /* c */ {it}"],
    ["PREPARE p AS {it}", "EXECUTE p"],
    ["PREPARE p AS WITH x AS ({it}) SELECT 1", "EXECUTE p"],
    ["CREATE OR REPLACE MACRO m() AS TABLE {it}", "FROM m()"],
    ["CREATE OR REPLACE MACRO m() AS TABLE WITH x AS ({it}) FROM x", "FROM m()"],
    ["CREATE OR REPLACE MACRO n() AS ({it})", "SELECT n()"],
    ["CREATE OR REPLACE VIEW v AS {it}", "FROM v"],
    ["CREATE OR REPLACE VIEW v AS WITH x AS ({it}) FROM x", "FROM v"],
    ["CREATE OR REPLACE TABLE made AS {it}"],
    ["CREATE OR REPLACE TYPE chosen AS ENUM (SELECT 'a' FROM ({it}))"],
    ["SET VARIABLE found = ({it})", "SELECT getvariable('found')"],
    ["INSERT INTO held {it}"],
    ["PIVOT ({it}) ON a USING count(*)"],
    ["PIVOT (WITH x AS ({it}) SELECT 1 AS a) ON a USING count(*)"],
    ["UNPIVOT ({it}) ON a INTO NAME b VALUE c"],
    ["SUMMARIZE {it}"],
    ["DESCRIBE {it}"],
    ["FROM query('{quoted}')"],
    ["FROM query('WITH x AS ({quoted}) SELECT 1')"],
    ["BEGIN", "{it}", "COMMIT"],
]
"""Texts around a statement, each a row of statements for the same engine."""


def in_places(statement: str) -> Iterator[list[str]]:
    """Yield a statement in every place."""
    quoted = statement.replace("'", "''")
    for texts in PLACES:
        yield [text.replace("{it}", statement).replace("{quoted}", quoted) for text in texts]


_UNWRITTEN = {"INVALID", "LOGICAL_PLAN", "RELATION", "CREATE_FUNC", "EXTENSION"}
"""Kinds that have no text of their own: programs make them, or the grammar of extensions does."""

_UNDER_OTHER_NAMES = {"ANALYZE", "VARIABLE_SET", "COPY_DATABASE"}
"""Kinds whose texts are tried, and which DuckDB 2 parses as others: as VACUUM, SET and MULTI."""


def untried_kinds() -> set[str]:
    """Return the kinds of statements that this DuckDB knows and no statement here is of."""
    tried = set()
    with duckdb.connect() as connection:
        for statement in [*READING, *WRITING, *HARMLESS]:
            for parsed in connection.extract_statements(statement):
                try:
                    tried.add(parsed.type.name)
                except ValueError:
                    # The package for Python does not know every kind that the engine has.
                    continue
    return set(duckdb.StatementType.__members__) - tried - _UNWRITTEN - _UNDER_OTHER_NAMES
