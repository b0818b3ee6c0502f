"""Texts of tools and programs, as a client's model is shown them: one line, without control characters, bounded."""

from __future__ import annotations

from atc.invisible import JOINERS, legible

MORE = "…"


def one_line(text: str, limit: int) -> str:
    """A text in one line of so many characters at most: a line break could begin what looks like our own words."""
    text = legible(text[: 4 * limit])
    line = " ".join("".join(each if each.isprintable() or each in JOINERS else " " for each in text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}{MORE}"


def cut(text: str, limit: int) -> str:
    """The beginning of a text, with a sign where something was left out."""
    return text if len(text) <= limit else f"{text[: limit - 1]}{MORE}"


def cut_front(text: str, limit: int) -> str:
    """The end of a text, with a sign where something was left out."""
    return text if len(text) <= limit else f"{MORE}{text[1 - limit :]}"
