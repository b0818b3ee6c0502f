"""Text from services within bounds: descriptions cleaned of HTML and Markdown noise.

A cleaned text is for reading only: nothing of it guards anything.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

_BLOCKS = frozenset(
    """
    p br div li ul ol tr table h1 h2 h3 h4 h5 h6 pre blockquote section hr dt dd dl
    """.split()
)
_INLINE = frozenset(
    """
    a b i u em strong code span tt sub sup small big img td th thead tbody font kbd s var center
    """.split()
)
_DROPPED = frozenset({"script", "style"})

# Every repetition is bounded, so a hostile text costs linear time.
_IMAGE = re.compile(r"!\[([^\[\]\n]{0,200})\]\([^()\n]{0,500}\)")
_LINK = re.compile(r"\[([^\[\]\n]{1,200})\]\([^()\n]{0,500}\)")
_HEADING = re.compile(r"^#{1,6} +", re.MULTILINE)
_STRONG = re.compile(r"\*\*([^*\n]{1,300})\*\*")
_RULE = re.compile(r"^(?:[-=_*] ?){3,80}$", re.MULTILINE)
_SPACES = re.compile(r"[^\S\n]+")
_BLANKS = re.compile(r"\n{3,}")
_MOST_LOST = 10
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def clean(text: object, limit: int) -> str:
    """Return ``text`` without markup, at most ``limit`` characters (and a mark where it was cut).

    Args:
        text: a description as a document gives it; anything but a string gives ``""``.
        limit: most characters to keep.
    """
    if not isinstance(text, str):
        return ""
    text = text[: 4 * limit + 1000]
    if "<" in text or "&" in text:
        text = _without_html(text)
    text = _LINK.sub(r"\1", _IMAGE.sub(r"\1", text))
    text = _STRONG.sub(r"\1", _RULE.sub("", _HEADING.sub("", text)))
    text = _SPACES.sub(" ", _CONTROLS.sub(" ", text.replace("\r\n", "\n")))
    text = _BLANKS.sub("\n\n", "\n".join(line.strip() for line in text.split("\n"))).strip()
    return text if len(text) <= limit else text[: limit - 2].rstrip() + " …"


class _NoHtml(ValueError):
    """A text has so many beginnings of tags without an end that it is none."""


class _Stripper(HTMLParser):
    """Drops the tags of HTML and keeps what only looks like one (``<id>`` in a path).

    Args:
        lost: characters that may be looked at in vain, for tags that do not end: each is sought to the end of the text.
    """

    def __init__(self, lost: int) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._skipping, self._lost = 0, lost

    def _counted(self, start: int, end: int) -> int:
        if end < 0:
            self._lost -= len(self.rawdata) - start
            if self._lost < 0:
                raise _NoHtml
        return end

    def parse_starttag(self, i: int) -> int:
        return self._counted(i, super().parse_starttag(i))

    def parse_endtag(self, i: int) -> int:
        return self._counted(i, super().parse_endtag(i))

    def parse_comment(self, i: int, report: bool = True) -> int:
        return self._counted(i, super().parse_comment(i, report))

    def parse_pi(self, i: int) -> int:
        return self._counted(i, super().parse_pi(i))

    def parse_html_declaration(self, i: int) -> int:
        return self._counted(i, super().parse_html_declaration(i))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _DROPPED:
            self._skipping += 1
        elif tag in _BLOCKS:
            self.parts.append("\n- " if tag == "li" else "\n")
        elif tag not in _INLINE:
            self.parts.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in _DROPPED:
            self._skipping = max(0, self._skipping - 1)
        elif tag in _BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self.parts.append(data)


def _without_html(text: str) -> str:
    stripper = _Stripper(_MOST_LOST * len(text))
    try:
        stripper.feed(text)
        stripper.close()
    except (AssertionError, ValueError):  # html.parser raises these on some broken declarations, and _NoHtml is one
        return text
    return "".join(stripper.parts)
