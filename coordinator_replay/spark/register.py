"""Registration of the data source and the functions in a Spark session."""

import logging

from pyspark.sql import SparkSession

from coordinator_replay.errors import PrerequisiteError
from coordinator_replay.pipeline.host.spark_versions import Feature, check_has
from coordinator_replay.spark.functions import register_functions

_LOG = logging.getLogger(__name__)


def register(spark: SparkSession) -> None:
    """Register the data source ``consumer_offsets`` and this package's SQL functions in a session.

    The data source needs Spark 4.0 or newer, the functions 4.1. On 4.0 a warning says that the functions are missing.

    Python data sources and functions live in the session that registers them. So call this function once in each
    notebook, ``pyspark`` shell or job. This function also turns ``spark.sql.python.filterPushdown.enabled`` on: without
    this setting, Spark refuses a Python data source that takes filters.

    Args:
        spark: the session. On a cluster this package must be installed on the executors, or be sent to them
            (``--py-files``).

    Raises:
        PrerequisiteError: this Spark is older than 4.0.

    Example:
        >>> register(spark)  # doctest: +SKIP
        >>> spark.read.format("consumer_offsets").load("/dumps/broker-1").createOrReplaceTempView("log")
        ... # doctest: +SKIP
        >>> spark.sql("SELECT kind, count(*) FROM log GROUP BY kind").show()  # doctest: +SKIP
    """
    check_has(Feature.DATA_SOURCE)
    from coordinator_replay.spark.datasource import ConsumerOffsets

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(ConsumerOffsets)
    try:
        register_functions(spark)
    except PrerequisiteError as problem:
        _LOG.warning("%s", problem)
