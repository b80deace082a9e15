"""Compilation by Numba, for the few loops over bytes or events that neither numpy nor Arrow can run.

Compiled functions make no arrays: they write their results into arrays that the caller passes. Numba keeps compiled
code in a cache. The cache notices changes only in the file of the compiled function. So all functions that a compiled
function calls should be in the same file.
"""

import os
from collections.abc import Callable
from contextlib import chdir, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

# With colours, Numba would write the sequence that ends them to the terminal when the program ends.
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")

# Numba reads a settings file in the working directory, which may be a dump that somebody sent. One of its settings
# names the folder from which Numba loads compiled functions.
with chdir(os.sep) if Path(".numba_config.yaml").exists() else nullcontext():
    from numba import njit
    from numba.core import config

# The settings have been read. Without this line, Numba would look for its settings file again at each compilation.
config._config_fname = os.devnull

F = TypeVar("F", bound=Callable[..., Any])


def inlined(function: F) -> F:
    """Mark a function that only compiled functions call.

    Numba replaces each call by the function's body, which is faster for a small function with arrays as arguments.
    """
    return cast(F, njit(nogil=True, inline="always")(function))


def called(function: F) -> F:
    """Mark a function that only compiled functions call, and rarely.

    The function is compiled once for all its calls. A function marked by ``inlined`` is compiled again for each place
    that calls it.
    """
    return cast(F, njit(nogil=True)(function))


def compiled(function: F) -> F:
    """Mark a function that ordinary Python code calls with arrays. Numba compiles it at the first call.

    Numba keeps the compiled code in a cache on disk. If the cache can't be written, the function is compiled for this
    process alone.
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
