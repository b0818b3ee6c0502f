"""The code has each message that the page of messages quotes."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.docs import ROOT

PAGE = ROOT / "docs" / "reference" / "messages.md"
_JOINED = re.compile(r"""["']\s*\n\s*r?f?["']""")  # one text in several literals
_ROW = re.compile(r"^\| (`+)(?P<message>.+?)\1 [^|]*\|", re.MULTILINE)
_SHORTEST = 12


@cache
def source() -> str:
    """All of the package, each text that stands in several lines in one."""
    return "\n".join(_JOINED.sub("", path.read_text(encoding="utf-8")) for path in sorted((ROOT / "atc").rglob("*.py")))


def quoted(page: Path) -> list[str]:
    """The messages in the first column of the page's tables; exit codes are numbers and no messages."""
    return [found["message"].strip() for found in _ROW.finditer(page.read_text(encoding="utf-8"))]


def parts(message: str) -> list[str]:
    """What of a message does not differ from one time to the next."""
    return [part for part in (each.strip(" ()") for each in message.split("…")) if part]


def said(message: str, text: str) -> bool:
    """Whether one text in the source has all the parts of a message, in their order."""
    pattern = r"[^\n]{0,250}?".join(re.escape(part).replace("'", r"""\\?'""") for part in parts(message))
    return re.search(pattern, text) is not None


@pytest.mark.parametrize("message", quoted(PAGE))
def test_the_code_says_what_the_page_quotes(message: str) -> None:
    assert said(message, source())
    assert max(map(len, parts(message))) >= 6, "too little of it stays the same to be found"


def test_the_page_quotes_messages_and_others_are_not_found() -> None:
    messages = quoted(PAGE)
    assert len(messages) > 50
    assert not said("this message is in no source of … ATC", source())
    assert not said("a program's descriptors … this machine cannot isolate", source())  # in two texts, not in one
    assert sum(len(max(parts(each), key=len)) >= _SHORTEST for each in messages) > 45
