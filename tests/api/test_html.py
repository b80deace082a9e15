"""Hostile names in a notebook's tables and in printed answers: shown, never obeyed."""

from dataclasses import dataclass
from html.parser import HTMLParser

from coordinator_replay.answer_columns import column
from coordinator_replay.api import html, plain_text
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
    name: str = column("NAME", 1)
    topics: tuple[str, ...] = column("TOPICS", 2)
    nothing: int | None = column("NOTHING", 3, default=None)


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


def test_a_printed_answer_has_a_line_for_each_row_and_obeys_no_text():
    answer = Answer([Row(name=text, topics=(text,)) for text in HOSTILE], Row, notes=HOSTILE)
    heading, *lines = str(answer).splitlines()
    assert heading.split() == ["NAME", "TOPICS"]
    assert len(lines) == 2 * len(HOSTILE)
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines[: len(HOSTILE)])) <= 2 * plain_text.MOST_CHARACTERS + 2
    assert "a\\x1b[2Jb\\u202ec" in lines[5]
    many = Answer([Row(name="n", topics=())] * 1000, Row)
    assert str(many).splitlines()[-1] == "900 more rows: to_pandas() has them."
    assert len(str(many).splitlines()) == html.MOST_ROWS + 2
    assert str(Answer([], Row, notes=["Nothing."])) == "Nothing."
