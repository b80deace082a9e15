"""Lazy imports: a module offers names of other modules, and imports them only at their first use.

Such a module lists the names twice. Imports under ``TYPE_CHECKING`` are for mypy, readers and import contracts. The
call of ``loaded_when_asked`` makes the module's ``__getattr__``. ``tests/test_lazy.py`` compares the two lists.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def loaded_when_asked(module: str, offered: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module.

    Args:
        module: name of the module.
        offered: the names that the module offers from other modules, by the name of the other module. If an entry has
            no names, the other module itself is offered, by the last part of its name.
    """
    places = {name: (source, name) for source, names in offered.items() for name in names}
    places |= {source.rpartition(".")[2]: (source, "") for source, names in offered.items() if not names}

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        source, attribute = places[name]
        found = import_module(source)
        return getattr(found, attribute) if attribute else found

    return load
