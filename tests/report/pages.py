"""A page taken apart as a browser would, by the standard library's parser."""

import base64
import hashlib
import json
from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """Elements, the text of cells and scripts, and the data that the page's script reads."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.cells: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag in ("td", "h1"):
            self.cells.append("")
        if tag not in ("meta", "img", "br", "input"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            attributes, script = self.scripts[-1]
            self.scripts[-1] = (attributes, script + data)
        elif {"td", "h1"} & set(self._open):
            self.cells[-1] += data
            self.text += data
        else:
            self.text += data

    @property
    def data(self) -> dict[str, Any]:
        """What the page's script reads."""
        (text,) = (script for attributes, script in self.scripts if attributes.get("id") == "data")
        data: dict[str, Any] = json.loads(text)
        return data

    def column(self, source: str, name: str) -> list[Any]:
        """A column of a figure's source, moments in milliseconds since the page's start."""
        packed = self.data["sources"][source][name]
        if "texts" in packed:
            return [packed["texts"][place] for place in packed["at"]]
        return list(packed.get("since_start", packed.get("values")))

    @property
    def hashes(self) -> list[str]:
        """Of the scripts that run, as a content security policy writes them."""
        running = [script for attributes, script in self.scripts if "type" not in attributes]
        digests = [hashlib.sha256(script.encode()).digest() for script in running]
        return [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]


def strings(value: Any) -> set[str]:
    """Every string within plain data."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, dict):
        return set().union(*map(strings, value.values()), set())
    if isinstance(value, list):
        return set().union(*map(strings, value), set())
    return set()
