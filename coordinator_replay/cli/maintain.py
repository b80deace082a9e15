"""The command ``maintain``, which compacts the tables of a warehouse and removes files that are not needed."""

from dataclasses import astuple
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING

import click

from coordinator_replay.answer_columns import AnswerColumn
from coordinator_replay.cli import work
from coordinator_replay.cli.guard import interruptible
from coordinator_replay.cli.option_types import DURATION, absolute
from coordinator_replay.cli.options import (
    command,
    config_option,
    output_option,
    wait_option,
    warehouse_option,
    wide_option,
)
from coordinator_replay.cli.output import print_note, print_rows

if TYPE_CHECKING:
    from coordinator_replay.store.maintain import Kept

_COLUMNS = (
    AnswerColumn("table", "TABLE", 1),
    AnswerColumn("rows_removed", "ROWS-REMOVED", 2),
    AnswerColumn("files_before", "FILES-BEFORE", 3),
    AnswerColumn("files_after", "FILES", 2),
    AnswerColumn("bytes_before", "BYTES-BEFORE", 3),
    AnswerColumn("bytes_after", "BYTES", 2),
    AnswerColumn("stored_files_before", "STORED-FILES-BEFORE", 4),
    AnswerColumn("stored_files_after", "STORED-FILES", 4),
    AnswerColumn("stored_bytes_before", "STORED-BYTES-BEFORE", 4),
    AnswerColumn("stored_bytes_after", "STORED-BYTES", 3),
)


def _row(kept: "Kept") -> list[object]:
    sizes = zip(astuple(kept.before), astuple(kept.after), strict=True)
    return [kept.name, kept.rows_removed, *chain.from_iterable(sizes)]


@command(
    "coordinator-replay maintain --warehouse /data/audit",
    "coordinator-replay maintain --warehouse s3a://lake/audit --keep 400d --wait 2h --output json",
)
@warehouse_option(is_required=True)
@click.option(
    "--vacuum-after",
    type=DURATION,
    default="30d",
    show_default=True,
    help="Remove files that their table has not referenced for this long; at least 7d, except with --force.",
)
@click.option(
    "--keep",
    type=DURATION,
    help="Delete rebalances, member intervals and metrics that ended longer ago than this; default: keep all.",
)
@click.option("--force", is_flag=True, help="Allow a --vacuum-after below 7d; make sure that no reader is at work.")
@wait_option
@config_option
@output_option
@wide_option
def maintain(
    warehouse: str,
    vacuum_after: timedelta,
    keep: timedelta | None,
    force: bool,
    wait: timedelta,
    output: str,
    wide: bool,
) -> None:
    """Compact and cluster the tables of a warehouse, and remove files that are no longer needed.

    Columns that are new in this release are added. Changes of a killed audit are undone, and its intermediate files
    are removed after a day. All clusters of the warehouse are maintained. No JVM is needed.

    With --keep, old rows of rebalances, member_timeline and group_metrics are deleted for good. No later audit brings
    them back, and questions about their time are refused. All other tables keep their rows, because later audits need
    them. If you want to drop old records as well, start a new warehouse from a current dump.
    """

    def say(text: str) -> None:
        click.echo(text, err=True)

    upkeep = work.Upkeep(warehouse=absolute(warehouse), vacuum_after=vacuum_after, keep=keep, force=force)
    work.check_upkeep(upkeep)
    interrupted = interruptible("upkeep was interrupted; what it finished is kept, and the next run does the rest")
    with interrupted, work.one_at_a_time(upkeep.warehouse, "maintain", wait=wait, say=say):
        done = work.run_maintain(upkeep, say)
    print_rows(_COLUMNS, map(_row, done), output, is_wide=wide)
    saved = sum(kept.before.stored - kept.after.stored for kept in done)
    print_note(f"{len(done) - 1} tables, {abs(saved):,} bytes {'less' if saved >= 0 else 'more'} stored than before.")
