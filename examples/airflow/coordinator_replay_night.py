"""A night in Airflow 3: export and audit by ``spark-submit``, then findings, pages and metrics without a JVM.

Needs the providers ``apache-spark`` and ``standard``, the connection ``spark_default``, and coordinator-replay where
workers and Spark's driver run (here in ``/opt/coordinator-replay``). What stands in capitals is yours.
"""

from datetime import datetime, timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

HOME = "/opt/coordinator-replay"
BROKERS = "broker-1:9092"
DUMP = "/data/dump"
WAREHOUSE = "/data/audit"
CLUSTER = "prod"
PAGES = "/data/pages"
METRICS = "/var/lib/node_exporter/offsets.prom"
PUSH = f"rsync -a --delete {PAGES}/ web:/srv/offsets/"
# Its version is that of Spark; docs/cluster.md says more.
KAFKA_SOURCE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"

asking = {
    "env": {
        "PATH": f"{HOME}/bin:/usr/local/bin:/usr/bin:/bin",
        "COORDINATOR_REPLAY_WAREHOUSE": WAREHOUSE,
        "COORDINATOR_REPLAY_CLUSTER": CLUSTER,
    }
}
submitting = {
    "conn_id": "spark_default",
    "properties_file": f"{HOME}/share/coordinator-replay/conf/spark-defaults.conf",
    "env_vars": {"PYSPARK_PYTHON": f"{HOME}/bin/python"},
    "driver_memory": "4g",
}

with DAG(
    dag_id="coordinator_replay_night",
    schedule="30 1 * * *",
    start_date=datetime(2026, 1, 1),  # noqa: DTZ001 - Airflow gives it the time zone of its own settings
    catchup=False,
    # A second run would only be refused: one at a time works on a warehouse.
    max_active_runs=1,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=10)},
    doc_md=__doc__,
):
    export = SparkSubmitOperator(
        task_id="export",
        application=f"{HOME}/share/coordinator-replay/jobs/export.py",
        application_args=["--bootstrap-servers", BROKERS, "--out", DUMP],
        packages=KAFKA_SOURCE,
        **submitting,
    )
    audit = SparkSubmitOperator(
        task_id="audit",
        application=f"{HOME}/share/coordinator-replay/jobs/audit.py",
        application_args=[DUMP, "--warehouse", WAREHOUSE, "--cluster", CLUSTER, "--wait", "30m"],
        **submitting,
    )
    pages = BashOperator(task_id="pages", bash_command=f"coordinator-replay report --out {PAGES}/", **asking)
    metrics = BashOperator(task_id="metrics", bash_command=f"coordinator-replay metrics --out {METRICS}", **asking)
    push = BashOperator(task_id="push", bash_command=PUSH, **asking)
    # Fails, and so alerts, where there is a new error; a new attempt would find the same.
    findings = BashOperator(
        task_id="findings",
        bash_command=(
            "coordinator-replay findings --severity warning"
            ' && test -z "$(coordinator-replay findings --new --severity error --output json)"'
        ),
        retries=0,
        **asking,
    )

    export >> audit >> [pages, metrics, findings]
    pages >> push
