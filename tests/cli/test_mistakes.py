"""Mistakes that people type: each ends in one or two sentences that name what is wrong and what was expected.

The commands are those of people who tried the program at a small cluster; names and times are those of the small
warehouse. What was a mistake once and is understood now is answered.
"""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator_replay.cli.main import main
from tests.query.small_warehouse import event, write_small_warehouse

W, X = "{warehouse}", "{folder}"

ANSWERED: dict[tuple[str, ...], str] = {
    ("why", "payments", "--since", "-6h"): "generation|epoch",
    ("why", "payments", "--from", "6h"): "epoch",
    ("why", "payments", "--from", "6 hours ago"): "epoch",
    ("why", "payments", "--at", "2026-11-20 02:12:20"): "epoch 3",
    ("why", "payments", "--at", "20.11.2026 02:12"): "epoch 3",
    ("why", "payments", "--at", "2026-11-20T03:12:20+01:00"): "epoch 3",
    ("why", "payments", "--at", "2026-11-20T03:12:20 CET"): "epoch 3",
    ("why", "payments", "--at", "2026-11-20T03:12:20 Europe/Berlin"): "epoch 3",
    ("why", "payments", "--at", "2:12"): "epoch 3",
    ("why", "payments", "--at", "1795140740000"): "epoch 3",
    ("why", "payments", "--from", "-30d"): "epoch",
    ("why", "payments", "--cause", "session-timeout"): "No rebalance|SESSION_TIMEOUT",
    ("sql", "--query", "storms"): "Saved query rebalance-storms",
    ("groups", "--json"): '"group_id":"payments"',
    ("groups", "-o", "json"): '"group_id":"payments"',
    ("describe", "--group", "payments"): "Stable",
    ("groups", "--group", "payments"): "payments +consumer",
    ("groups", "--state", "Stable,Reconciling"): "payments",
    ("groups", "--all-groups"): "payments",
    ("owner", "payments", "orders-0"): "m-1",
    ("owner", "payments", "orders:0,1"): "m-2",
    ("owner", "payments", "orders"): "m-2",
    ("offsets", "payments", "--topic", "orders:0"): "orders +0 ",
    ("offsets", "payments", "--topic", "orders-1"): "orders +1 ",
    ("expired", "--within", "1w"): "simple",
    ("expired", "--within", "2d12h"): "simple",
    ("expired", "--within", "2 days"): "simple",
    (
        "diff",
        "--from",
        "01:30",
        "--to",
        "02:12",
    ): "The log begins only at 2026-11-20T02:00:00.000Z: the changes are those",
    ("diff", "--from", "2026-11-20"): "The log begins only at 2026-11-20T02:00:00.000Z",
    ("offsets", "payments", "--topic", "orders:9"): "had no committed offset of orders:9 then",
}
"""What is understood, and what its answer has."""

REFUSED: dict[tuple[str, ...], str] = {
    ("groups", "--warehouse", "nowhere"): "there is no warehouse at nowhere: the folder does not exist",
    ("groups", "--warehouse", X): "there is no warehouse at .*: the ledger audit_runs is not there; run coord",
    ("groups", "--warehouse", f"{W}/rebalances"): f"rebalances is one table: give the warehouse that it lies in, {W}$",
    ("why", "paymentss"): "group 'paymentss' .*did you mean 'payments'",
    ("why", "pay", "ments"): "why takes one GROUP, and no group is called 'pay ments': did you mean 'payments'",
    ("why", "zz", "qq"): 'why takes one GROUP. A name with blanks must stand in quotes: why "zz qq"',
    ("why", "payments", "legacy"): "takes one GROUP; describe and offsets take several, and --name takes a pattern",
    ("why", "payments", "--at", "2026-11-20", "02:12:20"): '"2026-11-20 02:12:20"',
    ("why", "payments", "--at", "11/20/2026", "02:12"): (
        "'--at': invalid time '11/20/2026 02:12': write \"2026-11-20 02:12\"\\.$"
    ),
    ("why", "payments", "2026-11-20", "02:12:20"): 'why takes a time as --at "2026-11-20 02:12:20"\\.$',
    ("why", "payments", "2026-11-20T02:12:20"): 'why takes a time as --at "2026-11-20T02:12:20"\\.$',
    ("expired", "--within", "2d", "12h"): 'must stand in quotes: --within "2d 12h"\\.$',
    ("expired", "--within", "1", "week", "and", "2", "days"): 'in quotes: --within "1 week and 2 days"\\.$',
    ("expired", "--within", "3", "fortnights"): "Invalid value for '--within': invalid duration '3'",
    ("expired", "--within", "3", "3h", "30"): "Invalid value for '--within': invalid duration '3 3h': write a number",
    ("expired", "--within", "3d", "30"): "group '30' ",
    ("groups", "--at", "2026-11-21", "8:33pm"): "'--at': invalid time '2026-11-21 8:33pm': write 2026-11-20T02:13",
    ("expired", "--within", "7", "days"): 'must stand in quotes: --within "7 days"\\.$',
    ("why", "payments", "--at", "20.11.2026", "02:12"): 'must stand in quotes: --at "20.11.2026 02:12"',
    ("why", "payments", "--at", "2026-11-20T03:12:20", "CET"): 'quotes: --at "2026-11-20T03:12:20 CET"',
    (
        "why",
        "--at",
        "2026-11-20T03:12:20",
        "Europe/Berlin",
        "payments",
    ): 'quotes: --at "2026-11-20T03:12:20 Europe/Berl',
    ("why", "payments", "--from", "6", "hours", "ago"): 'quotes: --from "6 hours ago"',
    ("describe", "payments", "--at", "2026-11-20", "02:12:20"): 'quotes: --at "2026-11-20 02:12:20"',
    ("why", "pay*"): "no group is called 'pay\\*': .*other commands take it as --name",
    ("abandoned-topics",): "It is a saved query: sql --query abandoned-topics",
    ("why", "PAYMENTS"): "did you mean 'payments'",
    ("why", "grüße-日本"): "group 'grüße-日本' .*covered from 2026-11-20T02:00",
    ("wy", "payments"): "Did you mean 'why'",
    ("offset", "payments"): "Did you mean 'offsets'",
    ("lag", "payments"): "Did you mean 'offsets'",
    ("why", "payments", "--at", "11/20/2026 02:12"): 'write "2026-11-20 02:12"',
    ("why", "payments", "--at", "02.12"): "write 02:12",
    ("why", "payments", "--at", "1795140740"): "write 1795140740000",
    ("why", "payments", "--at", "soon"): "write 2026-11-20T02:13:00Z, -6h",
    (
        "why",
        "payments",
        "--from",
        "02:15",
        "--to",
        "02:10",
    ): "it ends at .*, before it begins at .*; the first time must be the",
    ("why", "payments", "--from", "2026-11-26"): "not covered: cluster 'default' is covered from",
    (
        "why",
        "payments",
        "--cause",
        "TIMEOUT",
    ): "did you mean POLL_TIMEOUT_REJOIN or REBALANCE_TIMEOUT or SESSION_TIMEOUT or",
    ("groups", "--cluster", "prod"): "does not know the cluster 'prod'; it has 'default', 'other'",
    ("owner", "payments", "orders", "99"): "never owned partition 99 of 'orders'; the tables have 0",
    ("owner", "payments", "orderz", "0"): "did you mean 'orders'",
    ("owner", "payments", "orders", "x"): "'x' is no partition: a number is expected",
    ("describe",): "give groups, or --all-groups; coordinator-replay groups lists them",
    ("timeline",): "give the group; coordinator-replay groups lists them",
    ("timeline", "payments", "--group", "legacy"): "give one group",
    ("groups", "--state", "Dead"): "--deleted lists those",
    ("groups", "--state", "Stabble"): "did you mean 'Stable'",
    ("groups", "--host", "10.0.0.3"): "no host of a member '10.0.0.3' is on record at the end of the log",
    ("groups", "--client", "client-m-7"): "did you mean 'client-m-",
    ("offsets", "pay[x]*"): "no group at that time matches",
    ("sql", "SELECT * FROM rebalance"): "no table is called rebalance: did you mean 'rebalances'",
    ("sql", "SELECT * FORM rebalances"): r'near "rebalances", behind "SELECT \* FORM": did you mean FROM\?$',
    ("sql", "SELEC * FROM rebalances"): 'near "SELEC": did you mean SELECT\\?$',
    ("sql", "SELECT cause FROM rebalances WERE cause = 'x'"): 'behind "FROM rebalances WERE": did you mean WHERE',
    ("sql", "SELECT cause, count(*) FROM rebalances GROUPBY cause"): 'behind ".* GROUPBY": did you mean GROUP BY',
    ("sql", "SELECT cause FROM rebalances ORDER cause"): "did you mean ORDER BY",
    ("sql", "SELECT * FROM rebalances limitt 5"): "did you mean LIMIT",
    ("sql", "SELECT * FROM current_members.;"): r'near ";", behind "\* FROM current_members\."$',
    ("sql", "SELECT a,, b FROM rebalances"): 'near ",", behind "SELECT a,"$',
    (
        "sql",
        "SELECT",
        "*",
        "FROM",
        "rebalances",
    ): 'must stand in quotes, as in sql "SELECT .*the shell splits it into words, and puts',
    ("sql",): "give either a statement or --query NAME; --list shows",
    ("sql", "--list", "--query", "storms"): "--list shows all saved queries: give it without a statement",
    ("sql", "--list", "SELECT 1"): "--list shows all saved queries",
    ("offsets", "payments", "--history", "orders:9"): "never committed an offset of orders-9: it committed orders:0-2",
    ("offsets", "payments", "--history", "orders-9"): "never committed an offset of orders-9",
    ("offsets", "payments", "--history", "order:0"): "did you mean 'orders'",
    ("what-if", "payments", "--set", "session.timeout=9"): "can't be tried; .*: did you mean 'session.timeout.ms'",
    ("what-if", "payments", "--set", "sessions.timeout.ms=9"): "did you mean 'session.timeout.ms'",
    ("what-if", "--all", "--alternative", "linger.ms=9"): "linger.ms can't be tried; what-if --list-settings shows",
    ("report", "payments", "--what-if", "protocol=consumer", "--out", "x.html"): "did you mean 'group.protocol'",
    ("groups", "--output", "yaml"): "'yaml' is not one of 'table', 'json', 'csv'",
    ("groups", "--format", "json"): "Did you mean '--output'",
    ("--warehouse", W, "groups"): "before the command. Write it behind the command, as in 'groups --warehouse …'",
    ("--bootstrap-server", "b:9092"): "no broker is asked",
    ("groups", "--bootstrap-server", "b:9092"): "no broker is asked: --warehouse names",
    (
        "offsets",
        "payments",
        "--at",
        "02:12",
        "--reset-file",
        "/not/writable/x.csv",
    ): "'--reset-file': there is no folder /not/writ",
    ("report", "payments", "--out", "x.pdf"): r"x.pdf: give a name that ends in .html, .svg or .png",
    ("report", "payments"): "Missing option '--out': File to write: HTML, or a picture",
    ("report", "payments", "--out", "/nonexist/x.html"): "there is no folder /nonexist",
    ("findings", "--rule", "rebalance-strom"): "did you mean 'rebalance_storm'",
    ("audit", f"{X}/none"): "none: no such file or folder",
    ("expired", "--within", "7"): "invalid duration '7': .*7d, if these are days",
}
"""What can't be answered, and what is said of it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_warehouse(tmp_path_factory.mktemp("mistakes"))


def typed(folder: Path, empty: Path, words: tuple[str, ...]) -> Result:
    put_in = [word.replace(W, str(folder)).replace(X, str(empty)) for word in words]
    return CliRunner(env={"COORDINATOR_REPLAY_WAREHOUSE": str(folder)}).invoke(main, put_in)


@pytest.mark.parametrize("words", ANSWERED, ids=" ".join)
def test_what_was_meant_is_understood(folder: Path, tmp_path: Path, words: tuple[str, ...]):
    result = typed(folder, tmp_path, words)
    assert result.exit_code == 0, result.output
    assert re.search(ANSWERED[words], result.output), result.output


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_a_mistake_ends_in_one_or_two_sentences(folder: Path, tmp_path: Path, monkeypatch, words: tuple[str, ...]):
    monkeypatch.chdir(tmp_path)
    result = typed(folder, tmp_path, words)
    assert result.exit_code == 2, result.output
    *usage, message = result.stderr.strip().splitlines()
    assert all(re.match(r"Usage: |Try |$|cluster |\w+:\d+ expired", line) for line in usage), usage
    assert message.startswith("Error: ")
    assert len(re.findall(r"[.?] (?=[A-Z])", message)) <= 1, message
    wanted = REFUSED[words].replace(W, re.escape(str(folder)))
    assert re.search(wanted, message), message


@pytest.fixture(scope="module")
def oddly_named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = ("30m", "02:12", "02:13 CET", "day $1")
    rows = [event(name, 0, "02:05", "GROUP_CREATED", ">Stable", epoch=1, member_count=1) for name in names]
    return write_small_warehouse(tmp_path_factory.mktemp("odd"), group_timeline=rows)


@pytest.mark.parametrize(
    "words",
    [("expired", "--within", "3d", "30m"), ("timeline", "--to", "02:20", "02:12"), ("why", "--at", "02:10", "02:12")],
    ids=" ".join,
)
def test_a_group_whose_name_reads_like_a_time_can_be_asked_for(oddly_named: Path, words: tuple[str, ...]):
    result = typed(oddly_named, oddly_named, words)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("why", "payments", "02:12"), "why takes one GROUP; describe"),
        (("why", "payments", "02:14"), 'why takes a time as --at "02:14".'),
        (("why", "02:13", "CET"), 'A name with blanks must stand in quotes: why "02:13 CET".'),
        (("why", "day", "$1"), "A name with blanks must stand in quotes: why 'day $1'."),
    ],
)
def test_names_of_groups_come_before_times(oddly_named: Path, words: tuple[str, ...], message: str):
    assert f"Error: {message}" in typed(oddly_named, oddly_named, words).stderr


def test_without_a_warehouse_the_message_says_how_to_name_one():
    result = CliRunner().invoke(main, ["groups"])
    assert result.exit_code == 2
    assert "Missing option '--warehouse' (env var: 'COORDINATOR_REPLAY_WAREHOUSE')" in result.stderr


def test_an_empty_name_is_like_no_other(folder: Path, tmp_path: Path):
    result = typed(folder, tmp_path, ("sql", "--query", ""))
    assert result.exit_code == 2
    assert "no saved query is called '': coordinator-replay sql --list shows them" in result.stderr
    assert "did you mean" not in typed(folder, tmp_path, ("owner", "payments", "", "0")).stderr
