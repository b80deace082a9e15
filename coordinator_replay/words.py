"""Eight bytes at a time, for compiled functions: what a processor moves in one instruction.

A loop over bytes whose length it can't know the compiler turns into large strides and then single bytes, of which most
keys and fields have many. Positions are unsigned, which spares the question whether one counts from the end.
"""

from typing import Any

import numpy as np

from coordinator_replay.compiled import reads_word, spliced, writes_word


@reads_word("little")
def word_at(data: Any, at: Any) -> Any:
    """Eight bytes as a little-endian number."""
    word = np.uint64(0)
    for byte in range(np.uint64(8)):
        word |= np.uint64(data[at + byte]) << (np.uint64(8) * byte)
    return word


@reads_word("big")
def number_at(data: Any, at: Any) -> Any:
    """Eight bytes as a big-endian number, as Kafka writes them."""
    number = np.uint64(0)
    for byte in range(np.uint64(8)):
        number = number << np.uint64(8) | np.uint64(data[at + byte])
    return number


@writes_word("little")
def put_word(target: Any, at: Any, word: Any) -> None:
    """Writes a number as eight bytes, little-endian."""
    for byte in range(np.uint64(8)):
        target[at + byte] = np.uint8((word >> (np.uint64(8) * byte)) & np.uint64(255))


@spliced
def copy_bytes(data: Any, source: Any, target: Any, at: Any, size: Any) -> None:
    """Copies bytes between arrays that do not overlap; the last word may lie over the one before, never beyond.

    All numbers are uint64.
    """
    eight = np.uint64(8)
    if size >= eight:
        for step in range((size - np.uint64(1)) >> np.uint64(3)):
            put_word(target, at + eight * step, word_at(data, source + eight * step))
        put_word(target, at + size - eight, word_at(data, source + size - eight))
    else:
        for step in range(size):
            target[at + step] = data[source + step]
