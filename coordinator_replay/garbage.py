"""How often Python looks for garbage while many rows are made."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_COLLECT_EVERY = 1_000_000


@contextmanager
def few_collections() -> Iterator[None]:
    """Look for garbage in cycles seldom: rows make none, and each look goes through all that is kept."""
    usual = gc.get_threshold()
    gc.set_threshold(_COLLECT_EVERY, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
