"""The tables in the engine cover what they speak of: a kind, an event or a rule that is forgotten fails here."""

import ast
from pathlib import Path

import coordinator_replay.engine as engine
from coordinator_replay.engine import consumer_group, share_group, streams_group
from coordinator_replay.engine.events import EventKind
from coordinator_replay.engine.model import GroupState
from coordinator_replay.engine.operation import PHASE
from coordinator_replay.engine.replay import HANDLERS, PASSED_OVER, SHARE_STATE
from coordinator_replay.engine.rules import RULES
from coordinator_replay.records.kinds import kinds_by_name
from coordinator_replay.simulation.coordinator.live_groups.classic_group import LEGAL_PREDECESSORS
from scripts.docs import transitions

ROOM = Path(engine.__file__).parent
ALLOWED = {
    "abc",
    "collections",
    "contextlib",
    "coordinator_replay",
    "dataclasses",
    "enum",
    "functools",
    "operator",
    "types",
    "typing",
}

# These stand beside the order: a clean-up of old metadata, dropped expressions, share state, a topology that goes last.
ANYWHERE = {
    ("ConsumerGroupPartitionMetadata", True),
    ("ConsumerGroupRegularExpression", True),
    ("StreamsGroupTopology", True),
}


def test_every_kind_of_record_has_its_handler() -> None:
    commits = {"OffsetCommit", "LegacyOffsetCommit"}
    assert set(kinds_by_name()) == {*HANDLERS, *commits, "GroupMetadata", SHARE_STATE, *PASSED_OVER}


def test_every_kind_has_its_place_in_the_order_of_an_operation() -> None:
    kinds = {*HANDLERS, "GroupMetadata"}
    assert {(kind, gone) for kind in kinds for gone in (True, False)} - set(PHASE) == ANYWHERE
    assert {kind for kind, _ in PHASE} <= kinds


def test_every_event_and_every_rule_is_explained() -> None:
    assert all(f"{kind}: " in (EventKind.__doc__ or "") for kind in EventKind)
    source = "".join((ROOM / name).read_text(encoding="utf-8") for name in ("rules.py", "classic_group.py"))
    assert all(RULES.values())
    assert all(f'"{rule}"' in source for rule in RULES)


def test_every_transition_is_between_states_of_its_machine() -> None:
    tables = {consumer_group: transitions.CONSUMER, share_group: transitions.SHARE, streams_group: transitions.STREAMS}
    for machine, table in tables.items():
        states = {state for state, _, _ in machine.STATES}
        assert {state for pair in table for state in pair} == states
        assert machine.STATES[-1][2](object())
    classic = set(LEGAL_PREDECESSORS)
    assert {state for pair in transitions.CLASSIC for state in pair} == classic
    assert {state for pair in transitions.WRITTEN for state in pair} < classic
    assert classic | {state for state, _, _ in streams_group.STATES} | {GroupState.UNKNOWN} == set(GroupState)


def test_the_engine_imports_the_standard_library_alone_and_no_clock_no_files_no_chance() -> None:
    for path in ROOM.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                assert name.split(".")[0] in ALLOWED, (path.name, name)
                if name.startswith("coordinator_replay"):
                    assert name.startswith(
                        ("coordinator_replay.engine", "coordinator_replay.errors", "coordinator_replay.int64")
                    ), name
