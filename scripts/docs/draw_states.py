"""Draws the state diagrams of ``docs/states.md`` from the transitions of the engine and the simulated coordinator."""

from pathlib import Path

import transitions
from transitions import Transitions

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "states.md"

_DIAGRAMS: tuple[tuple[str, str, Transitions], ...] = (
    (
        "Classic groups, in the coordinator's memory",
        "What a coordinator's `ClassicGroup.transitionTo` allows; any state may also become Dead.",
        transitions.CLASSIC,
    ),
    (
        "Classic groups, as the log tells",
        "PreparingRebalance and CompletingRebalance are never written: what lies between two records is not known.",
        transitions.WRITTEN,
    ),
    ("Consumer groups", "Derived from epochs and members after every operation.", transitions.CONSUMER),
    ("Members of consumer groups", "One record for each step.", transitions.MEMBER),
    ("Share groups", "Members may share partitions: nothing is revoked.", transitions.SHARE),
    ("Streams groups", "As consumer groups, but for the topology.", transitions.STREAMS),
)


def _diagram(title: str, about: str, shown: Transitions) -> str:
    arrows = "\n".join(f"    {start} --> {end}: {why}" for (start, end), why in sorted(shown.items()))
    return f"## {title}\n\n{about}\n\n```mermaid\nstateDiagram-v2\n{arrows}\n```\n"


def draw() -> str:
    """Return the whole document."""
    head = (
        "# States\n\nDrawn by `scripts/draw-states` from the tables of the engine and of the simulated coordinator; "
        "a test checks that both agree.\n"
    )
    return "\n".join([head, *(_diagram(*diagram) for diagram in _DIAGRAMS)])


if __name__ == "__main__":
    DOCUMENT.write_text(draw(), encoding="utf-8")
