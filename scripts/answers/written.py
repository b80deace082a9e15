"""Audits a dump with the tree in PYTHONPATH, and writes its tables and the output of every command.

The module also runs under earlier commits. So it uses only two parts of a tree: the command line, and the tests' audit
in one process. Values of the run itself (run ids, the time of day, folders) are removed from the written files.
"""

import json
import re
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from deltalake import DeltaTable

from coordinator_replay.cli import output
from coordinator_replay.cli.main import main

OF_THE_RUN = {"started_at", "finished_at", "run_id", "inputs", "input_snapshot", "found_in_run"}
"""Columns that differ between two runs over the same dump."""
RUN_ID = re.compile(r"\d{8}T\d{6}\.\d+Z")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
AGES = re.compile(r"^\w*(log_age_seconds|audit_end_timestamp_seconds)\{.*\n| \(\d+ \w+ ago\)", re.MULTILINE)
TODAY = re.compile(datetime.now(UTC).strftime("%Y-%m-%d") + r"[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?")
GROUPS, TOPICS = 2, 1
"""Number of groups and of topics that are asked about one by one."""
FORMS = ((80, ()), (120, ()), (80, ("--output", "json")), (80, ("--output", "csv")))


def audit(warehouse: Path, dump: Path, nights: int, folder: Path) -> None:
    """Audit a dump as a whole or in parts."""
    from tests.pipeline.in_process import audit_here, cut

    segments = dump / "segments" if (dump / "segments").is_dir() else dump
    about: dict[str, Any] = {}
    if (dump / "cluster-metadata").is_dir():
        about["cluster_metadata"] = str(dump / "cluster-metadata")
    parts = [segments]
    if nights > 1:
        parts = [folder / f"night-{number}" for number in range(nights)]
        cut(str(segments), parts)
    for part in parts:
        audit_here(warehouse, part, **about)


def rows(warehouse: Path, table: str) -> list[dict[str, Any]]:
    """Return all rows of a table."""
    found: list[dict[str, Any]] = DeltaTable(str(warehouse / table)).to_pyarrow_table().to_pylist()
    return found


def questions(warehouse: Path) -> Iterator[tuple[str, ...]]:
    """Yield every command that prints an answer: about all groups, and about some groups and topics."""
    groups = sorted({str(row["group_id"]) for row in rows(warehouse, "group_state")})[:GROUPS]
    topics = sorted({str(row["topic"]) for row in rows(warehouse, "offset_history")})[:TOPICS]
    for command in ("groups", "rebalances", "why", "impact", "diff", "expired", "findings"):
        yield (command,)
    yield from (("groups", "--deleted"), ("groups", "--at", "-20s"), ("diff", "--from", "-30s"), ("sql", "--list"))
    yield from (("expired", "--within", "365d"), ("what-if", "--list-settings"))
    yield ("what-if", "--all", "--set", "group.protocol=consumer")
    for group in groups:
        for command in ("describe", "timeline", "offsets", "why", "rebalances"):
            yield (command, group)
        yield from (("describe", group, "--at", "-20s"), ("timeline", group, "--members"))
        yield from (("offsets", group, "--require-stable"), ("what-if", group, "--set", "session.timeout.ms=10000"))
        for topic in topics:
            yield from (("owner", group, topic, "0"), ("owner", group, topic, "0", "--from", "-1h"))
            yield ("offsets", group, "--history", topic)
    for topic in topics:
        yield ("consumers", topic)


def pages(warehouse: Path, folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield the commands that write a file."""
    yield ("report", "--out", str(folder / "site"))
    yield ("trace", "--out", str(folder / "trace.json"))
    yield ("diff", "--from", "-30s", "--out", str(folder / "diff.html"))
    for number, group in enumerate(sorted({str(row["group_id"]) for row in rows(warehouse, "group_state")})[:1]):
        yield ("report", group, "--out", str(folder / f"group-{number}.html"))
        tried = ("--what-if", "group.protocol=consumer")
        yield ("report", group, *tried, "--out", str(folder / f"what-if-{number}.html"))


def write(dump: Path, out: Path, nights: int) -> None:
    """Write each table and each answer into a file of its own."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    warehouse, parts = out / "warehouse", out / "parts"

    def clean(text: str) -> str:
        return TODAY.sub("TODAY", UUID.sub("UUID", RUN_ID.sub("RUN", AGES.sub("", text.replace(str(out), "OUT")))))

    audit(warehouse, dump, nights, parts)
    for table in sorted(one.parent.name for one in warehouse.glob("*/_delta_log")):
        kept = ({name: one for name, one in row.items() if name not in OF_THE_RUN} for row in rows(warehouse, table))
        lines = sorted(json.dumps(row, sort_keys=True, default=str) for row in kept)
        (out / f"table {table}.txt").write_text(clean("\n".join(lines)))

    runner = CliRunner(env={"COORDINATOR_REPLAY_WAREHOUSE": str(warehouse), "NO_COLOR": "1"})

    def ask(asked: tuple[str, ...], width: int = 80) -> str:
        output.terminal_width = lambda *, err=False: width
        result = runner.invoke(main, asked)
        name = re.sub(r"[^\w.=-]+", "_", " ".join(asked).replace(str(out), ""))
        (out / f"answer {name} {width}.txt").write_text(clean(f"exit {result.exit_code}\n{result.output}"))
        return result.output

    for question in questions(warehouse):
        # A simulation takes long, so it is asked for in one form only. Tests check its other forms.
        for width, form in FORMS[2:3] if "what-if" in question else FORMS:
            ask((*question, *form), width)
    for line in ask(("sql", "--list", "--output", "json")).splitlines():
        ask(("sql", "--query", json.loads(line)["name"], "--output", "json"))
    for question in (("metrics",), ("metrics", "--openmetrics"), *pages(warehouse, out)):
        ask(question)
    for page in (*out.glob("*.html"), *out.glob("site/**/*.html"), *out.glob("trace.json")):
        page.write_text(clean(page.read_text()))
    shutil.rmtree(warehouse)
    shutil.rmtree(parts, ignore_errors=True)
    (out / "done").touch()


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
