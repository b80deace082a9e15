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

Every audit looks for problems and stores them in the table `findings`. `coordinator-replay findings` shows them, the
most severe first. `audit --fail-on warning` ends with exit code 3 if there is a new warning or error. This page is
written by `scripts/document-findings`.

| column | meaning |
|---|---|
| `finding_id` | id of the finding. Every audit that finds the same problem gives it the same id |
| `first_seen`, `last_seen`, `occurrences` | times of the first and the last occurrence, and the number of occurrences |
| `ended_at` | when the problem ended. Null if it has not ended at the end of the log |
| `is_begin_open` | true: earlier records are missing. The problem may be older, so `diff` calls it `found`, not `new` |
| `is_end_open` | true: records after `ended_at` are missing, so the problem may have lasted longer |
| `is_at_least` | true: records of the finding may be missing, so `occurrences` and numbers in `detail` may be too low |
| `detail` | the numbers and names in the finding's message, as JSON |
| `log_partition`, `log_offset` | position of the record that shows the problem best |

- **One event is one finding**, even if it concerns several partitions. Examples: offsets of a topic were rewound
  or reset within ten minutes of each other, or all commits of an owner stopped.
- **Some findings say that nothing was written** (`silent_group`, `commit_stall`, `never_committed`, `abandoned_topic`,
  `offset_expiring`, `offset_due`). They end when something is written: a commit, a new owner, a subscription,
  a deletion. When an offset has expired, `offset_due` ends, and `offset_lost` begins.
- **One audit of the whole log** finds the same problems as an audit each night.
- **Durations** are measured up to the last record of the whole dump. If the partitions of `__consumer_offsets` were
  copied at very different times, groups of the earlier copies seem silent. If a later audit reads the records that
  these copies lack, the audit removes findings about this silence, because they were never true.

Two rules compare a time without commits with the usual time between commits:

- `silent_group` compares with the mean time between the commits before the silence. So later commits don't change the
  finding. If a group had more than a hundred unusual silences, the longest hundred are kept.
- `commit_stall` compares with the mean time between all commits of the partition on record. If commits of the partition
  become rarer later, an earlier pause may become usual. The next audit then removes the finding about this pause.
"""

_THRESHOLDS = """## Thresholds

Set a threshold with `audit --threshold stuck=15m`, or in the configuration file. After a change, the next audit
evaluates every group again.

| threshold | default | meaning |
|---|---|---|
"""

_SAMPLES = """## What is found in the recorded samples

With default thresholds, the recorded samples (`tests/data`) have exactly these findings: a test checks this. The column
*why* says what was done in the recording. The samples last minutes, so rules with thresholds of ten minutes or an hour
find nothing there. Tests of those rules use generated groups.

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
