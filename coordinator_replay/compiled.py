"""The decorators behind which numba hides, so that every loop over bytes also runs without it.

Functions marked here are written in the part of Python that means the same to numba and to the interpreter: no
unbounded integers (``np.int64`` wraps in both), no slices with steps, no new arrays, results through arrays that they
are given or tuples.
An entry point and the functions it calls should stay in one file: numba's cache notices changes of the entry point's
own file only. A change of a called function of another file must touch the caller's file, too.
"""

import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


njit: Any
try:
    with _without_local_settings():
        from numba import njit
        from numba.core import config

    # The compiler looks for them again each time.
    config._config_fname = os.devnull
except (ImportError, OSError):  # not installed, or built for another numpy: slower, and just as right
    njit = None

IS_COMPILED = njit is not None
"""Whether numba is there."""

# Without numba's memory management: its counting of references to arrays, two atomic steps wherever one is handed on,
# took longer than the loops themselves. So these functions make no arrays; they get them.
_OPTIONS: Any = {"nogil": True, "_nrt": False}

F = TypeVar("F", bound=Callable[..., Any])


def inlined(function: F) -> F:
    """Mark a function that only compiled functions call; it is compiled as part of them."""
    return function if njit is None else cast(F, njit(**_OPTIONS)(function))


def spliced(function: F) -> F:
    """As ``inlined``, for small functions in the innermost loops: a call costs more than they do.

    The compiler often does not see that by itself. But each place where such a function is used takes its time again
    to be compiled.
    """
    return function if njit is None else cast(F, njit(**_OPTIONS, inline="always")(function))


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
                self._run = njit(**_OPTIONS, cache=True)(function)
            except RuntimeError:
                self._run = njit(**_OPTIONS)(function)

    def __call__(self, *arguments: Any) -> Any:
        """Run the function, compiling it first if need be."""
        try:
            return self._run(*arguments)
        except OSError:
            self._run = njit(**_OPTIONS)(self.py_func)
            return self._run(*arguments)


def compiled(function: Callable[..., Any]) -> CompiledFunction:
    """Mark an entry point: the function that ordinary code calls with arrays."""
    return CompiledFunction(function)


def crc32c_instruction() -> Any:
    """The processor's own CRC-32C step over eight bytes, for compiled functions; None where it lacks one.

    Its arguments are the sum so far and the bytes as a little-endian number, its result the new sum, all of them
    uint64.
    """
    if njit is None or platform.machine().lower() not in ("x86_64", "amd64"):
        return None
    from llvmlite import binding, ir
    from numba import types
    from numba.core.cgutils import get_or_insert_function
    from numba.extending import intrinsic

    if not binding.get_host_cpu_features().get("sse4.2"):
        return None

    @intrinsic
    def step(_typing: Any, _crc: Any, _word: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            word = ir.IntType(64)
            takes_two = ir.FunctionType(word, [word, word])
            name = "llvm.x86.sse42.crc32.64.64"
            return builder.call(get_or_insert_function(builder.module, takes_two, name), arguments)  # type: ignore[no-untyped-call]

        return types.uint64(types.uint64, types.uint64), generate

    return step


def reads_word(order: str) -> Callable[[F], F]:
    """Mark a function that reads eight bytes as a number: compiled functions do so by one instruction.

    It takes a uint8 array whose bytes lie side by side, and the position as uint64. The compiler often sees by itself
    that eight steps over bytes are one over a word, but not where it finds a use for some of the bytes before.

    Args:
        order: which of the bytes is the lowest, "little" for the first or "big" for the last.
    """
    if njit is None:
        return lambda function: function
    from numba import types
    from numba.extending import intrinsic, overload

    def load(_typing: Any, data: Any, _at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = builder.load(_word_in(context, builder, signature, arguments), align=1)
            return word if order == sys.byteorder else builder.bswap(word)

        return (types.uint64(data, types.uint64), generate) if data.is_c_contig else None

    instruction: Any = intrinsic(load)

    def mark(function: F) -> F:
        overload(function, inline="always", jit_options=_OPTIONS)(
            lambda data, at: lambda data, at: instruction(data, at)
        )
        return function

    return mark


def writes_word(order: str) -> Callable[[F], F]:
    """Mark a function that writes a number as eight bytes, as ``reads_word`` those that read one."""
    if njit is None:
        return lambda function: function
    from numba import types
    from numba.extending import intrinsic, overload

    def store(_typing: Any, data: Any, _at: Any, _word: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = arguments[2] if order == sys.byteorder else builder.bswap(arguments[2])
            builder.store(word, _word_in(context, builder, signature, arguments), align=1)
            return context.get_dummy_value()

        return (types.void(data, types.uint64, types.uint64), generate) if data.is_c_contig else None

    instruction: Any = intrinsic(store)

    def mark(function: F) -> F:
        overload(function, inline="always", jit_options=_OPTIONS)(
            lambda target, at, word: lambda target, at, word: instruction(target, at, word)
        )
        return function

    return mark


def _word_in(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """A pointer to the word that stands at a position, the second argument, of an array, the first."""
    from llvmlite import ir

    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(64).as_pointer())
