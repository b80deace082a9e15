"""What changed, by what was done to the clients: a life in halves, two nights by run ids, a cluster and its copy."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coordinator_replay.cli.main import main
from tests.acceptance.recorded import Rows, journal
from tests.pipeline.in_process import audit_here, cut
from tests.samples import Sample

LIFE = "variants"
STARTED, WAS_GROWN, HAS_FOUR = 1795381645000, 1795381693000, 1795381712000
"""Times at which clients of all groups had settled: three in each, the same after restarts, four of a larger topic."""


def asked(warehouse: Path, *arguments: str) -> Rows:
    result = CliRunner().invoke(main, [*arguments, "--warehouse", str(warehouse), "--output", "json"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def audited(folder: Path, name: str, **options: Any) -> Path:
    metadata = str(Sample(name).folder / "cluster-metadata")
    audit_here(folder, Sample(name).segments, cluster_metadata=metadata, **options)
    return folder


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return audited(tmp_path_factory.mktemp("life") / "warehouse", LIFE)


def done(action: str, start: int, end: int) -> Rows:
    return [one for one in journal(LIFE, action=action) if start <= one["at"] < end]


def clients(rows: Iterable[dict[str, Any]], change: str) -> set[tuple[str, str]]:
    return {
        (row["group_id"], row["name"].split(" on ")[0])
        for row in rows
        if (row["what"], row["change"]) == ("member", change)
    }


def test_of_a_half_in_which_clients_were_restarted_and_nothing_else(life):
    assert done("restart", STARTED, WAS_GROWN)
    assert not done("start", STARTED, WAS_GROWN)
    rows = asked(life, "diff", "--from", str(STARTED), "--to", str(WAS_GROWN))
    assert {row["what"] for row in rows} <= {"owner", "rebalance", "finding"}
    assert {row["change"] for row in rows if row["what"] == "owner"} <= {"changed"}
    between = Counter[str]()
    for row in rows:
        between[row["group_id"]] += row["number"] if row["what"] == "rebalance" else 0
    listed = asked(life, "rebalances", "--from", str(STARTED), "--to", str(WAS_GROWN))
    assert +between == Counter(row["group_id"] for row in listed)


def test_of_a_half_in_which_topics_grew_and_a_client_came_to_each_group(life):
    rows = asked(life, "diff", "--from", str(WAS_GROWN), "--to", str(HAS_FOUR))
    started = {(one["group"], one["member"]) for one in done("start", WAS_GROWN, HAS_FOUR)}
    assert len(started) == 6
    assert clients(rows, "added") == {(group, client) for group, client in started}
    assert clients(rows, "removed") == set()
    grown = {f"{one['topic']}-{number}" for one in done("partitions_increased", WAS_GROWN, HAS_FOUR)
             for number in range(6, one["partitions"])}  # fmt: skip
    assert {row["name"] for row in rows if (row["what"], row["change"]) == ("owner", "added")} == grown
    assert not {row["what"] for row in rows} & {"group", "state", "protocol", "type", "assignor"}


def test_of_the_end_in_which_these_clients_were_closed(life):
    """Dynamic members leave; static ones are in the group until their session is over."""
    rows = asked(life, "diff", "--from", str(HAS_FOUR))
    closed = {(one["group"], one["member"]) for one in done("close", HAS_FOUR, HAS_FOUR * 2)}
    dynamic = {(group, client) for group, client in closed if client.split("-")[0] in ("dynamic", "coop", "new")}
    assert len(dynamic) == 3
    assert dynamic <= clients(rows, "removed") <= closed
    assert clients(rows, "added") == set()


def test_two_nights_by_their_run_ids(tmp_path):
    nights = [tmp_path / "1", tmp_path / "2"]
    cut(Sample("group-lifecycles").segments, nights)
    runs = [audit_here(tmp_path / "warehouse", night).run.run_id for night in nights]
    rows = asked(tmp_path / "warehouse", "diff", "--from", runs[0], "--to", runs[1])
    by_time = asked(tmp_path / "warehouse", "diff", "--from", str(log_end(tmp_path / "warehouse", runs[0])))
    assert [row for row in rows if row["what"] != "finding"] == [row for row in by_time if row["what"] != "finding"]
    new = {row["message"] for row in asked(tmp_path / "warehouse", "findings", "--new")}
    assert new
    assert {row["after"] for row in rows if (row["what"], row["change"]) == ("finding", "new")} == new
    assert asked(tmp_path / "warehouse", "diff", "--from", runs[1]) == []
    asked_of_none = ["diff", "--from", "20200101T000000.000000Z", "--warehouse", str(tmp_path / "warehouse")]
    refused = CliRunner().invoke(main, asked_of_none)
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (2, 1)


def log_end(warehouse: Path, run: str) -> int:
    statement = f"SELECT epoch_ms(log_end) AS at FROM audit_runs WHERE run_id = '{run}'"
    ((at),) = asked(warehouse, "sql", statement)
    return int(at["at"])


def test_a_cluster_and_its_copy_do_not_differ(tmp_path):
    for cluster in ("prod", "copy"):
        audited(tmp_path, "java-clients", cluster=cluster)
    assert asked(tmp_path, "diff", "--cluster", "prod,copy") == []
    assert asked(tmp_path, "diff", "--cluster", "prod,copy", "--at", "-30s") == []
