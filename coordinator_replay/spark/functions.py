"""SQL functions for copies of the topic that other tools made: Kafka Connect, MirrorMaker, a data lake.

The functions are columnar: they take and return Arrow arrays.
"""

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from coordinator_replay.pipeline.host.spark_versions import Feature, check_has
from coordinator_replay.records.consumer_protocol import PROTOCOL, open_protocol_blobs
from coordinator_replay.records.decoded_rows import DECODED_KEY, DECODED_ROW, decode_columns, decode_keys


def register_functions(spark: SparkSession) -> None:
    """Make ``decode_record``, ``decode_key`` and ``consumer_protocol`` known to a session's SQL.

    Raises:
        PrerequisiteError: this Spark is older than 4.1, which brought functions over Arrow arrays.
    """
    check_has(Feature.SQL_FUNCTIONS)
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # not in its stub

    # Spark reads the hints of these functions at run time, and sends them to the workers by value.
    def decode_record(keys: pa.Array, values: pa.Array) -> pa.Array:
        return decode_columns(keys, values).to_struct_array()

    def decode_key(keys: pa.Array) -> pa.Array:
        return decode_keys(keys).to_struct_array()

    def consumer_protocol(blobs: pa.Array) -> pa.Array:
        return open_protocol_blobs(blobs)

    functions = {
        decode_record: from_arrow_schema(DECODED_ROW, prefer_timestamp_ntz=False),
        decode_key: from_arrow_schema(DECODED_KEY, prefer_timestamp_ntz=False),
        consumer_protocol: from_arrow_type(PROTOCOL),
    }
    for function, returned in functions.items():
        spark.udf.register(function.__name__, arrow_udf(function, returnType=returned))
