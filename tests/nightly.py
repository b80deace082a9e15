"""Cases that only the nightly run does (`scripts/test --long`), beside those that every run does."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def rest_at_night(cases: Iterable[Any], always: Collection[Any]) -> list[Any]:
    """Return the cases for `parametrize`: those that are not in `always` are marked long.

    Raises ValueError where `always` names a case that does not exist.
    """
    cases = list(cases)
    if unknown := [case for case in always if case not in cases]:
        raise ValueError(f"no such case: {unknown}")
    return [case if case in always else pytest.param(case, marks=pytest.mark.long) for case in cases]
