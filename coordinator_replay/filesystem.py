"""Pyarrow's filesystems for paths and URIs, on this machine or in an object store."""

from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

from coordinator_replay.errors import InputError

FAILURES = (OSError, pa.ArrowException)
"""Exceptions that pyarrow's filesystems raise. Most are an OSError. Azure's filesystem at times raises an
ArrowException that is no OSError."""

_ARROW_SCHEMES = {"s3a": "s3", "s3n": "s3"}
"""Pyarrow's names for URI schemes that Hadoop names differently."""

_WITHOUT_FOLDERS = ("s3", "gcs", "abfs")

_OPTIONS = {
    # A small file is put by one request instead of the three of an upload in parts.
    "s3": "allow_delayed_open=true",
    # Google's client asks for credentials again and again for 15 minutes on a machine that has none.
    "gs": "retry_limit_seconds=30",
}
"""Options of pyarrow's filesystems, by URI scheme. An option is added to a URI that does not have this option."""

_URI_CHARACTERS = "%/:?#@!$&'()*+,;=~"
"""Characters of a URI in addition to letters, digits and ``_.-``."""


def open_filesystem(uri: str) -> tuple[Any, str]:
    """Return the filesystem of a path or URI, and the path within this filesystem.

    Raises:
        InputError: no filesystem of pyarrow or fsspec knows the URI's scheme.
    """
    if "://" not in uri:
        return fs.LocalFileSystem(), uri
    scheme, _, rest = uri.partition("://")
    scheme = _ARROW_SCHEMES.get(scheme, scheme)
    uri = f"{scheme}://{rest}"
    option = _OPTIONS.get(scheme, "")
    is_chosen = f"{option.partition('=')[0]}=" in rest.partition("?")[2]
    options = "" if not option or is_chosen else f"{'&' if '?' in rest else '?'}{option}"
    try:
        # Keys contain blanks and similar characters unescaped; a written %20 stays as it is.
        return fs.FileSystem.from_uri(quote(uri + options, safe=_URI_CHARACTERS))  # type: ignore[no-any-return]
    except (ValueError, NotImplementedError, OSError) as problem:
        try:
            import fsspec

            other, path = fsspec.core.url_to_fs(uri)
        except (ImportError, ValueError, OSError):
            raise InputError(f"{uri}: no installed filesystem can read this: {problem}") from problem
        return fs.PyFileSystem(fs.FSSpecHandler(other)), path


def make_folder(filesystem: Any, folder: str) -> None:
    """Make a folder and its parents, so that files can be written into it.

    Do nothing in an object store, because it has no folders.
    """
    if filesystem.type_name not in _WITHOUT_FOLDERS:
        filesystem.create_dir(folder, recursive=True)
