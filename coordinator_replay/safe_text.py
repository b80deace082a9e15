"""Texts that clients of a cluster wrote, made harmless for whoever shows them."""

import re

# Controls (C0, DEL, C1), line separators, and the characters that turn the direction of writing.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal or a browser obeys instead of showing them."""


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def neutral(text: str) -> str:
    r"""Text that a terminal or a browser shows and does not obey; what HTML means something by is not touched.

    >>> neutral("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return UNSAFE.sub(_escape, text)
