"""A folder that somebody sent: links in circles, pipes, odd names. Each record once, or a sentence."""

import os
from pathlib import Path

import pytest

from coordinator_replay.errors import InputError
from coordinator_replay.log.dump import find_dump
from tests.log.writer import LogEntry, write_batch

PARTITION = "__consumer_offsets-3"


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "dump" / PARTITION).mkdir(parents=True)
    (tmp_path / "dump" / PARTITION / f"{0:020}.log").write_bytes(
        write_batch([LogEntry(key=b"k", value=b"v")], base_offset=0)
    )
    return tmp_path / "dump"


def segments(*inputs: object) -> list[str]:
    return [file.uri for file in find_dump([str(one) for one in inputs]).segments]


def test_links_that_lead_back_are_followed_once(folder):
    expected = segments(folder)
    for number in range(3):
        (folder / f"loop-{number}").symlink_to(".")
        (folder / PARTITION / f"up-{number}").symlink_to("..")
    (folder / "self").symlink_to("self")
    (folder / "nowhere").symlink_to("/no/such/place")
    (folder / f"{0:020}.log").symlink_to(Path(PARTITION) / f"{0:020}.log")
    assert segments(folder) == expected
    assert segments(folder / "*") == expected
    assert len(segments(folder / "loop-*")) == 1


def test_links_that_lead_out_are_left_aside_with_a_note_and_read_where_they_are_named(folder, tmp_path):
    outside = tmp_path / "outside" / "__consumer_offsets-7"
    outside.mkdir(parents=True)
    secret = outside / f"{5:020}.log"
    secret.write_bytes(write_batch([LogEntry(key=b"k", value=b"secret")], base_offset=5))
    expected = segments(folder)
    (folder / "__consumer_offsets-7").symlink_to(outside)
    (folder / PARTITION / secret.name).symlink_to(secret)
    (folder / "__consumer_offsets-8").symlink_to(Path("..") / "outside" / "__consumer_offsets-7")
    (folder / "chain").symlink_to("chain-2")
    (folder / "chain-2").symlink_to(tmp_path)
    for named in (folder, folder / "*", folder / "*" / "*.log"):
        assert segments(named) == expected
    left = "a link that leads out of the folder"
    assert [note for note in find_dump([str(folder)]).notes if left in note]
    with pytest.raises(InputError, match=left):
        find_dump([str(folder / "__consumer_offsets-[78]")])
    (there,) = segments(folder / "__consumer_offsets-7")
    assert there.endswith(secret.name)
    (tmp_path / "dumps").symlink_to(folder)
    assert len(segments(tmp_path / "dumps")) == 1


def test_pipes_and_devices_are_not_opened(folder):
    expected = segments(folder)
    os.mkfifo(folder / PARTITION / f"{9:020}.log")
    (folder / "zero").symlink_to("/dev/zero")
    assert segments(folder) == expected
    for path in (folder / PARTITION / f"{9:020}.log", folder / "zero", "/dev/zero"):
        with pytest.raises(InputError, match="pipe or a device"):
            find_dump([str(path)])


@pytest.mark.parametrize(
    "name", ["a%20b", "a b", "a#b", "a?b", "a*", "a[0]", "[", "a\nb", "größe", "a'b", '"', "{x}", "~", "$HOME"]
)
def test_a_folder_may_have_any_name(folder, tmp_path, name):
    folder.rename(tmp_path / name)
    (found,) = segments(tmp_path / name)
    assert Path(found) == tmp_path / name / PARTITION / f"{0:020}.log"


def test_a_name_that_is_no_text_is_told(folder):
    (Path(os.fsdecode(os.fsencode(folder) + b"/\xff"))).touch()
    with pytest.raises(InputError, match="not UTF-8"):
        segments(folder)
