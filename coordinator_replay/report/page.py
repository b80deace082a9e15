"""HTML pages, made from a template, figures and data.

A page has its scripts in itself, or shares them with other pages of the same folder.

A dump has names and other texts that anybody with access to the Kafka cluster may have chosen. Such a text could have
markup or a script in it. Three measures keep the browser from running this script:

- The templates escape the texts.
- The figures' data are stored as JSON, in which no text can end the script element.
- A content security policy lets the browser run only the page's own scripts, and forbids them to use the network.
"""

import base64
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from functools import cache
from pathlib import Path

import orjson
from bokeh.document import Document
from bokeh.embed.util import standalone_docs_json_and_render_items
from bokeh.resources import INLINE, Resources
from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from coordinator_replay.errors import writing
from coordinator_replay.report.drawing import Drawing, Figures
from coordinator_replay.safe_text import neutral, neutral_json
from coordinator_replay.times import duration, milliseconds, moment_text, moments_in_zone
from coordinator_replay.version import __version__

_TEMPLATES = "templates"
_SCRIPTS = ("axis.js", "lanes.js", "tables.js", "image.js", "figures.js", "start.js")


def _shown(value: object) -> object:
    """Convert a value to text without control characters, for a page. Return values that are HTML unchanged."""
    return value if hasattr(value, "__html__") else neutral(str(value))


@pass_context
def _moment(context: Context, moment: datetime | None) -> str:
    """Return a time in the zone of the page."""
    return "–" if moment is None else moment_text(moment, context["zone"])


@pass_context
def _sentence(context: Context, text: object) -> object:
    """Return a sentence with its times in the zone of the page."""
    return moments_in_zone(str(text), context["zone"])


def _number(number: float | None) -> str:
    return "–" if number is None else f"{number:,}"


def _data_moment(moment: datetime | None) -> str:
    return "" if moment is None else str(milliseconds(moment))


def _rank(number: int | None) -> str:
    """Return a number as a text by which the page's script sorts the rows of a table. Return an empty text for None."""
    return "" if number is None else str(number)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("coordinator_replay.report", _TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "moment": _moment,
        "sentence": _sentence,
        "number": _number,
        "ms": _data_moment,
        "rank": _rank,
        "duration": duration,
    }
    return environment


def _asset(name: str) -> str:
    return (Path(__file__).parent / _TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _library() -> str:
    """Return Bokeh's script without the parts that no figure needs."""
    resources: Resources = INLINE.clone(components=["bokeh"])
    # Browsers hash a script with these line ends.
    return "\n".join(resources.js_raw).replace("\r\n", "\n")


@cache
def _script() -> str:
    body = "\n".join(map(_asset, _SCRIPTS))
    return f'(() => {{\n"use strict";\n{body}\n}})();'


@cache
def _figures_script(make: Figures) -> str:
    """Return the script that holds the figures, without their data.

    All pages with these figures use the same script. So the script has no text from a dump.
    """
    drawn = make()
    document = Document()
    for model in drawn:
        document.add_root(model)
    docs, _ = standalone_docs_json_and_render_items(document)
    (json_document,) = docs.values()
    places = [f"draw-{model.name}" for model in drawn]
    return f"window.coordinatorReplayFigures = {_harmless({'json': json_document, 'places': places})};"


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _harmless(value: object) -> str:
    """Convert a value to JSON for a script element of HTML. No text in this JSON can end the script element."""
    text = neutral_json(orjson.dumps(value).decode())
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def render_page(template: str, drawing: Drawing, assets: str | None = None, **context: object) -> str:
    """Return a page as HTML.

    Args:
        template: a file of the templates folder; it has an element ``draw-NAME`` for each figure.
        drawing: the figures.
        assets: link to the folder of shared files, such as ``assets/``; None if the page has everything in itself.
        context: values that the template names.
    """
    scripts = [_library(), _figures_script(drawing.make), _script()] if assets is None else []
    policy = " ".join(map(_hash, scripts)) or "'self' file:"
    return _rendered(
        template,
        **context,
        panels={panel.name: panel for panel in drawing.panels},
        marks=drawing.marks,
        zone=drawing.clock.zone,
        style=Markup(_asset("page.css")) if assets is None else None,  # noqa: S704 - a file of this package
        scripts=[Markup(script) for script in scripts],  # noqa: S704 - Bokeh's file, and this package's
        assets=assets,
        figures_file=figures_file(drawing.make),
        policy=Markup(policy),  # noqa: S704 - base64 of digests
        data=Markup(_harmless(drawing.page_data)),  # noqa: S704 - no character of it means anything to HTML
    )


def _rendered(template: str, **context: object) -> str:
    return _environment().get_template(template).render(**context, version=__version__)


def plain_page(template: str, zone: tzinfo = UTC, **context: object) -> str:
    """Return a page without figures and without scripts, as HTML.

    Args:
        template: a file of the templates folder.
        zone: the zone of the times that the page shows.
        context: values that the template names.
    """
    style = Markup(_asset("page.css"))  # noqa: S704 - a file of this package
    policy = Markup("'none'")
    return _rendered(template, **context, zone=zone, style=style, scripts=(), assets=None, policy=policy, data="{}")


def undrawn_page(group: str, cluster: str, note: str, *, index: str, assets: str) -> str:
    """Return a page that says why the page of a group can't be drawn, as HTML.

    Args:
        group: id of the group.
        cluster: the group's cluster.
        note: the reason.
        index: link to the page of all groups.
        assets: link to the folder of shared files.
    """
    return _rendered("undrawn.html.j2", group=group, cluster=cluster, note=note, index=index, assets=assets)


def figures_file(make: Figures) -> str:
    """Return the name of the JavaScript file with the figures of a page. Pages with the same figures share this file.

    Args:
        make: function that makes the figures.
    """
    return f"{make.__name__.replace('_', '-')}.js"


def write_assets(folder: Path, kinds: Sequence[Figures]) -> None:
    """Write the files that all pages of a folder share, such as their scripts.

    Raises:
        UsageError: a file can't be written.
    """
    write_page(_library(), folder / "bokeh.js")
    write_page(_script(), folder / "page.js")
    write_page(_asset("page.css"), folder / "page.css")
    for make in kinds:
        write_page(_figures_script(make), folder / figures_file(make))


def write_page(text: str, path: Path) -> None:
    """Write a page, or a file that pages share.

    Raises:
        UsageError: the file can't be written.
    """
    with writing(path):
        path.write_text(text, encoding="utf-8", errors="replace")
