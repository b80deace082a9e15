import gc

import numpy as np
import pyarrow as pa

from coordinator_replay.memory import Blocks

SIZE = 100_000


def _place(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_is_handed_out_again_when_nobody_holds_it() -> None:
    blocks = Blocks(1 << 20)
    first = blocks.take(SIZE)
    place = _place(first)
    assert _place(blocks.take(SIZE)) != place
    del first
    assert place in {_place(array) for array in [blocks.take(SIZE) for _ in range(2)]}


def test_what_was_made_of_memory_holds_it() -> None:
    blocks = Blocks(1 << 20)
    array = blocks.take(SIZE)
    array[:] = 7
    kept = pa.array(array.view(np.int32)[10:20])
    buffer = pa.py_buffer(array.reshape(2, -1)[1])
    del array
    gc.collect()
    for _ in range(3):
        blocks.take(SIZE)[:] = 9
    assert set(kept.to_numpy().view(np.uint8).tolist()) == {7}
    assert set(bytes(buffer)) == {7}
    place = buffer.address - SIZE // 2
    del kept, buffer
    assert _place(blocks.take(SIZE)) == place


def test_no_more_is_kept_than_allowed() -> None:
    blocks = Blocks(3 * SIZE)
    del (arrays := [blocks.take(SIZE) for _ in range(10)])[:]
    del arrays
    assert 0 < blocks.free_bytes <= 3 * SIZE
