"""Which base URL an operation has."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin, urlsplit

from atc._host.addresses import is_loopback
from atc.errors import UsageError
from atc.schemas.protocol import origin_of

_VARIABLE = re.compile(r"\{([^{}]{1,200})\}")
_MAX_URL = 8_000
THIS_MACHINE = "localhost"
"""Whatever name it is called by."""
_PASS_BASE_URL = "pass base_url='https://…' to the import (`atc run --openapi service_url=https://…`)"


def checked_base_url(url: str) -> str:
    """Check a base URL that the user gave.

    Returns:
        The URL without a trailing slash.

    Raises:
        UsageError: it is no plain http(s) URL.
    """
    problem = _problem(url)
    if problem:
        raise UsageError(
            f"base_url (service_url=…) {problem}; give scheme, host and path only, 'https://api.example.org/v1' say"
        )
    return url.rstrip("/")


def server_url(servers: Any, document_url: str | None, given: dict[str, str]) -> tuple[str | None, str]:
    """The base URL out of a list of servers: the first that can be used, by https if the list has the same so too.

    Args:
        servers: ``servers`` as the document has it.
        document_url: the URL that the document was read from.
        given: values of server variables from the user.

    Returns:
        The URL without a trailing slash and ``""``, or ``None`` and what is missing.

    Raises:
        UsageError: a value that the document does not allow for its variable.
    """
    usable: list[str] = []
    first_problem = ""
    for server in servers if isinstance(servers, list) and servers else [{"url": "/"}]:
        if not isinstance(server, dict) or not isinstance(server.get("url"), str):
            continue
        url, problem = _filled(server, given)
        if not problem:
            url = _absolute(url, document_url)
            problem = _problem(url)
        if problem:
            first_problem = first_problem or problem
        else:
            usable.append(url.rstrip("/"))
            if usable[0].startswith("https:"):
                break
    if not usable:
        return None, f"the document's server {first_problem or 'is missing'}: {_PASS_BASE_URL}"
    place = _place(usable[0])
    return next((url for url in usable if url.startswith("https:") and _place(url) == place), usable[0]), ""


def other_place(server: str | None, document_url: str | None) -> str:
    """The base URL at the place of a document's URL, where its server is another one that looks like a slip.

    A document may well be published elsewhere than its service. But at another port of the same machine, or read from
    this machine, it is as a rule one that its service hands out without knowing its own address."""
    if server is None or document_url is None:
        return ""
    named, found = _address(server), _address(document_url)
    if named == found or found[0] not in (named[0], THIS_MACHINE):
        return ""
    return origin_of(document_url) + urlsplit(server).path


def _address(url: str) -> tuple[str, int | None]:
    """Machine and port; no port for those of http and https, which a service often has both of."""
    parts = urlsplit(url)
    here = not is_open_to_others(f"http://{parts.netloc}")
    return (THIS_MACHINE if here else parts.hostname or ""), (None if parts.port in (80, 443) else parts.port)


def is_open_to_others(url: str) -> bool:
    """Whether what is sent to a URL can be read on its way: plain http to another machine."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    return not (parts.scheme == "https" or host.endswith(".localhost") or is_loopback(host))


def _place(url: str) -> tuple[str | None, str]:
    parts = urlsplit(url)
    return parts.hostname, parts.path


def variables_of(servers: Any) -> set[str]:
    """The names of the variables in a list of servers."""
    urls = [server.get("url") for server in servers if isinstance(server, dict)] if isinstance(servers, list) else []
    return {name for url in urls if isinstance(url, str) for name in _VARIABLE.findall(url)}


def _absolute(url: str, document_url: str | None) -> str:
    if document_url is None:
        return f"https:{url}" if url.startswith("//") else url
    try:
        return urljoin(document_url, url)
    except ValueError:
        return url  # no URL either way, as will be said


def _filled(server: dict[str, Any], given: dict[str, str]) -> tuple[str, str]:
    variables = server.get("variables")
    url, values, size = server["url"], dict[str, str](), 0
    if len(url) > _MAX_URL:
        return url[:_MAX_URL], f"is longer than {_MAX_URL:,} characters"
    for name in dict.fromkeys(_VARIABLE.findall(url)):
        declared = variables.get(name) if isinstance(variables, dict) else None
        declared = declared if isinstance(declared, dict) else {}
        allowed = declared.get("enum")
        value = given.get(name, declared.get("default"))
        if name in given and isinstance(allowed, list) and allowed and given[name] not in allowed:
            choices = ", ".join(repr(choice) for choice in allowed[:20])
            raise UsageError(f"server_variables[{name!r}] is {given[name]!r}; the document allows {choices}")
        if value is None or isinstance(value, (dict, list)):
            return url, f"has the variable {name!r} without a default (server_variables can give it)"
        values[name] = str(value)
        size += len(values[name]) * url.count(f"{{{name}}}")
        if size > _MAX_URL:
            return url, f"is longer than {_MAX_URL:,} characters, its variables filled in"
    return _VARIABLE.sub(lambda found: values[found[1]], url), ""


def _problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is no valid URL"
    if parts.scheme not in ("http", "https"):
        return (
            f"{url[:80]!r} is relative"
            if not parts.scheme
            else f"has the scheme {parts.scheme[:20]!r}, not http or https"
        )
    if not host or any(ord(char) <= 32 for char in url):
        return "is no valid URL"
    if "@" in parts.netloc:
        return "holds a user or password (credentials belong in auth=)"
    return "has a query or fragment" if parts.query or parts.fragment else ""
