"""Messages about command lines that can't be run.

They name the option or command that the user may have meant: one with a similar spelling or a similar meaning.
"""

from collections.abc import Mapping, Sequence

import click

from coordinator_replay.cli import work
from coordinator_replay.query.similar import nearest

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
    if "unexpected extra argument" in message:
        command = None if problem.ctx is None else problem.ctx.command
        if command is not None and command.name == "sql":
            return f"{message}: a statement must stand in quotes."
        takes_one = any(param.name == "group" and param.nargs == 1 for param in (command.params if command else ()))
        several = f" It takes one GROUP; {_SEVERAL_GROUPS}." if takes_one else ""
        return f"{message}: a name, or a time with blanks, must stand in quotes.{several}"
    return message


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
    """Return the first known name for which ``words`` has the typed word as a synonym."""
    return next((name for name, others in words.items() if name in known and typed in others), None)
