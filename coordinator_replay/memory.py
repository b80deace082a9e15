"""Memory for columns that is handed out again once nobody holds it.

Memory that comes from the system comes page by page, cleared, as it is filled, which takes as long as many a loop that
fills it; and Arrow's pool gives large blocks back to the system within milliseconds. The columns of one batch of
records are as large as those of the one before, so that a few blocks serve for all.
"""

import math
import threading
import weakref

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SMALLEST = 1 << 15
"""What is smaller, numpy has at hand itself."""
_MOST_FREE = 1 << 26


class Blocks:
    """Blocks of memory: those that are free by their size.

    A block is given back wherever Python drops an array, also between two steps of the code below; so nobody waits for
    the lock, and who finds it taken does without the blocks that are free.

    Args:
        most_free: how many bytes to keep for the next time at most.

    Attributes:
        free_bytes: how many bytes are free.
    """

    def __init__(self, most_free: int) -> None:
        self.free_bytes = 0
        self._most_free = most_free
        self._free: dict[int, list[pa.Buffer]] = {}
        self._lock = threading.Lock()

    def take(self, size: int) -> np.ndarray:
        """An array of bytes. Its block is free again when it is gone, with all arrays and buffers made from it."""
        if size < _SMALLEST:
            return np.empty(size, np.uint8)
        # Sizes in steps of an eighth, for a block to serve sizes near by.
        step = 1 << (size.bit_length() - 4)
        rounded = -(-size // step) * step
        block = self._free_block(rounded)
        if block is None:
            block = pa.allocate_buffer(rounded)
        array = np.frombuffer(block, np.uint8, size)
        # Numpy lets whatever is made from an array hold the array itself, if another has its memory.
        weakref.finalize(array, self._give_back, block).atexit = False
        return array

    def _free_block(self, size: int) -> pa.Buffer | None:
        if not self._lock.acquire(blocking=False):
            return None
        try:
            blocks = self._free.get(size)
            if not blocks:
                return None
            self.free_bytes -= size
            return blocks.pop()
        finally:
            self._lock.release()

    def _give_back(self, block: pa.Buffer) -> None:
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self.free_bytes + block.size <= self._most_free:
                self.free_bytes += block.size
                self._free.setdefault(block.size, []).append(block)
        finally:
            self._lock.release()


_BLOCKS = Blocks(_MOST_FREE)


def memory(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> np.ndarray:
    """An array to be filled."""
    count = shape if isinstance(shape, int) else math.prod(shape)
    return _BLOCKS.take(count * np.dtype(dtype).itemsize).view(dtype).reshape(shape)
