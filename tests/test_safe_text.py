"""Texts of clients: nothing in them is obeyed, and no two different ones look the same for want of ink."""

import json
import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.safe_text import UNSAFE, neutral, neutral_json

INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufe0f\U000e0100"


def test_every_control_format_and_separator_character_is_escaped():
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in INVISIBLE:
            assert UNSAFE.fullmatch(chr(code)), hex(code)
    assert all(UNSAFE.fullmatch(filler) for filler in FILLERS)


@given(st.text(st.characters(exclude_categories=[*INVISIBLE, "Mn", "Cn"])))
def test_what_can_be_seen_stays(text):
    seen = "".join(one for one in text if one not in FILLERS)
    assert neutral(seen) == neutral_json(seen) == seen


@given(st.text() | st.text(st.sampled_from('\x1b\u061c\u200b\ufeff\U000e0001\ud800a\\"')))
def test_json_says_the_same_without_them(text):
    safe = neutral_json(json.dumps([text], ensure_ascii=False))
    assert not UNSAFE.search(safe)
    # A pair of surrogates is one character, whoever wrote it as two.
    assert json.loads(safe) == json.loads(json.dumps([text]))
    assert not UNSAFE.search(neutral(text))
