"""Keys in URIs are neither shown nor kept."""

from pathlib import Path
from urllib.parse import quote

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay import errors
from coordinator_replay.secret_text import without_secrets
from tests.log.writer import LogEntry, write_batch
from tests.pipeline.in_process import audit

__all__ = ["audit"]

KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
ERRORS = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)]


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs", "abfss", "hdfs", "http"])
@pytest.mark.parametrize("secret", [SECRET, quote(SECRET, safe=""), "a+b=c", "123", "p:w"])
def test_user_and_password_are_left_out(scheme: str, secret: str):
    told = without_secrets(f"can't read '{scheme}://{KEY}:{secret}@bucket/dump/a.log': no, {scheme}://{KEY}:{secret}@b")
    assert told == f"can't read '{scheme}://***@bucket/dump/a.log': no, {scheme}://***@b"


@pytest.mark.parametrize("name", ["secret_key", "fs.s3a.secret.key", "password", "sig", "sessionToken", "accessKey"])
def test_parameters_that_hold_keys_are_left_out(name: str):
    told = without_secrets(f"s3://bucket/dump?region=eu-1&{name}={SECRET}&scheme=http")
    assert told == f"s3://bucket/dump?region=eu-1&{name}=***&scheme=http"


@pytest.mark.parametrize(
    "text",
    ["s3://bucket/a:b@c", "abfss://container@account.dfs.core.windows.net/x", "hdfs://namenode:8020/dump/a.log@35",
     "/dumps/a:b@c", "C:/x@y", "file:///a/b", "s3://bucket/a?region=x", "no URI: a@b"],
)  # fmt: skip
def test_other_texts_stay(text: str):
    assert without_secrets(text) == text


@given(st.text())
def test_what_is_left_out_once_is_left_out(text: str):
    assert without_secrets(without_secrets(text)) == without_secrets(text)


@pytest.mark.parametrize("error", ERRORS)
def test_no_error_repeats_a_key(error: type[Exception]):
    assert SECRET not in str(error(f"s3://{KEY}:{SECRET}@bucket/dump: no such file"))


def test_no_table_has_a_key(audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A damaged segment in a store, given by a URI with a key."""
    from coordinator_replay.log import dump, reading

    raw = write_batch([LogEntry(key=b"k", value=b"v")], base_offset=0)
    (tmp_path / "dump" / "__consumer_offsets-0").mkdir(parents=True)
    (tmp_path / "dump" / "__consumer_offsets-0" / f"{0:020}.log").write_bytes(raw[:-1] + b"x")
    place = f"s3://{KEY}:{quote(SECRET, safe='')}@bucket"
    open_filesystem = dump.open_filesystem
    for module in (dump, reading):
        monkeypatch.setattr(module, "open_filesystem", lambda uri: open_filesystem(uri.replace(place, str(tmp_path))))
    name = f"/dump/__consumer_offsets-0/{0:020}.log"
    monkeypatch.setattr(dump, "_list", lambda _: iter([dump._Listed(f"{place}{name}", len(raw), named=False)]))
    audit(tmp_path / "warehouse", f"{place}/dump")
    for table in ("audit_runs", "quarantine"):
        rows = str(DeltaTable(str(tmp_path / "warehouse" / table)).to_pyarrow_table().to_pylist())
        assert "s3://***@bucket/dump" in rows
        assert quote(SECRET, safe="") not in rows
