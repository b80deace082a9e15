"""Java's hash codes of texts. Kafka uses them, for example, to choose the log partition of a group."""

from functools import lru_cache

UINT_MAX = 0xFFFFFFFF
"""Mask for the 32 bits of Java's ``int``."""


def as_int(number: int) -> int:
    """Return the low 32 bits of a number as a signed number, as Java's int keeps them.

    >>> as_int(2**31), as_int(-1)
    (-2147483648, -1)
    """
    return ((number + 2**31) & UINT_MAX) - 2**31


@lru_cache(maxsize=1 << 16)
def string_hash(text: str) -> int:
    """Return Java's ``String.hashCode`` of a text, a signed 32-bit number. It is computed from UTF-16 code units.

    >>> string_hash("range"), string_hash("cooperative-sticky")
    (108280125, 1843682987)
    """
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    hash_code = 0
    for unit in units:
        hash_code = (31 * hash_code + unit) & UINT_MAX
    return as_int(hash_code)


def positive_hash(text: str) -> int:
    """Return the absolute value of a text's ``hashCode``, as Kafka's ``Utils.abs`` does.

    The smallest integer has no positive counterpart: for this hash code, return 0.

    >>> positive_hash("payments") % 50, positive_hash("polygenelubricants")
    (13, 0)
    """
    hashed = string_hash(text)
    return 0 if hashed == -(1 << 31) else abs(hashed)
