"""Settings of what-if alternatives, as a user types them: NAME=VALUE, with commas between several settings."""

from collections.abc import Iterable

import click

from coordinator_replay.errors import UsageError
from coordinator_replay.query.similar import did_you_mean
from coordinator_replay.simulation import door

known_option = click.option(
    "--known",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the recorded group that is not in the log, such as heartbeat.interval.ms; can be given again.",
)


def settings_of(texts: Iterable[str]) -> dict[str, str]:
    """Read settings from texts like ``NAME=VALUE,NAME=VALUE``, and return their values by name.

    ``without-restarts`` needs no value.

    Raises:
        UsageError: a text is not of the form NAME=VALUE, or no setting has that name.
    """
    values = {}
    for text in texts:
        for part in text.split(","):
            name, equals, value = part.strip().partition("=")
            # The simulation is not loaded before somebody types a name alone.
            if not equals and name.strip() == door.WITHOUT_RESTARTS:
                value = "true"
            elif not equals or not name:
                raise UsageError(f"{text!r} is not of the form NAME=VALUE; what-if --list-settings shows the names")
            values[name.strip()] = value.strip()
    for name in values:
        _check_name(name)
    return values


def _check_name(name: str) -> None:
    """Check that what-if has a setting of this name.

    Raises:
        UsageError: no setting has that name.
    """
    names = door.setting_names()
    if name not in names:
        hint = did_you_mean(name, names)
        raise UsageError(f"{name} can't be tried; what-if --list-settings shows what can{hint and f': {hint}'}")
