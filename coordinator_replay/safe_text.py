"""Texts that clients of a cluster wrote, made harmless for programs that show them."""

import re

# Unicode's controls (Cc), format characters (Cf), surrogates (Cs), line and paragraph separators (Zl, Zp), and the
# fillers that fonts draw as nothing. They are listed here, because their number depends on Python's version of Unicode.
_RANGES = (
    (0x00, 0x1F),
    (0x7F, 0x9F),
    (0xAD, 0xAD),
    (0x34F, 0x34F),
    (0x600, 0x605),
    (0x61C, 0x61C),
    (0x6DD, 0x6DD),
    (0x70F, 0x70F),
    (0x890, 0x891),
    (0x8E2, 0x8E2),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xD800, 0xDFFF),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF9, 0xFFFB),
    (0x110BD, 0x110BD),
    (0x110CD, 0x110CD),
    (0x13430, 0x1343F),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)

UNSAFE = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _RANGES) + "]")
"""Characters that control a terminal or a browser, or are invisible, so that two different names would look the
same."""


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def neutral(text: str) -> str:
    r"""Return a text with its unsafe characters escaped.

    Characters with a meaning in HTML are not escaped.

    >>> neutral("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return text if text.isascii() and text.isprintable() else UNSAFE.sub(_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def neutral_json(text: str) -> str:
    r"""Return an equivalent JSON text with unsafe characters escaped. Only strings in a JSON text have such characters.

    >>> neutral_json('["\u202e"]')
    '["\\u202e"]'
    """
    return text if text.isascii() and text.isprintable() else UNSAFE.sub(_json_escape, text)
