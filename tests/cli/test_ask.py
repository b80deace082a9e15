"""Whole outputs of the commands that ask, over a warehouse small enough to know by heart."""

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from coordinator_replay.answer_columns import columns_of
from coordinator_replay.cli.main import main
from coordinator_replay.query.choices import GROUP_STATES, GROUP_TYPES
from coordinator_replay.query.expired import ExpiredOffset
from coordinator_replay.query.findings import Finding
from coordinator_replay.query.offsets import CommittedOffset
from coordinator_replay.query.owner import Ownership
from coordinator_replay.query.rebalances import Rebalance
from coordinator_replay.query.timeline import MemberInterval, TimelineEvent
from coordinator_replay.tables.definition import table, tables
from tests.nightly import rest_at_night
from tests.pipeline.in_process import audit_here
from tests.query.small_warehouse import ROWS, at, write_small_warehouse
from tests.samples import Sample

NIGHT = "2026-11-20T"
AUDIT_EXPIRED = "audit:0 expired (offsets.retention.minutes) at 2026-11-20T02:08:00.000Z.\n"
BASIS = "cluster default, log up to "
COVERED = "2026-11-20T02:00:00.000Z to 2026-11-20T02:20:00.000Z"
ONLY_SOME = (
    "Only log partitions 1, 3 were audited, and the partition count of __consumer_offsets is not known: "
    "groups in other log partitions are not in this warehouse."
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_warehouse(tmp_path_factory.mktemp("warehouse"))


@pytest.fixture
def program() -> click.Group:
    return click.Group("program", commands=main.commands)


@pytest.fixture
def ask(folder: Path, program: click.Group):
    def run(*arguments: str, stdin: str | None = None) -> Result:
        runner = CliRunner(env={"COORDINATOR_REPLAY_WAREHOUSE": str(folder)})
        return without_basis(runner.invoke(program, arguments, input=stdin))

    return run


def without_basis(result: Result) -> Result:
    """A result without the line that says what the answer stands on, which ``test_basis`` looks at."""
    said = result.stderr.splitlines(keepends=True)
    result.stderr_bytes = "".join(line for line in said if not line.startswith(BASIS)).encode()
    return result


def answer(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def lines(text: str) -> str:
    return dedent(text).lstrip("\n")


def test_groups(ask):
    assert answer(ask("groups", "--at", f"{NIGHT}02:05:30")) == lines("""
        GROUP     TYPE      PROTOCOL  STATE   EPOCH  #MEMBERS
        legacy    classic   consumer  Empty       2         0
        payments  consumer  consumer  Stable      2         1
        simple    classic   -         Empty       -         0
        """)


def test_groups_as_csv(ask):
    told = ask("groups", "--state", "stable", "--output", "csv")
    assert told.stdout_bytes.decode() == (
        "group_id,group_type,protocol_type,state,epoch,assignment_epoch,member_count,since,is_exact,log_partition\r\n"
        "payments,consumer,consumer,Stable,3,3,2,2026-11-20T02:10:20.000Z,true,3\r\n"
    )


def test_groups_of_no_such_kind_are_none_and_that_is_no_error(ask):
    told = ask("groups", "--type", "share", "--output", "json")
    assert (told.exit_code, told.stdout) == (0, "")
    assert told.stderr == f"No group matches; cluster 'default' is covered from {COVERED}.\n{ONLY_SOME}\n"


def test_states_that_no_group_is_recorded_in_are_said_to_be_so(ask):
    told = ask("groups", "--state", "CompletingRebalance", "--output", "json")
    nothing, unrecorded, _ = told.stderr.splitlines()
    assert nothing.startswith("No group matches; ")
    assert unrecorded.startswith("No group is recorded as CompletingRebalance: ")
    assert "PreparingRebalance" not in unrecorded
    assert ask("groups", "--state", "Reconciling", "--output", "json").stderr.count("\n") == 2


def test_describe_in_the_words_of_kafkas_tool(ask):
    told = ask("describe", "payments", "--at", f"{NIGHT}02:10:10")
    assert answer(told) == lines("""
        GROUP     TYPE      ASSIGNMENT-STRATEGY  STATE        GROUP-EPOCH  TARGET-ASSIGNMENT-EPOCH  #MEMBERS  SINCE
        payments  consumer  uniform              Reconciling            3                        3         2  2026-11-20T02:10:05.000Z

        GROUP     CONSUMER-ID  GROUP-INSTANCE-ID  HOST       CLIENT-ID   #PARTITIONS  CURRENT-EPOCH  MEMBER-STATE          CURRENT-ASSIGNMENT  PENDING-REVOCATION  TARGET-EPOCH  TARGET-ASSIGNMENT  SESSION-TIMEOUT-MS  REBALANCE-TIMEOUT-MS
        payments  m-1          -                  /10.0.0.1  client-m-1            2              2  UNREVOKED_PARTITIONS  orders:0,1          orders:1                       3  orders:0           -                   -
        payments  m-2          two                /10.0.0.1  client-m-2            0              2  STABLE                -                   -                              3  orders:1           -                   -
        """)  # noqa: E501
    assert told.stderr == (
        "Reconciling since 2026-11-20T02:10:05.000Z: 2 of 2 members do not have the target assignment of epoch 3 yet: "
        "client-m-1 (UNREVOKED_PARTITIONS, at epoch 2), client-m-2 (at epoch 2). The group left this state by "
        "2026-11-20T02:10:20.000Z.\n"
    )


def test_describe_of_a_group_that_only_holds_offsets(ask):
    assert answer(ask("describe", "simple")) == lines("""
        GROUP   TYPE     ASSIGNMENT-STRATEGY  STATE  GROUP-EPOCH  TARGET-ASSIGNMENT-EPOCH  #MEMBERS  SINCE
        simple  classic  -                    Empty  -            -                               0  -
        """)


def test_describe_as_json_is_one_object(ask):
    told = json.loads(answer(ask("describe", "payments", "--output", "json")))
    assert (told["group_id"], told["assignor"], told["epoch"], told["is_exact"]) == ("payments", "range", 3, True)
    second = told["members"][1]
    assert (second["instance_id"], second["member_epoch"], second["target_epoch"]) == ("two", 3, 3)
    assert second["current_assignment"] == [
        {"topic_id": "dW5uYW1lZHVubmFtZWR1bx", "topic": None, "partitions": [2, 4]},
        {"topic_id": "b3JkZXJzb3JkZXJzb3Jkxx", "topic": "orders", "partitions": [1]},
    ]


def test_describe_as_csv_is_one_line_a_member_and_one_for_none(ask):
    members = list(csv.DictReader(io.StringIO(answer(ask("describe", "payments", "--output", "csv")))))
    assert [(row["group_id"], row["group_assignor"], row["assignor"], row["member_id"]) for row in members] == [
        ("payments", "range", "", "m-1"),
        ("payments", "range", "range", "m-2"),
    ]
    (empty,) = csv.DictReader(io.StringIO(answer(ask("describe", "simple", "--output", "csv"))))
    assert (empty["state"], empty["member_id"]) == ("Empty", "")


def test_the_history_of_a_partition_in_each_form_that_people_write(ask):
    told = answer(ask("offsets", "payments", "--history", "orders:1"))
    assert len(told.splitlines()) == 3
    assert answer(ask("offsets", "payments", "--history", "orders-1")) == told


def test_offsets_require_stable(ask):
    assert answer(ask("offsets", "payments", "--require-stable")) == lines("""
        GROUP     TOPIC   PARTITION  CURRENT-OFFSET  CONSUMER-ID  HOST       CLIENT-ID   LEADER-EPOCH  METADATA  COMMITTED-AT              UNSTABLE  PRODUCER-ID  PRODUCER-EPOCH  PENDING-SINCE
        payments  orders          0               -  m-1          /10.0.0.1  client-m-1  -             -         2026-11-20T02:11:00.000Z  true                7               0  2026-11-20T02:15:00.000Z
        payments  orders          1             200  -            -          -           -             -         2026-11-20T02:13:00.000Z  false               -               -  -
        """)  # noqa: E501


def test_offsets_say_that_a_transactional_commit_is_pending(ask):
    pending = "1 of these partitions has a transactional commit pending since 2026-11-20T02:15:00.000Z"
    assert f"{pending}: --require-stable shows which.\n" in ask("offsets", "payments").stderr
    assert pending not in ask("offsets", "payments", "--topic", "audit").stderr
    stable = ask("offsets", "payments", "--require-stable").stderr
    assert pending not in stable
    assert "1 partition (UNSTABLE true) without an offset: a transactional commit was pending" in stable
    assert "UNSTABLE" not in ask("offsets", "payments").stderr


def test_offsets_with_lag_and_reset_file(ask, tmp_path: Path):
    ends, reset = tmp_path / "ends.csv", tmp_path / "reset.csv"
    ends.write_text(
        "topic,partition,offset,time\norders,0,170,2026-11-20T02:12:00Z\norders,0,999,2026-11-20T02:19:00Z\n"
    )
    told = ask("offsets", "payments", "--at", f"{NIGHT}02:12", "--end-offsets", str(ends), "--reset-file", str(reset))
    assert answer(told) == lines("""
        GROUP     TOPIC   PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST       CLIENT-ID   LEADER-EPOCH  METADATA     COMMITTED-AT
        payments  orders          0             150             170   20  m-1          /10.0.0.1  client-m-1  -             by hand\\x00  2026-11-20T02:11:00.000Z
        payments  orders          1              90               -    -  -            -          -           -             -            2026-11-20T02:01:00.000Z
        """)  # noqa: E501
    assert told.stderr == f"{AUDIT_EXPIRED}Wrote 2 partitions to {reset}.\n"
    assert reset.read_text() == "orders,0,150\norders,1,90\n"


def test_offsets_that_are_gone_say_when_and_why(ask):
    assert ask("offsets", "payments", "--at", f"{NIGHT}02:07").stderr == ""
    told = ask("offsets", "payments", "--topic", "audit")
    assert answer(told).splitlines()[1:] == []
    before = "2026-11-20T02:07:59.999Z"
    assert told.stderr == (
        f"Group 'payments' had no committed offset of audit then.\n{AUDIT_EXPIRED}"
        "--before-removal asks for the offsets just before their removal.\n"
    )
    assert "audit" in answer(ask("offsets", "payments", "--topic", "audit", "--at", before))


def test_offsets_just_before_their_removal_need_no_time(ask, tmp_path: Path):
    reset = tmp_path / "reset.csv"
    told = ask("offsets", "payments", "--topic", "audit", "--before-removal", "--reset-file", str(reset))
    assert "audit" in answer(told)
    assert told.stderr == (
        f"Each offset is the one just before the last removal.\n{AUDIT_EXPIRED}Wrote 1 partition to {reset}.\n"
    )
    assert reset.read_text() == "audit,0,7\n"
    # The partitions that were not removed stay where they are.
    told = ask("offsets", "payments", "--before-removal", "--reset-file", str(reset))
    assert re.search(r"audit +0 +7 .*2026-11-20T02:08:00.000Z +EXPIRED +false", answer(told))
    assert "orders" not in answer(told)
    assert reset.read_text() == "audit,0,7\n"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            ("payments", "--at", f"{NIGHT}02:07"),
            "no removal of an offset of group 'payments' up to 2026-11-20T02:07:00",
        ),
        (("payments", "--topic", "orders"), "no removal of an offset of group 'payments' for orders is on record"),
        (("payments", "--topic", "order"), "of topic 'order': did you mean 'orders'"),
        (("payments", "--topic", "audit:1"), "no removal of an offset of group 'payments' for audit:1 is on record"),
        (("simple",), "no removal of an offset of group 'simple' is on record: give the command without"),
        (("simple", "payments"), "--before-removal is of one group"),
        (("nobody",), "no group 'nobody'|group 'nobody' is not"),
        (("payments", "--history", "orders"), "--history takes --from and --to"),
    ],
)
def test_before_removal_without_a_removal_is_refused(ask, asked: tuple[str, ...], said: str):
    told = ask("offsets", *asked, "--before-removal")
    assert told.exit_code == 2
    assert re.search(said, told.stderr), told.stderr


def test_unstable_offsets_show_producer_epoch_and_since_when(ask):
    told = ask("offsets", "payments", "--require-stable", "--topic", "orders", "--output", "json")
    first, second = (json.loads(line) for line in answer(told).splitlines())
    assert (first["is_unstable"], first["committed_offset"]) == (True, None)
    assert (first["producer_id"], first["producer_epoch"], first["pending_since"]) == (7, 0, f"{NIGHT}02:15:00.000Z")
    assert (second["is_unstable"], second["producer_id"]) == (False, None)
    assert (
        "orders-2 has no committed offset, only a transactional commit pending since 2026-11-20T02:15:00.000Z "
        "(producer id 7, epoch 0).\n"
    ) in told.stderr


def test_history_of_a_partition(ask):
    told = ask("offsets", "payments", "--history", "orders:0", "--from", "02:05", "--output", "csv")
    rows = list(csv.DictReader(io.StringIO(answer(told))))
    assert [(row["committed_offset"], row["valid_to"], row["ended_by"]) for row in rows] == [
        ("100", f"{NIGHT}02:11:00.000Z", "COMMIT"),
        ("150", "", ""),
    ]
    assert len(answer(ask("offsets", "payments", "--history", "orders")).splitlines()) == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--history", "order"), "never committed an offset of topic 'order': did you mean 'orders'?"),
        (("--history", "orders:x"), "'orders:x' is not TOPIC or TOPIC:PARTITION"),
        (("--history", "orders", "--at", "now"), "--history takes --from and --to"),
        (("--history", "orders", "--from", "2030-01-01"), "not covered"),
        (("--from", "-1h"), "--from and --to are for --history"),
        (("--topic", "order"), "never committed an offset of topic 'order': did you mean 'orders'?"),
    ],
)
def test_offsets_name_what_is_wrong_with_the_question(ask, arguments: tuple[str, ...], message: str):
    refused = ask("offsets", "payments", *arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert message in refused.stderr


def test_deleted_groups(ask):
    assert answer(ask("groups", "--deleted")) == lines("""
        GROUP   TYPE     DELETED-AT                REASON  CONFIDENCE  #OFFSETS-REMOVED  LAST-MEMBER-AT            LAST-COMMIT-AT
        legacy  classic  2026-11-20T02:06:00.000Z  -       -                          0  2026-11-20T02:02:00.000Z  -
        """)  # noqa: E501
    told = ask("groups", "--deleted", "--at", "02:05")
    assert told.stderr == f"No deleted group matches; the tables cover {COVERED}.\n"
    assert answer(ask("groups", "--deleted", "--type", "share", "--output", "json")) == ""
    assert "has no state" in ask("groups", "--deleted", "--state", "Empty").stderr


def test_offsets_keep_metadata_as_it_is_in_json(ask):
    told = [json.loads(line) for line in answer(ask("offsets", "payments", "--output", "json")).splitlines()]
    assert [(one["topic"], one["partition"], one["metadata"]) for one in told] == [
        ("orders", 0, "by hand\x00"),
        ("orders", 1, ""),
    ]


def test_timeline_tells_details_in_words(ask):
    assert answer(ask("timeline", "payments", "--from", f"{NIGHT}02:10")) == lines("""
        TIME                      EVENT                FROM-STATE   TO-STATE     EPOCH  #MEMBERS  CONSUMER-ID  CAUSE  CONFIDENCE  EXACT  LOG-OFFSET  DETAIL
        2026-11-20T02:15:00.000Z  OFFSETS_PENDING      -            -                -         -  -            -      -           true           10  orders:2 1 transactional commit, 1 still open at the end of the log, producer id 7
        2026-11-20T02:10:00.000Z  MEMBER_JOINED        Stable       Assigning        3         2  m-2          -      -           true          103  client two-1 on 10.0.0.2, subscribed to orders
        2026-11-20T02:10:05.000Z  TARGET_ASSIGNED      Assigning    Reconciling      3         2  -            -      -           true          104  -
        2026-11-20T02:10:20.000Z  REBALANCE_COMPLETED  Reconciling  Stable           3         2  -            -      -           false         105  Stable at epoch 3
        2026-11-20T02:15:00.000Z  OFFSETS_PENDING      -            -                -         -  -            -      -           true          160  orders:0 1 transactional commit, 1 still open at the end of the log, producer id 7
        """)  # noqa: E501


def test_timeline_of_members(ask):
    told = ask(
        "timeline", "payments", "--members", "--from", f"{NIGHT}02:10:10", "--to", f"{NIGHT}02:10:20", "--output", "csv"
    )
    rows = list(csv.DictReader(io.StringIO(answer(told))))
    assert [(row["member_id"], row["valid_from"], row["valid_to"]) for row in rows] == [
        ("m-2", "2026-11-20T02:10:00.000Z", "2026-11-20T02:10:20.000Z"),
        ("m-1", "2026-11-20T02:10:05.000Z", "2026-11-20T02:10:20.000Z"),
    ]
    assert json.loads(rows[1]["pending_revocation"])[0]["partitions"] == [1]


def test_rebalances(ask):
    assert answer(ask("rebalances", "payments", "--from", f"{NIGHT}02:05")) == lines("""
        STARTED-AT                COMPLETED-AT              AT-LEAST-MS  AT-MOST-MS  COMMIT-PAUSE-MS  GROUP     EPOCH  CAUSE        CONFIDENCE  MEMBERS-BEFORE  #MEMBERS  REASSIGNED  NEWLY-ASSIGNED  UNOWNED-MS-MAX  HELD-UP-BY  HELD-UP-MS  METADATA-DELAY-MS  ALTERNATIVES
        2026-11-20T02:10:00.000Z  2026-11-20T02:10:20.000Z        20000       20000             6000  payments      3  MEMBER_JOIN  certain                  1         2           1               0            5000  m-1              15000  -                  -
        """)  # noqa: E501


def test_owner(ask):
    assert answer(ask("owner", "payments", "orders", "1", "--at", f"{NIGHT}02:05")) == lines("""
        GROUP     TOPIC   PARTITION  CLIENT-ID   HOST       GROUP-INSTANCE-ID  CONSUMER-ID  FROM                      TO                        RELEASED-BY  UNOWNED-MS
        payments  orders          1  client-m-1  /10.0.0.1  -                  m-1          2026-11-20T02:00:02.000Z  2026-11-20T02:10:15.000Z  REVOKED            5000
        """)  # noqa: E501


def test_owner_of_a_partition_that_nobody_owned_then(ask):
    told = ask("owner", "payments", "orders", "1", "--at", f"{NIGHT}02:10:17", "--output", "json")
    rows = [json.loads(line) for line in answer(told).splitlines()]
    assert [(row["is_owner"], row["member_id"], row["released_by"]) for row in rows] == [
        (False, "m-1", "REVOKED"),
        (False, "m-2", None),
    ]
    assert told.stderr == (
        "No member owned it at that time. The last owner was m-1, until 2026-11-20T02:10:15.000Z (REVOKED). "
        "The next one is m-2, from 2026-11-20T02:10:20.000Z.\n"
    )


def test_expired(ask):
    assert answer(ask("expired", "--status", "due")) == lines("""
        GROUP   TOPIC  PARTITION  OFFSET  STATUS  EXPIRE-AT                 RULE          CONFIDENCE  COMMITTED-AT  TOMBSTONE-AT  LAST-OWNER
        zombie  logs           0       5  DUE     2026-11-20T02:19:00.000Z  simple_group  likely      -             -             -
        """)  # noqa: E501
    assert answer(ask("expired", "--within", "30d")) == lines("""
        GROUP   TOPIC  PARTITION  OFFSET  STATUS    EXPIRE-AT                 RULE          CONFIDENCE  COMMITTED-AT              TOMBSTONE-AT  LAST-OWNER
        simple  logs           0       5  EXPIRING  2026-11-20T04:00:00.000Z  simple_group  certain     2026-11-20T02:03:00.000Z  -             -
        """)  # noqa: E501


def test_that_none_expires_up_to_a_time_is_not_said_of_those_that_expired_before(ask, tmp_path: Path):
    gone = {"cluster": "default", "topic": "logs", "partition": 0, "status": "EXPIRED", "expire_at": at("02:05")}
    sure = {"simple": "certain", "payments": "likely"}
    expired = [gone | {"group_id": group, "confidence": sure[group]} for group in ("simple", "simple", "payments")]
    write_small_warehouse(tmp_path, expired_offsets=expired)
    asked = ("--within", "1m", "--warehouse", str(tmp_path))
    when = "is due, or expires by 2026-11-20T02:21:00.000Z if groups stay as they are at the end of the log."
    perhaps = "expired, or may have expired, before"
    assert f"No offset {when} 3 offsets {perhaps}: expired --status EXPIRED.\n" in ask("expired", *asked).stderr
    told = ask("expired", "payments", *asked).stderr
    assert f"No offset of payments {when} 1 offset {perhaps}: expired payments --status EXPIRED.\n" in told
    assert "matches" not in told
    assert "were looked for" not in told
    assert f"No offset of legacy {when}\n" in ask("expired", "legacy", *asked).stderr
    told = ask("expired", *asked, "--name", "s*", "--exclude", "payments").stderr
    command = "expired --name 's*' --exclude payments --status EXPIRED"
    assert f"No offset of these groups {when} 2 offsets expired before: {command}.\n" in told


def test_that_none_expires_is_said_of_the_records_if_one_could_not_be_decoded(ask, tmp_path: Path):
    unread = {"cluster": "default", "error_class": "DecodeError", "group_id": "legacy", "log_partition": 1}
    write_small_warehouse(tmp_path, quarantine=[unread])
    asked = ("--within", "1m", "--warehouse", str(tmp_path))
    assert "No offset of legacy on record is due, or expires by " in ask("expired", "legacy", *asked).stderr
    assert "No offset of payments is due, or expires by " in ask("expired", "payments", *asked).stderr


def test_offsets_that_expired_come_before_what_may_happen_later(ask, tmp_path: Path):
    gone = {"cluster": "default", "group_id": "simple", "topic": "logs", "partition": 0, "expire_at": at("02:05")}
    later, run = "The log ended before ", ROWS["audit_runs"]()[0] | {"settings": '{"horizon_ms": 60000}'}
    for status, is_first in (("EXPIRED", False), ("DUE", True)):
        rows = [gone | {"status": status}]
        folder = write_small_warehouse(tmp_path / status, expired_offsets=rows, audit_runs=[run])
        told = ask("expired", "--warehouse", str(folder)).stderr
        assert (told.startswith(later), later in told) == (is_first, True)


def test_expired_says_where_the_retention_is_only_kafkas_default(ask, tmp_path: Path):
    assert "Kafka's default" not in ask("expired", "--within", "30d").stderr
    audit_here(tmp_path, Sample("old-format-none").segments)
    told = ask("expired", "--within", "30d", "--warehouse", str(tmp_path))
    assert "EXPIRING" in answer(told)
    assert (
        "Offset retention: 7 days, Kafka's default; no audit had --retention, and the log does not show the retention."
        in (told.stderr)
    )


def test_expired_names_the_assumed_retention_if_nothing_expires(ask, tmp_path: Path):
    run = ROWS["audit_runs"]()[0]
    write_small_warehouse(tmp_path, expired_offsets=[], audit_runs=[run | {"settings": "{}"}])
    asked = ("--warehouse", str(tmp_path))
    assert "Offset retention: 7 days, Kafka's default" in ask("expired", "--within", "1m", *asked).stderr
    assert "Offset retention" not in ask("expired", "--status", "expired", *asked).stderr


@pytest.mark.parametrize(
    ("minutes", "note"),
    [
        (1, "1 minute, inferred from offsets that expired"),
        pytest.param(90, "90 minutes, inferred from offsets that expired", marks=pytest.mark.long),
    ],
)
def test_expired_says_that_a_retention_was_inferred_also_if_all_offsets_expired(
    ask, tmp_path: Path, minutes: int, note: str
):
    expired = {"cluster": "default", "group_id": "simple", "topic": "logs", "partition": 0, "status": "EXPIRED"}
    rows = [expired | {"retention_ms": minutes * 60_000, "confidence": "likely", "is_exact": True}]
    run = ROWS["audit_runs"]()[0]
    write_small_warehouse(tmp_path, expired_offsets=rows, audit_runs=[run | {"settings": "{}"}])
    told = ask("expired", "--status", "expired", "--warehouse", str(tmp_path))
    assert f"Offset retention: {note}; the audits were given none." in told.stderr
    assert "inferred" not in ask("expired", "--status", "expired").stderr


def test_findings(ask):
    assert answer(ask("findings", "--severity", "error")) == lines("""
        SEVERITY  RULE               GROUP     TOPIC   PARTITION  FIRST-SEEN                LAST-SEEN                 ENDED-AT  TIMES  MESSAGE
        error     stuck_transaction  txn-only  orders          0  2026-11-20T02:00:00.000Z  2026-11-20T02:10:00.000Z  -             1  Something about stuck_transaction.
        """)  # noqa: E501


def test_findings_of_a_group_that_is_not_there_suggest_one_that_is(ask):
    refused = ask("findings", "--group", "paymnts")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "did you mean 'payments'?" in refused.stderr


def test_several_statements_are_refused(ask):
    refused = ask("sql", "SELECT 1 AS a; SELECT 2 AS b")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "this has 2 statements" in refused.stderr


def test_offsets_as_json_have_a_pending_commit_in_fields(ask):
    rows = [json.loads(line) for line in answer(ask("offsets", "payments", "--output", "json")).splitlines()]
    pending = {(row["topic"], row["partition"]): row["pending_since"] for row in rows}
    assert pending["orders", 0] == "2026-11-20T02:15:00.000Z"
    assert pending["orders", 1] is None
    # The offset of now is there, unless a stable one is asked for.
    assert all(row["committed_offset"] is not None and row["is_unstable"] is False for row in rows)


def test_sql_from_the_command_line_and_from_standard_input(ask):
    statement = "SELECT group_id, count(*) AS n FROM group_timeline WHERE cluster = 'default' GROUP BY 1 ORDER BY 1"
    expected = "group_id  n\nlegacy    3\npayments  6\n"
    assert answer(ask("sql", statement)) == expected
    assert answer(ask("sql", "-", stdin=statement)) == expected
    assert (
        answer(ask("sql", "--output", "json", "SELECT 1.5 AS a, NULL AS b, now() IS NULL AS c"))
        == '{"a":1.5,"b":null,"c":false}\n'
    )


UNKNOWN = [
    (("describe", "paymnts"), f"covered from {COVERED}; did you mean 'payments'?"),
    (("offsets", "zzz"), f"is not known; cluster 'default' is covered from {COVERED}"),
    (("timeline", "zzz"), "group 'zzz' is not in this warehouse: only log partitions 1, 3 were audited"),
    (("rebalances", "zzz"), "group 'zzz' is not in this warehouse: only log partitions 1, 3 were audited"),
    (("expired", "zzz"), "group 'zzz' is not in this warehouse: only log partitions 1, 3 were audited"),
    (("owner", "payments", "order", "0"), "did you mean 'orders'?"),
    (("describe", "legacy"), "does not exist at the end of the log"),
    (("groups", "--cluster", "prod"), "does not know the cluster 'prod'; it has 'default', 'other'"),
    (("groups", "--at", "2020-01-01"), f"before the start of the log: cluster 'default' is covered from {COVERED}"),
    (("describe", "payments", "--at", "2030-01-01"), "lies after the last audit"),
    (("rebalances", "--from", "2030-01-01"), "not covered"),
    (("groups", "--at", "soon"), "invalid time 'soon'"),
    (("owner", "payments", "orders", "x"), "'x' is no partition: a number is expected"),
    (("groups", "--warehouse", "there-is-none"), "there is no warehouse at there-is-none"),
    (("sql", "SELECT 1 FROM nothing_here"), "no table is called nothing_here"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    rest_at_night(UNKNOWN, UNKNOWN[::2], several=True),
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_the_tables_do_not_know_is_one_sentence_and_exit_code_2(ask, arguments: tuple[str, ...], message: str):
    refused = ask(*arguments)
    assert refused.exit_code == 2
    assert refused.stdout == ""
    assert message in refused.stderr
    assert isinstance(refused.exception, SystemExit)
    assert refused.stderr.splitlines()[-1].startswith("Error: ")


def test_a_moment_between_the_last_record_and_the_audit_is_answered_with_a_word_about_it(ask):
    told = ask("offsets", "simple", "--at", f"{NIGHT}02:30", "--output", "json")
    assert json.loads(answer(told))["committed_offset"] == 5
    assert told.stderr == "The log ends at 2026-11-20T02:20:00.000Z; this is the state at its end.\n"


def completed(program: click.Group, folder: Path, arguments: list[str], incomplete: str) -> list[str]:
    completion = ShellComplete(program, {}, "program", "_PROGRAM_COMPLETE")
    given = [arguments[0], "--warehouse", str(folder), *arguments[1:]]
    return [item.value for item in completion.get_completions(given, incomplete)]


def test_the_shell_completes_groups_and_topics(program: click.Group, folder: Path):
    assert completed(program, folder, ["describe"], "") == ["legacy", "payments", "simple", "txn-only"]
    assert completed(program, folder, ["describe"], "p") == ["payments"]
    assert completed(program, folder, ["owner", "payments"], "") == ["orders"]
    assert completed(program, folder / "nowhere", ["describe"], "p") == []


@pytest.mark.parametrize(
    ("name", "shown", "left_out"),
    [
        ("rebalances", Rebalance, {"settled_at_offset", "by_records", "log_partition"}),
        ("findings", Finding, set()),
        ("expired_offsets", ExpiredOffset, set()),
        ("group_timeline", TimelineEvent, {"settled_at_offset", "is_state_exact"}),
        ("partition_ownership", Ownership, {"settled_at_offset", "log_partition", "unowned"}),
        ("member_timeline", MemberInterval, {"group_type", "rack_id", "subscribed_topics",
                                               "subscribed_topic_regex", "assignor", "session_timeout_ms",
                                               "rebalance_timeout_ms", "to_offset", "settled_at_offset", "is_current",
                                               "target"}),
        ("offset_history", CommittedOffset, {"valid_to", "to_offset", "ended_by", "expire_timestamp", "record_offset",
                                            "commits_merged", "ended_confidence", "ended_alternatives",
                                            "ended_evidence", "ended_facts", "previous_offset", "replaced_offset",
                                            "value_version", "rule", "base_timestamp",
                                            "is_protected", "last_owner_member_id", "last_state"}),
    ],
)  # fmt: skip
def test_answers_show_every_column_of_their_table(name: str, shown: type, left_out: set[str]):
    shown_or_layout = {one.name for one in columns_of(shown)} | {"cluster", "bucket", "is_open"}
    assert {one.name for one in table(name).columns} - shown_or_layout == left_out


def test_groups_are_of_the_types_and_states_that_options_offer(ask):
    told = [json.loads(line) for line in answer(ask("groups", "--output", "json")).splitlines()]
    assert {group["state"] for group in told} <= set(GROUP_STATES)
    assert {group["group_type"] for group in told} <= set(GROUP_TYPES)


def test_help_loads_neither_an_engine_nor_arrow():
    script = (
        "import sys, coordinator_replay.cli.ask; print({'duckdb', 'deltalake', 'pyarrow', 'rich'} & set(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout == "set()\n"


def test_a_plain_warehouse_is_read_without_arrow(folder: Path):
    script = (
        "import sys; from coordinator_replay.query.tables import Tables; "
        "from coordinator_replay.query.describe import describe_at; "
        "from coordinator_replay.query.offsets import offsets_at; "
        f"w = Tables({str(folder)!r}); describe_at(w, 'payments'); offsets_at(w, 'payments'); w.coverage; "
        "print({'pyarrow', 'pandas', 'numpy', 'pytz', 'pyspark'} & set(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout == "set()\n"


def test_saved_queries_are_listed_and_run_by_name(ask):
    listed = answer(ask("sql", "--list"))
    assert "rewinds" in listed
    told = ask("sql", "--query", "stuck-transactions", "--output", "csv")
    assert answer(told).splitlines()[1].startswith("payments,orders,0,2026-11-20T02:15:00.000Z,300000,7,0,160")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sql",), "give either a statement or --query NAME"),
        (("sql", "SELECT 1", "--query", "rewinds"), "give either a statement or --query NAME"),
        (("sql", "--query", "rewnds"), "did you mean 'rewinds'?"),
    ],
)
def test_sql_wants_one_question(ask, arguments: tuple[str, ...], message: str):
    refused = ask(*arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert message in refused.stderr


def test_show_tables_and_describe_tell_names_and_comments(ask):
    shown = {
        row["name"]: row for row in csv.DictReader(io.StringIO(answer(ask("sql", "show tables;", "--output", "csv"))))
    }
    assert shown["rebalances"]["comment"] == table("rebalances").about
    assert shown["offset_history"]["kind"] == "table"
    assert shown["current_members"]["kind"] == "view"
    assert not shown.keys() & {name for name, one in tables().items() if one.is_internal}
    for statement in ("DESCRIBE rebalances", "desc table REBALANCES ;", "SHOW COLUMNS FROM rebalances"):
        columns_ = [json.loads(line) for line in answer(ask("sql", statement, "--output", "json")).splitlines()]
        assert [(one["column"], one["type"], one["comment"]) for one in columns_] == [
            (one.name, one.type, one.about) for one in table("rebalances").columns
        ]
    assert answer(ask("sql", "DESCRIBE SELECT 1 AS a")).splitlines()[1].startswith("a ")
    assert "did you mean 'rebalances'?" in ask("sql", "DESCRIBE rebalance").stderr


def test_an_empty_list_is_not_null_in_any_form(ask):
    statement = "SELECT CAST([] AS INT[]) AS a, CAST(NULL AS INT[]) AS b"
    assert answer(ask("sql", statement)).splitlines()[1].split() == ["[]", "-"]
    assert answer(ask("sql", statement, "--output", "csv")).splitlines()[1] == "[],"
    assert json.loads(answer(ask("sql", statement, "--output", "json"))) == {"a": [], "b": None}


def test_parameters_are_for_saved_queries(ask):
    assert "--param is for saved queries" in ask("sql", "SELECT 1", "--param", "a=1").stderr
    assert "'a' is not NAME=VALUE" in ask("sql", "--query", "rewinds", "--param", "a").stderr
    assert "takes no parameter 'nothing'" in ask("sql", "--query", "rewinds", "--param", "nothing=1").stderr


def test_a_statement_can_name_the_cluster_asked_about(ask):
    statement = "SELECT count(*) AS n FROM rebalances WHERE cluster = $cluster"
    assert answer(ask("sql", statement, "--cluster", "other")) == "n\n1\n"


@pytest.mark.parametrize(
    ("arguments", "incomplete", "expected"),
    [
        (["sql", "--query"], "st", ["stuck-transactions"]),
        (["rebalances", "--cause"], "m", ["MEMBER_JOIN"]),
        (["findings", "--rule"], "re", ["rewind"]),
        (["offsets", "payments", "--topic"], "", ["audit", "orders"]),
        (["owner"], "pay", ["payments"]),
    ],
)
def test_the_shell_completes_what_options_take(program, folder, arguments, incomplete, expected):
    assert completed(program, folder, arguments, incomplete) == expected


def test_why_tells_the_reason_first_and_what_it_rests_on(ask):
    assert answer(ask("why", "payments")) == lines("""
        2026-11-20T02:00:00.000Z  payments  epoch 2  GROUP_CREATED, certain
          took 2,000 ms
          0 to 1 member, 0 partitions reassigned, 2 newly assigned

        2026-11-20T02:10:00.000Z  payments  epoch 3  MEMBER_JOIN, certain
          took 20,000 ms
          1 to 2 members, 1 partition reassigned, 0 newly assigned, longest without an owner 5,000 ms, commits paused 6,000 ms
          held up by member m-1 (client-m-1 on 10.0.0.1): m-2 waited 10,000 ms for orders:1
          - member m-2 joined (3:103)
          - epoch 2 to 3 (3:103)
        """)  # noqa: E501


@pytest.mark.parametrize(("at", "epoch"), [("02:10", 3), ("02:05", 2), ("02:18", 3)])
def test_why_at_a_moment_tells_of_the_rebalance_then_or_the_last_before(ask, at: str, epoch: int):
    assert json.loads(answer(ask("why", "payments", "--at", f"{NIGHT}{at}", "--output", "json")))["epoch"] == epoch


@pytest.mark.parametrize(
    ("group", "now"),
    [
        ("payments", "Stable, 2 members; last event at 2026-11-20T02:10:20.000Z."),
        ("legacy", "deleted at 2026-11-20T02:06:00.000Z."),
    ],
)
def test_why_ends_with_the_state_of_the_group_at_the_end_of_the_log(ask, group: str, now: str):
    assert f"At the log's end: {now}\n" in ask("why", group).stderr
    # A range or a time that lies before asks for something else.
    assert "At the log's end" not in ask("why", group, "--to", "2026-11-20T02:11").stderr
    assert "At the log's end" not in ask("why", group, "--at", "2026-11-20T02:11").stderr
    assert "At the log's end" not in ask("why").stderr


def test_why_names_the_end_of_the_log_partition_if_this_is_before_the_end_of_the_log(ask, tmp_path: Path):
    partition = {"cluster": "default", "first_offset": 0, "records": 1}
    write_small_warehouse(tmp_path, log_partitions=[
        partition | {"log_partition": 3, "end_timestamp": at("02:15")},
        partition | {"log_partition": 1, "end_timestamp": at("02:20")},
    ])  # fmt: skip
    told = ask("why", "payments", "--warehouse", str(tmp_path)).stderr
    assert "At the end of __consumer_offsets-3, 2026-11-20T02:15:00.000Z: Stable, 2 members" in told
    told = ask("why", "legacy", "--warehouse", str(tmp_path)).stderr
    assert "At the end of __consumer_offsets-3, 2026-11-20T02:15:00.000Z: deleted at" in told


def test_why_says_what_else_would_leave_the_same_records(ask):
    assert answer(ask("why", "legacy")) == lines("""
        2026-11-20T02:02:00.000Z  legacy  generation 1  GROUP_CREATED, likely
          sync took 40 ms, the whole rebalance at most 60,000 ms; its join phase is not on record
          0 to 1 member, 0 partitions reassigned, 1 newly assigned
          could also be: UNKNOWN
        """)
    refused = ask("why", "payments", "--at", f"{NIGHT}02:10", "--from", f"{NIGHT}02:00")
    assert (refused.exit_code, refused.stdout) == (2, "")


def test_why_at_a_time_at_which_a_classic_rebalance_may_have_begun_names_it(ask):
    told = ask("why", "legacy", "--at", f"{NIGHT}02:01:30", "--output", "json")
    assert json.loads(answer(told))["epoch"] == 1
    assert ask("why", "legacy", "--at", f"{NIGHT}02:00:59").stdout == ""


def test_a_cause_finds_what_names_it_as_an_alternative_and_one_without_rows_finds_none(ask):
    told = ask("rebalances", "--cause", "unknown", "--output", "json")
    row = json.loads(answer(told))
    assert (row["group_id"], row["cause"], row["matched_by"]) == ("legacy", "GROUP_CREATED", "alternative")
    assert told.stderr == "1 of 1 has another cause and UNKNOWN as an alternative: it could also be that.\n"
    none = ask("why", "--cause", "SESSION_TIMEOUT")
    assert (none.exit_code, none.stdout) == (0, "")
    assert "No rebalance matches" in none.stderr
    assert (
        "The cause of 1 more rebalance is open: it could be SESSION_TIMEOUT. --cause UNKNOWN shows it." in none.stderr
    )
    assert "is open" not in ask("why", "--cause", "SESSION_TIMEOUT", "--group", "payments").stderr
    assert ask("findings", "--rule", "stuck_group").exit_code == 0
    assert "did you mean 'stuck_group'?" in ask("findings", "--rule", "stuck_groups").stderr


def test_each_rebalance_of_a_cause_shows_whether_it_was_matched_by_an_alternative(ask):
    asked = ("rebalances", "--cause", "UNKNOWN", "--cause", "MEMBER_JOIN")
    heading, *rows = (line.split() for line in answer(ask(*asked)).splitlines())
    place = heading.index("MATCHED-BY")
    assert heading[place - 1] == "CAUSE"
    assert [row[place - 1 : place + 1] for row in rows] == [["GROUP_CREATED", "alternative"], ["MEMBER_JOIN", "cause"]]
    told = list(csv.DictReader(io.StringIO(answer(ask(*asked, "--output", "csv")))))
    assert [row["matched_by"] for row in told] == ["alternative", "cause"]
    assert "MATCHED-BY" not in answer(ask("rebalances"))
    told = map(json.loads, answer(ask("why", "--output", "json")).splitlines())
    assert [row["matched_by"] for row in told] == [None] * 3
    first, _, second = answer(ask("why", *asked[1:])).partition("\n\n")
    assert first.splitlines()[0].endswith("GROUP_CREATED, likely (matched by an alternative)")
    assert second.splitlines()[0].endswith("MEMBER_JOIN, certain")


@pytest.mark.parametrize(("name", "times"), [("fleet-2026.11.20", 1), pytest.param("fleet", 2, marks=pytest.mark.long)])
def test_without_a_group_a_name_that_is_no_html_file_is_a_folder(ask, tmp_path: Path, name: str, times: int):
    for _ in range(times):
        assert f"\nWrote {tmp_path}/{name}/index.html: " in ask("report", "--out", f"{tmp_path}/{name}").stderr
        assert (tmp_path / name / "index.html").is_file()


@pytest.mark.parametrize("name", rest_at_night(["fleet.html", "fleet.HTM"], ["fleet.HTM"]))
def test_without_a_group_the_name_of_an_html_file_is_a_file(ask, tmp_path: Path, name: str):
    assert ask("report", "--out", f"{tmp_path}/{name}").stderr.startswith(f"Wrote {tmp_path}/{name}: ")
    assert (tmp_path / name).is_file()


def test_what_is_a_file_stays_one_and_the_page_of_a_group_is_one(ask, tmp_path: Path):
    (tmp_path / "page.txt").touch()
    assert ask("report", "--out", f"{tmp_path}/page.txt").exit_code == 0
    assert (tmp_path / "page.txt").read_text().startswith("<!DOCTYPE html>")
    assert ask("report", "payments", "--out", f"{tmp_path}/payments").exit_code == 0
    assert (tmp_path / "payments").is_file()


def test_report_and_trace_say_what_they_wrote(ask, tmp_path: Path):
    page, trace = tmp_path / "payments.html", tmp_path / "payments.json"
    told = ask("report", "payments", "--out", str(page))
    assert (told.stdout, told.stderr) == ("", f"Wrote {page}: 2 rebalances, 2 commits.\n")
    assert page.read_text().startswith("<!DOCTYPE html>")
    told = json.loads(answer(ask("report", "--out", str(page), "--output", "json")))
    assert told == {"file": str(page), "groups": 4, "rebalances": 3}
    told = ask("report", "--out", f"{tmp_path}/fleet/")
    assert told.stderr == (
        "No page for 1 group (simple): no rebalance and no finding of theirs is on record in this time. "
        "coordinator-replay report GROUP --out FILE draws one.\n"
        f"Wrote {tmp_path}/fleet/index.html: 4 groups, 3 rebalances.\n"
    )
    assert len(list((tmp_path / "fleet" / "groups").iterdir())) == 3
    refused = ask("report", "payments", "--out", f"{tmp_path}/fleet")
    assert (refused.exit_code, "is a folder" in refused.stderr) == (2, True)
    told = json.loads(answer(ask("trace", "payments", "--out", str(trace), "--output", "json")))
    assert (told["events"], told["groups"]) == (len(json.loads(trace.read_text())["traceEvents"]), 1)
    assert ask("trace", "--out", str(trace)).stderr.endswith(" of 2 groups.\n")


@pytest.mark.parametrize("name", ["report", "trace"])
def test_a_page_or_trace_of_what_is_not_known_is_refused(ask, name: str, tmp_path: Path):
    out = ("--out", str(tmp_path / "out"))
    assert "did you mean 'payments'?" in ask(name, "paymnts", *out).stderr
    assert "not covered" in ask(name, "payments", "--from", "2030-01-01", *out).stderr
    assert "there is no folder" in ask(name, "payments", "--out", str(tmp_path / "no" / "folder")).stderr
    assert not (tmp_path / "out").exists()


def test_two_columns_of_one_name_are_no_json(ask):
    statement = "SELECT 1 AS x, 2 AS x"
    refused = ask("sql", statement, "--json")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "several columns called 'x'" in refused.stderr
    assert answer(ask("sql", statement, "--output", "csv")).split() == ["x,x", "1,2"]
