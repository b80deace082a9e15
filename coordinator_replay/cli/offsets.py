"""The commands about committed offsets: at a point in time, over time, and expiring offsets."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coordinator_replay.answer_columns import BEFORE_REMOVAL, END_OFFSETS, REQUIRE_STABLE
from coordinator_replay.cli import work
from coordinator_replay.cli.answers import (
    any_group_argument,
    at_option,
    columns_for,
    range_options,
    say,
    say_notes,
    several_groups_argument,
    show,
    show_screen,
    who_options,
    with_group,
)
from coordinator_replay.cli.clock import now
from coordinator_replay.cli.completion import COMMITTED_TOPIC_NAME
from coordinator_replay.cli.option_types import DURATION, END_TIME, NEW_FILE, Parsed, Time
from coordinator_replay.cli.options import Common, open_warehouse, warehouse_command
from coordinator_replay.errors import UsageError
from coordinator_replay.listing import counted
from coordinator_replay.query.choices import STATUSES
from coordinator_replay.times import moment_text

if TYPE_CHECKING:
    from coordinator_replay.query.who import Who


def topic_or_partition(text: str) -> tuple[str, int | None]:
    """Return the topic and the partition of ``TOPIC:PARTITION``.

    Without a colon, the partition is None. A topic's name can't have a colon.

    >>> topic_or_partition("orders:3")
    ('orders', 3)

    Raises:
        UsageError: there is no topic, or the text after the colon is no number.
    """
    topic, separator, partition = text.partition(":")
    if not topic or (separator and not (partition.isascii() and partition.isdigit())):
        raise UsageError(f"{text!r} is not TOPIC or TOPIC:PARTITION")
    return topic, int(partition) if separator else None


TOPIC_OR_PARTITION = Parsed("topic[:partition]", topic_or_partition)


@warehouse_command(
    "coordinator-replay offsets payments --at 2026-11-20T02:13:00Z",
    "coordinator-replay offsets payments --history orders:3 --from -6h",
    "coordinator-replay offsets payments --at -1d --reset-file payments.csv",
    "coordinator-replay offsets payments --before-removal --reset-file payments.csv",
    "coordinator-replay offsets --all-groups --at -1d --reset-file all.csv",
    "kafka-consumer-groups … --group payments --reset-offsets --from-file payments.csv --execute",
)
@several_groups_argument
@at_option
@click.option(
    "--before-removal",
    is_flag=True,
    help="Only offsets that were removed (up to --at), as they were just before their removal.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    type=COMMITTED_TOPIC_NAME,
    help="Only offsets of this topic, or of partitions of it, such as orders:0,1 or orders-4; can be given again.",
)
@click.option(
    "--require-stable",
    is_flag=True,
    help="Mark partitions that have a pending transactional commit, and show its producer.",
)
@click.option(
    "--history",
    type=TOPIC_OR_PARTITION,
    help="Every committed offset of a topic or partition (orders:4 or orders-4) over time.",
)
@range_options
@click.option(
    "--reset-file",
    type=NEW_FILE,
    help="Also write proven and stable offsets into a file for kafka-consumer-groups --reset-offsets --from-file.",
)
@click.option(
    "--include-unproven", is_flag=True, help="With --reset-file: write offsets that are not proven or not stable, too."
)
@click.option(
    "--end-offsets",
    "end_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="End offsets, to show the lag: CSV or JSON lines of topic, partition, offset[, time], or the output of "
    "kafka-get-offsets.sh.",
)
@who_options("hosts", "clients", "names", "excluded")
def offsets(
    common: Common,
    groups: Sequence[str],
    at: Time | None,
    before_removal: bool,
    topics: Sequence[str],
    require_stable: bool,
    history: tuple[str, int | None] | None,
    start: Time | None,
    end: Time | None,
    reset_file: Path | None,
    include_unproven: bool,
    end_file: Path | None,
    who: "Who",
) -> None:
    """Show the committed offsets of GROUP at a point in time.

    Standard error lists offsets that had expired or been deleted by that time: when, why, and how sure the cause is.

    Several groups can be given, and patterns in which * stands for anything. For several groups or a pattern, each line
    of the --reset-file begins with the group. CONSUMER-ID, HOST and CLIENT-ID name the member that owned the partition
    when the offset was committed; the command owner shows who owned it at another time. With --history, the answer has
    every committed offset of a topic or partition.
    """
    warehouse = open_warehouse(common)
    if history is not None:
        if at or before_removal or topics or require_stable or reset_file or include_unproven or end_file:
            raise UsageError("--history takes --from and --to, and none of the options about one point in time")
        if len(groups) != 1:
            raise UsageError("--history is of one group")
        changes = warehouse.offset_history(groups[0], *history, start=start, end=end)
        show(common, changes, "commit")
        return
    if include_unproven and reset_file is None:
        raise UsageError("--include-unproven is for --reset-file")
    if start or end:
        raise UsageError("--from and --to are for --history; give --at for one point in time")
    chosen = warehouse.chosen_groups(groups, at=at, is_all=not groups, who=who)
    is_one = len(groups) == 1 and list(groups) == chosen
    if before_removal and not is_one:
        raise UsageError("--before-removal is of one group")
    read = (
        partial(warehouse.offsets, groups[0], before_removal=before_removal)
        if is_one
        else partial(warehouse.offsets_of_groups, chosen, who=replace(who, names=groups) if groups else who)
    )
    answer = read(at=at, topics=topics, require_stable=require_stable, end_offsets=end_file)
    # People read about a pending transactional commit in a sentence; programs read about it in fields.
    asked = [REQUIRE_STABLE] * (require_stable or common.output != "table") + [END_OFFSETS] * (end_file is not None)
    asked += [BEFORE_REMOVAL] * before_removal
    columns = columns_for(answer.row_type, asked)
    show_screen(common, columns if is_one else with_group(columns), answer, "offset", answer.notes)
    say_notes(answer)
    if reset_file is not None:
        # The user named these partitions, and there are no others that the file could be for.
        is_live_asked = bool(topics) and all(offset.is_committed_again is not False for offset in answer)
        result = work.write_reset_file(
            answer,
            reset_file,
            include_unproven=include_unproven,
            include_live=is_live_asked,
            has_groups=not is_one,
        )
        left_out = len(answer) - result.written
        say(
            f"Wrote {counted(result.written, 'partition')} to {reset_file}.",
            f"{counted(left_out, 'partition')} left out: {result}." if left_out else None,
        )


@warehouse_command(
    "coordinator-replay expired --within 3d",
    "coordinator-replay expired payments --status EXPIRED",
)
@any_group_argument
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(STATUSES, case_sensitive=False),
    help="Only this status; can be given again.",
)
@click.option(
    "--within",
    type=DURATION,
    help="Only offsets that expire within this time after the end of the log, even beyond the audit's --horizon.",
)
@click.option("--until", type=END_TIME, help="Only offsets that expire up to this time, in place of --within.")
@who_options()
def expired(common: Common, **asked: Any) -> None:
    """Show offsets of GROUP, or of all groups, that expired, are past retention, or will expire soon.

    The command looks ahead from the end of the log, as far as --until, --within or the audit's --horizon says. If that
    time is already over, a note says so, because commits after the end of the log are not known.
    """
    answer = open_warehouse(common).expired(**asked)
    caveats = []
    if answer.looked_until is not None and answer.looked_until < now():
        caveats.append(
            f"The log ended before {moment_text(answer.looked_until)}. Offsets are looked for up to that time, and it "
            "is over: what was committed or has expired since is not in the log. Take a newer dump, or look further "
            "with --until."
        )
    # Offsets that expired come before what may happen later.
    is_first = not any(offset.status == "EXPIRED" for offset in answer)
    say(*caveats[: int(is_first)])
    show_screen(common, columns_for(answer.row_type), answer, "offset", [*caveats, *answer.notes])
    say_notes(answer)
    say(*caveats[int(is_first) :])
