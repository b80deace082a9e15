import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.compiled import compiled
from coordinator_replay.words import copy_bytes, number_at, put_word, word_at


@compiled
def _move(data: np.ndarray, source: np.uint64, target: np.ndarray, at: np.uint64, numbers: np.ndarray) -> None:
    numbers[0], numbers[1] = word_at(data, source), number_at(data, source)
    put_word(target, at, word_at(data, source))


@given(st.binary(max_size=80), st.binary(max_size=9), st.binary(max_size=9))
def test_bytes_of_any_length_are_copied_and_no_others_touched(body: bytes, before: bytes, after: bytes) -> None:
    data = np.frombuffer(before + body + after, np.uint8)
    target = np.full(len(data) + 3, 0xEE, np.uint8)
    copy_bytes(data, np.uint64(len(before)), target, np.uint64(3), np.uint64(len(body)))
    assert target.tobytes() == b"\xee" * 3 + body + b"\xee" * (len(before) + len(after))


@given(st.binary(min_size=8, max_size=8), st.binary(max_size=9), st.integers(0, 9))
def test_words_are_read_and_written_where_they_stand_compiled_or_not(word: bytes, before: bytes, at: int) -> None:
    data = np.frombuffer(before + word, np.uint8)
    for move in (_move, _move.py_func):
        target, numbers = np.full(20, 0xEE, np.uint8), np.zeros(2, np.uint64)
        move(data, np.uint64(len(before)), target, np.uint64(at), numbers)
        assert target.tobytes() == b"\xee" * at + word + b"\xee" * (12 - at)
        assert numbers.tolist() == [int.from_bytes(word, "little"), int.from_bytes(word, "big")]
