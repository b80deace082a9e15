"""``scripts/benchmark``: make the dump, run the rows, print the ratios."""

import os
import platform
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.dump import make_dump
from benchmarks.measured import Setting
from benchmarks.rows import ROWS, USUAL


@click.command()
@click.option("--records", default=1_000_000, show_default=True, help="Size of the dump.")
@click.option("--rows", "names", default=",".join(USUAL), show_default=True, help="Which rows to run.")
@click.option("--repeat", default=3, show_default=True, help="How often each side runs; the best counts.")
@click.option("--part", default=1.0, show_default=True, help="Part of the sizes that rows size-… make.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the dump in this folder for the next time.")
def main(records: int, names: str, repeat: int, part: float, keep: Path | None) -> None:
    """Measure the program against named baselines, and print ratios."""
    wanted = names.split(",")
    unknown = [name for name in wanted if name not in ROWS]
    if unknown:
        raise click.UsageError(f"no row is called {unknown[0]}; there are {', '.join(ROWS)}")
    table = Table("row", "ours", "s", "baseline", "s", "ratio", "wanted", "")
    with tempfile.TemporaryDirectory() as scratch:
        dump = make_dump((keep or Path(scratch)) / f"dump-{records}", records=records)
        setting = Setting(dump, records, Path(scratch), repeat, part)
        for name in wanted:
            row = ROWS[name](setting)
            click.echo(f"{name}: {row.ratio:.2f}", err=True)
            seconds = (f"{row.ours_seconds:.2f}", f"{row.baseline_seconds:.2f}")
            verdict = "ok" if row.holds else "MISSED"
            table.add_row(name, row.ours, seconds[0], row.baseline, seconds[1], f"{row.ratio:.2f}", row.wanted, verdict)
    Console(width=150).print(table)
    click.echo(f"{records:,} records, {os.cpu_count()} cores, Python {platform.python_version()}")


main()
