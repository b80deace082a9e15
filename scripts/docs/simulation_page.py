"""Writes ``docs/simulate.md``, a page about the simulated coordinator, from the tables in its code."""

import transitions
from transitions import Transitions

from coordinator_replay.engine import consumer_group
from coordinator_replay.simulation.coordinator.config import (
    CLIENT_ASSIGNORS,
    FAULTS,
    GROUP_NUMBERS,
    NUMBERS,
    BrokerFault,
)
from coordinator_replay.simulation.coordinator.consumer.heartbeat import CHECKS
from coordinator_replay.simulation.coordinator.coordinator import HANDLERS
from coordinator_replay.simulation.coordinator.errors import CODES
from coordinator_replay.simulation.coordinator.messages import messages
from coordinator_replay.simulation.coordinator.script import COMMANDS

HEAD = """\
# Simulating the coordinator

`coordinator-replay simulate SCRIPT.jsonl` runs a script on a simulated group coordinator. The script has requests,
changes of topics, and steps in time. The coordinator behaves as in Kafka 4.3.1: it gives the same responses and errors,
writes the same records in the same order, and has the same timers. Use it for teaching, for tests, and to reproduce an
incident step by step. `--out DIR` writes log segments and a list of topics for `audit`:

```sh
coordinator-replay simulate incident.jsonl --out simulated
coordinator-replay audit simulated/segments --topics simulated/topics.csv --warehouse build/simulated
```

`examples/scripts/` has ten short scripts, each explained. The simulated coordinator is the Python class
`coordinator_replay.simulation.coordinator.Coordinator`. Its methods `handle(request, at_ms)` and `advance(to_ms)`
return the batches that were written and the responses that were sent.
`coordinator_replay.simulation.door.simulate(lines, print)` runs a whole script.
"""

TRUTH = """\
## Why it did what it did

`--truth FILE` writes the cause of each action of the coordinator, as JSON lines. The option changes no response and no
record. So you can compare the true causes with the causes that an audit infers from the records alone.

```sh
coordinator-replay simulate incident.jsonl --out simulated --truth truth.jsonl
```

| event | when | fields |
|---|---|---|
| `batch` | records or a control record are written | `first_offset`, `last_offset` |
| `rebalance` | a classic group enters PreparingRebalance | `group_id`, `generation`, `state`, `end_offset`, `reason` |
| `epoch` | the epoch of a consumer group is set or raised | `group_id`, `epoch`, `offset` of its record, `reason` |
| `removal` | a member is removed, on record or in memory | `group_id`, `member_id`, `end_offset`, `reason` |

Each event has these fields, too:

- `at`: milliseconds since the beginning of the script, as in the answers to the script's lines.
- `trigger`: the cause of the event (see below).

Member ids are written as in the segments. (The answers name them `$m1`, `$m2`, …, see [Scripts](#scripts).)
`end_offset` is the end of the log partition at the time of the event. `state` is the group's state before the event.
`reason` is Kafka's own text. For a rebalance, it is the reason that brokers log with "Preparing to rebalance group".
For an epoch, it has the lines that brokers log for the same request, joined by semicolons.

The `kind` of a trigger is one of these:

| kind | what it is | fields |
|---|---|---|
| `request` | a request came | `name`, `version`, `group_id`, `member_ids`, `instance_ids`, `client_id`, `client_host` |
| `timer` | a timer ended | `name` of the timer, `group_id`, `member_ids` |
| `job` | background work was done: regular expressions were resolved | the fields of the request that caused the work |
| `topics` | topics were deleted | `name`: always `deleted` |
| `marker` | a transaction ended | `name`: COMMIT or ABORT |
| `load` | the log partition was loaded | `name`: always `load` |

A classic group removes a member in memory first. The record that shows the removal is written later, at the end of the
rebalance.
"""

SCRIPTS = {
    "config": '`{"config": {...}}`: settings, named as in a broker\'s configuration. Only the first line may have '
    "them.",
    "topics": '`{"topics": [{"name", "id", "partitions", "racks"?}]}`: all topics that exist from now on. The '
    "coordinator compares them with the earlier topics, and so sees which topics were created, got partitions, or "
    "were deleted. `racks` are the racks of each partition's replicas.",
    "groupConfig": '`{"groupConfig": {...}, "group": g}`: all settings of one group. They replace the earlier settings '
    "of the group.",
    "request": '`{"request": api, "version"?, "group"?, "client"?: {"id", "host"}, "body"?: {...}}`: a request. Fields '
    "left out of `body` have the defaults of the message. `group` is short for a `groupId` in `body`.",
    "endTxn": '`{"endTxn": {"producerId", "producerEpoch", "commit"}}`: writes the marker that ends a transaction.',
    "advance_ms": '`{"advance_ms": n}`: n milliseconds pass. Timers that end in this time fire, each at the time '
    "at which it ends.",
    "async": '`{"async": "hold"}` stops background work (the resolution of regular expressions). `{"async": "run"}` '
    "does the work that was held back.",
    "reload": '`{"reload": true}`: the log partition gets another leader. The coordinator loses all state that is in '
    "no record.",
    "dump": '`{"dump": true}`: the answer has the inner state of all groups.',
    "timers": '`{"timers": true}`: the answer has the running timers, each with the milliseconds until it ends.',
    "assign": '`{"assign": assignor, "topics": {name: partitions}, "racks"?, "members": {id: {"topics", "owned"?, '
    '"generation"?, "rack"?, "instance"?}}}`: computes an assignment as a client\'s assignor does. The '
    "answer has the assignment. No group changes.",
    "note": '`{"note": text}`: nothing happens. Any other line may have a note, too.',
}

DRAFT = f"""\
## The draft's assignment on the client's side

The draft of KIP-848 lets a member compute the assignment. No release of Kafka has this feature. We built the feature
from the text of KIP-848, and could test it only against this text. We also chose the numbers and names of its messages.

With `{CLIENT_ASSIGNORS}=true`, members may name assignors of their own (`clientAssignors` in ConsumerGroupHeartbeat).
If all members have an assignor in common, the coordinator asks one member to compute the assignment
(`shouldComputeAssignment`). The member gets its input with the request PrepareAssignment, and sends the result with
InstallAssignment. The coordinator checks the result (INVALID_ASSIGNMENT). A valid result becomes the target assignment
at the group epoch that it was computed for.
"""

AUDITED = """\
## What an audit of the log doesn't show

If you audit a simulated log, the tables agree with the answers of the coordinator at every step, with the following
exceptions. An audit of a real broker's log has the same exceptions:

- From JoinGroup to the leader's SyncGroup, a classic group changes in memory only. The tables show the state of the
  group in its last record. They do not show the group before its first record.
- The leader of a classic group sends the assignment as bytes. The tables show it as partitions only if it is a
  ConsumerProtocolAssignment and the group's protocol type is `consumer`.
- If a topic is deleted, the coordinator leaves out its partitions when it describes an assignment. The tables still
  show these partitions as assigned.
- In two cases, the tables do not show the assignor that a consumer group uses. If no member names an assignor, the
  coordinator uses the first of `group.consumer.assignors`. If two assignors are named by the same number of members,
  the coordinator breaks the tie by the order of a hash table.
- If a client sends a JoinGroup with a member id to an Empty consumer or streams group, Kafka refuses the request. But
  it also removes the group from memory until the log partition is loaded again. Kafka writes no tombstone, so the
  tables still have the group. The next member begins a new group with the same name, at the first generation or epoch.
  (See `classicGroupJoinToClassicGroup` of `GroupMetadataManager` in Kafka 4.3.1: `maybeDeleteEmptyConsumerGroup`
  removes the group. Then `getOrMaybeCreateClassicGroup` finds no group and fails, and the tombstones are lost.)
"""

LEFT_OUT = """\
## What is left out

The simulation does not have:

- Share and streams groups.
- The broker around the coordinator: authorization, quotas and throttling, the network and its delays, and the
  check that the topic of an OffsetCommit exists.
- The lookup of topic ids. If a request names topics, a broker adds their ids before the coordinator gets the request.
  Here, the script gives the ids where they matter: the coordinator accepts an OffsetCommit with an older member epoch
  only with the id of the topic. Give `topicId` beside `name` in such a request.
- Writes that fail, and records that are too large. A record counts as committed when it is written.
- `group.coordinator.append.linger.ms`: each operation writes a batch of its own. The records and their order are the
  same as on a broker.
- Log lines. (If Kafka's own coordinator runs the same script with `scripts/kafka`, its answers also have log lines, as
  `{"at", "log"}`.)
- Random member ids. Here they are numbered.

The simulation may differ from a broker in these details:

- Timers that set themselves again with a delay of 0. Here they fire after a millisecond. For example, the timer of a
  join phase does this if the rebalance timeout is 0, only static members are left, and none of them has joined.
- Timers that end in the same millisecond. Here they fire in the order in which they were set.
- Ties that Java breaks by the order of a hash table. The simulation reproduces this order, with one exception. If the
  table has 64 places or more, Java turns a bin with nine keys or more into a tree.
- The date. The time begins at 2001-09-09T01:46:40Z in every script.
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
                "Most steps of a rebalance happen in memory only. A record is written when the leader's assignment "
                "comes, or when the group becomes Empty. A group may also become Dead from any state.",
                {pair: why for pair, why in transitions.CLASSIC.items() if "Dead" not in pair},
            ),
            _diagram(
                "A member of a consumer group",
                "A member takes a step at each heartbeat. Each step that changes something writes a record.",
                transitions.MEMBER,
            ),
            "### A consumer group\n",
            "The state follows from epochs and members. The first row whose condition is true gives the state.\n",
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
        f"| error | message |\n|---|---|\n{rows}\n\nThe coordinator may answer with these errors: {codes}.\n"
    )


def _settings() -> str:
    rows = "\n".join(f"| `{name}` | {setting.default} |" for name, setting in sorted(NUMBERS.items()))
    groups = ", ".join(f"`{name}`" for name in sorted(GROUP_NUMBERS))
    return (
        f"## Settings\n\n| setting | default |\n|---|---|\n{rows}\n"
        "| `group.consumer.assignors` | uniform, range |\n"
        "| `group.consumer.migration.policy` | bidirectional |\n"
        f"| `{CLIENT_ASSIGNORS}` | false (not in Kafka, see [below](#the-drafts-assignment-on-the-clients-side)) |\n"
        f"| `{FAULTS}` | none (allowed: faults of earlier releases, {', '.join(BrokerFault)}) |\n\n"
        f"Settings of a single group: {groups}. As in Kafka, a value below the broker's `min` counts as `min`, "
        "and a value above `max` counts as `max`. "
        "Settings that do not matter to the simulation (threads and buffers of the coordinator, share and streams "
        "groups, storage of the offsets topic) are accepted and ignored. Any other name is an error.\n"
    )


def write() -> str:
    """Return the whole page."""
    commands = "\n".join(f"- {SCRIPTS[name]}" for name in COMMANDS)
    scripts = (
        "## Scripts\n\nA script has one JSON object on each line. Blank lines are skipped. A `?` marks a field that "
        f"may be left out.\n\n{commands}\n\n"
        "For each line of the script, the command prints one line. It has the number of the script's line, the time, "
        "and the list `out`. "
        "The entries of `out` are, in order of time:\n\n"
        "- `records`: the records of one batch;\n"
        "- `response`: a response, the number of the line with its request, and the name of its `error`. The response "
        "to a JoinGroup or SyncGroup may come in the answer to a later line.\n\n"
        "Member ids that the coordinator makes are written `$m1`, `$m2`, … in order of appearance. Later lines can use "
        "these names. If a line can't be run, or has a field that is not listed here, the run ends with an error "
        "that has the number of the line.\n"
    )
    parts = [HEAD, TRUTH, scripts, _requests(), _protocols(), _checks(), _settings(), DRAFT, AUDITED, LEFT_OUT]
    return "\n".join(parts)
