"""Delta tables through the ``deltalake`` library: their layout, files, snapshots and commits, on every file system.

Workers write Parquet files and return facts of each file (``writer``). The driver commits the files to their tables
(``warehouse``). Tasks read files through ``scan``, statements of DuckDB through ``duckdb_files``. Nothing here needs
Spark.
"""
