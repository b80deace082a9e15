"""The commands that ask about all groups at once: ``consumers``, ``impact`` and ``diff``."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coordinator_replay.answer_columns import AnswerColumn
from coordinator_replay.cli.answers import (
    at_option,
    columns_for,
    range_options,
    say,
    say_notes,
    show,
    show_part,
    show_rows,
    who_options,
)
from coordinator_replay.cli.completion import ANY_TOPIC_NAME
from coordinator_replay.cli.option_types import NEW_FILE, TIME_OR_RUN, Time
from coordinator_replay.cli.options import Common, open_warehouse, warehouse_command
from coordinator_replay.cli.output import print_rows, print_text, text_lines
from coordinator_replay.cli.show import print_written
from coordinator_replay.errors import UsageError
from coordinator_replay.listing import counted

if TYPE_CHECKING:
    from coordinator_replay.api.answers import Impacted
    from coordinator_replay.query.impact import GroupImpact

_MOST_CHANGES = 18
_MOST_GROUPS = 10
_MOST_TRAITS = 3
"""Largest number of lines about common traits without --wide, so that the answer stays on one screen."""


@warehouse_command(
    "coordinator-replay consumers orders",
    "coordinator-replay consumers orders --from 2026-11-20T02:00 --to 2026-11-20T03:00",
)
@click.argument("topic", type=ANY_TOPIC_NAME)
@range_options
@who_options("hosts", "clients", "names", "excluded")
def consumers(common: Common, **asked: Any) -> None:
    """List the groups, clients and hosts that read TOPIC (a name or an id): how, when, and which partitions.

    A client that left and came back, as in a restart, has a line for each stay. HOW says what shows that the client
    read the topic: a subscription by name (subscribed) or by regex (regex), membership in such a group (share,
    streams), partitions that the client had although no subscription is on record (assigned), or only commits
    (commits). Commits alone come from a consumer that uses assign(), from a tool, or from members that are not on
    record.

    TO is empty for members still there at the end of the log. For commits, FROM and TO are the times of the first and
    the last commit.
    """
    show(common, open_warehouse(common).consumers(**asked), "reader")


@warehouse_command(
    "coordinator-replay impact --from 2026-11-20T02:10 --to 2026-11-20T02:20",
    "coordinator-replay impact --from -1h --output json",
    "coordinator-replay impact --by rollout --from -7d",
)
@range_options
@click.option("--by", type=click.Choice(["group", "rollout"]), default="group", help="What each line is about.")
def impact(common: Common, by: str, **asked: Any) -> None:
    """Show what a time range cost over all groups, and what the affected groups have in common.

    A group is affected if it rebalanced in that time or had partitions without an owner. The groups may have a trait in
    common: a host, client, topic or partition of __consumer_offsets. With brokers' logs or the cluster metadata, a
    coordinator or its election can be a trait, too. A partition of __consumer_offsets and its coordinator are left out
    if the coordinator is known to be the same as before. A trait is listed only if it is significantly more common
    among the affected groups than among the other groups with members in that time.

    With --by rollout, each line is a rollout, the most expensive first. A rollout is a series of restarts in a group,
    with at most ten minutes between two restarts. In a restart, a member leaves, and a member with the same
    group.instance.id or client id joins. If members come back with new client ids, restarts count only if all members
    were replaced. The costs are those of the rebalances in which a restarted member left or joined. If such a
    rebalance is cooperative, its second step counts, too.
    """
    if by == "rollout":
        _show_rollouts(common, **asked)
        return
    answer = open_warehouse(common).impact(**asked)
    if common.output == "table":
        _print_impact(common, answer)
    elif common.output == "json":
        _print_impact_as_json(answer)
    else:
        show_rows(common, columns_for(answer.row_type), answer)
    say_notes(answer)


def _show_rollouts(common: Common, **asked: Any) -> None:
    answer = open_warehouse(common).rollouts(**asked)
    if common.output == "table" and answer:
        unseen = sum(rollout.unowned_ms_total is None for rollout in answer)
        doubt = (
            f" For {unseen} of them, no time without an owner is on record (-): that is no cost of 0." if unseen else ""
        )
        print_text(f"The highest cost on record of {counted(len(answer), 'rollout')}: {answer[0].sentence}{doubt}")
        click.echo()
        show_part(common, answer, _MOST_GROUPS, "rollout")
    else:
        show_rows(common, columns_for(answer.row_type), answer)
    say_notes(answer)


def _print_impact(common: Common, answer: "Impacted") -> None:
    for sentence in answer.total.sentences:
        print_text(sentence)
    groups = [_without_unseen(group) for group in answer]
    for rows, most, what in ((groups, _MOST_GROUPS, "group"), (answer.total.traits, _MOST_TRAITS, "trait")):
        if rows:
            click.echo()
            show_part(common, rows, most, what)


def _without_unseen(group: "GroupImpact") -> "GroupImpact":
    """Return a row of the table with nulls for the downtime that the log does not show.

    A 0 in these columns would be only a lower bound, see ``is_downtime_unseen``.
    """
    unseen: dict[str, Any] = {"unowned_partitions": None, "unowned_ms": None}
    return replace(group, **unseen) if group.is_downtime_unseen else group


def _print_impact_as_json(answer: "Impacted") -> None:
    total = answer.total
    values = {
        "start": total.start,
        "end": total.end,
        "groups_concerned": len(total.groups),
        "group_count": total.group_count,
        "rebalances": sum(total.causes.values()),
        "causes": total.causes,
        "unowned_partitions": total.unowned_partitions,
        "unowned_ms": total.unowned_ms,
        "is_at_least": total.is_at_least,
        "is_pause_at_least": total.is_pause_at_least,
        "in_common": list(total.traits),
        "groups": list(total.groups),
    }
    print_rows([AnswerColumn(name) for name in values], [list(values.values())], "json")


@warehouse_command(
    "coordinator-replay diff --from yesterday",
    "coordinator-replay diff --from 2026-11-20T02:10 --to 2026-11-20T02:20 --wide",
    "coordinator-replay diff --from 20261119T230012.104412Z --to 20261120T230009.551830Z",
    "coordinator-replay diff --cluster prod,copy --at 2026-11-20T02:10",
    compares=True,
)
@click.option("--from", "--since", "start", type=TIME_OR_RUN, help="The first time, or the run id of an audit.")
@click.option(
    "--to", "--until", "end", type=TIME_OR_RUN, help="The second time or run id; default: the end of the log."
)
@at_option
@click.option(
    "--out",
    type=NEW_FILE,
    help="Write the changes as an HTML page. In a folder that report has written, it links to the pages of groups.",
)
def diff(
    common: Common,
    start: Time | str | None,
    end: Time | str | None,
    at: Time | None,
    out: Path | None,
) -> None:
    """Show what changed between two points in time, or what differs between two clusters at one time.

    The answer compares groups, their states and protocols, members by client and host, subscriptions, assignors, owners
    and offsets. Between two times, it also has rebalances by cause, and findings that were first seen or ended in
    between. A table counts the changes of each group; --wide, --output json and csv have each change. --cluster A,B
    compares two clusters of one warehouse.

    The run id of an audit can stand for a time: the time of the latest record that this audit had read. Between two
    audits, all findings that the first one had not stored count as first seen. sql --query audit-runs lists the run
    ids.
    """
    if common.other_cluster is not None:
        if start is not None or end is not None:
            raise UsageError("two clusters are compared at a point in time: give --at, or no time")
        answer = open_warehouse(common).diff_with(common.other_cluster, at=at)
    elif start is None or at is not None:
        raise UsageError("give the first of two times with --from, or two clusters with --cluster A,B")
    else:
        answer = open_warehouse(common).diff(start, end)
    if out is not None:
        page = answer.page(beside=out.parent)
        page.save(out)
        changes, groups = (counted(page.facts[what] or 0, what.removesuffix("s")) for what in ("changes", "groups"))
        print_written(common, out, f"Wrote {out}: {changes} in {groups}.", **page.facts)
    elif common.output == "table" and not common.wide:
        # The screen has room for one line of notes.
        notes = sum(len(text_lines(note, err=True)) for note in answer.notes)
        show_part(common, answer.counts, _MOST_CHANGES - max(notes - 1, 0), "line")
    else:
        show_rows(common, columns_for(answer.row_type), answer)
    say(f"{answer.sides}.")
    say_notes(answer)
