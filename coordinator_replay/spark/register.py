"""Making a Spark session know the data source and the functions."""

from pyspark.sql import SparkSession

from coordinator_replay.spark.datasource import ConsumerOffsets
from coordinator_replay.spark.functions import register_functions


def register(spark: SparkSession) -> None:
    """Make a session know the data source ``consumer_offsets`` and this package's SQL functions.

    Python data sources and functions live in the session that registers them: call this once in a notebook, in
    ``pyspark`` or in a job. It also turns ``spark.sql.python.filterPushdown.enabled`` on, without which Spark refuses
    a Python data source that takes filters.

    Args:
        spark: the session. On a cluster this package must be installed on the executors, or be sent to them
            (``--py-files``).

    Example:
        >>> register(spark)  # doctest: +SKIP
        >>> spark.read.format("consumer_offsets").load("/dumps/broker-1").createOrReplaceTempView("log")
        ... # doctest: +SKIP
        >>> spark.sql("SELECT kind, count(*) FROM log GROUP BY kind").show()  # doctest: +SKIP
    """
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(ConsumerOffsets)
    register_functions(spark)
