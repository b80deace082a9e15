"""The files of a dump, found by the inputs that the user names (``find_dump``).

In the folder of a log partition, a segment is recognised by its name. All other files are recognised by their first
bytes (``recognise``). A broker's folder also has indexes, snapshots and checkpoints, which are no part of the dump.
Logs of other topics are skipped with a note. Files that are not yet, or no longer, part of the log are skipped too
(``org.apache.kafka.storage.internals.log.LogFileUtils`` has their suffixes).
"""

import fnmatch
import glob
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from pyarrow import fs

from coordinator_replay.errors import InputError, UsageError
from coordinator_replay.filesystem import FAILURES, open_filesystem
from coordinator_replay.log.dump_format import Format
from coordinator_replay.log.exports import DONE, ExportFolder, superseded
from coordinator_replay.log.local_files import files_below
from coordinator_replay.log.segment import looks_like_segment
from coordinator_replay.secret_text import without_secrets

TOPIC = "__consumer_offsets"
BASE_DIGITS = 20
"""Number of digits of the offset in a segment's name."""


@dataclass(frozen=True, slots=True)
class DumpFile:
    """One file of a dump.

    Attributes:
        uri: a local path, or a URI that pyarrow's filesystems know.
        log_partition: the log partition of a segment; 0 if it is not known, and for files that are not segments.
        size: size in bytes.
        is_current: False for a ``.log.deleted`` file, which is no longer part of the log.
    """

    uri: str
    log_partition: int
    size: int
    is_current: bool = True


class FileStamp(NamedTuple):
    """The size of a file, and the time of its last change. If the stamp differs later, the file has changed.

    Attributes:
        size: size in bytes.
        modified_ns: time of the last change, in nanoseconds since 1970; None if the filesystem has no such time.
    """

    size: int
    modified_ns: int | None


class DumpSearch(NamedTuple):
    """Arguments of ``find_dump``, kept to search for the same dump again.

    Attributes:
        inputs: files, folders, globs or URIs.
        form: the form that the user named; None to recognise the form from the files.
        include_deleted: whether ``.log.deleted`` files count.
    """

    inputs: Sequence[str]
    form: Format | None = None
    include_deleted: bool = False


def base_offset(file: DumpFile) -> int | None:
    """Return the base offset in a segment's name; None if the name has no offset.

    No record of the segment has a lower offset.
    """
    base, _, rest = file.uri.rpartition("/")[2].partition(".")
    return int(base) if len(base) == BASE_DIGITS and base.isdecimal() and rest.startswith("log") else None


@dataclass(slots=True)
class Dump:
    """The dump that the inputs of a run name.

    Attributes:
        format: the common form of all inputs.
        segments: the files to read if ``format`` is segments; empty for other formats.
        paths: the paths for Spark if ``format`` is not segments; empty for segments.
        notes: sentences about files that were skipped or read in a special way.
        indexed: for each folder of a log partition, the base offsets in the names of its indexes and snapshots.
        companions: URIs of the files that describe a log: ``partition.metadata`` and ``leader-epoch-checkpoint``.
        search: the arguments with which ``find_dump`` found the dump; None if ``find_dump`` did not find it.
        stamps: the size and time of each file to read, by URI.
    """

    format: Format
    segments: list[DumpFile] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    indexed: dict[str, set[int]] = field(default_factory=dict)
    companions: frozenset[str] = frozenset()
    search: DumpSearch | None = None
    stamps: Mapping[str, FileStamp] = field(default_factory=dict)


_COMPANION = re.compile(
    r"(\.(index|timeindex|txnindex|snapshot|checkpoint|metadata|crc|lock|properties)(\.(deleted|cleaned|swap))?(\.gz)?"
    r"|leader-epoch-checkpoint|recovery-point-offset-checkpoint|replication-offset-checkpoint|log-start-offset-checkpoint"
    r"|cleaner-offset-checkpoint|\.kafka_cleanshutdown)$"
)
PARTITION_METADATA = "partition.metadata"
LEADER_EPOCHS = "leader-epoch-checkpoint"
SEGMENT_NAME = re.compile(r"^(\d{20})\.log(\.gz)?$")
_INDEX_NAME = re.compile(r"^(\d{20})\.(index|timeindex|txnindex|snapshot)(\.gz)?$")
_NOT_CURRENT_NAME = re.compile(r"^(\d{20})\.log\.(deleted|cleaned|swap)(\.gz)?$")
# A partition is an int32 in all of Kafka; nine digits are more than any cluster has.
PARTITION_FOLDER = re.compile(rf"^{re.escape(TOPIC)}-([0-9]{{1,9}})$")
_LOG_FOLDER = re.compile(r"^.+-\d+(\.[0-9a-f]+-(delete|future|stray))?$")
_NOT_CURRENT_FOLDER = re.compile(rf"^{re.escape(TOPIC)}-\d+\.[0-9a-f]+-(delete|future|stray)$")
_WILDCARD = re.compile(r"[*?\[]")
_HEAD_BYTES = 4096
GONE = "was there when the dump was listed and is not there now; audit a copy that nothing changes"
_ENVELOPE = (b'"partition"', b'"offset"', b'"key"')
"""Fields in the first lines of an export; any other JSON file is no dump."""


class _Listed(NamedTuple):
    """A file as the filesystem lists it.

    Attributes:
        uri: the file's path if the user named a path, else its URI.
        named: whether the user named the file itself, or a glob that matches it.
        leads_out: whether the file is a link to a file outside the input's folder.
        modified_ns: time of the last write; None if the filesystem does not know this time.
    """

    uri: str
    size: int
    named: bool
    leads_out: bool = False
    modified_ns: int | None = None

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]

    @property
    def folder(self) -> str:
        """Return the name of the folder that the file lies in."""
        return _folder(self.uri).rpartition("/")[2]


def _list(uri: str) -> Iterator[_Listed]:
    """Yield the files that an input names: the file itself, the files below a folder, or the files of a glob.

    Files in hidden folders, and in folders with unfinished files of Spark, are left out.

    Raises:
        InputError: there is no such file or folder, or nothing matches the glob.
    """
    filesystem, path = open_filesystem(uri)
    prefix = uri[: len(uri) - len(path)] if uri.endswith(path) else ""
    if isinstance(filesystem, fs.LocalFileSystem):
        yield from _list_local(uri, prefix, path)
        return
    wildcard = _WILDCARD.search(path)
    base = _base(path)
    root = filesystem.get_file_info(base)
    if root.type == fs.FileType.NotFound:
        raise InputError(f"{uri}: no such file or folder")
    if root.type == fs.FileType.File:
        yield _Listed(f"{prefix}{root.path}", root.size, named=True, modified_ns=root.mtime_ns)
        return
    listed = filesystem.get_file_info(fs.FileSelector(base, recursive=True))
    matched = False
    for info in sorted(listed, key=lambda info: str(info.path)):
        if _is_bookkeeping(info.path.removeprefix(base)):
            continue
        if wildcard is None or _glob_matches(info.path, path):
            matched = True
            if info.type == fs.FileType.File:
                named = wildcard is not None and info.path.count("/") == path.count("/")
                yield _Listed(f"{prefix}{info.path}", info.size or 0, named, modified_ns=info.mtime_ns)
    if wildcard is not None and not matched:
        raise InputError(f"{uri}: nothing matches")


def _base(path: str) -> str:
    """Return the folder before the first wildcard of a glob.

    If the path has no wildcard, return the path.
    """
    wildcard = _WILDCARD.search(path)
    return path[: path.rfind("/", 0, wildcard.start()) + 1] or "." if wildcard else path


def _list_local(uri: str, prefix: str, path: str) -> Iterator[_Listed]:
    """Yield the files of this machine that a path or glob names.

    A path that exists is never read as a glob.
    """
    is_glob = _WILDCARD.search(path) is not None and not os.path.lexists(path)
    roots = [path]
    if is_glob:
        matches = glob.glob(path, include_hidden=True)  # noqa: PTH207 - of a whole path
        # If a file and a link to it both match, take the file's own path.
        roots = sorted(filter(os.path.exists, matches), key=lambda root: (Path(root).is_symlink(), root))
    if not roots:
        raise InputError(f"{uri}: nothing matches")
    base = _base(path) if is_glob else path
    seen: set[str] = set()
    for root in roots:
        for file in sorted(files_below(root, base if is_glob else None)):
            real = os.path.realpath(file.path)
            if real in seen or (file.path != root and _is_bookkeeping(file.path.removeprefix(base))):
                continue
            seen.add(real)
            if file.leads_out or file.is_regular:
                named = file.is_regular and file.path == root
                yield _Listed(f"{prefix}{file.path}", file.size, named, file.leads_out, file.modified_ns)
            elif not is_glob and file.path == root:
                raise InputError(f"{uri}: is a pipe or a device; write what comes out of it into a file first")


def _is_bookkeeping(path: str) -> bool:
    """Return whether a path lies in a hidden folder, or in a folder with unfinished files of Spark."""
    return any(part.startswith(".") or part == "_temporary" for part in path.strip("/").split("/")[:-1] if part != "..")


def list_files(uri: str) -> list[DumpFile]:
    """Return the files that a path, glob or URI names, whatever their form.

    Links that lead out of the folder are left out. All files get log partition 0.

    Raises:
        InputError: no file or folder has this name.
    """
    return [DumpFile(file.uri, 0, file.size) for file in _list(uri) if not file.leads_out]


def _glob_matches(path: str, pattern: str) -> bool:
    """Return whether a path, or a folder above it, matches a glob in which ``*`` does not cross folders."""
    parts, wanted = path.removeprefix("./").split("/"), pattern.removeprefix("./").split("/")
    return len(parts) >= len(wanted) and all(
        fnmatch.fnmatchcase(part, want) for part, want in zip(parts, wanted, strict=False)
    )


def read_head(uri: str, size: int = _HEAD_BYTES) -> bytes:
    """Return the first bytes of a file, unpacked if it is gzip'ed.

    Raises:
        InputError: the file can't be read.
    """
    filesystem, path = open_filesystem(uri)
    try:
        with filesystem.open_input_stream(path, compression=None) as stream:
            head = bytes(stream.read(size))
            if head[:2] != b"\x1f\x8b":
                return head
            return zlib.decompressobj(31).decompress(head, size)
    except FileNotFoundError as problem:
        raise InputError(f"{uri}: {GONE}") from problem
    except (*FAILURES, zlib.error) as problem:
        raise InputError(f"{uri}: can't be read: {problem}") from problem


def recognise(uri: str) -> Format | None:
    """Return the form that a file's content has; None if the file is no part of a dump."""
    head = read_head(uri)
    if head[:4] == b"PAR1":
        return Format.PARQUET
    if head.lstrip()[:1] == b"{" and all(name in head for name in _ENVELOPE):
        return Format.JSON_LINES
    return Format.SEGMENTS if looks_like_segment(head) else None


_JSON_NAMES = (".jsonl", ".ndjson", ".json")
"""Ends of the names of JSON lines. Only the name shows the form of an empty file."""


class _Sorter:
    """A sorter of the files that the inputs name.

    A file is added to the files of its form, or skipped with a reason.
    """

    def __init__(self, wanted: Format | None, include_deleted: bool) -> None:
        self.wanted = wanted
        self.include_deleted = include_deleted
        self.segments: list[tuple[_Listed, str]] = []
        self.rows: dict[Format, list[str]] = {}
        self.blank: list[str] = []
        self.skipped: dict[str, int] = {}
        self.notes: list[str] = []
        self.unplaced: set[str] = set()
        self.indexed: dict[str, set[int]] = {}
        self.companions: set[str] = set()
        self.stamps: dict[str, FileStamp] = {}

    def skip(self, why: str) -> None:
        self.skipped[why] = self.skipped.get(why, 0) + 1

    def add(self, file: _Listed) -> None:
        self.stamps[file.uri] = FileStamp(file.size, file.modified_ns)
        if file.leads_out:
            self.skip("a link that leads out of the folder; name what it leads to")
            return
        if _COMPANION.search(file.name) or file.name.startswith((".", "_SUCCESS")):
            if file.name in (PARTITION_METADATA, LEADER_EPOCHS):
                self.companions.add(file.uri)
            elif (index := _INDEX_NAME.match(file.name)) is not None and PARTITION_FOLDER.match(file.folder):
                self.indexed.setdefault(_folder(file.uri), set()).add(int(index.group(1)))
            return
        if _NOT_CURRENT_FOLDER.match(file.folder):
            self.skip("in a folder that is not a current log (-delete, -future, -stray)")
        elif (not_current := _NOT_CURRENT_NAME.match(file.name)) is not None:
            self.add_not_current(file, not_current.group(2))
        elif SEGMENT_NAME.match(file.name) and _LOG_FOLDER.match(file.folder):
            self.add_segment(file)
        else:
            self.add_by_content(file)

    def add_not_current(self, file: _Listed, suffix: str) -> None:
        """Add a segment with the suffix ``deleted``, ``cleaned`` or ``swap``, or skip it.

        A swap file is added. A deleted segment is added if the user asked for deleted segments or named this file.
        """
        # A swap file is the result of a finished compaction: its records are part of the log.
        if suffix == "swap" or (suffix == "deleted" and (self.include_deleted or file.named)):
            self.add_segment(file, suffix)
        else:
            self.skip(f".log.{suffix}: not part of the log" + ("; --include-deleted reads it" * (suffix == "deleted")))

    def add_segment(self, file: _Listed, suffix: str = "") -> None:
        """Add a segment, or skip it if its folder is a log of another topic than ``__consumer_offsets``.

        For example, a segment in the folder ``orders-0`` is skipped. A file that the user named is always added.
        """
        if _LOG_FOLDER.match(file.folder) and not PARTITION_FOLDER.match(file.folder) and not file.named:
            is_numbered = file.folder.startswith(f"{TOPIC}-")
            self.skip(f"{TOPIC} has no such partition" if is_numbered else f"a log of another topic than {TOPIC}")
        else:
            self.segments.append((file, suffix))

    def placed(self) -> list[DumpFile]:
        """Return the segments, each with its log partition, after all folders have been listed.

        If a segment's folder names no partition, but folders of other segments do, the segment could belong to any of
        these partitions. It is left out, unless the user named the file. Any other segment without a partition counts
        for partition 0. A swap file is left out if its log partition has a plain segment with the same base offset.
        """
        partitions = [PARTITION_FOLDER.match(file.folder) for file, _ in self.segments]
        is_any_placed = any(partitions)
        segments, swaps = list[DumpFile](), list[DumpFile]()
        for (file, suffix), partition in zip(self.segments, partitions, strict=True):
            if partition is None and is_any_placed and not file.named:
                self.skip(f"in a folder that is not called {TOPIC}-N, as others are")
                continue
            if partition is None:
                self.unplaced.add(_folder(file.uri))
            number = 0 if partition is None else int(partition.group(1))
            into = swaps if suffix == "swap" else segments
            into.append(DumpFile(file.uri, number, file.size, is_current=suffix != "deleted"))
        plain = {(segment.log_partition, base_offset(segment)) for segment in segments}
        for swap in swaps:
            if (swap.log_partition, base_offset(swap)) in plain:
                self.skip(".log.swap: the segment it was to replace is there")
            else:
                segments.append(swap)
                self.notes.append(f"{without_secrets(swap.uri)}: read in place of the segments it was to replace")
        return segments

    def add_by_content(self, file: _Listed) -> None:
        if self.wanted is None and not file.size and file.name.endswith(_JSON_NAMES):
            self.blank.append(file.uri)
            return
        form = self.wanted or (Format.SEGMENTS if file.name.endswith(".log") else None)
        if form is None or (form is Format.SEGMENTS and file.size):
            form = recognise(file.uri)
        if form is Format.SEGMENTS:
            self.segments.append((file, ""))
        elif form is not None:
            self.rows.setdefault(form, []).append(file.uri)
        else:
            self.skip("not a dump in any supported form")

    def add_blank(self, *, has_segments: bool) -> None:
        """Add the empty files with names of JSON lines, after all folders have been listed.

        If the dump has another form, skip them.
        """
        if has_segments or not set(self.rows) <= {Format.JSON_LINES}:
            for _ in self.blank:
                self.skip("empty")
        elif self.blank:
            self.rows.setdefault(Format.JSON_LINES, []).extend(self.blank)


def _folder(uri: str) -> str:
    return uri.rpartition("/")[0]


def _is_delta(uri: str) -> bool:
    filesystem, path = open_filesystem(uri)
    info = filesystem.get_file_info(f"{path.rstrip('/')}/_delta_log")
    return bool(info.type == fs.FileType.Directory)


def find_dump(inputs: Sequence[str], *, form: Format | None = None, include_deleted: bool = False) -> Dump:
    """Find the dump that the inputs of a run name.

    Args:
        inputs: files, folders, globs or URIs.
        form: the form that the user named; None to recognise the form from the files.
        include_deleted: read ``.log.deleted`` files too, for records that compaction has dropped.

    Raises:
        InputError: an input is missing, unreadable, or has no dump.
        UsageError: the inputs have more than one form, or the partition of a segment is not known.
    """
    search = DumpSearch(inputs, form, include_deleted)
    sorter = _Sorter(form, include_deleted)
    for uri in inputs:
        if form is Format.DELTA or (form is None and _is_delta(uri)):
            sorter.rows.setdefault(Format.DELTA, []).append(uri)
            continue
        listed = list(_list(uri))
        unread = _unread_exports(listed)
        for file in listed:
            if (why := unread.get(_folder(file.uri))) is None or file.named:
                sorter.add(file)
            elif why and file.size and not file.name.startswith((".", "_")):
                sorter.skip(why)
    return replace(_one_form(sorter, inputs), search=search)


def _unread_exports(listed: Sequence[_Listed]) -> dict[str, str]:
    """Return folders of exports that are not read, each with the reason.

    The reason is an empty text if another folder has all records of the folder.
    """
    folders: dict[str, set[str]] = {}
    for file in listed:
        folders.setdefault(_folder(file.uri), set()).add(file.name)
    unread: dict[str, str] = {}
    complete: dict[str, dict[ExportFolder, str]] = {}
    for folder, names in folders.items():
        above, _, name = folder.rpartition("/")
        export = ExportFolder.parse(name)
        if export is not None and DONE in names:
            complete.setdefault(above, {})[export] = folder
        elif export is not None:
            unread[folder] = "of an export that is not finished"
    for exports in complete.values():
        unread |= {exports[export]: "" for export in superseded(exports)}
    return unread


def _one_form(sorter: _Sorter, inputs: Sequence[str]) -> Dump:
    segments = sorter.placed()
    sorter.add_blank(has_segments=bool(segments))
    forms = set(sorter.rows) | ({Format.SEGMENTS} if segments else set())
    named = ", ".join(inputs)
    notes = sorter.notes + [f"{n} file{'s' * (n > 1)} skipped: {why}" for why, n in sorter.skipped.items()]
    if not forms:
        why = f" ({'; '.join(notes)})" if notes else ""
        raise InputError(f"{named}: no dump of {TOPIC} here{why}")
    if len(forms) > 1:
        raise UsageError(
            f"{named}: contains {' and '.join(sorted(forms))}; name one of them with --format, or give the subfolder"
        )
    if len(sorter.unplaced) > 1:
        raise UsageError(
            f"the segments lie in {len(sorter.unplaced)} folders of which none is called {TOPIC}-N, so nothing says "
            f"which partition they belong to: give the folders these names"
        )
    notes += [
        f"{without_secrets(folder) or '.'}: not called {TOPIC}-N; its segments are taken for partition 0"
        for folder in sorter.unplaced
    ]
    form = forms.pop()
    paths = sorter.rows.get(form, [])
    read = [*paths, *(file.uri for file in segments)]
    return Dump(
        format=form,
        segments=segments,
        paths=paths,
        stamps={uri: sorter.stamps[uri] for uri in read if uri in sorter.stamps},
        notes=notes,
        indexed=sorter.indexed,
        companions=frozenset(sorter.companions),
    )
