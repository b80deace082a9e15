"""Regular expressions in RE2's syntax: consumers subscribe to topics by them, and commands choose groups by them."""

from typing import Any

import re2


def compile_pattern(expression: str) -> Any:
    """Compile an expression.

    If the expression is not valid, RE2 writes nothing to standard error.

    Raises:
        ValueError: the expression is not valid. The error has RE2's text.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        complaint = error.args[0]
        text = complaint.decode("utf-8", "replace") if isinstance(complaint, bytes) else str(complaint)
        raise ValueError(text) from error
