"""Delta tables through the ``deltalake`` library: their layout, files, snapshots and commits, on every file system.

Workers write Parquet files and hand back their names (``writer``), the driver commits names (``warehouse``), and
everybody reads through one scanner (``scan``). Nothing here knows Spark.
"""
