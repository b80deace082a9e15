"""The audit as the script of a Glue job. Glue adds parameters of its own to the command line.

So the job names what the audit needs: ``--dump``, ``--warehouse`` and ``--kafka_cluster``. Not tried on Glue.
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
    # Otherwise click ends the process itself.
    standalone_mode=False,
)
