"""Hostile names in a notebook's tables: shown, never obeyed."""

from dataclasses import dataclass
from html.parser import HTMLParser

from coordinator_replay.api import html
from coordinator_replay.api.answer import Answer

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "</td></tr></table><iframe src=//evil>",
    "&lt;b&gt;",
    "a\x1b[2Jb\u202ec",
    "]]><!--",
    "x" * 10_000,
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str
    topics: tuple[str, ...]
    nothing: int | None = None


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.found.add(tag)
        assert {name for name, _ in attrs} <= {"style"}

    def handle_comment(self, data):
        raise AssertionError(data)

    def handle_data(self, data):
        self.text += data


def test_nothing_that_a_client_wrote_becomes_an_element():
    answer = Answer([Row(name=text, topics=(text,)) for text in HOSTILE], Row, notes=HOSTILE)
    page = Elements()
    page.feed(answer._repr_html_())
    assert page.found <= {"table", "thead", "tbody", "tr", "th", "td", "p", "em"}
    assert "<script>alert(1)</script>" in page.text
    assert "a\\x1b[2Jb\\u202ec" in page.text
    assert "nothing" not in page.text


def test_a_table_shows_its_first_rows_and_says_so():
    shown = html.table(["n"], [[number] for number in range(1000)])
    assert shown.count("<tr>") == html.MOST_ROWS + 1
    assert "The first 100 of 1,000 rows." in shown
