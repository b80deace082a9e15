"""Spark: functions from DataFrame to DataFrame around the rooms that know no Spark, and the run itself.

The only room that imports pyspark. Only ``audit``, ``write``, ``ledger`` and ``maintain`` start jobs; everything else
takes and returns DataFrames.
"""
