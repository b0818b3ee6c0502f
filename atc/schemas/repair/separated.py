"""Lists that a document wants as one text: ``comma-separated ids`` (RETO §3.4: tier 1 of repair)."""

from __future__ import annotations

import re
from typing import Any

from atc.schemas.repair.formats import MISSING
from atc.schemas.repair.places import Place

MAX_ITEMS = 10_000
_SIGNS = {"comma": ",", "semicolon": ";", "pipe": "|"}
_SIGN = re.compile(r"\b(comma|semicolon|pipe)s?\b", re.IGNORECASE)
_PARTED = re.compile(r"\b(?:separat|delimit)\w*|\b(?:divided|split|joined)\b", re.IGNORECASE)


def separator(place: Place) -> str:
    """The sign between the items of a text, as the document of a place names it; empty where it names none, or two."""
    if place.types - {"null"} != {"string"}:
        return ""
    texts = [str(part.schema.get(key, ""))[:2_000] for part in place.parts() for key in ("title", "description")]
    named = {found[1].lower() for text in texts for found in _SIGN.finditer(text)}
    return _SIGNS[named.pop()] if len(named) == 1 and any(map(_PARTED.search, texts)) else ""


def joined(place: Place, value: Any) -> Any:
    """The items of a list as the one text that the document wants; :data:`MISSING` where that would not be the same."""
    if not isinstance(value, list) or not 0 < len(value) <= MAX_ITEMS or not (sign := separator(place)):
        return MISSING
    if not all(isinstance(item, str | int | float) and not isinstance(item, bool) for item in value):
        return MISSING
    texts = [str(item) for item in value]
    return MISSING if any(sign in text or not text.strip() for text in texts) else sign.join(texts)
