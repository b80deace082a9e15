"""``decode_record(key, value)`` as a SQL function, for ad hoc questions over any exported copy of the topic.

A Python function lives in the session that registers it: call ``register`` once in a notebook, in ``pyspark`` or in a
job, and ``spark.sql`` knows it from then on.
"""

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # there since 4.1, not in its stub
from pyspark.sql.pandas.types import from_arrow_schema

from coordinator_replay.records.decoder import GROUP_COLUMNS, QUARANTINE_COLUMNS, decode_records

_ERROR = [QUARANTINE_COLUMNS.field(name) for name in ("error_class", "error_message")]
RESULT = pa.schema([*GROUP_COLUMNS, *_ERROR])
"""Fields of the struct that ``decode_record`` returns; on damage all but the last two are null."""


def decode_columns(keys: pa.Array, values: pa.Array) -> pa.Array:
    """Decode a column of keys and one of values, offset commits included, to structs of ``RESULT``."""
    n = len(keys)
    nothing = {name: pa.nulls(n, pa.string()) for name in ("control_type", "error_class", "error_message")}
    batch = pa.RecordBatch.from_pydict({"key": keys, "value": values, **nothing})
    decoded = decode_records(batch, commits_as_json=True)
    good = [*decoded.groups.columns, *(pa.nulls(decoded.groups.num_rows, field.type) for field in _ERROR)]
    bad_rows = decoded.quarantine.num_rows
    bad = [pa.nulls(bad_rows, field.type) for field in GROUP_COLUMNS]
    bad += [decoded.quarantine.column(field.name) for field in _ERROR]
    whole = pa.concat_tables([pa.table(good, schema=RESULT), pa.table(bad, schema=RESULT)])
    order = np.argsort(np.concatenate([decoded.group_rows, decoded.quarantine_rows]))
    return whole.take(pa.array(order)).combine_chunks().to_struct_array().combine_chunks()


def register(spark: SparkSession) -> None:
    """Make ``decode_record(key, value)`` known to a session's SQL."""

    def decode_record(keys: pa.Array, values: pa.Array) -> pa.Array:
        return decode_columns(keys, values)

    returned = from_arrow_schema(RESULT, prefer_timestamp_ntz=False)
    spark.udf.register("decode_record", arrow_udf(decode_record, returnType=returned))
