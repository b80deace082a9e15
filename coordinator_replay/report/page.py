"""One self-contained HTML file out of a template and figures.

Everything on a page that comes from a dump was written by clients of a cluster and is trusted with nothing: templates
escape it, the figures travel as JSON in which no character can end a script, and a content security policy lets only
the scripts run whose hashes it names and lets none of them reach a network.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from bokeh.embed import json_item
from bokeh.models import Model
from bokeh.plotting import figure
from bokeh.resources import INLINE, Resources
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from coordinator_replay import __version__
from coordinator_replay.errors import UsageError
from coordinator_replay.query.warehouse import shown

_TEMPLATES = "templates"


def _moment(moment: datetime | None) -> str:
    return "–" if moment is None else shown(moment)


def _number(number: float | None) -> str:
    return "–" if number is None else f"{number:,}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("coordinator_replay.report", _TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"moment": _moment, "number": _number}
    return environment


def _asset(name: str) -> str:
    return (Path(__file__).parent / _TEMPLATES / name).read_text(encoding="utf-8")


def _library() -> str:
    """Bokeh's own script, without its parts that no figure here needs."""
    resources: Resources = INLINE.clone(components=["bokeh"])
    return "\n".join(resources.js_raw)


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _harmless(value: object) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _embedded(drawn: Sequence[figure]) -> list[Any]:
    """Figures as JSON; they share one document, so that zooming one moves all."""
    from bokeh.models import Column

    layout: Model = Column(children=list(drawn), sizing_mode="stretch_width")
    return [json_item(layout)]


def render_page(template: str, drawn: Sequence[figure], **context: object) -> str:
    """A page as HTML.

    Args:
        template: a file of the templates folder.
        drawn: the figures, from the top; they may share axes.
        context: what the template names.
    """
    # Line ends are those that a browser hashes.
    library, script = _library().replace("\r\n", "\n"), _asset("page.js")
    return (
        _environment()
        .get_template(template)
        .render(
            **context,
            version=__version__,
            style=Markup(_asset("page.css")),  # noqa: S704 - files of this package
            library=Markup(library),  # noqa: S704 - Bokeh's own file
            script=Markup(script),  # noqa: S704 - a file of this package
            script_hashes=Markup(f"{_hash(library)} {_hash(script)}"),  # noqa: S704 - base64 of digests
            figures=Markup(_harmless(_embedded(drawn))),  # noqa: S704 - no character of it means anything to HTML
        )
    )


def write_page(html: str, path: Path) -> None:
    """Write a page.

    Raises:
        UsageError: the file can't be written.
    """
    try:
        path.write_text(html, encoding="utf-8", errors="replace")
    except OSError as problem:
        raise UsageError(f"{path} can't be written: {problem.strerror}") from problem
