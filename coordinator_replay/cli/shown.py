"""Functions with which commands print. The module of each function is loaded at its first use."""

from typing import TYPE_CHECKING

from coordinator_replay.lazy import loaded_when_asked

if TYPE_CHECKING:
    from coordinator_replay.cli.decoded import print_first_records
    from coordinator_replay.cli.output import in_shown_zone, print_note, print_text, text_lines
    from coordinator_replay.cli.progress import shown_progress
    from coordinator_replay.cli.summary import print_summary
else:
    __getattr__ = loaded_when_asked(
        __name__,
        {
            "coordinator_replay.cli.decoded": ["print_first_records"],
            "coordinator_replay.cli.output": ["in_shown_zone", "print_note", "print_text", "text_lines"],
            "coordinator_replay.cli.progress": ["shown_progress"],
            "coordinator_replay.cli.summary": ["print_summary"],
        },
    )

__all__ = [
    "in_shown_zone",
    "print_first_records",
    "print_note",
    "print_summary",
    "print_text",
    "shown_progress",
    "text_lines",
]
