"""Messages about command lines that can't be run.

They name the option or command that the user may have meant: one with a similar spelling or a similar meaning.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

import click

from coordinator_replay.cli import work
from coordinator_replay.cli.completion import GROUP_NAME
from coordinator_replay.cli.option_types import DURATION, DURATION_MS, ParsedTime
from coordinator_replay.errors import UsageError
from coordinator_replay.query.similar import nearest
from coordinator_replay.query.times import parse_duration, parse_time
from coordinator_replay.zones import parse_zone

_OPTIONS: Mapping[str, Sequence[str]] = {
    "--from": ("since", "start", "begin", "after", "newer-than"),
    "--to": ("until", "end", "stop", "before"),
    "--at": ("time", "when", "timestamp", "as-of", "date", "on"),
    "--output": ("format", "csv", "out-format", "json"),
    "--out": ("output-file", "file", "html", "svg"),
    "--zone": ("tz", "timezone", "time-zone", "local"),
    "--wide": ("full", "all-columns", "no-trunc", "no-truncate"),
    "--warehouse": ("dir", "path", "db", "tables"),
    "--group": ("groups", "consumer-group", "group-id"),
    "--name": ("groups", "group", "pattern", "filter", "grep", "match"),
    "--exclude": ("ignore", "without", "skip", "not"),
    "--client": ("client-id", "clientid", "consumer", "app"),
    "--host": ("client-host", "ip", "hostname", "address"),
    "--topic": ("topics", "topic-name"),
    "--within": ("until", "horizon", "next", "soon"),
    "--last": ("limit", "head", "tail", "top"),
    "--severity": ("level", "min-severity"),
    "--cause": ("reason", "why"),
    "--end-offsets": ("lag", "log-end-offsets"),
}
"""Options, each with other words for it."""

_COMMANDS: Mapping[str, Sequence[str]] = {
    "groups": ("list", "ls", "group", "states"),
    "describe": ("members", "member", "show", "state", "status"),
    "offsets": ("lag", "reset", "commits", "committed"),
    "expired": ("expire", "expiring", "lost", "retention"),
    "timeline": ("history", "events", "log"),
    "rebalances": ("rebalancing", "storms"),
    "why": ("explain", "reasons", "causes"),
    "owner": ("owners", "assignment", "who", "partitions"),
    "findings": ("problems", "alerts", "check", "warnings", "health"),
    "consumers": ("topic", "topics", "readers", "who-reads"),
    "report": ("html", "page", "pages", "draw", "graph"),
    "sql": ("query", "queries", "select", "rollouts", "deploys"),
    "export": ("dump", "copy", "fetch"),
    "audit": ("import", "load", "run", "read"),
    "decode": ("cat", "print", "records"),
    "maintain": ("vacuum", "optimize", "compact", "clean"),
    "what-if": ("whatif", "simulate-group"),
    "metrics": ("prometheus",),
}
"""Commands, each with other words for it."""

_OF_KAFKAS_TOOLS: Mapping[str, str] = {
    "--bootstrap-server": "no broker is asked: --warehouse names the tables that an audit wrote",
    "--bootstrap-servers": "no broker is asked: --warehouse names the tables that an audit wrote",
    "--command-config": "no broker is asked: --warehouse names the tables that an audit wrote",
    "--describe": "it is a command here: coordinator-replay describe GROUP",
    "--list": "it is a command here: coordinator-replay groups",
    "--delete": "nothing is deleted from a cluster here; groups --deleted lists deleted groups",
    "--reset-offsets": "offsets GROUP --at TIME --reset-file FILE writes what kafka-consumer-groups takes",
}


_SEVERAL_GROUPS = "describe and offsets take several, and --name takes a pattern"


def explained(problem: click.UsageError) -> str:
    """Return the message for a command line that can't be run."""
    if isinstance(problem, click.NoSuchOption):
        return _unknown_option(problem)
    if isinstance(problem, click.MissingParameter) and isinstance(problem.param, click.Option) and problem.param.help:
        return f"{problem.format_message().rstrip('.')}: {_first_sentence(problem.param.help)}"
    message = problem.format_message()
    extra = _EXTRA.search(message)
    return message if extra is None or problem.ctx is None else _too_many_words(problem.ctx, message, extra[1])


_EXTRA = re.compile(r"unexpected extra arguments? \((.*)\)")


def _too_many_words(ctx: click.Context, message: str, extra: str) -> str:
    """Return the error message for words that no argument of a command takes.

    Args:
        ctx: the command's context.
        message: click's message.
        extra: the words that no argument takes.
    """
    command, group = ctx.command, ctx.params.get("group")
    if command.name == "sql":
        return (
            'The statement must stand in quotes, as in sql "SELECT * FROM rebalances". Without them, the shell splits '
            "it into words, and puts the names of files in place of *."
        )
    if not isinstance(group, str) or not any(param.name == "group" and param.nargs == 1 for param in command.params):
        return f"{message}: a name with blanks must stand in quotes."
    names, typed = GROUP_NAME.known(ctx), f"{group} {extra}"
    in_quotes = f"A name with blanks must stand in quotes: {command.name} {_in_quotes(typed)}."
    if typed in names:
        return in_quotes
    is_other_group = not {extra, *extra.split()}.isdisjoint(names)
    times = _options_of(command, lambda kind: isinstance(kind, ParsedTime))
    if "--at" in times and not is_other_group and _refusal(parse_time, extra) is None:
        return f'{command.name} takes a time as --at "{extra}".'
    if group in names:
        return f"{command.name} takes one GROUP; {_SEVERAL_GROUPS}."
    near = nearest(typed, names)
    if near is not None:
        return f"{command.name} takes one GROUP, and no group is called {typed!r}: did you mean {near!r}?"
    return f"{command.name} takes one GROUP. {in_quotes}"


def _in_quotes(text: str) -> str:
    """Return a text in quotes, as a shell reads it."""
    return shlex.quote(text) if re.search(r'[$`"\\!]', text) else f'"{text}"'


_PART_OF_TIME = re.compile(r"\d{1,2}[:.]\d{2}\S*|seconds?|minutes?|hours?|days?|weeks?|ago|am|pm", re.IGNORECASE)


def time_in_parts(ctx: click.Context, words: Sequence[str]) -> str | None:
    """Return an error message for a time or a duration that the user typed with blanks and without quotes.

    An option takes only the first word of such a time. The words after it look like arguments. Return None if
    no words follow, or if the words that follow are real arguments (names of groups or files).

    Args:
        ctx: the command's context, after the words were parsed.
        words: the words of the command line.
    """
    times = _options_of(ctx.command, lambda kind: isinstance(kind, ParsedTime))
    durations = _options_of(ctx.command, lambda kind: kind in (DURATION, DURATION_MS))
    hint: str | None
    for index, option in enumerate(words[:-2]):
        first, after = words[index + 1], words[index + 2 :]
        if option in times and (rest := [*takewhile(_is_part_of_time, after)]):
            hint = _quoted_time(option, " ".join([first, *rest]))
        elif option in durations and (rest := _rest_of_duration(after)):
            hint = _quoted_duration(option, first, rest)
        else:
            continue
        if hint is not None and not _are_arguments(ctx, rest):
            return hint
    return None


def _are_arguments(ctx: click.Context, words: Sequence[str]) -> bool:
    """Return whether all words name groups of the warehouse. If the command takes no group, they must name files."""
    if any(param.type is GROUP_NAME for param in ctx.command.params):
        return set(words) <= set(GROUP_NAME.known(ctx))
    return all(Path(word).exists() for word in words)


def _options_of(command: click.Command, is_wanted: Callable[[object], bool]) -> set[str]:
    """Return the names of those options of a command for whose types ``is_wanted`` is true."""
    return {name for param in command.params if is_wanted(param.type) for name in param.opts}


def _quoted_time(option: str, text: str) -> str:
    """Return the error message for a time that the user typed with blanks and without quotes.

    If all words together are a time, the message shows it in quotes.
    """
    refusal = _refusal(parse_time, text)
    if refusal is not None:
        return f"Invalid value for '{option}': {refusal}."
    return f'A time with blanks must stand in quotes: {option} "{text}".'


def _quoted_duration(option: str, first: str, rest: Sequence[str]) -> str | None:
    """Return the error message for a duration that the user typed with blanks and without quotes.

    If all words together are a duration, the message shows it in quotes. If only the first word is a duration, return
    None, because the other words may be arguments.
    """
    text = " ".join([first, *rest])
    refusal = _refusal(parse_duration, text)
    if refusal is None:
        return f'A duration with blanks must stand in quotes: {option} "{text}".'
    return None if _refusal(parse_duration, first) is None else f"Invalid value for '{option}': {refusal}."


def _refusal(parse: Callable[[str], object], text: str) -> str | None:
    """Return why a parser refuses a text; None if the parser reads it."""
    try:
        parse(text)
    except UsageError as problem:
        return str(problem)
    return None


_PART_OF_DURATION = re.compile(
    r"(?:\d+(?:ms|[wdhms])|(?:\d+)?(?:weeks?|days?|hours?|hrs?|minutes?|mins?|seconds?|secs?)|\d+|and),?", re.IGNORECASE
)
_UNFINISHED = re.compile(r"\d+|and", re.IGNORECASE)


def _rest_of_duration(words: Sequence[str]) -> list[str]:
    """Return the words that may be the rest of a duration, given all words after its first word.

    A number or the word ``and`` at the end is left out: a duration ends with a unit.
    """
    rest = [*takewhile(_PART_OF_DURATION.fullmatch, words)]
    while rest and _UNFINISHED.fullmatch(rest[-1]):
        rest.pop()
    return rest


def _is_part_of_time(word: str) -> bool:
    """Return whether a word after a time is the rest of the time: a time of day, a unit or a zone."""
    if word.startswith("-"):
        return False
    return _PART_OF_TIME.fullmatch(word) is not None or _refusal(parse_zone, word) is None


def _first_sentence(text: str) -> str:
    first, separator, _ = text.partition(". ")
    return f"{first}." if separator else text


def _unknown_option(problem: click.NoSuchOption) -> str:
    typed = problem.option_name
    if typed in _OF_KAFKAS_TOOLS:
        return f"No such option {typed!r}: {_OF_KAFKAS_TOOLS[typed]}."
    command = None if problem.ctx is None else problem.ctx.command
    if isinstance(command, click.Group) and any(typed in _names(each) for each in command.commands.values()):
        return f"No such option {typed!r} before the command. Write it behind the command, as in 'groups {typed} …'."
    known = [name for name in _names(command) if name.startswith("--")]
    meant = _meant(typed.lower().lstrip("-").replace("_", "-"), known, _OPTIONS)
    near = meant or nearest(typed, known)
    return f"No such option {typed!r}. " + (f"Did you mean {near!r}?" if near else "--help lists the options.")


def _names(command: click.Command | None) -> list[str]:
    """Return the names of a command's options."""
    return [name for param in (command.params if command else ()) for name in param.opts]


def unknown_command(typed: str, known: Sequence[str]) -> str:
    """Return the message for a command that does not exist."""
    query = typed.lower().replace("_", "-")
    if query in {saved.name for saved in work.Warehouse.saved_queries()}:
        return f"No such command {typed!r}. It is a saved query: sql --query {query}"
    near = _meant(typed.lower(), known, _COMMANDS) or nearest(typed, known)
    hint = f"Did you mean {near!r}?" if near else "--help lists the commands."
    return f"No such command {typed!r}. {hint}"


def _meant(typed: str, known: Sequence[str], words: Mapping[str, Sequence[str]]) -> str | None:
    """Return the first known name that has the typed word as a synonym; None if there is none.

    Args:
        typed: the word that the user typed.
        known: the known names.
        words: the synonyms of each name.
    """
    return next((name for name, others in words.items() if name in known and typed in others), None)
