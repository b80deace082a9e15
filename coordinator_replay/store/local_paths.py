"""Paths of files on this machine that are given as URIs or paths."""

import re
from urllib.parse import unquote, urlparse

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def local_path(uri: str) -> str | None:
    """Return the path of a file on this machine; None for a file elsewhere."""
    if uri.startswith("file://"):
        return unquote(urlparse(uri).path)
    return None if _SCHEME.match(uri) else uri
