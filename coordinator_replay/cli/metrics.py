"""The command that writes metrics for Prometheus. It starts no JVM."""

import tempfile
from bisect import bisect_right
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coordinator_replay.cli.answers import say, who_options
from coordinator_replay.cli.clock import now
from coordinator_replay.cli.option_types import NEW_FILE
from coordinator_replay.cli.options import Common, open_warehouse, warehouse_command
from coordinator_replay.cli.output import terminal_width
from coordinator_replay.cli.waiting import end_waiting
from coordinator_replay.errors import PrerequisiteError, writing
from coordinator_replay.listing import counted
from coordinator_replay.safe_text import neutral

if TYPE_CHECKING:
    from coordinator_replay.report.metrics import Metrics

DEFAULT_LIMIT = 1000
"""Default of the largest number of groups with own series. Each group makes about ten series."""

PUSH_JOB = "coordinator-replay"
"""Job label of pushed metrics. Job and cluster are the grouping key: the next push replaces all metrics with this
key."""

_MOST_ROWS = 18
"""Largest number of rows of a terminal for metrics without --wide. The notes below them also fit on the screen."""

_ALERT_RULES = "Alert rules for these metrics are in conf/monitoring/alerts.yml of the sources."

_READABLE = 0o644
"""Mode of the written file: the collector runs as another user."""


def _write(text: str, path: Path) -> None:
    """Write a file under another name and rename it, because a collector may read the file at any moment."""
    with writing(path):
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            file.write(text)
        Path(file.name).chmod(_READABLE)
        Path(file.name).replace(path)


def _push(written: "Metrics", cluster: str, gateway: str) -> None:
    """Push a cluster's metrics to a Pushgateway. They replace the metrics of an earlier push."""
    from http.client import HTTPException

    from prometheus_client import push_to_gateway

    try:
        push_to_gateway(gateway, PUSH_JOB, written.registry, {"cluster": cluster})
    except (OSError, HTTPException, ValueError) as problem:
        raise PrerequisiteError(f"the Pushgateway {gateway} did not take the metrics: {problem}") from problem


@warehouse_command(
    "coordinator-replay metrics --out /var/lib/node_exporter/offsets.prom",
    "coordinator-replay metrics --groups 'payments.*' --openmetrics",
    "coordinator-replay metrics --pushgateway http://pushgateway:9091",
)
@click.option("--groups", metavar="REGEX", help="Only groups whose whole name matches get series.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=DEFAULT_LIMIT,
    show_default=True,
    help="Largest number of groups that get series of their own: those with most rebalances.",
)
@click.option("--openmetrics", "is_openmetrics", is_flag=True, help="Write OpenMetrics' format.")
@click.option(
    "--out",
    "path",
    type=NEW_FILE,
    help="The file to write; it is replaced in one step. Default: standard output.",
)
@click.option(
    "--pushgateway",
    "gateway",
    metavar="URL",
    help=f"Push to this Pushgateway. This replaces the cluster's metrics pushed before (job {PUSH_JOB}).",
)
@who_options()
def metrics(common: Common, path: Path | None, gateway: str | None, **asked: Any) -> None:
    """Write metrics for Prometheus about the groups, as they are at the end of the log.

    The metrics are states, epochs, members, rebalances by cause, removed members, time without owner, expiring offsets,
    findings by rule, completeness, and the age of the log. Run the command after each audit. It can write a file for
    node_exporter's textfile collector (--out), or push to a Pushgateway (--pushgateway). The sources have alert rules
    for these metrics (conf/monitoring/alerts.yml) and a dashboard for Grafana (conf/monitoring/grafana.json);
    docs/nights.md explains both. Without --wide, a terminal shows only the first lines; a file and a pipe get all.
    """
    warehouse = open_warehouse(common)
    written = warehouse.metrics(now=now(), **asked)
    if written.left_out:
        say(f"{counted(written.left_out, 'group')} without own series: --limit allows {asked['limit']}.")
    if gateway is not None:
        _push(written, warehouse.cluster, gateway)
        say(f"Pushed to {gateway}: {counted(written.groups, 'group')}.")
    if path is not None:
        _write(written.text, path)
        say(f"Wrote {path}: {counted(written.groups, 'group')}.")
    if path is not None or gateway is not None:
        return
    end_waiting()
    lines = written.text.split("\n")[:-1]
    width = terminal_width()
    if width is None:
        for line in lines:
            click.echo(line, color=True)
        return
    rows = accumulate(-(-len(line) // width) or 1 for line in lines)
    shown = len(lines) if common.wide else max(bisect_right(list(rows), _MOST_ROWS), 1)
    for line in lines[:shown]:
        click.echo(neutral(line), color=True)
    if shown < len(lines):
        say(f"{counted(len(lines) - shown, 'more line')}: --wide, --out FILE and a pipe have all.")
    say(_ALERT_RULES)
