"""The rows of what-if: a group with 1,000 rebalances, and every group of a generated dump, as commands.

CPU time is measured, so that other work of the machine does not count.
"""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.dump import make_dump
from benchmarks.latency import core_seconds_to_ask
from benchmarks.measured import Measured, Setting

REBALANCES = 1_000
MOST_SECONDS = 5.0
GROUPS = 1_000
MOST_SECONDS_ALL = 60.0

_GROUP_RECORDS_SHARE = 0.04
"""Share of a dump's records that belong to its groups, without the console consumers in between."""
_PARTITIONS = 2
_ALTERNATIVE = ("--set", "group.protocol=consumer")


def what_if(setting: Setting) -> Measured:
    """Measure one alternative for a group with 1,000 rebalances, from Enter to the answer."""
    # A classic group writes a record for each rebalance; there is one group in each log partition.
    records = round(_PARTITIONS * REBALANCES / _GROUP_RECORDS_SHARE)
    dump = make_dump(setting.dump.parent / "dump-what-if", records=records, partitions=_PARTITIONS, groups=_PARTITIONS)
    ours = f"what-if of a group with {REBALANCES:,} rebalances"
    return _row(setting, "what-if", ours, dump, ["team-000000"], MOST_SECONDS)


def what_if_all(setting: Setting) -> Measured:
    """Measure one alternative for all of 1,000 groups, from Enter to the answer."""
    records = setting.records
    dump = make_dump(setting.dump.parent / f"dump-{records}-{GROUPS}", records=records, groups=GROUPS)
    ours = f"what-if --all of {GROUPS:,} groups"
    return _row(setting, "what-if-all", ours, dump, ["--all"], MOST_SECONDS_ALL)


def _row(setting: Setting, name: str, ours: str, dump: Path, words: Sequence[str], most: float) -> Measured:
    warehouse = setting.work / f"warehouse-{name}"
    if not warehouse.exists():
        from coordinator_replay.pipeline.audit import Options, run_audit

        run_audit(setting.spark, Options(inputs=[str(dump)], warehouse=str(warehouse)))
    asked = ["what-if", *words, *_ALTERNATIVE]
    taken = min(core_seconds_to_ask(asked, warehouse) for _ in range(setting.repeat))
    return Measured(
        name=name,
        ours=ours,
        baseline="the time that is wanted",
        ours_seconds=taken,
        baseline_seconds=most,
        ratio=taken / most,
        wanted=f"<= {most:.0f} s",
        holds=taken <= most,
    )
