"""Draws the state diagrams of ``docs/states.md`` from the tables that engine and coordinator are written around."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from coordinator_replay.coordinator.classic import classic_group as coordinated_group
from coordinator_replay.engine import classic_group, consumer_group, share_group, streams_group

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "states.md"

Transitions = Mapping[tuple[StrEnum, StrEnum], str]

_DIAGRAMS: tuple[tuple[str, str, Transitions], ...] = (
    (
        "Classic groups, in the coordinator's memory",
        "What a coordinator's `ClassicGroup.transitionTo` allows; any state may also become Dead.",
        coordinated_group.TRANSITIONS,
    ),
    (
        "Classic groups, as the log tells",
        "PreparingRebalance and CompletingRebalance are never written: what lies between two records is not known.",
        classic_group.WRITTEN_TRANSITIONS,
    ),
    ("Consumer groups", "Derived from epochs and members after every operation.", consumer_group.TRANSITIONS),
    ("Members of consumer groups", "One record for each step.", consumer_group.MEMBER_TRANSITIONS),
    ("Share groups", "Members may share partitions: nothing is revoked.", share_group.TRANSITIONS),
    ("Streams groups", "As consumer groups, but for the topology.", streams_group.TRANSITIONS),
)


def _diagram(title: str, about: str, transitions: Transitions) -> str:
    arrows = "\n".join(f"    {start} --> {end}: {why}" for (start, end), why in sorted(transitions.items()))
    return f"## {title}\n\n{about}\n\n```mermaid\nstateDiagram-v2\n{arrows}\n```\n"


def draw() -> str:
    """The whole document."""
    head = (
        "# States\n\nDrawn by `scripts/draw-states` from the tables of the engine and of the simulated coordinator; "
        "a test checks that both agree.\n"
    )
    return "\n".join([head, *(_diagram(*diagram) for diagram in _DIAGRAMS)])


if __name__ == "__main__":
    DOCUMENT.write_text(draw(), encoding="utf-8")
