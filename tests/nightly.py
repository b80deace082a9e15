"""What every run does of what the nightly run does whole (`scripts/test --long`)."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings

few_examples = settings(max_examples=max(settings.default.max_examples // 4, 1))
"""By day, for a property each example of which takes a tenth of a second or more: a quarter of the usual ones."""

many_examples = settings(max_examples=4 * settings.default.max_examples)
"""At night, for the same property."""


def rest_at_night(cases: Iterable[Any], always: Collection[Any], *, several: bool = False) -> list[Any]:
    """Return the cases for `parametrize`: those that are not in `always` are marked long.

    With `several`, a case is a tuple with the values of several parameters.
    Raises ValueError where `always` names a case that does not exist.
    """
    cases = list(cases)
    if unknown := [case for case in always if case not in cases]:
        raise ValueError(f"no such case: {unknown}")
    return [
        case if case in always else pytest.param(*(case if several else (case,)), marks=pytest.mark.long)
        for case in cases
    ]
