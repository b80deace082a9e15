"""Findings of copies of which records are missing, with thresholds so small that every rule finds something.

What a copy finds must be in the whole log, too: no rule takes for granted that what it doesn't see was not there.
What a finding says in numbers and words is that of the whole log, unless it says that records of it may be missing.
"""

from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from coordinator_replay import Warehouse
from coordinator_replay.analysis.findings.thresholds import DEFAULTS
from tests.cleaner.recorded_log import dump_with_gaps, recorded_log
from tests.completeness.asking import ABOUT_THE_DUMP, Values, unfolded
from tests.completeness.exports import write_export
from tests.completeness.whole_logs import COMPLETE, metadata, whole_of
from tests.pipeline.in_process import audit

__all__ = ["audit"]

LIMITS = DEFAULTS.with_changes(
    dict.fromkeys(("stuck_ms", "unrevoked_ms", "flapping_returns", "unbalanced_ms", "unowned_ms"), 1)
    | dict.fromkeys(("mixed_protocols_ms", "size_percent", "silent_ms", "stall_ms", "patience", "pending_ms"), 1)
    | dict.fromkeys(("never_committed_ms", "abandoned_ms", "hot_commits_per_minute", "hot_minutes"), 1)
    | dict.fromkeys(("metadata_bytes", "metadata_delay_ms"), 1)
    | dict.fromkeys(("storm_rebalances", "group_max_size", "share_group_max_size"), 2)
)
LATEST = {"static_member_flapping"}
"""Rules whose findings show the latest member, which a copy may lack."""
CLAIMS = ("severity", "first_seen", "ended_at", "occurrences", "message")
GOES_ON = timedelta(minutes=1)
"""How long a finding may still hold after the last record that shows it, if no later record ends it."""
ABOUT = ("rule", "severity", "group_id", "topic", "partition")


def found(folder: Path) -> set[tuple[object, ...]]:
    """What the proven findings of a warehouse are about."""
    return {
        (*(row[name] for name in ABOUT), one.rule in LATEST or row["member_id"])
        for one in Warehouse(str(folder)).findings()
        if one.is_proven and one.rule not in ABOUT_THE_DUMP
        for row in unfolded(asdict(one))
    }


def in_full(folder: Path) -> dict[str, Values]:
    """What the findings of a warehouse say that don't say that records of them may be missing, by their id."""
    return {
        one.finding_id: {name: getattr(one, name) for name in ("rule", "group_id", *CLAIMS)}
        for one in Warehouse(str(folder)).findings()
        if one.is_proven and one.rule not in ABOUT_THE_DUMP and not (one.is_end_open or one.is_at_least)
    }


def log_end(folder: Path) -> datetime:
    """The time of the last record that a warehouse has."""
    ((end,),) = Warehouse(str(folder)).sql("SELECT max(end_timestamp) FROM log_partitions WHERE cluster = $cluster")
    return end


def told_by(end: datetime, claims: Values | None) -> list[Values | None]:
    """What a copy that ends at a time may say of a finding of the whole log: also that it had not ended by then."""
    if claims is None or claims["ended_at"] is None or claims["ended_at"] < end - GOES_ON:
        return [claims]
    return [claims, {**claims, "ended_at": None}]


def dumps_of(kind: str, name: str, seed: int, folder: Path) -> list[Path]:
    """Dumps of a sample's life, of which records are missing, in the order in which they are audited."""
    random, life = Random(f"findings {kind} {name} {seed}"), recorded_log(COMPLETE[name].segments)
    if kind == "nights":
        shares = [random.uniform(0.2, 0.9), 1.0]
        dumps = []
        for night, share in enumerate(shares):
            life.write_randomly(share, random)
            dumps.append(life.dump(folder / f"dump-{seed}-{night}"))
        return dumps
    life.write_randomly(1.0, random)
    into = folder / f"dump-{seed}"
    if kind == "gaps":
        return [dump_with_gaps(into, life, random)]
    if kind == "exports":
        return [write_export(into, life)]
    return [life.dump(into)]


def judge_findings(kind: str, name: str, seeds: range, audit, folder: Path) -> int:
    """Hold what copies find against the whole log; returns how many findings they had."""

    def audit_all(*arguments, **options):
        return audit(*arguments, thresholds=LIMITS, **options)

    whole_of(name, audit_all, folder)
    truth, whole, count = found(folder / "whole"), in_full(folder / "whole"), 0
    for seed in seeds:
        for dump in dumps_of(kind, name, seed, folder):
            audit_all(folder / f"copy-{seed}", dump, cluster_metadata=metadata(name))
        told = found(folder / f"copy-{seed}")
        assert told <= truth, (seed, told - truth)
        end = log_end(folder / f"copy-{seed}")
        for finding_id, claims in in_full(folder / f"copy-{seed}").items():
            assert claims in told_by(end, whole.get(finding_id)), (seed, claims, whole.get(finding_id))
        count += len(told)
    return count


def test_a_copy_with_a_gap_finds_nothing_that_the_whole_log_does_not_have(audit, tmp_path):
    assert judge_findings("gaps", "variants", range(3, 4), audit, tmp_path) > 10


@pytest.mark.long
@pytest.mark.parametrize("name", list(COMPLETE))
@pytest.mark.parametrize("kind", ["compacted", "gaps", "exports", "nights"])
def test_many_copies_find_nothing_that_the_whole_log_does_not_have(kind, name, audit, tmp_path):
    assert judge_findings(kind, name, range(6), audit, tmp_path)
