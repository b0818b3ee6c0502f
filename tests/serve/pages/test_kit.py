"""The kit of pages: what comes from outside stays text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as some

from atc.serve.pages.kit import embedded, page_of, render, visible

HOSTILE = "</script><script>window.__pwned=1</script><img src=x onerror=alert(1)>'\"&{{ 7*7 }}\u202e\x00\x1b[2J\ud800"


class Elements(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "body.html.jinja").write_text("<p title='{{ words }}'>{{ words }}</p>")
    (tmp_path / "own.css").write_text("p { color: red }")
    (tmp_path / "own.js").write_text("document.title = 'x';")
    return tmp_path


def test_a_page_holds_words_from_outside_as_text_alone(folder: Path) -> None:
    page = page_of(
        folder / "body.html.jinja", title=HOSTILE, words=HOSTILE, data={HOSTILE: [HOSTILE]}, script=folder / "own.js"
    )
    found = Elements(page)
    assert found.tags == ["html", "meta", "meta", "meta", "title", "style", "p", "script", "script"]
    assert not [name for name, _ in found.attributes if name.startswith("on") or name in ("src", "href", "style")]
    assert "49" not in page
    assert not re.search(r"[\x00-\x08\x1b\u202e\ud800]", page)
    page.encode()


def test_the_policy_allows_our_own_style_and_script_by_their_hashes_and_nothing_else(folder: Path) -> None:
    page = page_of(
        folder / "body.html.jinja", title="t", words="w", styles=[folder / "own.css"], script=folder / "own.js"
    )
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy[1].replace("&#39;", "'").split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        text = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert text is not None
        assert rules[rule] == f"'sha256-{base64.b64encode(hashlib.sha256(text[1].encode()).digest()).decode()}'"
    assert "unsafe" not in page
    assert "script-src &#39;none&#39;" in page_of(folder / "body.html.jinja", title="t", words="w")


def test_wrong_parts_of_a_page_are_refused(folder: Path) -> None:
    with pytest.raises(jinja2.UndefinedError):
        page_of(folder / "body.html.jinja", title="t")
    (folder / "own.js").write_text("'</script>'")
    with pytest.raises(ValueError, match="neither a style nor a script"):
        page_of(folder / "body.html.jinja", title="t", words="w", script=folder / "own.js")
    with pytest.raises(ValueError, match="JSON"):
        page_of(folder / "body.html.jinja", title="t", words="w", data=float("nan"))


@given(
    some.recursive(
        some.none() | some.booleans() | some.integers() | some.text(),
        lambda x: some.lists(x) | some.dictionaries(some.text(), x),
    )
)
def test_data_in_a_page_is_the_data_without_what_cannot_be_seen(data: object) -> None:
    text = embedded(data)
    assert text.isascii()
    assert not set("<>&") & set(text)

    def shown(value: object) -> object:
        if isinstance(value, str):
            return visible(value)
        if isinstance(value, dict):
            return {visible(key): shown(each) for key, each in value.items()}
        return [shown(each) for each in value] if isinstance(value, list) else value

    assert json.loads(text) == shown(data)


def test_a_template_may_be_no_page(folder: Path) -> None:
    assert render(folder / "body.html.jinja", words="a<b") == "<p title='a&lt;b'>a&lt;b</p>"
