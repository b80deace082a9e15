"""The folder of an exported dump.

It has a subfolder for each batch of records, and a file with the topic id. ``ExportedDump.merge_hours`` merges the
subfolders of an hour into one.
"""

import json
from datetime import UTC, datetime, timedelta

from pyarrow import fs
from pyspark.sql import SparkSession

from coordinator_replay.errors import InputError
from coordinator_replay.filesystem import make_folder, open_filesystem
from coordinator_replay.log.exports import DONE, ExportFolder, superseded

CHECKPOINT = ".checkpoint"
"""The folder in a dump with the checkpoint of Spark's stream, where the next export continues."""

TOPIC_FILE = ".topic.json"
"""The file in a dump with the id of the topic."""

REMOVED_AFTER = timedelta(hours=1)
"""Time for which folders stay after they were merged: an audit that began before the merge may still read them."""

_FILE_BYTES = 128 * 1024 * 1024
"""Approximate size of a merged file."""

_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The topic id that brokers without topic ids give."""


class ExportedDump:
    """The folder that all exports of a cluster share.

    Args:
        uri: a path or URI.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self._filesystem, self._path = open_filesystem(self.uri)

    @property
    def checkpoint(self) -> str:
        """Return the folder of Spark's checkpoint."""
        return f"{self.uri}/{CHECKPOINT}"

    @property
    def stream(self) -> str | None:
        """Return Spark's id of the stream that numbers the batches.

        Return None before the first batch. A dump whose export was started again from scratch has another id.
        """
        return self._read("id", f"{CHECKPOINT}/metadata")

    def uri_of(self, folder: ExportFolder) -> str:
        """Return the URI of an export's folder."""
        return f"{self.uri}/{folder.name}"

    def folders(self) -> dict[ExportFolder, bool]:
        """Return the folders of exports, and whether each is complete."""
        listed = self._filesystem.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        folders = [ExportFolder.parse(info.base_name) for info in listed if info.type == fs.FileType.Directory]
        return {
            folder: self._is_complete(folder) for folder in sorted(folder for folder in folders if folder is not None)
        }

    def place(self, number: int, now: datetime) -> tuple[ExportFolder, bool]:
        """Return the folder of a batch, and whether the folder has the whole batch already.

        A batch that is repeated because its export was killed goes to the same folder as before. If the batch was
        merged with others, return the merged folder.

        Args:
            number: number of the batch.
            now: the current time. The name of a new folder begins with its hour.
        """
        there = [(folder, done) for folder, done in self.folders().items() if folder.first <= number <= folder.last]
        complete = [folder for folder, done in there if done]
        if complete:
            return complete[0], True
        begun = [folder for folder, _ in there if folder.first == folder.last]
        return (begun[0] if begun else ExportFolder(number, number, f"{now.astimezone(UTC):%Y%m%dT%H}")), False

    def check_checkpoint(self) -> None:
        """Check that the dump has a checkpoint if the dump has exports.

        Raises:
            InputError: there are exports, but no checkpoint.
        """
        checkpoint = self._filesystem.get_file_info(f"{self._path}/{CHECKPOINT}")
        if checkpoint.type == fs.FileType.NotFound and self.folders():
            raise InputError(
                f"{self.uri}: has exports, but not the folder {CHECKPOINT}, which says where the next one goes on: "
                "export into another folder, and audit both"
            )

    def check_topic(self, topic_id: str) -> None:
        """Check that an export comes from the topic of earlier exports.

        The first export stores the topic id. If the brokers have no topic ids, check nothing.

        Args:
            topic_id: the topic's id in the cluster.

        Raises:
            InputError: the export comes from another topic.
        """
        if topic_id == _NO_ID:
            return
        before = self._read("topic_id", TOPIC_FILE)
        if before is None:
            self._write_topic_id(topic_id)
        elif before != topic_id:
            raise InputError(
                f"{self.uri}: holds exports of another topic (its id is {before}, that of the cluster's {topic_id}): "
                "this is another cluster, or the topic was deleted and created again; export into another folder, and "
                "audit that with another --cluster"
            )

    def merge_hours(self, spark: SparkSession, now: datetime) -> list[ExportFolder]:
        """Merge the folders of hours that are over, and remove folders merged at least ``REMOVED_AFTER`` ago.

        Returns:
            The new folders, one for each merged hour.
        """
        folders = self.folders()
        self._remove_merged([folder for folder, done in folders.items() if done], now)
        merged = []
        for small in _mergeable(folders, f"{now.astimezone(UTC):%Y%m%dT%H}"):
            into = ExportFolder(small[0].first, small[-1].last, small[0].hour)
            records = spark.read.parquet(*map(self.uri_of, small))
            files = max(1, sum(map(self._bytes, small)) // _FILE_BYTES)
            ordered = records.coalesce(files).sortWithinPartitions("partition", "offset")
            ordered.write.mode("overwrite").parquet(self.uri_of(into))
            merged.append(into)
        return merged

    def _remove_merged(self, complete: list[ExportFolder], now: datetime) -> None:
        for folder in superseded(complete):
            by = next(other for other in complete if other.covers(folder))
            made = self._filesystem.get_file_info(f"{self._path}/{by.name}/{DONE}").mtime
            if made is not None and now - made >= REMOVED_AFTER:
                self._filesystem.delete_dir(f"{self._path}/{folder.name}")

    def _is_complete(self, folder: ExportFolder) -> bool:
        done = self._filesystem.get_file_info(f"{self._path}/{folder.name}/{DONE}")
        return bool(done.type == fs.FileType.File)

    def _bytes(self, folder: ExportFolder) -> int:
        listed = self._filesystem.get_file_info(fs.FileSelector(f"{self._path}/{folder.name}"))
        return sum(info.size or 0 for info in listed)

    def _read(self, name: str, file: str) -> str | None:
        """Return the value of a name in a JSON file of the dump; None if the file does not exist.

        Args:
            name: the name in the file's JSON object.
            file: path of the file in the dump.
        """
        path = f"{self._path}/{file}"
        if self._filesystem.get_file_info(path).type == fs.FileType.NotFound:
            return None
        with self._filesystem.open_input_stream(path) as stream:
            return str(json.loads(stream.read())[name])

    def _write_topic_id(self, topic_id: str) -> None:
        make_folder(self._filesystem, self._path)
        with self._filesystem.open_output_stream(f"{self._path}/{TOPIC_FILE}") as stream:
            stream.write(json.dumps({"topic_id": topic_id}).encode())


def _mergeable(folders: dict[ExportFolder, bool], this_hour: str) -> list[list[ExportFolder]]:
    """Return lists of folders to merge, one list for each hour.

    An hour is merged if it is over, and if it has at least two folders that are complete and not merged yet. The
    numbers of their batches must be consecutive.
    """
    merged = superseded(folder for folder, done in folders.items() if done)
    hours: dict[str, list[ExportFolder]] = {}
    for folder, done in folders.items():
        if folder.first == folder.last and folder.hour < this_hour and done and folder not in merged:
            hours.setdefault(folder.hour, []).append(folder)
    rows = [small for small in hours.values() if len(small) > 1]
    return [small for small in rows if small[-1].last - small[0].first == len(small) - 1]
