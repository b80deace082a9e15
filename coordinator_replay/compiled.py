"""The two decorators behind which numba hides, so that every loop over bytes also runs without it.

Functions marked here are written in the part of Python that means the same to numba and to the interpreter: no
unbounded integers (``np.int64`` wraps in both), no slices with steps, results through arrays or tuples.
An entry point and the functions it calls should stay in one file: numba's cache notices changes of the entry point's
own file only. Where they can't (``records.json_form`` reads bytes with the machine's functions), a change of the
called functions must touch the caller's file too.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

njit: Any
try:
    from numba import njit
except (ImportError, OSError):  # not installed, or built for another numpy: slower, and just as right
    njit = None

IS_COMPILED = njit is not None
"""Whether numba is there."""

F = TypeVar("F", bound=Callable[..., Any])


def inlined(function: F) -> F:
    """Mark a function that only compiled functions call; it is compiled as part of them."""
    return function if njit is None else cast(F, njit(nogil=True)(function))


class CompiledFunction:
    """A function that is compiled at its first call and kept in numba's cache, if there is a folder to keep it in.

    Numba looks for that folder beside the source file, then in the user's cache folder. With neither (a read-only
    install run by a user without a home) it refuses at once; with a full disk it fails at the first call. In both
    cases the function is compiled for this process alone. None of our functions touches files, so an ``OSError`` out
    of a call can only be the cache's.

    Attributes:
        py_func: The function as written.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.py_func = function
        self._run: Callable[..., Any] = function
        if njit is not None:
            try:
                self._run = njit(cache=True, nogil=True)(function)
            except RuntimeError:
                self._run = njit(nogil=True)(function)

    def __call__(self, *arguments: Any) -> Any:
        """Run the function, compiling it first if need be."""
        try:
            return self._run(*arguments)
        except OSError:
            self._run = njit(nogil=True)(self.py_func)
            return self._run(*arguments)


def compiled(function: Callable[..., Any]) -> CompiledFunction:
    """Mark an entry point: the function that ordinary code calls with arrays."""
    return CompiledFunction(function)
