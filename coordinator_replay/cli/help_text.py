"""Sections of a command's help: its own options, the common options, and the exit codes."""

from collections.abc import Mapping, Sequence

import click

SHARED = ("warehouse", "cluster", "config", "output", "is_json", "wide", "zone", "verbose", "help")
"""Parameters of common options; their help comes after the help of the command's own options."""

EXIT_CODES: Mapping[str, str] = {
    "0": "Done or answered, even if nothing was found.",
    "1": "The run failed.",
    "2": "Wrong usage, or input that can't be used: an unknown group, time or warehouse.",
    "130": "Ended by Ctrl-C.",
}
"""Exit codes of every command."""

MORE_EXIT_CODES: Mapping[str, tuple[str, str]] = {
    "audit": ("3", "--fail-on: new findings. --strict: records were quarantined, or groups not evaluated."),
    "findings": ("4", "--exit-code: no finding was shown."),
}
"""Exit codes that only one command has."""


def write_options(params: Sequence[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the command's own options, and below them the common options."""
    sections: dict[str, list[tuple[str, str]]] = {"Options": [], "Common options": []}
    for param in params:
        record = param.get_help_record(ctx)
        if record is not None:
            sections["Common options" if param.name in SHARED else "Options"].append(record)
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def write_exit_codes(name: str, formatter: click.HelpFormatter) -> None:
    """Write the exit codes of a command."""
    more = MORE_EXIT_CODES.get(name)
    codes = [*EXIT_CODES.items(), *([more] if more else [])]
    with formatter.section("Exit codes"):
        formatter.write_dl(sorted(codes, key=lambda pair: int(pair[0])))
