"""The cluster need not be named where there is no doubt which one is meant."""

import json

import pytest
from click.testing import CliRunner

from coordinator_replay import Warehouse
from coordinator_replay.cli.main import main
from coordinator_replay.errors import UsageError
from tests.pipeline.in_process import audit
from tests.samples import Sample

__all__ = ["audit"]


@pytest.fixture
def one(audit, tmp_path):
    """A warehouse with one cluster."""
    audit(tmp_path / "warehouse", Sample("old-format-none").segments, cluster="prod")
    return tmp_path / "warehouse"


@pytest.fixture
def two(audit, one):
    """A warehouse with two clusters, both named."""
    audit(one, Sample("old-format-gzip").segments, cluster="test")
    return one


def groups_of(warehouse, *options, **environment):
    command = ["groups", "--warehouse", str(warehouse), "--output", "json", *options]
    return CliRunner().invoke(main, command, env=environment)


def test_the_only_cluster_is_asked(one):
    answer = groups_of(one)
    assert answer.exit_code == 0
    assert "cluster prod," in answer.stderr
    assert answer.stdout == groups_of(one, "--cluster", "prod").stdout
    assert Warehouse(one).cluster == "prod"


def test_with_several_clusters_the_sentence_lists_them(two):
    answer = groups_of(two)
    assert answer.exit_code == 2
    assert "has several clusters, 'prod', 'test': name one with --cluster" in answer.stderr
    with pytest.raises(UsageError, match="'prod', 'test'"):
        Warehouse(two).groups()


def test_a_statement_about_all_clusters_needs_none(two):
    answer = Warehouse(two).sql("SELECT DISTINCT cluster FROM audit_runs ORDER BY 1")
    assert answer.to_pandas()["cluster"].tolist() == ["prod", "test"]


def asked_in_sql(warehouse, statement):
    command = ["sql", statement, "--warehouse", str(warehouse), "--cluster", "test", "--output", "json"]
    answer = CliRunner().invoke(main, command)
    assert answer.exit_code == 0, answer.output
    return [json.loads(line) for line in answer.stdout.splitlines()], answer.stderr


def test_a_statement_that_names_no_cluster_says_that_it_reads_all(two):
    rows, told = asked_in_sql(two, "SELECT DISTINCT cluster AS c FROM audit_runs ORDER BY 1")
    assert rows == [{"c": "prod"}, {"c": "test"}]
    assert told == ""
    (counted,), told = asked_in_sql(two, "SELECT count(*) AS n FROM audit_runs")
    assert counted == {"n": 2}
    assert "of all clusters" in told
    assert "cluster test, log up to" not in told


def test_a_statement_about_the_named_cluster_has_its_basis(two):
    (counted,), told = asked_in_sql(two, "SELECT count(*) AS n FROM audit_runs WHERE cluster = $cluster")
    assert counted == {"n": 1}
    assert "of all clusters" not in told
    assert "cluster test, log up to" in told


def test_a_statement_in_a_warehouse_of_one_cluster_needs_no_name(one):
    command = ["sql", "SELECT count(*) AS n FROM audit_runs", "--warehouse", str(one)]
    told = CliRunner().invoke(main, command).stderr
    assert "of all clusters" not in told
    assert "cluster prod, log up to" in told


def test_the_environment_names_the_cluster(two):
    named = groups_of(two, COORDINATOR_REPLAY_CLUSTER="test")
    assert named.exit_code == 0
    assert named.stdout == groups_of(two, "--cluster", "test").stdout


def test_the_unnamed_cluster_is_meant_where_there_is_one(audit, one):
    audit(one, Sample("old-format-gzip").segments)
    assert Warehouse(one).cluster == "default"


def test_an_audit_without_a_name_makes_no_second_cluster(one):
    answer = CliRunner().invoke(main, ["audit", Sample("old-format-none").segments, "--warehouse", str(one)])
    assert answer.exit_code == 2
    assert "has 'prod': name the cluster of this dump with --cluster" in answer.stderr
    assert Warehouse(one).clusters == ("prod",)
