"""What we read from, and add to, the log of a Delta table without a plan of Spark's.

Spark answers all of this too, in half a second a question on a warm machine and five on a cold one, and a run asks a
hundred. The format is Delta's transaction log protocol. Files are committed by us where a table lies on this machine's
disks and asks nothing of its writers that we do not know of; Delta's own code makes all other commits, and every tenth
of each table, with which it writes a checkpoint.
"""

import json
import os
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
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
_CHECKPOINT_EVERY = 10
"""The interval at which Delta writes checkpoints, unless a table's properties have another."""
_OTHER_COMMITS = ("delta.appendOnly", "delta.checkpoint", "delta.coordinatedCommits", "delta.enable", "delta.feature")
"""Beginnings of properties that change what a commit may or has to hold, or when a checkpoint is due."""


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


def _plain_table(path: str, version: int | None = None) -> DeltaTable | None:
    filesystem, folder = open_filesystem(path)
    # Other names are written in as many ways as there are readers of them.
    if not isinstance(filesystem, fs.LocalFileSystem) or not _SAFE_PATH.fullmatch(folder):
        return None
    try:
        table = DeltaTable(folder, version=version)
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


def held_files(path: str, version: int | None = None) -> list[HeldFile] | None:
    """The same files, with what Delta's log says of their columns; None as ``plain_files``.

    Args:
        path: the table.
        version: the version to look at; None for the newest.
    """
    table = _plain_table(path, version)
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


def _actions(path: str, version: int) -> list[dict[str, Any]]:
    """What a commit consists of."""
    filesystem, file = open_filesystem(f"{path}/_delta_log/{version:020}.json")
    with filesystem.open_input_stream(file) as stream:
        return [json.loads(line) for line in stream.read().decode("utf-8").splitlines()]


def actions_since(path: str, version: int) -> list[dict[str, Any]] | None:
    """What the commits after a version consist of, in order; None where one of them is gone."""
    newest = newest_version(path) or version
    try:
        return [action for later in range(version + 1, newest + 1) for action in _actions(path, later)]
    except FileNotFoundError:
        return None


def commit_info(path: str, version: int) -> dict[str, Any]:
    """What a commit says of itself: its operation, its metrics, the user's words."""
    told = (action["commitInfo"] for action in _actions(path, version) if "commitInfo" in action)
    return dict(next(told, {}))


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
    return _lines([*actions, {"metaData": metadata}])


def _put(log: Path, version: int, actions: str) -> bool:
    """Make a commit of a table on this machine's disks; whether nobody else has made that one."""
    written = log / f".{uuid4()}.tmp"
    written.write_text(actions, encoding="utf-8")
    try:
        # A link appears whole and fails where there is one: a commit is there once, or not at all.
        os.link(written, log / f"{version:020}.json")
    except FileExistsError:
        return False
    finally:
        written.unlink()
    return True


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
    _put(log, 0, _first_commit(table, schema, int(time.time() * 1000)))
    return True


def _lines(actions: Iterable[Mapping[str, Any]]) -> str:
    return "".join(f"{json.dumps(action)}\n" for action in actions)


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _added(file: DataFile, at_ms: int) -> dict[str, Any]:
    action = {"path": _name(file.path), "partitionValues": {}, "size": file.bytes, "modificationTime": at_ms}
    return {"add": {**action, "dataChange": True, "stats": file.stats}}


def _removed(path: str, size: int, at_ms: int) -> dict[str, Any]:
    action = {"path": path, "deletionTimestamp": at_ms, "dataChange": True, "extendedFileMetadata": True}
    return {"remove": {**action, "partitionValues": {}, "size": size}}


def _changed_meanwhile(path: str) -> WarehouseError:
    return WarehouseError(f"{path}: changed by somebody else during the run; run it again")


def can_commit(spark: SparkSession) -> bool:
    """Whether Delta's own classes are in reach; through Spark Connect they are not."""
    try:
        return spark._jvm is not None
    except PySparkAttributeError:
        return False


def _asks_nothing_more(table: DeltaTable) -> bool:
    """Whether a table asks of its writers only what ours do anyhow, and checkpoints are due when we think."""
    protocol, properties = table.protocol(), table.metadata().configuration
    features = set(protocol.writer_features or ())
    is_known = protocol.min_writer_version <= _PLAIN["minWriterVersion"] or (
        protocol.min_writer_version == _CLUSTERED["minWriterVersion"] and features <= set(_FEATURES)
    )
    return is_known and not any(name.startswith(_OTHER_COMMITS) for name in properties)


def _commit_plainly(path: str, files: Sequence[DataFile], removed: Collection[str]) -> int | None:
    """Commit files where that is a matter of one more file in the log; None where it is Delta's."""
    table = _plain_table(path)
    if table is None or not _asks_nothing_more(table):
        return None
    version, at_ms = table.version() + 1, int(time.time() * 1000)
    if version % _CHECKPOINT_EVERY == 0:
        return None
    sizes = {one["path"]: one["size_bytes"] for one in pa.table(table.get_add_actions()).to_pylist()} if removed else {}
    names = {_name(one) for one in removed}
    if not names <= set(sizes):
        raise _changed_meanwhile(path)
    info = {"timestamp": at_ms, "operation": "Manual Update", "operationParameters": {}}
    actions = [
        {"commitInfo": {**info, "isBlindAppend": not removed}},
        *(_removed(name, sizes[name], at_ms) for name in sorted(names)),
        *(_added(file, at_ms) for file in files),
    ]
    _, log = open_filesystem(f"{path}/_delta_log")
    if _put(Path(log), version, _lines(actions)):
        return version
    if removed:
        raise _changed_meanwhile(path)
    # Nothing was read that the other commit may have changed: there is only another number to take.
    return _commit_plainly(path, files, removed)


def commit_files(
    spark: SparkSession, path: str, files: Sequence[DataFile], removed: Collection[str] = frozenset()
) -> int:
    """Let files that lie in a table's folder be part of it, in one commit; returns the version.

    Args:
        spark: a session on a JVM, see ``can_commit``.
        path: the table.
        files: written into its folder.
        removed: paths of files that are no part of it any more; with ``files``, not none.

    Raises:
        WarehouseError: a file that was to be removed is no part of the table any more.
    """
    committed = _commit_plainly(path, files, removed)
    return _commit_by_delta(spark, path, files, removed) if committed is None else committed


def _commit_by_delta(spark: SparkSession, path: str, files: Sequence[DataFile], removed: Collection[str]) -> int:
    jvm: Any = spark._jvm
    delta = jvm.org.apache.spark.sql.delta
    java = jvm.scala.jdk.javaapi.CollectionConverters
    # Delta reads a checkpoint with the session of the thread, and a pool's thread begins with none.
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
    actions = jvm.java.util.ArrayList()
    at_ms = int(time.time() * 1000)
    for file in files:
        actions.add(delta.actions.Action.fromJson(json.dumps(_added(file, at_ms))))
    transaction = delta.DeltaLog.forTable(spark._jsparkSession, path).startTransaction()
    if removed:
        names = {_name(one) for one in removed}
        # What is read here, Delta guards against others that change it meanwhile.
        for held in java.asJava(transaction.filterFiles()):
            if held.path() in names:
                actions.add(held.remove())
                names.discard(held.path())
        if names:
            raise _changed_meanwhile(path)
    by_hand = getattr(delta, "DeltaOperations$ManualUpdate$").__getattr__("MODULE$")
    return int(transaction.commit(java.asScala(actions).toSeq(), by_hand))
