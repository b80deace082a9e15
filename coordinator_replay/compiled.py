"""The one place that knows numba: loops over bytes, compiled where numba is at hand and plain Python where not.

Compiled code is cached beside the source or in the user's cache folder; where neither can be written, each process
compiles anew. Uncompiled, the same functions give the same answers, a hundred times slower.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

try:
    import numba
except ImportError:  # pragma: no cover - numba is a declared dependency
    numba = None  # type: ignore[assignment]

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function of numpy arrays and numbers; ``.py_func`` of the result is the plain function."""
    if numba is None:
        return function
    try:
        return cast(Function, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:
        # No folder to keep compiled code in (a read-only installation without a home).
        return cast(Function, numba.njit(nogil=True)(function))
