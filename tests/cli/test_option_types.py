"""Option types that a function reads."""

import re

import click
import pytest
from click.testing import CliRunner

from coordinator_replay.cli import offsets
from coordinator_replay.cli.option_types import Parsed, absolute, check_cluster, check_warehouse
from coordinator_replay.errors import UsageError


def even(text: str) -> int:
    if int(text) % 2:
        raise UsageError(f"{text} is odd")
    return int(text)


@click.command()
@click.option("--number", type=Parsed("even", even, int), default=3)
def shown(number: int) -> None:
    click.echo(number)


def test_the_function_reads_what_was_typed_and_a_default_stays_as_it_is():
    assert CliRunner().invoke(shown, ["--number", "4"]).output == "4\n"
    assert CliRunner().invoke(shown).output == "3\n"


def test_what_the_function_refuses_is_an_error_of_the_option():
    refused = CliRunner().invoke(shown, ["--number", "5"])
    assert refused.exit_code == 2
    assert "Invalid value for '--number': 5 is odd" in refused.output


@pytest.mark.parametrize("text", ["", ":3", "orders:", "orders:x", "orders:-1"])
def test_what_is_no_topic_or_partition_is_refused(text: str):
    with pytest.raises(UsageError, match="is not TOPIC or TOPIC:PARTITION"):
        offsets.topic_or_partition(text)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("file:/data/audit", "/data/audit"),
        ("file:///data/audit", "file:///data/audit"),
        ("/Volumes/prod/kafka/audit", "/Volumes/prod/kafka/audit"),
        ("s3a://lake/audit", "s3a://lake/audit"),
    ],
)
def test_a_path_may_be_written_as_other_tools_print_it(typed, meant):
    assert absolute(typed) == meant


@pytest.mark.parametrize(
    ("typed", "advice"),
    [
        ("dbfs:/audit", "/Volumes/"),
        ("dbfs:///audit", "/Volumes/"),
        ("hdfs:/audit", "hdfs://…"),
        ("abfss:/container/audit", "abfss://…"),
    ],
)
def test_a_uri_that_only_spark_opens_is_refused_with_the_form_that_works(typed, advice):
    with pytest.raises(UsageError, match=re.escape(advice)):
        absolute(typed)


@pytest.mark.parametrize("name", ["", " ", "\t"])
def test_a_cluster_has_a_name(name: str):
    with pytest.raises(UsageError, match="empty"):
        check_cluster(name)


def test_a_warehouse_is_named_to_questions_as_to_audits():
    assert check_warehouse("file:/data/audit") == "/data/audit"
    for refused in ("dbfs:/data", "s3:/lake/audit"):
        with pytest.raises(UsageError, match=r"dbfs|two slashes"):
            check_warehouse(refused)
