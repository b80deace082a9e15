"""Answers from the tables, without a JVM. deltalake reads the logs of Delta tables, and DuckDB reads their files."""
