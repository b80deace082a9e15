"""Types of options whose text a function parses, such as times, durations and paths.

``query/times.py`` lists the ways to write a time, such as ``-6h``.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from pathlib import Path
from types import NoneType
from typing import Any

import click
from click.shell_completion import CompletionItem

from coordinator_replay.errors import UsageError
from coordinator_replay.query.choices import GROUP_STATES
from coordinator_replay.query.similar import did_you_mean
from coordinator_replay.query.times import (
    ABSOLUTE_RULE,
    LogTime,
    parse_absolute_time,
    parse_duration,
    parse_end_time,
    parse_time,
    parse_time_or_run,
)

ZONE_KEY = "coordinator_replay.zone"
"""Key under which a command's context has its time zone."""


def zone_of(ctx: click.Context | None) -> tzinfo:
    """Return the zone in which a command reads and shows times."""
    zone = None if ctx is None else ctx.meta.get(ZONE_KEY)
    return UTC if zone is None else zone


class Parsed(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """Option type of a value that is written as text.

    Args:
        name: name of the value in the help.
        parse: a function that reads the text; its UsageError becomes an error about the option.
        values: the type of the parsed values; a default may have this type already.
    """

    def __init__(self, name: str, parse: Callable[[str], object], values: type = NoneType) -> None:
        self.name = name
        self._parse = parse
        self._values = values

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """Convert a text that a user typed, or an entry of the configuration file, to the option's value.

        An entry of the configuration file may also be a TOML date or time.
        """
        if isinstance(value, self._values):
            return value
        try:
            return self._read(value.isoformat() if isinstance(value, date | time) else str(value), ctx)
        except UsageError as problem:
            self.fail(str(problem), param, ctx)

    def _read(self, text: str, _ctx: click.Context | None) -> object:
        return self._parse(text)


class ParsedTime(Parsed):
    """An option type of a time.

    A time without a zone is in the command's zone.

    Args:
        name: name of the value in the help.
        parse: reads a text, given the zone.
        values: the type of the parsed values.
    """

    def __init__(self, name: str, parse: Callable[..., object], values: type = NoneType) -> None:
        super().__init__(name, parse, values)
        self._parse_in = parse

    def _read(self, text: str, ctx: click.Context | None) -> object:
        return self._parse_in(text, zone=zone_of(ctx))


CLOCK_RULE = f"{ABSOLUTE_RULE}, or now (by the clock of this machine)"
"""Forms of a time in commands that have read no log yet."""


def _by_the_clock(text: str, zone: tzinfo) -> datetime:
    return datetime.now(UTC) if text.strip().lower() == "now" else parse_absolute_time(text, CLOCK_RULE, zone)


Time = datetime | LogTime
"""A time as a command passes it to the API. The API turns a ``LogTime`` into a ``datetime``."""

TIME = ParsedTime("time", parse_time, LogTime)
"""Option type of a time."""

END_TIME = ParsedTime("time", parse_end_time, LogTime)
"""The end of a time range: a day without a time of day belongs to the range."""

TIME_OR_RUN = ParsedTime("time or run id", parse_time_or_run, LogTime)
"""A time, or the run id of an audit, which stands for the end of the log as that audit had read it."""


class _Mark(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """An option type of a time and a text with ``=`` between."""

    name = "mark"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[object, str]:
        """Split ``TIME=TEXT`` that a user typed, and return the time and the text."""
        if isinstance(value, tuple):
            return value
        time_text, equals, text = str(value).partition("=")
        if not equals or not text.strip():
            self.fail(f"{value!r} is no mark: give a time and a text, as 02:13=deploy", param, ctx)
        return TIME.convert(time_text.strip(), param, ctx), text.strip()


MARK = _Mark()
"""Option type of a time and a text."""

ABSOLUTE_TIME = ParsedTime("time", _by_the_clock)
"""A time in a command that has read no log yet: only full dates, and ``now`` by this machine's clock."""

DURATION = Parsed("duration", parse_duration, timedelta)

DURATION_MS = Parsed("duration", lambda text: round(parse_duration(text).total_seconds() * 1000))
"""A duration, as milliseconds."""


def partition_number(text: str) -> int:
    """Return a partition number from its text.

    Raises:
        UsageError: the text is no number of a partition.
    """
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{text!r} is no partition: a number is expected, as 3")
    return int(text)


def check_folder(path: Path) -> None:
    """Check that a file can be written to a path: the folder must exist.

    Raises:
        UsageError: there is no such folder.
    """
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}")


class _NewFile(click.Path):
    """Option type of a file to write. The command fails at once if the file's folder does not exist."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path of the file."""
        path = Path(str(super().convert(value, param, ctx)))
        try:
            check_folder(path)
        except UsageError as problem:
            self.fail(str(problem), param, ctx)
        return path


NEW_FILE = _NewFile()


class _States(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """Option type of a list of group states, separated by commas as in Kafka's tools."""

    name = "state"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return the states that were typed, in Kafka's spelling."""
        if isinstance(value, tuple):
            return value
        known = {state.lower(): state for state in GROUP_STATES}
        states = []
        for text in str(value).split(","):
            name = text.strip().lower()
            if name == "dead":
                self.fail("a group that is Dead is not listed any longer: --deleted lists those", param, ctx)
            if name not in known:
                hint = did_you_mean(text.strip(), GROUP_STATES, f"there are {', '.join(GROUP_STATES)}")
                self.fail(f"there is no state {text.strip()!r}: {hint}", param, ctx)
            states.append(known[name])
        return tuple(states)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the states that begin with the typed text."""
        return [CompletionItem(state) for state in GROUP_STATES if state.lower().startswith(incomplete.lower())]


STATES = _States()

_REFUSED = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f]|\[(?![^/]*\])")
"""Characters of a path that Delta's readers and writers encode differently: they would not find each other's tables."""


def check_cluster(name: str) -> str:
    """Check the name of a cluster, and return it.

    Raises:
        UsageError: the name is empty, which tables can't distinguish from no name.
    """
    if not name.strip():
        raise UsageError("the name of the cluster is empty")
    return name


def check_warehouse(path: str) -> str:
    """Return the path of a warehouse in a form that every reader of the tables opens.

    Raises:
        UsageError: the path is empty, or some readers would not find it.
    """
    if not path.strip():
        raise UsageError("the path of the warehouse is empty")
    if "://" not in path and (refused := _REFUSED.search(path)) is not None:
        raise UsageError(
            f"the path of a warehouse can't hold {refused[0]!r}: Spark, deltalake and DuckDB read it in different ways"
        )
    return opened_by_all(path)


_ONE_SLASH = re.compile(r"([a-z][a-z0-9+.-]+):/(?!/)")
"""A URI with one slash, as Hadoop and Databricks print it. Other libraries would take it for a relative path."""


def opened_by_all(path: str) -> str:
    """Return a path or URI in a form that every reader opens.

    For example, ``file:/x`` becomes ``/x``.

    Raises:
        UsageError: the path has a form that neither pyarrow nor the Delta library opens.
    """
    if path.startswith("dbfs:"):
        raise UsageError(
            f"{path}: dbfs: is opened by Spark alone; give a volume (/Volumes/CATALOG/SCHEMA/VOLUME/…), a mounted "
            "path (/dbfs/…) or the store itself (s3://, abfss://, gs://)"
        )
    match = _ONE_SLASH.match(path)
    if match is not None and match[1] != "file":
        raise UsageError(f"{path}: a URI has two slashes after its scheme, as {match[1]}://…")
    return path.removeprefix("file:") if match is not None else path


def absolute(path: str) -> str:
    """Return a path as an absolute path, which Spark's processes find wherever they started.

    Return a URI unchanged.

    Raises:
        UsageError: the path has a form that neither pyarrow nor the Delta library opens.
    """
    path = opened_by_all(path)
    return path if "://" in path else str(Path(path).expanduser().absolute())


PATH = Parsed("path", absolute)
"""A path or URI for Spark's processes."""
