"""What Java makes of a text, where Kafka decides by it."""

from functools import lru_cache

_INT = 0xFFFFFFFF


@lru_cache(maxsize=1 << 16)
def string_hash(text: str) -> int:
    """``String.hashCode``: base 31 over UTF-16 code units, as a signed 32-bit number.

    >>> string_hash("range"), string_hash("cooperative-sticky")
    (108280125, 1843682987)
    """
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    hash_code = 0
    for unit in units:
        hash_code = (31 * hash_code + unit) & _INT
    return hash_code - (1 << 32) if hash_code >> 31 else hash_code
