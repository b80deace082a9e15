"""Options that all commands share, the configuration file, and how errors end a command.

The command line takes precedence over the environment, the environment over the configuration file, and the file over
the default.
"""

import functools
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from coordinator_replay.cli import shown, work
from coordinator_replay.cli.guard import EXIT_USAGE, GuardedCommand, reader_may_leave
from coordinator_replay.cli.help_text import write_exit_codes, write_options
from coordinator_replay.cli.mistakes import explained, time_in_parts
from coordinator_replay.cli.option_types import (
    ABSOLUTE_TIME,
    CLOCK_RULE,
    DURATION,
    END_TIME,
    TIME,
    ZONE_KEY,
    Parsed,
    check_cluster,
    check_warehouse,
    zone_of,
)
from coordinator_replay.cli.waiting import begin_waiting, end_waiting
from coordinator_replay.errors import CoordinatorReplayError, InputError, StoreError, UsageError, WarehouseError
from coordinator_replay.query.similar import did_you_mean
from coordinator_replay.query.times import RANGE_RULE, RULE
from coordinator_replay.store_access import ADVICE, refusal, shortened
from coordinator_replay.zones import parse_zone

if TYPE_CHECKING:
    from coordinator_replay.api import Warehouse

WAREHOUSE_VARIABLE = "COORDINATOR_REPLAY_WAREHOUSE"
ZONE_VARIABLE = "COORDINATOR_REPLAY_ZONE"
CLUSTER_VARIABLE = "COORDINATOR_REPLAY_CLUSTER"
OUTPUT_FORMS = ("table", "json", "csv")

EXIT_FAILED = 1
EXIT_FINDINGS = 3
EXIT_NOTHING = 4

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """The options that every command has.

    Attributes:
        warehouse: path or URI of the folder with the tables; may be empty if a command needs no warehouse.
        cluster: name of the Kafka cluster; None if nobody named it.
        output: ``table``, ``json`` or ``csv``.
        wide: whether tables have all columns in full, whatever the terminal's width.
        verbose: whether to log more, and to print the causes of an error.
        other_cluster: the second cluster of a command that compares two; None if only one was named.
    """

    warehouse: str
    cluster: str | None
    output: str
    wide: bool
    verbose: bool
    other_cluster: str | None = None


_EXAMPLE_WIDTH = 74
"""Width of a line of examples; with its indentation it fits into 80 columns."""


def _examples(lines: Iterable[str]) -> str:
    """Return the examples at the end of a command's help.

    Long lines are continued after a backslash. The text begins with a backspace, which keeps click from joining its
    lines.
    """
    return "\b\nExamples:\n" + "\n".join(f"  {part}" for line in lines for part in _continued(line))


def _continued(line: str) -> list[str]:
    """Return a long command as several lines. Each line but the last ends in a backslash.

    Break lines before options and pipes.
    """
    parts = [""]
    for word in re.split(r" (?=--|\|)", line):
        if parts[-1] and len(parts[-1]) + len(word) + 3 > _EXAMPLE_WIDTH:
            parts[-1] += " \\"
            parts.append(f"    {word}")
        else:
            parts[-1] += f" {word}" if parts[-1] else word
    return parts


class CommandFailure(click.ClickException):
    """An error for the user: one sentence, and the exit code for this kind of error."""

    exit_code = EXIT_FAILED

    def __init__(self, error: CoordinatorReplayError) -> None:

        super().__init__(shown.in_shown_zone(" ".join(str(error).split())))

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error message.

        On a terminal, lines break between words.
        """
        with reader_may_leave():
            if file is not None:
                super().show(file)
            else:
                shown.print_text(f"Error: {self.format_message()}", err=True)


class WrongUse(CommandFailure):
    """An error in the user's call or input."""

    exit_code = EXIT_USAGE


class WrongArguments(click.UsageError):
    """An error of click about a wrong argument. Its message is wrapped to the terminal's width."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the usage of the command and the error message."""
        with reader_may_leave():
            super().show(file)

    def format_message(self) -> str:
        """Return the error message of click.

        On a terminal, lines break between words.
        """
        return "\n".join(shown.text_lines(f"Error: {self.message}", err=True)).removeprefix("Error: ")


def failure(error: CoordinatorReplayError) -> CommandFailure:
    """Return the exception that ends the program.

    The exit code is 2 if the user's call or input is at fault, else 1.
    """
    if refusal(error) is not None and not isinstance(error, StoreError):
        return WrongUse(StoreError(f"{shortened(str(error))}; {ADVICE}"))
    is_of_the_call = isinstance(error, UsageError | InputError | WarehouseError | StoreError)
    return WrongUse(error) if is_of_the_call else CommandFailure(error)


def _print_causes(error: BaseException) -> None:
    cause = error.__cause__ or error.__context__
    while cause is not None:
        click.echo(f"  because of {type(cause).__name__}: {cause}", err=True)
        cause = cause.__cause__ or cause.__context__


class Command(GuardedCommand):
    """A command that turns an error into one sentence and an exit code.

    With ``-v``, the causes of the error follow the sentence.
    """

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, and below them the common options."""
        write_options(self.get_params(ctx), ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the end of the command's help: how to write a time, the examples, and the exit codes.

        A command without options for times has no text about times.
        """
        kinds = {param.type for param in self.params}
        times = RANGE_RULE if END_TIME in kinds else RULE
        for is_taken, rule in (
            (not kinds.isdisjoint({TIME, END_TIME}), times),
            (ABSOLUTE_TIME in kinds, f"{CLOCK_RULE}."),
        ):
            if is_taken:
                with formatter.section("Times"):
                    formatter.write_text(rule)
        super().format_epilog(ctx, formatter)
        write_exit_codes(str(self.name), formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and refuse a time with blanks that is not in quotes."""
        words = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption:
            raise
        except click.UsageError:
            if ctx.resilient_parsing or (in_parts := time_in_parts(ctx, words)) is None:
                raise
            raise click.UsageError(in_parts, ctx) from None
        if not ctx.resilient_parsing and (in_parts := time_in_parts(ctx, words)) is not None:
            raise click.UsageError(in_parts, ctx)
        return rest

    def make_context(self, *arguments: Any, **more: Any) -> click.Context:
        """Parse the words of the command line. The message of an error is made by ``explained``."""
        try:
            return super().make_context(*arguments, **more)
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.UsageError as problem:
            raise WrongArguments(explained(problem), problem.ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command.

        Raises:
            CommandFailure: the command raised an error of this package.
        """
        try:
            return super().invoke(ctx)
        except CoordinatorReplayError as error:
            if ctx.params.get("verbose"):
                _print_causes(error)
            raise failure(error) from error


def _options(command: click.Command) -> dict[str, str]:
    """Return, for each name of an option in a configuration file, the name of the command's parameter."""
    return {
        spelling.removeprefix("--").replace("-", "_"): str(param.name)
        for param in command.params
        if isinstance(param, click.Option)
        for spelling in param.opts
        if spelling.startswith("--")
    }


def _unknown_option(name: str, names: Iterable[str], path: Path) -> UsageError:
    written = name.replace("_", "-")
    hint = did_you_mean(written, [name.replace("_", "-") for name in names])
    return UsageError(f"{path}: no option is called {written!r}{hint and f'; {hint}'}")


def read_config(path: Path, ctx: click.Context) -> dict[str, Any]:
    """Return options of the running command from a configuration file.

    Entries at the top of the file apply to every command that has such an option. Entries in a table named after a
    command (``[audit]``) apply to that command alone.

    Raises:
        UsageError: the file can't be read, or names an option or a command that does not exist.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise UsageError(f"{path}: can't be read as TOML: {problem}") from problem
    parent = ctx.parent.command if ctx.parent is not None else None
    siblings = dict(parent.commands) if isinstance(parent, click.Group) else {}
    commands: Mapping[str, click.Command] = {**siblings, str(ctx.command.name): ctx.command}
    everywhere = {name for command in commands.values() for name in _options(command)}
    own = _options(ctx.command)
    options: dict[str, Any] = {}
    for entry, value in raw.items():
        name = entry.replace("-", "_")
        if isinstance(value, dict):
            if entry not in commands:
                raise UsageError(f"{path}: no command is called {entry!r}")
            if entry != ctx.command.name:
                continue
            named = {key.replace("-", "_"): item for key, item in value.items()}
            for key in named:
                if key not in own:
                    raise _unknown_option(key, own, path)
            options |= {own[key]: item for key, item in named.items()}
        elif name not in everywhere:
            raise _unknown_option(name, everywhere, path)
        elif name in own:
            options.setdefault(own[name], value)
    return options


def _load_config(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    if value is None:
        return
    try:
        ctx.default_map = {**(ctx.default_map or {}), **read_config(value, ctx)}
    except UsageError as problem:
        raise click.BadParameter(str(problem), ctx, param) from problem


def open_warehouse(common: Common, doing: str = "reading the tables") -> "Warehouse":
    """Open the warehouse that the running command reads.

    The warehouse is closed when the command ends.

    Args:
        common: the options of the command, which name the warehouse.
        doing: text of the line on the terminal while the user waits for the answer.

    Raises:
        UsageError: no warehouse was named.
    """
    if not common.warehouse:
        raise UsageError(f"give the warehouse, with --warehouse or in {WAREHOUSE_VARIABLE}")
    ctx = click.get_current_context()
    warehouse = work.Warehouse(common.warehouse, common.cluster, zone=zone_of(ctx))

    def print_notes() -> None:
        for note in warehouse.notes:
            shown.print_note(f"{note}.")

    begin_waiting(doing)
    ctx.call_on_close(end_waiting)
    ctx.call_on_close(warehouse.close)
    ctx.call_on_close(print_notes)
    return warehouse


def warehouse_option(*, is_required: bool) -> Callable[[Function], Function]:
    """Return a decorator that adds the option ``--warehouse`` to a command."""
    return click.option(
        "--warehouse",
        metavar="DIR",
        envvar=WAREHOUSE_VARIABLE,
        show_envvar=True,
        required=is_required,
        type=Parsed("dir", check_warehouse),
        help="Folder or object-store URI that holds the tables.",
    )


cluster_option = click.option(
    "--cluster",
    metavar="NAME",
    envvar=CLUSTER_VARIABLE,
    show_envvar=True,
    type=Parsed("name", check_cluster),
    help="Name of the Kafka cluster. Not needed if the warehouse has one cluster. A first audit without this option "
    'calls the cluster "default".',
)
wait_option = click.option(
    "--wait",
    type=DURATION,
    default="0s",
    show_default=True,
    help="How long to wait for another run on the same warehouse or dump, for example 30m.",
)
config_option = click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    is_eager=True,
    expose_value=False,
    callback=_load_config,
    help="TOML file that sets options.",
)
output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(OUTPUT_FORMS),
    default="table",
    show_default=True,
    help="Form of the answer; json is one object a line.",
)
json_option = click.option("--json", "is_json", is_flag=True, help="The same as --output json.")


def _set_zone(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Set the zone in which the command reads and shows times.

    Without the option, environment variables name the zone. A TZ that names no zone is ignored.
    """
    if value is None:
        return
    try:
        ctx.meta[ZONE_KEY] = parse_zone(value)
    except UsageError as problem:
        if ctx.get_parameter_source("zone") is not ParameterSource.ENVIRONMENT or os.environ.get(ZONE_VARIABLE):
            raise click.BadParameter(str(problem), ctx, param) from problem


zone_option = click.option(
    "--zone",
    envvar=[ZONE_VARIABLE, "TZ"],
    show_envvar=True,
    is_eager=True,
    expose_value=False,
    callback=_set_zone,
    help="Time zone in which times are read and shown, such as Europe/Berlin or +02:00; json and csv have UTC.",
)
wide_option = click.option(
    "--wide", is_flag=True, help="Show all columns of a table in full, whatever the terminal's width."
)
verbose_option = click.option("-v", "--verbose", is_flag=True, help="Log more, and show the causes of an error.")


def command(*shown: str, name: str | None = None) -> Callable[[Function], Command]:
    """Return a decorator that makes a function a command.

    Args:
        shown: examples of the command, as a user types them.
        name: name of the command; None for the function's name.
    """
    return click.command(name, cls=Command, epilog=_examples(shown) if shown else None)


def warehouse_command(
    *shown: str, name: str | None = None, needs_warehouse: bool = True, compares: bool = False
) -> Callable[[Function], Command]:
    """Return a decorator that makes a function a command with the common options.

    The function takes these options as its first argument, ``common``.

    Args:
        shown: examples of the command, as a user types them.
        name: name of the command; None for the function's name.
        needs_warehouse: False for a command that works without a warehouse too, with an empty ``common.warehouse``.
        compares: whether the command takes two clusters, as ``--cluster A,B``.
    """

    def decorate(function: Function) -> Command:
        @functools.wraps(function)
        def run(*, warehouse: str | None, cluster: str | None, **asked: Any) -> Any:
            shared = {name: asked.pop(name) for name in ("output", "wide", "verbose")}
            if asked.pop("is_json"):
                shared["output"] = "json"
            other = None
            if compares and cluster is not None:
                cluster, _, other = cluster.partition(",")
            common = Common(warehouse=warehouse or "", cluster=cluster, other_cluster=other or None, **shared)
            return function(common, **asked)

        options = [
            warehouse_option(is_required=needs_warehouse),
            cluster_option,
            config_option,
            output_option,
            json_option,
            wide_option,
            zone_option,
            verbose_option,
        ]
        decorated: Any = run
        for option in reversed(options):
            decorated = option(decorated)
        return command(*shown, name=name)(decorated)

    return decorate
