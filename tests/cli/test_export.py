"""What the export command makes of its options; tests/acceptance lets it read from a broker."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator_replay.cli.export import client_settings
from coordinator_replay.cli.main import main
from coordinator_replay.errors import UsageError
from coordinator_replay.export.topic import ExportOptions


def test_settings_are_read_as_kafkas_own_tools_read_them(tmp_path: Path):
    file = tmp_path / "client.properties"
    file.write_text(
        "# how to get in\n"
        "security.protocol = SASL_SSL\n"
        "sasl.jaas.config=org.example.Login required \\\n    username=\"app\" password=\"a=b\\u0021\";\n"
    )  # fmt: skip
    assert client_settings(file, ["client.id=night", "security.protocol=SASL_PLAINTEXT"]) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.jaas.config": 'org.example.Login required username="app" password="a=b!";',
        "client.id": "night",
    }


def test_the_prefix_of_sparks_source_may_stand_there():
    assert client_settings(None, ["kafka.client.id=a"]) == {"client.id": "a"}


def test_what_is_no_setting_is_refused_without_repeating_it(tmp_path: Path):
    file = tmp_path / "client.properties"
    file.write_text("password=\\uZZZZ\n")
    with pytest.raises(UsageError, match=r"client\.properties: can't be read as Java properties"):
        client_settings(file, [])
    arguments = ["export", "--bootstrap-servers", "nowhere:1", "--out", str(tmp_path), "--kafka-option", "secret"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "key=value" in result.output
    assert "secret" not in result.output


def test_the_brokers_named_on_the_command_line_count():
    options = ExportOptions(bootstrap_servers="here:1", out="dump", client={"bootstrap.servers": "there:2", "a": "b"})
    source = options.source(2)
    assert source["kafka.bootstrap.servers"] == "here:1"
    assert source["kafka.a"] == "b"
    assert source["assign"] == '{"__consumer_offsets": [0, 1]}'
    assert "subscribe" not in source
