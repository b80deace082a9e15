"""A session with Spark's own settings on this machine, like a user's session. Baselines are measured in it."""

import os
import sys
from typing import Any


def open_plain_session(app_name: str) -> Any:
    """Return a session with Delta. None of its settings is tuned for audits."""
    from pyspark.sql import SparkSession

    from coordinator_replay.pipeline.host.jars import delta, jars_of
    from coordinator_replay.pipeline.host.session import DELTA, RELIED_ON

    settings = {
        **DELTA,
        **RELIED_ON,
        "spark.jars": ",".join(map(str, jars_of(delta()))),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "3g",
        "spark.driver.host": "127.0.0.1",
    }
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name).master("local[*]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
