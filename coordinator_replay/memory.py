"""Memory for columns that is handed out again once nobody holds it.

Memory that comes from the system comes page by page, cleared, as it is filled, which takes as long as many a loop that
fills it; and Arrow's pool gives large blocks back to the system within milliseconds. The columns of one batch of
records are as large as those of the one before, so that a few blocks serve for all.
"""

import math
import weakref

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SMALLEST = 1 << 15
"""What is smaller, Arrow's pool has at hand itself."""
_MOST_FREE = 1 << 26


class Blocks:
    """Blocks of memory: those that are free by their size.

    Args:
        most_free: how many bytes to keep for the next time at most.
    """

    def __init__(self, most_free: int) -> None:
        self._most_free = most_free
        self._free: dict[int, list[pa.Buffer]] = {}

    @property
    def free_bytes(self) -> int:
        """How many bytes are free; added up each time, since no count stays right where threads meet."""
        return sum(size * len(blocks) for size, blocks in list(self._free.items()))

    def take(self, size: int) -> np.ndarray:
        """An array of bytes. Its block is free again when it is gone, with all arrays and buffers made from it."""
        if size < _SMALLEST:
            return np.frombuffer(pa.allocate_buffer(size), np.uint8)
        # Sizes in steps of an eighth, for a block to serve sizes near by.
        step = 1 << (size.bit_length() - 4)
        rounded = -(-size // step) * step
        try:
            block = self._free[rounded].pop()
        except (KeyError, IndexError):
            block = pa.allocate_buffer(rounded)
        array = np.frombuffer(block, np.uint8, size)
        # Numpy lets whatever is made from an array hold the array itself, if another has its memory.
        weakref.finalize(array, self._give_back, block).atexit = False
        return array

    def _give_back(self, block: pa.Buffer) -> None:
        if self.free_bytes + block.size <= self._most_free:
            self._free.setdefault(block.size, []).append(block)


_BLOCKS = Blocks(_MOST_FREE)


def memory(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> np.ndarray:
    """An array to be filled."""
    count = shape if isinstance(shape, int) else math.prod(shape)
    return _BLOCKS.take(count * np.dtype(dtype).itemsize).view(dtype).reshape(shape)
