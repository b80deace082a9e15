"""Questions in the documents are asked: of a recorded log, with its groups, topics and times in place of theirs."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator_replay.cli.main import main
from tests.docs.test_site import DOCS, code_blocks, typed_commands
from tests.pipeline.audited_once import AuditedOnce
from tests.samples import Sample

MADE = {"audit", "demo", "export", "maintain", "decode", "simulate"}
"""Commands that need something else than a warehouse; other tests run them."""

NAMES = {
    "payments": "shop-billing",
    "my-group": "shop-billing",
    "payments-app": "shop-billing",
    "payments-new": "shop-migrate",
    "orders-share": "shop-share",
    "word-count": "shop-streams",
    "orders": "shop.orders",
    "orders:3": "shop.orders:0",
    "prod,copy": "default,default",
    "prod,standby": "default,default",
    "3": "0",
    "10.1.2.3": "127.0.0.1",
    "checkout-*": "billing-*",
}
AFTER = {"--from": "2026-11-21T08:32:13Z", "--to": "2026-11-21T08:34:40Z", "--at": "2026-11-21T08:34:00Z"}
"""The recorded log is of two minutes and a half."""

NEEDS_A_SERVER = "--pushgateway"
"""tests/cli/test_prometheus.py starts one."""

QUESTIONS = sorted(
    {tuple(words) for _, words in typed_commands() if words[0] not in MADE and NEEDS_A_SERVER not in words}
)
QUICK = {"describe", "groups", "owner", "offsets", "why"}


def here(words: tuple[str, ...]) -> Iterator[str]:
    """The same question about the recorded log."""
    # This group was deleted with its offsets.
    names = NAMES | {"payments": "shop-doomed"} if "--before-removal" in words else NAMES
    before = ""
    for word in words:
        if before == "--warehouse":
            yield "warehouse"
        elif before in AFTER:
            yield word if word.startswith("2026-11-21T08:3") else AFTER[before]
        elif before in ("--out", "--reset-file"):
            yield Path(word).name + ("/" if word.endswith("/") else "")
        else:
            yield re.sub(r"^\d{4}-\d\d-\d\dT[\d:]+Z?$", AFTER["--at"], names.get(word, word))
        before = word


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, audited_once: AuditedOnce) -> Path:
    made = tmp_path_factory.mktemp("questions")
    sample = Sample("group-lifecycles")
    audited = audited_once(sample.segments, cluster_metadata=str(sample.folder / "cluster-metadata"))
    audited.copy(made / "warehouse")
    (made / "ends.csv").write_text("topic,partition,offset\nshop.orders,0,1000\n")
    return made


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=() if words[0] in QUICK else pytest.mark.long, id=" ".join(words))
        for words in QUESTIONS
    ],
)
def test_a_question_in_the_documents_is_answered(words, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COORDINATOR_REPLAY_WAREHOUSE", "warehouse")
    run = CliRunner().invoke(main, list(here(words)))
    assert run.exit_code == 0, run.stderr


def test_a_statement_in_the_documents_is_answered(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (statement,) = code_blocks(DOCS / "audit.md", "sql")
    run = CliRunner().invoke(main, ["sql", "-", "--warehouse", "warehouse", "--output", "json"], input=statement)
    assert (run.exit_code, '"rebalances"' in run.stdout) == (0, True), run.stderr


def test_python_in_the_documents_asks_a_warehouse(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (code,) = [one for one in code_blocks(DOCS / "python-and-spark.md", "python") if "Warehouse(" in one]
    recorded = (
        code.replace("/data/audit", "warehouse").replace('"prod"', '"default"').replace("payments", "shop-billing")
    )
    named = {"__name__": "documented"}
    exec(recorded.replace("2026-11-20T02:13", AFTER["--at"]), named)
    assert len(named["warehouse"].rebalances("shop-billing")) > 1
