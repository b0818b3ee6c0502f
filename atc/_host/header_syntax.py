"""What the name and the value of an HTTP header, or of a cookie, may be."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}\Z")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")


def is_token(text: str) -> bool:
    """Return whether ``text`` may be the name of a header or a cookie."""
    return _TOKEN.match(text) is not None


def is_header_value(text: str) -> bool:
    """Return whether ``text`` may be a header's value: no control character (so no line break), Latin-1 only."""
    return _HEADER_VALUE.fullmatch(text) is not None
