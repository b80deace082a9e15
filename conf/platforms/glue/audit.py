"""The audit as the script of a Glue job, whose own parameters stand among the words of the command line.

Glue's parameters ``--dump``, ``--warehouse`` and ``--kafka_cluster`` are the audit's. Not tried on Glue.
"""

import sys

from awsglue.utils import getResolvedOptions
from pyspark.sql import SparkSession

from coordinator_replay.cli.compute import audit

given = getResolvedOptions(sys.argv, ["dump", "warehouse", "kafka_cluster"])
SparkSession.builder.getOrCreate()
audit(
    [given["dump"], "--warehouse", given["warehouse"], "--cluster", given["kafka_cluster"]],
    prog_name="audit.py",
    # Otherwise it ends the process itself.
    standalone_mode=False,
)
