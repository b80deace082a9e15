"""Numba for the few loops that neither numpy nor Arrow can run: over bytes, and over events in their order.

Functions marked here make no arrays: results go into arrays that they are given. Numba's cache notices changes of the
file of a compiled function only, so the functions that it calls should stand in the same file.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

_LOCAL_SETTINGS = Path(".numba_config.yaml")


@contextmanager
def _without_local_settings() -> Iterator[None]:
    """Let numba be imported without a look at the settings that lie in the folder the program was started in.

    That folder may be a dump that somebody sent, and one of the settings names the folder of compiled functions.
    """
    if not _LOCAL_SETTINGS.exists():
        yield
        return
    missing = object()
    parser = sys.modules.get("yaml", missing)
    # Numba reads them only where it finds a parser, and warns where it does not.
    sys.modules["yaml"] = cast(Any, None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if parser is missing:
            del sys.modules["yaml"]
        else:
            sys.modules["yaml"] = cast(Any, parser)


with _without_local_settings():
    from numba import njit
    from numba.core import config

# The compiler looks for them again each time.
config._config_fname = os.devnull

F = TypeVar("F", bound=Callable[..., Any])


def inlined(function: F) -> F:
    """Mark a function that only compiled functions call; its body stands in for each call.

    A call would count references to every array that it is given, which takes longer than reading a field.
    """
    return cast(F, njit(nogil=True, inline="always")(function))


def compiled(function: F) -> F:
    """Mark an entry point: the function that ordinary code calls with arrays; it is compiled at its first call.

    Numba keeps what it compiled next to the source file or in the user's cache folder. Where neither can be written, as
    on a read-only install without a home, it refuses at once, and on a full disk at the first call; then the function
    is compiled for this process alone. None of these functions touches files, so an ``OSError`` is the cache's.
    """
    unkept = njit(nogil=True)(function)
    try:
        kept = njit(nogil=True, cache=True)(function)
    except RuntimeError:
        return cast(F, unkept)

    @wraps(function)
    def run(*arguments: Any) -> Any:
        try:
            return kept(*arguments)
        except OSError:
            return unkept(*arguments)

    return cast(F, run)
