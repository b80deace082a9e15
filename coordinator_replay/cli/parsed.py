"""Option types that a function reads from what was typed."""

from collections.abc import Callable
from datetime import date, time
from types import NoneType
from typing import Any

import click

from coordinator_replay.errors import UsageError


class Parsed(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """Option type of a value that is written as text.

    Args:
        name: what the help calls the value.
        parse: reads the text; a UsageError of its becomes one about the option.
        values: the type of the values that it makes: a default may be one already.
    """

    def __init__(self, name: str, parse: Callable[[str], object], values: type = NoneType) -> None:
        self.name = name
        self._parse = parse
        self._values = values

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """The value of what was typed, or stands in the configuration, which can hold a time as TOML's own type."""
        if isinstance(value, self._values):
            return value
        try:
            return self._parse(value.isoformat() if isinstance(value, date | time) else str(value))
        except UsageError as problem:
            self.fail(str(problem), param, ctx)
