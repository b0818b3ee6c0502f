"""The words in the body of an error, of whichever form: every provider has its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape
from typing import Any

_DEEP = 6
_MOST = 8
"""Findings of one body that are told."""
_READ = 20_000
_PAGE = re.compile(r"\s*(?:<!doctype html|<html)", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]{0,200}>(.{1,300}?)</title>", re.IGNORECASE | re.DOTALL)


def body_words(body: Any) -> str:
    """The words of a parsed body; empty where it has none that are known.

    ``{"error": {"message": …}}`` is OpenAI's form, and of most; Gemini puts it into a list, Mistral and FastAPI send
    findings with their places under ``detail``, Ollama a text under ``error``, OpenRouter the words of the provider
    behind it under ``metadata``.
    """
    return _words(body, _DEEP).strip()


def told(message: str, body: Any) -> str:
    """The message of an error of the ``openai`` package, with the words of its body where the package finds none.

    It reads ``{"error": {"message": "…"}}`` alone: of any other form its message is the status.
    """
    words = body_words(body)
    return message if not words or words in message else f"{message} {words}"


def page_words(text: str) -> str:
    """What a page of HTML says, in place of the page; any other text as it is."""
    if not _PAGE.match(text[:500]):
        return text
    title = _TITLE.search(text[:_READ])
    named = " ".join(unescape(title[1]).split()) if title else "no title"
    return f"a page of HTML ({named}), so something that is no API answered: check the address"


def _words(body: Any, depth: int) -> str:
    if depth == 0 or body is None:
        return ""
    if isinstance(body, str):
        return page_words(body)
    if isinstance(body, list):
        return "; ".join(filter(None, (_words(each, depth - 1) for each in body[:_MOST])))
    if not isinstance(body, Mapping):
        return ""
    for name in ("error", "message", "detail"):
        if words := _words(body.get(name), depth - 1):
            behind = _words(_member(body.get("metadata"), "raw"), 1)
            return f"{words} ({behind})" if behind and behind not in words else words
    if isinstance(body.get("msg"), str):  # of a validation: the place, and what is wrong there
        place = ".".join(str(part) for part in body.get("loc", ()) if part != "body")
        return f"{place}: {body['msg']}" if place else str(body["msg"])
    return ""


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None
