"""Fewer garbage collections while many rows are made."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_COLLECT_EVERY = 1_000_000


@contextmanager
def few_collections() -> Iterator[None]:
    """Collect garbage rarely in the block.

    Rows make no cycles, so a collection frees nothing. But each collection goes through all kept objects.
    """
    usual = gc.get_threshold()
    gc.set_threshold(_COLLECT_EVERY, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
