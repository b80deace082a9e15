import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.words import copy_bytes


@given(st.binary(max_size=80), st.binary(max_size=9), st.binary(max_size=9))
def test_bytes_of_any_length_are_copied_and_no_others_touched(body: bytes, before: bytes, after: bytes) -> None:
    data = np.frombuffer(before + body + after, np.uint8)
    target = np.full(len(data) + 3, 0xEE, np.uint8)
    copy_bytes(data, np.uint64(len(before)), target, np.uint64(3), np.uint64(len(body)))
    assert target.tobytes() == b"\xee" * 3 + body + b"\xee" * (len(before) + len(after))
