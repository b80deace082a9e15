"""What a dump is: by content, with everything that is no record skipped and noted."""

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import fsspec
import pytest

from coordinator_replay.errors import InputError, UsageError
from coordinator_replay.filesystem import open_filesystem
from coordinator_replay.log.dump import find_dump
from coordinator_replay.log.dump_format import Format
from tests.samples import Sample


@pytest.fixture
def broker(tmp_path):
    """A log folder as it lies on a broker."""
    folder = tmp_path / "log dir"
    shutil.copytree(Sample("compacted").segments, folder)
    other = folder / "orders-0"
    other.mkdir()
    shutil.copy(folder / "__consumer_offsets-2" / "00000000000000000000.log", other)
    (folder / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    (folder / "meta.properties").write_text("version=1\n")
    gone = folder / "__consumer_offsets-9.0123456789abcdef-delete"
    gone.mkdir()
    shutil.copy(folder / "__consumer_offsets-2" / "00000000000000000000.log", gone)
    return folder


def partitions(dump):
    return sorted({file.log_partition for file in dump.segments})


def test_a_brokers_folder_gives_its_current_segments_and_notes_on_the_rest(broker):
    dump = find_dump([str(broker)])
    assert dump.format is Format.SEGMENTS
    assert partitions(dump) == [0, 1, 2, 3]
    assert all(file.is_current for file in dump.segments)
    notes = " ".join(dump.notes)
    assert ".log.deleted" in notes
    assert "another topic" in notes
    assert "-delete" in notes


def test_deleted_segments_are_read_when_asked_for(broker):
    plain, everything = find_dump([str(broker)]), find_dump([str(broker)], include_deleted=True)
    brought = [file for file in everything.segments if not file.is_current]
    assert len(everything.segments) == len(plain.segments) + len(brought)
    assert brought


@pytest.mark.parametrize("suffix", ["cleaned", "deleted"])
def test_unfinished_and_deleted_files_are_no_part_of_the_log(tmp_path, suffix):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(b"")
    (folder / f"00000000000000000007.log.{suffix}").write_bytes(b"")
    assert len(find_dump([str(tmp_path)]).segments) == 1


def test_a_swap_file_stands_in_only_for_segments_that_are_gone(tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    for name in ("00000000000000000000.log", "00000000000000000000.log.swap", "00000000000000000050.log.swap"):
        (folder / name).write_bytes(b"")
    names = {Path(file.uri).name for file in find_dump([str(tmp_path)]).segments}
    assert names == {"00000000000000000000.log", "00000000000000000050.log.swap"}


def test_one_file_one_folder_and_a_glob_are_inputs_too():
    segments = Sample("kafka-3.9").segments
    assert partitions(find_dump([f"{segments}/__consumer_offsets-2"])) == [2]
    assert partitions(find_dump([f"{segments}/__consumer_offsets-3/00000000000000000000.log"])) == [3]
    assert partitions(find_dump([f"{segments}/__consumer_offsets-[01]/*.log"])) == [0, 1]
    assert partitions(find_dump([f"{segments}/*-2"])) == [2]


def test_an_empty_file_of_json_lines_is_no_segment(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    dump = find_dump([str(tmp_path)])
    assert (dump.format, dump.segments, dump.notes) == (Format.JSON_LINES, [], [])
    shutil.copy(Sample("transactions").folder / "records.jsonl", tmp_path)
    dump = find_dump([str(tmp_path)])
    assert (dump.format, len(dump.paths), dump.notes) == (Format.JSON_LINES, 2, [])
    write_segment_to(tmp_path / "segments" / "__consumer_offsets-0")
    (tmp_path / "segments" / "empty.jsonl").touch()
    dump = find_dump([str(tmp_path / "segments")])
    assert (dump.format, dump.notes) == (Format.SEGMENTS, ["1 file skipped: empty"])


def test_forms_are_told_by_content(tmp_path):
    folder = Sample("transactions").folder
    assert find_dump([str(folder / "parquet")]).format is Format.PARQUET
    assert find_dump([str(folder / "records.jsonl")]).format is Format.JSON_LINES
    packed = tmp_path / "export.gz"
    packed.write_bytes(gzip.compress((folder / "records.jsonl").read_bytes()))
    assert find_dump([str(packed)]).format is Format.JSON_LINES
    odd = tmp_path / "segment"
    odd.write_bytes(
        (Path(Sample("transactions").segments) / "__consumer_offsets-0" / "00000000000000000000.log").read_bytes()
    )
    assert find_dump([str(odd)]).format is Format.SEGMENTS


def test_two_forms_in_one_folder_are_refused_with_a_way_out(tmp_path):
    folder = Sample("transactions").folder
    shutil.copytree(folder / "parquet", tmp_path / "parquet")
    shutil.copy(folder / "records.jsonl", tmp_path)
    with pytest.raises(UsageError, match="--format"):
        find_dump([str(tmp_path)])


def test_segments_without_partition_folders_are_taken_for_partition_0_and_said(tmp_path):
    source = Path(Sample("transactions").segments) / "__consumer_offsets-2" / "00000000000000000000.log"
    (tmp_path / "a").mkdir()
    shutil.copy(source, tmp_path / "a")
    dump = find_dump([str(tmp_path / "a" / source.name)])
    assert partitions(dump) == [0]
    assert "partition 0" in " ".join(dump.notes)


def test_segments_of_two_nameless_folders_are_refused(tmp_path):
    source = Path(Sample("transactions").segments) / "__consumer_offsets-2" / "00000000000000000000.log"
    files = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        files.append(shutil.copy(source, tmp_path / name))
    with pytest.raises(UsageError, match="__consumer_offsets-N"):
        find_dump(files)


def test_what_is_no_dump_is_refused_with_what_was_found(tmp_path):
    (tmp_path / "settings.json").write_text(json.dumps({"colour": "red"}))
    (tmp_path / "note.txt").write_text("hello")
    with pytest.raises(InputError, match="2 files skipped"):
        find_dump([str(tmp_path)])
    with pytest.raises(InputError, match="no such file"):
        find_dump([str(tmp_path / "nothing")])
    with pytest.raises(InputError, match="nothing matches"):
        find_dump([str(tmp_path / "*.log")])
    with pytest.raises(InputError, match="no installed filesystem"):
        find_dump(["carrier-pigeon://roof/dump"])


def test_checkpoints_and_unfinished_files_of_an_export_are_no_part_of_it(tmp_path):
    whole = tmp_path / "export-000000" / "part-0.parquet"
    for path in (
        whole,
        tmp_path / "export-000001" / "_temporary" / "0" / "part-0.parquet",
        tmp_path / ".checkpoint" / "offsets" / "0",
    ):
        path.parent.mkdir(parents=True)
        shutil.copy(Sample("compacted").folder / "parquet" / "part-0.parquet", path)
    dump = find_dump([str(tmp_path)])
    assert dump.paths == [str(whole)]
    assert dump.notes == []


def test_an_object_store_is_known_by_the_name_that_hadoop_gives_it():
    filesystem, path = open_filesystem("s3a://bucket/folder?region=eu-west-1")
    assert (filesystem.type_name, path) == ("s3", "bucket/folder")


def write_segment_to(folder, name="00000000000000000000.log"):
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(Sample("kafka-3.9").segments) / "__consumer_offsets-2" / "00000000000000000000.log", folder / name)


@pytest.mark.parametrize("suffix", ["", ".swap", ".deleted"])
def test_files_of_other_topics_are_not_taken_for_partition_0(tmp_path, suffix):
    write_segment_to(tmp_path / "__consumer_offsets-0")
    for folder in ("orders-3", "__consumer_offsets-2147483647", "__consumer_offsets-99999999999"):
        write_segment_to(tmp_path / folder, f"00000000000000000050.log{suffix}")
    dump = find_dump([str(tmp_path)], include_deleted=True)
    assert [Path(file.uri).parent.name for file in dump.segments] == ["__consumer_offsets-0"]
    assert "1 file skipped: a log of another topic than __consumer_offsets" in dump.notes
    assert "2 files skipped: __consumer_offsets has no such partition" in dump.notes


def test_a_folder_of_another_name_is_no_partition_beside_those_that_have_one(tmp_path):
    write_segment_to(tmp_path / "copies")
    alone = find_dump([str(tmp_path)])
    assert partitions(alone) == [0]
    assert alone.notes == [
        f"{tmp_path}/copies: not called __consumer_offsets-N; its segments are taken for partition 0"
    ]
    write_segment_to(tmp_path / "older" / "copies")
    with pytest.raises(UsageError, match="2 folders of which none is called"):
        find_dump([str(tmp_path)])
    write_segment_to(tmp_path / "__consumer_offsets-0")
    dump = find_dump([str(tmp_path)])
    assert [Path(file.uri).parent.name for file in dump.segments] == ["__consumer_offsets-0"]
    assert dump.notes == ["2 files skipped: in a folder that is not called __consumer_offsets-N, as others are"]
    # Whoever names the file itself means it.
    assert partitions(find_dump([str(tmp_path / "copies" / "00000000000000000000.log")])) == [0]


def test_where_pyarrow_knows_no_s3_fsspec_is_asked_for_the_path_as_it_was_given(monkeypatch):
    asked = []

    def url_to_fs(uri):
        asked.append(uri)
        return fsspec.filesystem("memory"), "bucket/folder"

    def refuse(_uri):
        raise NotImplementedError("built without S3")

    monkeypatch.setattr("coordinator_replay.log.dump.fs.FileSystem", SimpleNamespace(from_uri=refuse))
    monkeypatch.setattr(fsspec.core, "url_to_fs", url_to_fs)
    assert open_filesystem("s3a://bucket/folder")[1] == "bucket/folder"
    assert asked == ["s3://bucket/folder"]


def test_what_the_documents_copy_from_a_pods_disks_is_a_whole_dump(tmp_path):
    """docs/dumps.md: the command that kubectl runs in a pod, and the one that unpacks what it prints."""
    pod = tmp_path / "pod"
    for number in range(4):
        name = f"__consumer_offsets-{number}"
        shutil.copytree(Path(Sample("compacted").segments) / name, pod / f"data-{number % 2}" / "kafka-log3" / name)
    (pod / "data-0" / "kafka-log3" / "orders-0").mkdir()
    shutil.copytree(
        Sample("compacted").folder / "cluster-metadata", pod / "data-1" / "kafka-log3" / "__cluster_metadata-0"
    )
    document = (Path(__file__).parents[2] / "docs" / "dumps.md").read_text("utf-8")
    commands = re.findall(r"^ +sh -c '(tar .*)' \| tar xf - -C ", document, re.MULTILINE)
    for command, copy in zip(commands, (tmp_path / "broker", tmp_path / "controller"), strict=True):
        copy.mkdir()
        packed = subprocess.run(
            ["sh", "-c", command.replace("/var/lib/kafka", str(pod))], capture_output=True, check=True
        )
        subprocess.run(["tar", "xf", "-", "-C", copy], input=packed.stdout, check=True)
    dump = find_dump([str(tmp_path / "broker")])
    assert partitions(dump) == [0, 1, 2, 3]
    assert [file.size for file in dump.segments] == [file.size for file in find_dump([str(pod)]).segments]
    assert list((tmp_path / "controller").rglob("__cluster_metadata-0/*"))


def exported(folder: Path, *, is_complete: bool = True) -> str:
    """What an export leaves; the file in it."""
    folder.mkdir(parents=True)
    file = folder / "part-00000.snappy.parquet"
    file.write_bytes(b"PAR1")
    if is_complete:
        (folder / "_SUCCESS").touch()
        (folder / "._SUCCESS.crc").write_bytes(b"crc")
    return str(file)


def test_of_exports_those_are_read_that_are_complete_and_not_in_another_one(tmp_path):
    alone = exported(tmp_path / "export-20261123T21-000000")
    small = [exported(tmp_path / f"export-20261123T22-{number:06d}") for number in (1, 2, 3)]
    merged = exported(tmp_path / "export-20261123T22-000001-000003")
    later = exported(tmp_path / "export-20261123T23-000004")
    exported(tmp_path / "export-20261123T23-000005", is_complete=False)
    exported(tmp_path / "export-20261123T23-000004-000005", is_complete=False)
    again = exported(tmp_path / "again-20261123T230000Z")
    dump = find_dump([str(tmp_path)])
    assert dump.format is Format.PARQUET
    assert sorted(dump.paths) == sorted([alone, merged, later, again])
    assert dump.notes == ["2 files skipped: of an export that is not finished"]
    assert find_dump([str(tmp_path / "export-20261123T22-000002")]).paths == [small[1]]
    assert find_dump([str(tmp_path / "export-20261123T23*")]).paths == [later]
    assert find_dump([str(tmp_path / "*-000005" / "*.parquet")]).paths
