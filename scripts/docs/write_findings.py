"""Writes ``docs/findings.md``: every rule and threshold, and the findings in the recorded samples with the reasons."""

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coordinator_replay.analysis.findings.observation import threshold_shown
from coordinator_replay.analysis.findings.rules import RULES, Severity
from coordinator_replay.analysis.findings.thresholds import DEFAULTS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "findings.md"
LIST = ROOT / "tests" / "data" / "findings.json"
SAMPLES = ROOT / "tests" / "data"

_HEAD = """# Findings

Every audit looks for problems and keeps them in the table `findings`. `coordinator-replay findings` shows them, the
most severe first. `audit --fail-on warning` ends with code 3 if there is a new warning or error. This page is
written by `scripts/document-findings`.

| column | meaning |
|---|---|
| `finding_id` | the same in every audit that finds it |
| `first_seen`, `last_seen`, `occurrences` | sum up all occurrences of one finding |
| `ended_at` | null while it goes on at the end of the log. A group stuck yesterday has a finding with its end |
| `is_begin_open` | true: earlier records are missing, so it may have begun earlier, and is not new |
| `is_end_open` | true: records begin to be missing while it goes on, so it may have lasted longer |
| `is_at_least` | true: records of its time are missing, so its numbers may be higher |
| `detail` | the numbers of the sentence, as JSON |
| `log_partition`, `log_offset` | the record that shows it best |

- **One fact is one finding**, also if it concerns several partitions. Examples are offsets of a topic that were rewound
  or reset within ten minutes of each other, and commits of one owner that stopped.
- **Findings about missing records** (`silent_group`, `commit_stall`, `never_committed`, `abandoned_topic`,
  `offset_expiring`, `offset_due`) end with the record that was missing: a commit, a new owner, a subscription, a
  deletion. Offsets that expired are `offset_lost`, and no longer due.
- **One audit of the whole log** finds the same as one audit each night.
- **Durations** are measured up to the last record of the whole dump. If the partitions of `__consumer_offsets` were
  copied at very different times, groups of the earlier copies seem silent. The audit that reads the records in
  between removes such a finding, because it was never true.

Two rules compare a silence with the usual time between commits:

- `silent_group` takes the mean time up to the silence. Later commits don't change it. If a group had more than a
  hundred unusual silences, the longest hundred are kept.
- `commit_stall` takes the mean of all commits of the partition on record. If the partition is committed more rarely
  later, an earlier pause may become usual, and its finding is then gone.
"""

_THRESHOLDS = """## Thresholds

Give them as `--threshold stuck=15m` or in the configuration file. After a change the next audit evaluates every group
again.

| threshold | default | meaning |
|---|---|---|
"""

_SAMPLES = """## What is found in the recorded samples

These are all findings with default thresholds; a test compares the tables with this list. The samples last minutes, so
rules with thresholds of ten minutes or an hour find nothing there. Tests of those rules use generated groups.

"""


def _meanings() -> dict[str, str]:
    """Return the meaning of each threshold, from the docstring of the class."""
    text = (type(DEFAULTS).__doc__ or "").partition("Attributes:")[2]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found: dict[str, str] = {}
    for line in lines:
        name, is_new, meaning = line.partition(": ")
        if is_new and name in asdict(DEFAULTS):
            found[name] = meaning
        else:
            last = next(reversed(found))
            found[last] += f" {line}"
    return found


def _rules() -> list[str]:
    lines = []
    for severity in Severity:
        lines += [f"## {severity.capitalize()}", ""]
        for name, rule in RULES.items():
            if rule.severity is severity:
                used = ", ".join(f"`{threshold_shown(one, 0)[0]}`" for one in rule.thresholds)
                lines += [f"### `{name}`", "", f"{rule.about} {rule.advice}", ""]
                lines += [f"Thresholds: {used}.", ""] if used else []
                lines += [f"Needs {rule.needs}.", ""] if rule.needs else []
    return lines


def _found() -> list[str]:
    lines = []
    for sample, findings in json.loads(LIST.read_text(encoding="utf-8")).items():
        lines += [f"### {sample}", ""]
        if not findings:
            lines += ["Nothing.", ""]
            continue
        lines += ["| rule | group | topic | times | why |", "|---|---|---|---|---|"]
        for one in findings:
            topic = one["topic"] or "–"
            place = topic if one["partition"] is None else f"{topic}-{one['partition']}"
            lines.append(f"| `{one['rule']}` | {one['group'] or '–'} | {place} | {one['times']} | {one['why']} |")
        lines.append("")
    return lines


def write() -> str:
    """Return the page."""
    meanings = _meanings()
    rows = "".join(
        f"| `{shown}` | {value} | {meanings[name]} |\n"
        for name, (shown, value) in ((name, threshold_shown(name, number)) for name, number in asdict(DEFAULTS).items())
    )
    return "\n".join([_HEAD, *_rules(), _THRESHOLDS + rows, _SAMPLES + "\n".join(_found())]).rstrip() + "\n"


def audit_samples(warehouse: str) -> None:
    """Audit every sample, as a cluster with the sample's name."""
    from coordinator_replay.pipeline.audit import Options, run_audit
    from coordinator_replay.pipeline.host.session import open_session

    spark = open_session("coordinator-replay-findings")
    for folder in sorted(path for path in SAMPLES.iterdir() if (path / "segments").is_dir()):
        metadata = folder / "cluster-metadata"
        options = Options(
            inputs=[str(folder / "segments")],
            warehouse=warehouse,
            cluster=folder.name,
            cluster_metadata=str(metadata) if metadata.exists() else None,
        )
        run_audit(spark, options)


def relist(warehouse: str) -> None:
    """Write the list of findings from a warehouse. Findings that were in the list before keep their reasons."""
    from coordinator_replay.query.findings import findings_of
    from coordinator_replay.query.tables import Tables

    known = json.loads(LIST.read_text(encoding="utf-8")) if LIST.exists() else {}
    reasons = {
        (sample, one["rule"], one["group"], one["topic"], one["partition"]): one["why"]
        for sample, findings in known.items()
        for one in findings
    }
    listed: dict[str, list[dict[str, Any]]] = {}
    for name in sorted(path.name for path in SAMPLES.iterdir() if (path / "segments").is_dir()):
        listed[name] = [
            {
                "rule": one.rule,
                "group": one.group_id,
                "topic": one.topic,
                "partition": one.partition,
                "times": one.occurrences,
                "why": reasons.get((name, one.rule, one.group_id, one.topic, one.partition), ""),
            }
            for one in findings_of(Tables(warehouse, name))
        ]
    LIST.write_text(json.dumps(listed, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--audit"]:
        with tempfile.TemporaryDirectory() as folder:
            audit_samples(folder)
            relist(folder)
    elif sys.argv[1:2] == ["--warehouse"]:
        relist(sys.argv[2])
    DOCUMENT.write_text(write(), encoding="utf-8")
