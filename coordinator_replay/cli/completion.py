"""Arguments that the shell completes: names from the tables, and names of saved queries."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from coordinator_replay.cli import work
from coordinator_replay.errors import CoordinatorReplayError
from coordinator_replay.safe_text import UNSAFE

if TYPE_CHECKING:
    from coordinator_replay.query.tables import Tables

Candidates = Callable[["Tables", str], Sequence[str]]
"""A function that returns candidates, given the tables and the group that the command line names."""


def _groups(tables: "Tables", _group: str) -> Sequence[str]:

    return work.group_names(tables)


def _owned_topics(tables: "Tables", group: str) -> Sequence[str]:

    return list(work.owned_topics(tables, group))


def _committed_topics(tables: "Tables", group: str) -> Sequence[str]:

    return work.committed_topics(tables, group)


def _topics(tables: "Tables", _group: str) -> Sequence[str]:

    return work.topic_names(tables)


def _causes(tables: "Tables", _group: str) -> Sequence[str]:

    return work.recorded_causes(tables)


def _rules(tables: "Tables", _group: str) -> Sequence[str]:

    return sorted({finding.rule for finding in work.findings_of(tables)})


class _Name(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    def __init__(self, name: str, candidates: Candidates) -> None:
        self.name = name
        self.candidates = candidates

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return names that begin with the typed text.

        Return no names if there is no warehouse, or if its tables can't be read.
        """
        # A name that is empty or has invisible characters can't be shown or typed.
        shown = [name for name in self.known(ctx) if name and UNSAFE.search(name) is None]
        return [CompletionItem(name) for name in shown if name.lower().startswith(incomplete.lower())]

    def known(self, ctx: click.Context) -> Sequence[str]:
        """Return the names that may be completed, such as the groups in the warehouse of ``--warehouse``.

        Return no names if the warehouse can't be read.
        """
        try:
            return self._names(ctx)
        except CoordinatorReplayError:
            # Neither completion nor a message about another mistake may end in an error about the warehouse.
            return ()

    def _names(self, ctx: click.Context) -> Sequence[str]:

        if not ctx.params.get("warehouse"):
            return ()
        # After an option without a value, click has not parsed the group yet: it is among the remaining arguments.
        group = str(ctx.params.get("group") or next(iter(ctx.args), ""))
        return self.candidates(work.Tables(ctx.params["warehouse"], ctx.params.get("cluster")), group)


class _QueryName(click.ParamType):  # type: ignore[type-arg]  # as above
    name = "name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the saved queries, which need no warehouse."""
        return [CompletionItem(name) for name in work.saved_queries() if name.startswith(incomplete.lower())]


class _ParameterValue(click.ParamType):  # type: ignore[type-arg]  # as above
    """Option type of ``name=value``."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split ``NAME=VALUE`` that a user typed, and return the parameter's name and its value as text."""
        name, separator, text = str(value).partition("=")
        if not separator or not name.strip():
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        return name.strip(), text

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the parameters of the saved query that the command line names."""
        query = work.saved_queries().get(str(ctx.params.get("name")))
        names = [f"{parameter.name}=" for parameter in query.parameters] if query else []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


GROUP_NAME = _Name("group", _groups)
TOPIC_NAME = _Name("topic", _owned_topics)
COMMITTED_TOPIC_NAME = _Name("topic", _committed_topics)
ANY_TOPIC_NAME = _Name("topic", _topics)
CAUSE_NAME = _Name("cause", _causes)
RULE_NAME = _Name("rule", _rules)
PARAMETER = _ParameterValue()
QUERY_NAME = _QueryName()
