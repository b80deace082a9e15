"""Arguments that the shell completes from the tables: names of groups and topics."""

from collections.abc import Callable, Sequence

import click
from click.shell_completion import CompletionItem

from coordinator_replay.errors import CoordinatorReplayError


def _groups(ctx: click.Context) -> Sequence[str]:
    from coordinator_replay.query.groups import known_groups
    from coordinator_replay.query.warehouse import Warehouse

    return known_groups(Warehouse(ctx.params["warehouse"], ctx.params["cluster"]))


def _topics(ctx: click.Context) -> Sequence[str]:
    from coordinator_replay.query.owner import known_topics
    from coordinator_replay.query.warehouse import Warehouse

    return list(known_topics(Warehouse(ctx.params["warehouse"], ctx.params["cluster"]), ctx.params["group"]))


class _Name(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    def __init__(self, name: str, candidates: Callable[[click.Context], Sequence[str]]) -> None:
        self.name = name
        self.candidates = candidates

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names that begin like what was typed; none where there is no warehouse to ask."""
        if not ctx.params.get("warehouse"):
            return []
        try:
            names = self.candidates(ctx)
        except CoordinatorReplayError:
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


GROUP_NAME = _Name("group", _groups)
TOPIC_NAME = _Name("topic", _topics)
