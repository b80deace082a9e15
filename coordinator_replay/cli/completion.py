"""Arguments that the shell completes: names from the tables, and those of the saved queries."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from coordinator_replay.errors import CoordinatorReplayError

if TYPE_CHECKING:
    from coordinator_replay.query.tables import Tables

Candidates = Callable[[click.Context], Sequence[str]]


def _warehouse(ctx: click.Context) -> "Tables | None":
    from coordinator_replay.query.tables import Tables

    return Tables(ctx.params["warehouse"], ctx.params["cluster"]) if ctx.params.get("warehouse") else None


def _group(ctx: click.Context) -> str:
    """The group typed so far: behind an option without its value click leaves it among what is not parsed yet."""
    return str(ctx.params.get("group") or next(iter(ctx.args), ""))


def _groups(ctx: click.Context) -> Sequence[str]:
    from coordinator_replay.query.groups import group_names

    warehouse = _warehouse(ctx)
    return group_names(warehouse) if warehouse else ()


def _owned_topics(ctx: click.Context) -> Sequence[str]:
    from coordinator_replay.query.owner import owned_topics

    warehouse = _warehouse(ctx)
    return list(owned_topics(warehouse, _group(ctx))) if warehouse else ()


def _committed_topics(ctx: click.Context) -> Sequence[str]:
    from coordinator_replay.query.offsets import committed_topics

    warehouse = _warehouse(ctx)
    return committed_topics(warehouse, _group(ctx)) if warehouse else ()


def _topics(ctx: click.Context) -> Sequence[str]:
    from coordinator_replay.query.consumers import topic_names

    warehouse = _warehouse(ctx)
    return topic_names(warehouse) if warehouse else ()


def _causes(ctx: click.Context) -> Sequence[str]:
    from coordinator_replay.query.rebalances import recorded_causes

    warehouse = _warehouse(ctx)
    return recorded_causes(warehouse) if warehouse else ()


def _rules(ctx: click.Context) -> Sequence[str]:
    from coordinator_replay.query.findings import findings_of

    warehouse = _warehouse(ctx)
    return sorted({finding.rule for finding in findings_of(warehouse)}) if warehouse else ()


def _queries(ctx: click.Context) -> Sequence[str]:
    from coordinator_replay.query.saved import saved_queries

    return list(saved_queries())


class _Name(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    def __init__(self, name: str, candidates: Candidates) -> None:
        self.name = name
        self.candidates = candidates

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names that begin like what was typed; none where there is nothing to ask."""
        try:
            names = self.candidates(ctx)
        except CoordinatorReplayError:
            # A broken warehouse is nothing to complain of in the middle of a line.
            return []
        return [CompletionItem(name) for name in names if name.lower().startswith(incomplete.lower())]


class _ParameterValue(click.ParamType):  # type: ignore[type-arg]  # as above
    """Option type of ``name=value``."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """What was typed, as a name and the text of its value."""
        name, separator, text = str(value).partition("=")
        if not separator or not name.strip():
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        return name.strip(), text

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The parameters of the saved query that was named before."""
        from coordinator_replay.query.saved import saved_queries

        query = saved_queries().get(str(ctx.params.get("name")))
        names = [f"{parameter.name}=" for parameter in query.parameters] if query else []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


GROUP_NAME = _Name("group", _groups)
TOPIC_NAME = _Name("topic", _owned_topics)
COMMITTED_TOPIC_NAME = _Name("topic", _committed_topics)
ANY_TOPIC_NAME = _Name("topic", _topics)
CAUSE_NAME = _Name("cause", _causes)
RULE_NAME = _Name("rule", _rules)
PARAMETER = _ParameterValue()
QUERY_NAME = _Name("name", _queries)
