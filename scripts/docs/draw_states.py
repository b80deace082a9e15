"""Draws the state diagrams of ``docs/states.md`` from the transitions of the engine and the simulated coordinator."""

from pathlib import Path

import transitions
from transitions import Transitions

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "states.md"

_DIAGRAMS: tuple[tuple[str, str, Transitions], ...] = (
    (
        "Classic groups, in the coordinator's memory",
        "Kafka's coordinator allows these transitions (`ClassicGroup.transitionTo`).",
        transitions.CLASSIC,
    ),
    (
        "Classic groups, as the log tells",
        "The coordinator never writes PreparingRebalance and CompletingRebalance. So the log does not show which "
        "states a group had between two records.",
        transitions.WRITTEN,
    ),
    (
        "Consumer groups",
        "After each operation, the state follows from the group's epochs and members. *Targets* are the partitions "
        "that the target assignment gives to members.",
        transitions.CONSUMER,
    ),
    ("Members of consumer groups", "The coordinator writes a record for each transition.", transitions.MEMBER),
    ("Share groups", "Members may own the same partition, so no partition has to be revoked.", transitions.SHARE),
    (
        "Streams groups",
        "Streams groups have the states of consumer groups, and the state NotReady. A group is NotReady while the "
        "topics of its topology are not validated yet, or while some of these topics are missing.",
        transitions.STREAMS,
    ),
)


def _diagram(title: str, about: str, shown: Transitions) -> str:
    arrows = "\n".join(f"    {start} --> {end}: {why}" for (start, end), why in sorted(shown.items()))
    return f"## {title}\n\n{about}\n\n```mermaid\nstateDiagram-v2\n{arrows}\n```\n"


def draw() -> str:
    """Return the whole document."""
    head = (
        "# States\n\nThe states of groups and members, and the events that change the states. `scripts/draw-states` "
        "makes this page from the tables of the engine and of the simulated coordinator. Tests check that this page, "
        "the engine and the coordinator agree.\n"
    )
    return "\n".join([head, *(_diagram(*diagram) for diagram in _DIAGRAMS)])


if __name__ == "__main__":
    DOCUMENT.write_text(draw(), encoding="utf-8")
