"""Metrics of the small warehouse, read back by Prometheus' own parser and by promtool where it is installed."""

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from coordinator_replay import Warehouse
from coordinator_replay.cli import metrics, output
from coordinator_replay.cli.main import main
from coordinator_replay.engine.model import GroupState
from coordinator_replay.query.groups import UNKNOWN
from coordinator_replay.report.wording import STATE_COLOURS, UNKNOWN_COLOUR
from tests.query.small_warehouse import at, write_rows, write_small_warehouse

MONITORING = Path(__file__).parents[2] / "conf" / "monitoring"
RULES = MONITORING / "alerts.yml"
DASHBOARD = MONITORING / "grafana.json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_warehouse(tmp_path_factory.mktemp("metrics"))


def samples(text: str, name: str, parse=text_string_to_metric_families) -> dict[tuple[str, ...], float]:
    """Values of a metric by its labels but for the cluster, in the order of the labels' names."""
    return {
        tuple(text for label, text in sample.labels.items() if label not in ("cluster", "group")): sample.value
        for family in parse(text)
        for sample in family.samples
        if sample.name == f"coordinator_replay_{name}"
    }


def test_metrics_are_what_the_commands_answer(folder):
    warehouse = Warehouse(folder, "default")
    text = warehouse.metrics(now=at("02:30")).text
    groups = warehouse.groups()
    assert groups
    proven = [one for one in groups if one.is_exact]
    assert set(samples(text, "group_state")) == {
        (one.group_id, one.state if one in proven else "Unknown", one.group_type) for one in groups
    }
    assert samples(text, "group_epoch") == {(one.group_id,): one.epoch for one in proven if one.epoch is not None}
    assert samples(text, "group_members").keys() == {(one.group_id,) for one in proven if one.member_count is not None}
    assert sum(samples(text, "group_rebalances").values()) == len(
        [one for one in warehouse.rebalances() if one.group_id in {group.group_id for group in groups}]
    )
    removed = Counter((one.group_id, str(one.cause)) for one in warehouse.rebalances() for _ in one.members_left or ())
    assert removed
    assert samples(text, "group_removed_members") == {(cause, name): n for (name, cause), n in removed.items()}
    whole = Counter(one.is_whole for one in warehouse._tables.completeness.partitions.values())
    assert samples(text, "log_partitions") == {("true",): whole[True], ("false",): whole[False]}
    assert sum(samples(text, "findings").values()) == len(warehouse.findings())
    assert sum(samples(text, "groups").values()) == len(groups)
    expiries = [one for one in warehouse.expired() if one.group_id in {group.group_id for group in groups}]
    over = Counter((one.group_id,) for one in expiries if one.status == "EXPIRED")
    coming = Counter((one.group_id, one.status) for one in expiries if one.status != "EXPIRED")
    assert over
    assert coming
    assert samples(text, "group_expired_offsets") == over
    assert samples(text, "group_expiring_offsets") == coming
    # That of group zombie is past retention, and nothing shows that somebody uses the group.
    assert samples(text, "group_offsets_expire_timestamp_seconds") == {("simple",): at("04:00").timestamp()}
    assert samples(text, "coordinator_changes") == {("7",): 1}
    assert samples(text, "log_age_seconds") == {(): (at("02:30") - warehouse.coverage.last).total_seconds()}


def test_a_terminal_shows_a_screen_and_a_pipe_gets_all(folder, monkeypatch, tmp_path):
    asked = ["metrics", "--warehouse", str(folder)]

    def run(*more: str) -> tuple[list[str], str]:
        result = CliRunner().invoke(main, [*asked, *more])
        assert result.exit_code == 0, result.output
        return result.stdout.splitlines(), " ".join(result.stderr.split())

    whole, beside = run()
    assert "Alert rules" not in beside
    for module in (metrics, output):
        monkeypatch.setattr(module, "terminal_width", lambda *, err=False: 80)
    shown, beside = run()
    names = [line.split()[0] for line in shown]
    assert names == [line.split()[0] for line in whole[: len(shown)]]
    assert 10 < sum(-(-len(line) // 80) for line in shown) <= 18
    assert f"{len(whole) - len(shown)} more lines: --wide, --out FILE and a pipe have all." in beside
    assert "Alert rules for these metrics are in conf/monitoring/alerts.yml" in beside
    assert RULES.is_file()
    assert len(run("--wide")[0]) == len(whole)
    run("--out", str(tmp_path / "all.prom"))
    assert len((tmp_path / "all.prom").read_text().splitlines()) == len(whole)


def test_findings_are_new_open_or_ended(tmp_path):
    folder = write_small_warehouse(tmp_path)
    write_rows(folder, "audit_runs", [{"run_id": "4", "cluster": "default", "status": "done", "records_decoded": 1,
                                       "started_at": at("03:55"), "finished_at": at("04:00")}])  # fmt: skip
    write_rows(folder, "findings", [
        {"cluster": "default", "finding_id": name, "rule": "rewind", "severity": "warning", "found_in_run": run,
         "ended_at": at("02:20")}
        for name, run in (("n1", "1"), ("n2", "4"))
    ])  # fmt: skip
    assert samples(Warehouse(folder, "default").metrics().text, "findings") == {
        ("storm", "info", "ended"): 1,
        ("stuck_transaction", "error", "open"): 1,
        ("rewind", "warning", "ended"): 2,
        ("rewind", "warning", "new"): 1,
    }


def test_groups_are_limited_and_chosen(folder):
    warehouse = Warehouse(folder, "default")
    everyone = warehouse.metrics()
    one = warehouse.metrics(limit=1)
    assert (one.groups, one.left_out) == (1, everyone.groups - 1)
    assert samples(one.text, "groups_left_out") == {(): everyone.groups - 1}
    assert len(samples(one.text, "group_state")) == 1
    assert {name for name, *_ in samples(warehouse.metrics(groups="pay.*").text, "group_state")} == {"payments"}
    assert samples(warehouse.metrics(groups="pay").text, "group_state") == {}


def test_a_file_is_replaced_and_a_wrong_expression_is_one_sentence(folder, tmp_path):
    out = tmp_path / "offsets.prom"
    out.write_text("old")
    asked = ("metrics", "--warehouse", str(folder), "--cluster", "default")
    written = CliRunner().invoke(main, [*asked, "--openmetrics", "--out", str(out)])
    assert written.exit_code == 0, written.output
    assert samples(out.read_text(), "group_state", openmetrics_families)
    assert list(tmp_path.iterdir()) == [out]
    wrong = CliRunner().invoke(main, [*asked, "--groups", "("])
    assert (wrong.exit_code, len(wrong.stderr.splitlines())) == (2, 1)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_nothing_to_say(folder):
    text = Warehouse(folder, "default").metrics().text
    for arguments, given in ((["metrics"], text), (["rules", "--lint-fatal", str(RULES)], "")):
        checked = subprocess.run(["promtool", "check", *arguments], input=given, text=True, capture_output=True)
        assert (checked.returncode, checked.stderr) == (0, "")


def test_the_dashboard_and_the_alerts_ask_for_metrics_and_labels_that_are_written(folder):
    text = Warehouse(folder, "default").metrics().text
    labels = {family.name: {label for one in family.samples for label in one.labels}
              for family in text_string_to_metric_families(text)}  # fmt: skip
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [one["query"]["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    asked += [one["expr"] for one in dashboard["annotations"]["list"]]
    asked += re.findall(r"expr: (.*)", RULES.read_text(encoding="utf-8"))
    assert len(asked) > 12
    for expression in asked:
        name, *others = dict.fromkeys(re.findall(r"coordinator_replay_\w+", expression))
        # Since when something was written decides what has grown.
        assert others in ([], ["coordinator_replay_log_end_timestamp_seconds"]), expression
        wanted = set(re.findall(r"(\w+)(?:=~?|!=)\"", expression))
        grouped = re.search(r"by \(([^)]*)\)", expression)
        wanted |= set(grouped[1].split(", ")) if grouped else set()
        assert wanted <= labels[name], expression


def test_the_dashboard_knows_every_state_and_its_totals_are_differences():
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    (states,) = [panel for panel in dashboard["panels"] if panel["type"] == "state-timeline"]
    (target,) = states["targets"]
    asked = dict(re.findall(r'state="(\w+)"\} \* (\d+)', target["expr"]))
    shown = states["fieldConfig"]["defaults"]["mappings"][0]["options"]
    assert asked == {one["text"]: number for number, one in shown.items()}
    assert set(asked) == {*map(str, GroupState), UNKNOWN}
    assert {one["text"]: one["color"] for one in shown.values()} == {**STATE_COLOURS, UNKNOWN: UNKNOWN_COLOUR}
    # A total that an audit may only add to is shown by how much it has grown.
    totals = ("rebalances", "removed_members", "unowned_partition_seconds", "expired_offsets", "coordinator_changes")
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            if any(f"_{total}{{" in target["expr"] for total in totals):
                assert "offset $window" in target["expr"], panel["title"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_help_names_the_alert_rules():
    told = " ".join(CliRunner().invoke(main, ["metrics", "--help"]).output.split())
    assert f"The sources have alert rules for these metrics ({RULES.relative_to(RULES.parents[2])})" in told
    assert RULES.exists()
