"""The credentials for a server, and their removal from every text and value that comes from it."""

from __future__ import annotations

import logging
import os
import re
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from atc.secret_forms import SecretForms, without_scheme

REDACTED = "[redacted]"
_SECRET_NAME = re.compile(r"key|token|secret|passw|passphrase|credential|auth|bearer|cookie|_pat$|_pwd$", re.IGNORECASE)
_NAMED = re.compile(r"-{0,2}([\w.-]{1,100})\s{0,5}[=:]\s{0,5}(\S.*)", re.DOTALL)
_LOOKS_RANDOM = re.compile(r"(?=[^/]*\d)[\w.~%+=-]{16,}")
_SHORTEST = 4
_LONG = 8


class Secrets:
    """Values that are taken out wherever they stand.

    Args:
        certain: credentials; in messages from four characters on, in values from eight.
        likely: what may be one (``production``, ``true``): from eight characters on.
    """

    def __init__(self, certain: Iterable[str] = (), likely: Iterable[str] = ()) -> None:
        self._known: set[str] = set()
        self._forms = self._long = SecretForms(())
        self.add([*certain, *(value for value in likely if len(value.strip()) >= _LONG)])
        _LOG_FILTER.watch(self)

    def add(self, certain: Iterable[str]) -> None:
        """Credentials that came to be known only now: a token, say."""
        given = {value.strip() for each in certain for value in without_scheme(each)}
        self._known |= {value for value in given if len(value) >= _SHORTEST}
        self._forms = SecretForms(self._known)
        self._long = SecretForms(value for value in self._known if len(value) >= _LONG)

    def __repr__(self) -> str:
        return f"Secrets({len(self._known)})"

    def text(self, text: str) -> str:
        """A message without them."""
        return self._forms.masked(text, REDACTED)

    def value(self, value: Any) -> Any:
        """A JSON value without them, in keys too."""
        if not self._long:
            return value
        if isinstance(value, str):
            return self._long.masked(value, REDACTED)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.value(key): self.value(item) for key, item in value.items()}
        return value


def sort_values(named: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The values of variables or headers: those that are credentials by name, and those that may be.

    What names files that exist is a path: the server will speak of it, and programs need to hear that.
    """
    certain = [value for name, value in named.items() if _SECRET_NAME.search(name)]
    likely = [v for n, v in named.items() if not _SECRET_NAME.search(n) and not _is_path(v)]
    return certain, likely


def in_arguments(words: Sequence[str]) -> list[str]:
    """The credentials on a command line: ``--token X``, ``API_KEY=X``, ``Authorization: X``, passwords in URLs."""
    found = []
    for word, following in zip(words, [*words[1:], ""], strict=True):
        named = _NAMED.fullmatch(word)
        if named and _SECRET_NAME.search(named[1]):
            found.append(named[2])
        elif word.startswith("-") and _SECRET_NAME.search(word) and not following.startswith("-"):
            found.append(following)
        if "://" in word:
            found += in_url(named[2] if named and "://" in named[2] else word)
    return found


def in_url(url: str) -> list[str]:
    """The credentials of a URL: its password, the values of its query, and parts of its path that look random."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    login = parts.netloc.rpartition("@")[0]
    values = [value for _, value in parse_qsl(parts.query)] + [login.partition(":")[2] or login]
    return [*values, *(step for step in parts.path.split("/") if _LOOKS_RANDOM.fullmatch(step))]


def shown_url(url: str) -> str:
    """A URL without anything that may be a credential."""
    parts = urlsplit(url)
    path = "/".join("…" if _LOOKS_RANDOM.fullmatch(step) else step for step in parts.path.split("/"))
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))


def _is_path(value: str) -> bool:
    return all(os.path.exists(part) for part in value.split(os.pathsep)) if "\0" not in value else False


_FORMATTER = logging.Formatter()


class _LogFilter(logging.Filter):
    """Keeps credentials out of the log of the SDK and of its HTTP client, which write whole URLs and answers."""

    def __init__(self) -> None:
        super().__init__()
        self._watched: weakref.WeakSet[Secrets] = weakref.WeakSet()

    def watch(self, secrets: Secrets) -> None:
        self._watched.add(secrets)

    def filter(self, record: logging.LogRecord) -> bool:
        if not len(self._watched):
            return True
        message = record.getMessage()
        clean = message
        for secrets in list(self._watched):
            clean = secrets.text(clean)
        if clean != message:
            record.msg, record.args = clean, None
        if record.exc_info:
            text = _FORMATTER.formatException(record.exc_info)
            for secrets in list(self._watched):
                text = secrets.text(text)
            record.exc_text, record.exc_info = text, None  # every formatter writes the text
        return True


_LOG_FILTER = _LogFilter()
for _name in (
    "httpx2",
    "client",
    "mcp.client.auth.oauth2",
    "mcp.client.auth.utils",
    "mcp.client.streamable_http",
    "mcp.client.client",
    "mcp.shared.jsonrpc_dispatcher",
):
    _logger = logging.getLogger(_name)
    _logger.addFilter(_LOG_FILTER)
    _logger.addHandler(logging.NullHandler())  # without a log of the user's, nothing is printed into our output
