"""The session on this machine, wherever it is installed."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from coordinator_replay.cli.main import main
from coordinator_replay.errors import PrerequisiteError
from coordinator_replay.pipeline.host import session
from coordinator_replay.pipeline.host.class_archive import BARE_SESSION
from coordinator_replay.pipeline.host.session import quoted_option
from coordinator_replay.store.lock import one_at_a_time
from tests.samples import Sample

ROOT = Path(__file__).parents[2]


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1)))
def test_options_of_java_are_taken_apart_as_they_were(options: list[str]):
    assert shlex.split(" ".join(map(quoted_option, options))) == options


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.skipif(os.name != "posix", reason="links")
def test_a_session_starts_below_a_folder_with_any_name(tmp_path: Path):
    """The package and its environment lie there; nothing stays in the temporary folder."""
    place, scratch = tmp_path / "Program Files, 'new' \"x\" % #1", tmp_path / "scratch"
    place.mkdir()
    scratch.mkdir()
    for name in ("coordinator_replay", "schemas", "conf"):
        (place / name).symlink_to(ROOT / name)
    (place / "venv").symlink_to(sys.prefix)
    environment = {**os.environ, "PYTHONPATH": str(place), "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
    check = f"from coordinator_replay.pipeline.host import session\nassert {str(place)!r} in session.__file__"
    done = subprocess.run(
        [str(place / "venv" / "bin" / "python"), "-P", "-c", f"{check}\n{BARE_SESSION}"],
        env=environment, cwd=scratch, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not [*scratch.glob("*coordinator-replay*")]


def test_a_warehouse_that_is_in_use_is_refused_before_spark_is_started(tmp_path: Path, monkeypatch, capsys):
    def no_session(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "open_session", no_session)
    with one_at_a_time(str(tmp_path), "another"), pytest.raises(SystemExit):
        main(["audit", Sample("transactions").segments, "--warehouse", str(tmp_path)])
    assert "is in use by another" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("form", "options", "with_delta"),
    [("segments", (), False), ("segments", ("--database", "audit"), True), ("delta", (), True)],
)
def test_deltas_jars_are_loaded_where_spark_itself_reads_or_names_delta_tables(
    form, options, with_delta, tmp_path, monkeypatch
):
    dump = Sample("transactions").segments
    if form == "delta":
        dump = str(tmp_path / "dump")
        write_deltalake(dump, pq.read_table(Sample("transactions").folder / "parquet"))
    asked: list[object] = []

    def no_session(*_: object, **wanted: object) -> None:
        asked.append(wanted["with_delta"])
        raise PrerequisiteError("no session")

    monkeypatch.setattr(session, "open_session", no_session)
    with pytest.raises(SystemExit):
        main(["audit", dump, "--warehouse", str(tmp_path / "warehouse"), *options])
    assert asked == [with_delta]
