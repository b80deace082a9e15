"""Numba for the few loops that neither numpy nor Arrow can run: over bytes, and over events in their order.

Functions marked here make no arrays: results go into arrays that they are given. Numba's cache notices changes of the
file of a compiled function only, so the functions that it calls should stand in the same file.
"""

import os
from collections.abc import Callable
from contextlib import chdir, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

# Numba reads a settings file in the working directory, which may be a dump that somebody sent. One setting names the
# folder of compiled functions.
with chdir(os.sep) if Path(".numba_config.yaml").exists() else nullcontext():
    from numba import njit
    from numba.core import config

# Looked up once, because the compiler would look for them again each time.
config._config_fname = os.devnull

F = TypeVar("F", bound=Callable[..., Any])


def inlined(function: F) -> F:
    """Mark a function that only compiled functions call.

    The body of the function replaces each call.

    A call would count references to every array that it is given, which takes longer than reading a field.
    """
    return cast(F, njit(nogil=True, inline="always")(function))


def called(function: F) -> F:
    """Mark a function that only compiled functions call, and rarely.

    The function is compiled once, for all its calls.

    Each copy of an inlined function takes a fraction of a second at the first audit on a machine.
    """
    return cast(F, njit(nogil=True)(function))


def compiled(function: F) -> F:
    """Mark a compiled function that ordinary code calls with arrays.

    The function is compiled at its first call.

    Numba keeps what it compiled next to the source file or in the user's cache folder. If neither can be written, as
    on a read-only install without a home, Numba fails at once; on a full disk it fails at the first call. Then the
    function is compiled for this process alone. None of these functions opens files, so an ``OSError`` comes from the
    cache.
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
