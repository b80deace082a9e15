"""What we read from, and add to, the log of a Delta table without a plan of Spark's.

Spark answers all of this too, in half a second a question on a warm machine and five on a cold one, and a run asks a
hundred. The format is Delta's transaction log protocol; all commits but the first of a table are still made by Delta's
own code, which sees to conflicts, checkpoints and object stores.
"""

import json
import os
import re
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import fs
from pyspark.errors import PySparkAttributeError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from coordinator_replay.errors import WarehouseError
from coordinator_replay.log.dump import open_filesystem
from coordinator_replay.pipeline.data_files import DataFile
from coordinator_replay.tables.definition import Table
from coordinator_replay.tables.migrations import SCHEMA_VERSION, SCHEMA_VERSION_PROPERTY

_COMMIT = re.compile(r"\d{20}\.json")
_SAFE_PATH = re.compile(r"[A-Za-z0-9_./-]+")
_CLUSTERED = {"minReaderVersion": 1, "minWriterVersion": 7}
_FEATURES = ["domainMetadata", "clustering", "invariants", "appendOnly"]
_PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}


def first_properties(table: Table) -> dict[str, str]:
    """The properties that a table of the contract begins with."""
    return {
        SCHEMA_VERSION_PROPERTY: str(SCHEMA_VERSION),
        "delta.dataSkippingStatsColumns": ",".join(table.bounded),
    }


def newest_version(path: str) -> int | None:
    """The number of a table's newest commit; None where there is no table."""
    filesystem, folder = open_filesystem(f"{path}/_delta_log")
    names = (info.base_name for info in filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True)))
    return max((int(name.removesuffix(".json")) for name in names if _COMMIT.fullmatch(name)), default=None)


class HeldFile(NamedTuple):
    """A file that a table consists of.

    Attributes:
        path: where it lies.
        lowest: the least value of each bounded column, as far as it is known.
        highest: the largest.
        nulls: how many rows have none.
        rows: how many it has, as far as that is told.
    """

    path: str
    lowest: Mapping[str, Any]
    highest: Mapping[str, Any]
    nulls: Mapping[str, int]
    rows: int | None


def _plain_table(path: str) -> DeltaTable | None:
    filesystem, folder = open_filesystem(path)
    # Other names are written in as many ways as there are readers of them.
    if not isinstance(filesystem, fs.LocalFileSystem) or not _SAFE_PATH.fullmatch(folder):
        return None
    try:
        table = DeltaTable(folder)
    except DeltaError:
        # What is wrong with it, Delta itself says best.
        return None
    is_plain = table.protocol().min_reader_version == _PLAIN["minReaderVersion"]
    return table if is_plain and not table.metadata().partition_columns else None


def plain_files(path: str) -> list[str] | None:
    """The files that a table consists of now, where they alone are the table.

    Args:
        path: the table.

    Returns:
        their paths; None for a table that is not on this machine's disks under a plain name, can't be read, or carries
        a feature that only Delta's own reader knows (deletion vectors, renamed columns, partitions).
    """
    table = _plain_table(path)
    return None if table is None else table.file_uris()


def held_files(path: str) -> list[HeldFile] | None:
    """The same files, with what Delta's log says of their columns; None as ``plain_files``."""
    table = _plain_table(path)
    if table is None:
        return None
    folder = path.removeprefix("file://").rstrip("/")
    return [
        HeldFile(
            f"{folder}/{one['path']}",
            one.get("min") or {},
            one.get("max") or {},
            one.get("null_count") or {},
            one.get("num_records"),
        )
        for one in pa.table(table.get_add_actions()).to_pylist()
    ]


def commit_info(path: str, version: int) -> dict[str, Any]:
    """What a commit says of itself: its operation, its metrics, the user's words."""
    filesystem, file = open_filesystem(f"{path}/_delta_log/{version:020}.json")
    with filesystem.open_input_stream(file) as stream:
        for line in stream.read().decode("utf-8").splitlines():
            action = json.loads(line)
            if "commitInfo" in action:
                return dict(action["commitInfo"])
    return {}


def _first_commit(table: Table, schema: StructType, at_ms: int) -> str:
    """The commit that makes a table."""
    metadata = {
        "id": str(uuid4()),
        "description": table.about,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema.json(),
        "partitionColumns": [],
        "configuration": first_properties(table),
        "createdTime": at_ms,
    }
    info = {"timestamp": at_ms, "operation": "CREATE TABLE", "operationParameters": {}, "isBlindAppend": True}
    actions: list[dict[str, Any]] = [{"commitInfo": info}]
    if table.clustering:
        columns = {"clusteringColumns": [[name] for name in table.clustering], "domainName": "delta.clustering"}
        domain = {"domain": "delta.clustering", "configuration": json.dumps(columns), "removed": False}
        actions += [{"protocol": {**_CLUSTERED, "writerFeatures": _FEATURES}}, {"domainMetadata": domain}]
    else:
        actions += [{"protocol": _PLAIN}]
    actions += [{"metaData": metadata}]
    return "".join(f"{json.dumps(action)}\n" for action in actions)


def make_table(path: str, table: Table, schema: StructType) -> bool:
    """Make an empty table on this machine's disks, unless somebody else just did.

    Args:
        path: where.
        table: its definition.
        schema: its columns, with comments, as Spark has them.

    Returns:
        Whether the path is on this machine's disks; nothing was done if not, since only Delta knows how each object
        store keeps two writers from taking the same number.
    """
    filesystem, folder = open_filesystem(f"{path}/_delta_log")
    if not isinstance(filesystem, fs.LocalFileSystem):
        return False
    log = Path(folder)
    log.mkdir(parents=True, exist_ok=True)
    written = log / f".{uuid4()}.tmp"
    written.write_text(_first_commit(table, schema, int(time.time() * 1000)), encoding="utf-8")
    try:
        # A link appears whole and fails where there is one: a commit is there once, or not at all.
        os.link(written, log / f"{0:020}.json")
    except FileExistsError:
        pass
    finally:
        written.unlink()
    return True


def _add(file: DataFile) -> str:
    action = {
        "path": file.path.rsplit("/", 1)[-1],
        "partitionValues": {},
        "size": file.bytes,
        "modificationTime": int(time.time() * 1000),
        "dataChange": True,
        "stats": file.stats,
    }
    return json.dumps({"add": action})


def can_commit(spark: SparkSession) -> bool:
    """Whether Delta's own classes are in reach; through Spark Connect they are not."""
    try:
        return spark._jvm is not None
    except PySparkAttributeError:
        return False


def commit_files(
    spark: SparkSession, path: str, files: Iterable[DataFile], removed: Collection[str] = frozenset()
) -> int:
    """Let files that lie in a table's folder be part of it, in one commit of Delta's own; returns the version.

    Args:
        spark: a session on a JVM, see ``can_commit``.
        path: the table.
        files: written into its folder.
        removed: paths of files that are no part of it any more; with ``files``, not none.
    """
    jvm: Any = spark._jvm
    delta = jvm.org.apache.spark.sql.delta
    java = jvm.scala.jdk.javaapi.CollectionConverters
    actions = jvm.java.util.ArrayList()
    for file in files:
        actions.add(delta.actions.Action.fromJson(_add(file)))
    transaction = delta.DeltaLog.forTable(spark._jsparkSession, path).startTransaction()
    if removed:
        names = {one.rsplit("/", 1)[-1] for one in removed}
        # What is read here, Delta guards against others that change it meanwhile.
        for held in java.asJava(transaction.filterFiles()):
            if held.path() in names:
                actions.add(held.remove())
                names.discard(held.path())
        if names:
            raise WarehouseError(f"{path}: changed by somebody else during the run; run it again")
    by_hand = getattr(delta, "DeltaOperations$ManualUpdate$").__getattr__("MODULE$")
    return int(transaction.commit(java.asScala(actions).toSeq(), by_hand))
