"""Writes ``docs/simulate.md``, a page about the simulated coordinator, from the tables in its code."""

import transitions
from transitions import Transitions

from coordinator_replay.engine import consumer_group
from coordinator_replay.simulation.coordinator.config import CLIENT_ASSIGNORS, GROUP_NUMBERS, NUMBERS
from coordinator_replay.simulation.coordinator.consumer.heartbeat import CHECKS
from coordinator_replay.simulation.coordinator.coordinator import HANDLERS
from coordinator_replay.simulation.coordinator.errors import CODES
from coordinator_replay.simulation.coordinator.messages import messages
from coordinator_replay.simulation.coordinator.script import COMMANDS

HEAD = """\
# Simulating the coordinator

`coordinator-replay simulate SCRIPT.jsonl` runs a script of requests, topics and time through a group coordinator. It
answers as Kafka 4.3.1 does: the same responses, errors and records in the same order, the same timers. Use it for
teaching, for tests, and to reproduce an incident step by step. `--out DIR` writes log segments and topics for `audit`:

```sh
coordinator-replay simulate incident.jsonl --out simulated
coordinator-replay audit simulated/segments --topics simulated/topics.csv --warehouse build/simulated
```

`examples/scripts/` has ten short scripts, each explained. In Python,
`coordinator_replay.simulation.coordinator.Coordinator` is the same coordinator:
`handle(request, at_ms)` and `advance(to_ms)` return the batches written and the responses sent.
`coordinator_replay.simulation.door.simulate(lines, print)` runs a whole script.
"""

TRUTH = """\
## Why it did what it did

`--truth FILE` writes the cause of each action of the coordinator, as JSON lines. No answer and no record depends on it,
so it can judge what an audit infers from the records alone.

```sh
coordinator-replay simulate incident.jsonl --out simulated --truth truth.jsonl
```

| event | when | fields |
|---|---|---|
| `batch` | records or a control record are written | `first_offset`, `last_offset` |
| `rebalance` | a classic group enters PreparingRebalance | `group_id`, `generation`, `state`, `end_offset`, `reason` |
| `epoch` | the epoch of a consumer group is raised | `group_id`, `epoch`, `offset` of its record, `reason` |
| `removal` | a member is removed, on record or in memory | `group_id`, `member_id`, `end_offset`, `reason` |

`at` counts milliseconds from the beginning of the script, as in the answers. Ids of members are those in the segments.
`end_offset` is the end of the log partition at that time. `state` is the state that the group leaves. `reason` is
Kafka's own text. A rebalance has the reason that brokers log with "Preparing to rebalance group". An epoch has the
lines that they log for the same request, joined by a semicolon.

Every event also has `trigger`, which says what caused the event. The `kind` of a trigger is one of these:

| kind | what it is | fields |
|---|---|---|
| `request` | a request came | `name`, `version`, `group_id`, `member_ids`, `instance_ids`, `client_id`, `client_host` |
| `timer` | a timer ended | `name` of the timer, `group_id`, `member_ids` |
| `job` | background work was done: expressions were resolved | the fields of the request that asked for it |
| `topics` | topics were deleted | `name` |
| `marker` | a transaction ended | `name`: COMMIT or ABORT |
| `load` | the partition was loaded | `name` |

A classic group removes members in memory; the record that shows it comes later, with the end of the rebalance.
"""

SCRIPTS = {
    "config": '`{"config": {...}}`: settings by the brokers\' names, as the first line only.',
    "topics": '`{"topics": [{"name", "id", "partitions", "racks"?}]}`: all topics from now on. Created, grown and '
    "deleted topics follow from the difference. `racks` are the racks of each partition's replicas.",
    "groupConfig": '`{"groupConfig": {...}, "group": g}`: settings of one group, in place of all it had.',
    "request": '`{"request": api, "version"?, "group"?, "client"?: {"id", "host"}, "body"?: {...}}`: fields that are '
    "left out have the defaults of the message; `group` is the body's `groupId`.",
    "endTxn": '`{"endTxn": {"producerId", "producerEpoch", "commit"}}`: the marker that ends a transaction.',
    "advance_ms": '`{"advance_ms": n}`: time passes, and what is due happens, each at its own time.',
    "async": '`{"async": "hold"}` puts background work (the resolution of expressions) off, `"run"` lets it go on.',
    "reload": '`{"reload": true}`: the partition gets another leader, and everything without a record is lost.',
    "dump": '`{"dump": true}`: the inner state of all groups.',
    "timers": '`{"timers": true}`: the running timers, with the milliseconds they have left.',
    "assign": '`{"assign": assignor, "topics": {name: partitions}, "racks"?, "members": {id: {"topics", "owned"?, '
    '"generation"?, "rack"?, "instance"?}}}`: what a client\'s assignor assigns, without a coordinator.',
    "note": '`{"note": text}`: nothing happens. Any other line may have a note, too.',
}

DRAFT = f"""\
## The draft's assignment on the client's side

With `{CLIENT_ASSIGNORS}=true` members may bring assignors of their own (`clientAssignors` in ConsumerGroupHeartbeat).
If all have one in common, a member is asked to compute (`shouldComputeAssignment`). It gets its input by
PrepareAssignment and brings the result by InstallAssignment. The result is checked (INVALID_ASSIGNMENT) and becomes the
target assignment at the epoch it was computed for. No release of Kafka has this. It is built and tested against the
text of KIP-848 alone, and the numbers and names of its messages are ours.
"""

AUDITED = """\
## What an audit of the log doesn't show

The tables made from a simulated log say, for any step, what the coordinator answered at that step. There are
exceptions, and they hold for the log of a real broker too:

- From JoinGroup to the leader's SyncGroup a classic group changes in memory only. The tables show the group as of
  its last record, and do not show it before its first record.
- The assignment that the leader of a classic group sent is shown as partitions only if it is a
  ConsumerProtocolAssignment and the group's protocol type is `consumer`.
- After a topic is deleted, the coordinator leaves its partitions out of descriptions. The tables still show them.
- The tables do not show the assignor that a consumer group uses if its members name none, or if two assignors have the
  same number of members. The coordinator then uses the first of `group.consumer.assignors`, or breaks the tie by the
  order of a hash table.
- A JoinGroup with a member id to an Empty consumer group is refused, and yet Kafka forgets the group until the
  partition is loaded again. It writes no tombstone, so the tables still have the group. The next member begins a new
  group under the name, at its first generation or epoch. (In Kafka 4.3.1: `classicGroupJoinToClassicGroup` of
  `GroupMetadataManager`. `maybeDeleteEmptyConsumerGroup` removes the group from memory. Then
  `getOrMaybeCreateClassicGroup` finds none, and the tombstones are not returned.) Likewise for streams groups.
"""

LEFT_OUT = """\
## What is left out

- The broker around the coordinator: authorization, quotas and throttling, the network and its delays, and the
  check that the topic of an OffsetCommit exists.
- A broker adds topic ids to a request that names topics; the simulation does not. The coordinator needs the id to
  accept a commit with an older member epoch: give `topicId` beside `name` in such an OffsetCommit.
- Writes that fail, and records that are too large. A record counts as committed when it is written.
- Share and streams groups.
- `group.coordinator.append.linger.ms`: every operation is a batch of its own. Neither order nor content depends on it.
- Log lines. If Kafka's own coordinator runs the same script (`scripts/kafka`), its answers also have log lines, as
  `{"at", "log"}`.
- Random member ids: the simulation counts them instead.
- The time that a broker takes for a timer that restarts without a delay. Here it is a millisecond. The timer of a join
  phase does so if the rebalance timeout is 0, and only static members are left, none of which joined.
- The order of timers that are due in the same millisecond: they fire in the order they were set.
- Part of the order of Java's hash tables, which breaks ties. Java turns a bin with nine keys or more into a tree if the
  table has 64 places or more; the order of such bins is not reproduced. The order of all others is.
- The date. Time begins at 2001-09-09T01:46:40Z in every script.
"""


def _diagram(title: str, about: str, shown: Transitions) -> str:
    arrows = "\n".join(f"    {start} --> {end}: {why}" for (start, end), why in sorted(shown.items()))
    return f"### {title}\n\n{about}\n\n```mermaid\nstateDiagram-v2\n{arrows}\n```\n"


def _protocols() -> str:
    conditions = "\n".join(f"| {state} | {condition} |" for state, condition, _ in consumer_group.STATES)
    return "\n".join(
        [
            "## The state machines\n",
            _diagram(
                "A classic group",
                "A rebalance goes on in memory; a record is written when the leader's assignment comes, or when the "
                "group is Empty. Any state may also become Dead.",
                {pair: why for pair, why in transitions.CLASSIC.items() if "Dead" not in pair},
            ),
            _diagram(
                "A member of a consumer group",
                "One step for each heartbeat, one record for each step that changes something.",
                transitions.MEMBER,
            ),
            "### A consumer group\n",
            "Its state follows from epochs and members. The first row of the table whose condition is true decides.\n",
            f"| state | when |\n|---|---|\n{conditions}\n",
        ]
    )


def _requests() -> str:
    rows = []
    shipped = messages("Request")
    for api in sorted(HANDLERS.keys() & shipped.keys()):
        versions = shipped[api].versions
        rows.append(f"| {api} | {versions.low}–{versions.high} |")
    return "## Requests\n\n| request | versions |\n|---|---|\n" + "\n".join(rows) + "\n"


def _checks() -> str:
    rows = "\n".join(f"| INVALID_REQUEST | {message} |" for message, _ in CHECKS)
    codes = ", ".join(f"{name} ({code})" for name, code in sorted(CODES.items(), key=lambda item: item[1]))
    return (
        "## Errors\n\nThe coordinator checks a ConsumerGroupHeartbeat before it looks at the group. "
        "The first error that applies is the answer:\n\n"
        f"| error | message |\n|---|---|\n{rows}\n\nAll errors it answers with: {codes}.\n"
    )


def _settings() -> str:
    rows = "\n".join(f"| `{name}` | {setting.default} |" for name, setting in sorted(NUMBERS.items()))
    groups = ", ".join(f"`{name}`" for name in sorted(GROUP_NUMBERS))
    return (
        f"## Settings\n\n| setting | default |\n|---|---|\n{rows}\n"
        "| `group.consumer.assignors` | uniform, range |\n"
        "| `group.consumer.migration.policy` | bidirectional |\n"
        f"| `{CLIENT_ASSIGNORS}` | false; an assignment on the client's side, which only KIP-848's draft has |\n\n"
        f"Settings of a single group: {groups}. As in Kafka, a value below the broker's `min` counts as `min`, "
        "and a value above `max` counts as `max`. "
        "Settings that do not matter to the simulation (threads and buffers of the coordinator, share and streams "
        "groups, storage of the offsets topic) are accepted and ignored. Any other name is an error.\n"
    )


def write() -> str:
    """Return the whole page."""
    commands = "\n".join(f"- {SCRIPTS[name]}" for name in COMMANDS)
    scripts = (
        f"## Scripts\n\nOne JSON object a line; blank lines are skipped.\n\n{commands}\n\n"
        "Each line gets one line as its answer: its number, the time, and in `out` what happened, in order:\n\n"
        "- `records` of one batch;\n"
        "- a `response` with the number of the line that it answers (JoinGroup and SyncGroup may be answered by a "
        "later line), and its `error` by name.\n\n"
        "Member ids that the coordinator makes are written `$m1`, `$m2`, … in order of appearance. Later lines may use "
        "them like that. A line that can't be run, or has a field that is not listed here, ends the run with an error "
        "that has the number of the line.\n"
    )
    parts = [HEAD, TRUTH, scripts, _requests(), _protocols(), _checks(), _settings(), DRAFT, AUDITED, LEFT_OUT]
    return "\n".join(parts)
