"""A root that lists the places of a service → a document of its paths: DRF's root, HAL's ``_links``, ``endpoints``.

Of such a root only paths and the names of parameters are taken. What a place is called, and what is said of it, are a
stranger's words that nothing here needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from atc.schemas.identifiers import singular
from atc.schemas.infer.text import may_be_name

Place = Callable[[str], str | None]
"""What a link means: a URL of the service, or ``None`` for one of another origin."""

MAX_LISTED, MAX_LINK, MAX_DEPTH = 300, 500, 4
"""Places of a listing, characters of a link, and levels of nesting that are read."""

_CONTAINERS = frozenset("endpoints routes paths links resources urls apis services operations".split())
_TARGETS = ("href", "path", "url", "uri", "route", "endpoint")
_NO_RESOURCE = frozenset("self curies profile next prev previous first last docs documentation help related".split())
_METHOD = re.compile(r"([A-Z]{3,7})\s{1,4}(?=[/h])")
_EXPRESSION = re.compile(r"\{([?&/+.;#]?)([\w.,*:-]{1,200})\}")
_SLOTS = re.compile(r"<(?:\w{1,20}(?:\([^()<>]{0,40}\))?:)?(\w{1,40})>|(?<=/):(\w{1,40})")
_PATH = re.compile(r"/(?:[\w.~!$&'()*+,;=:@%/-]|\{\w{1,40}\})*", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,39}", re.ASCII)
_ID_KEYS = ("id", "slug", "key", "code", "uuid", "name", "username", "login")


def links_of(value: Any) -> list[str]:
    """The links that a root lists, as it writes them, each once; none where it lists no places."""
    if isinstance(value, Mapping):
        for key in ("_links", "links"):
            if isinstance(value.get(key), Mapping):
                single = {k: v for k, v in value[key].items() if not isinstance(v, list) or len(v) == 1}
                return _unique(_walked({k: v for k, v in single.items() if k not in _NO_RESOURCE}))
        inside = [item for key, item in value.items() if str(key).lower() in _CONTAINERS]
        if inside:
            return _unique(_walked(inside))
        links = [item for key, item in value.items() if key not in _NO_RESOURCE and _is_link(item)]
        return _unique(links) if 2 * len(links) > len(value) else []
    if (
        isinstance(value, list)
        and value
        and all(_is_link(item) or _target(item) is not None for item in value[:MAX_LISTED])
    ):
        return _unique(_walked(value))
    return []


def _unique(links: Iterable[str]) -> list[str]:
    made: dict[str, None] = {}
    for link in links:
        made[link] = None
        if len(made) >= MAX_LISTED:
            break
    return [*made]


def _walked(node: Any, depth: int = 0) -> Iterator[str]:
    if depth > MAX_DEPTH:
        return
    if _is_link(node):
        yield node
    elif isinstance(node, Mapping):
        if (link := _target(node)) is not None:
            yield from [link] if link else []
            return
        for key, item in list(node.items())[:MAX_LISTED]:
            if _is_link(key):
                yield key
            else:
                yield from _walked(item, depth + 1)
    elif isinstance(node, list):
        for item in node[:MAX_LISTED]:
            yield from _walked(item, depth + 1)


def _target(node: Any) -> str | None:
    """Empty where the link is not asked for with GET, ``None`` for no entry."""
    link = next((node[key] for key in _TARGETS if _is_link(node.get(key))), None) if isinstance(node, Mapping) else None
    if link is None:
        return None
    methods = next((node[key] for key in ("method", "methods", "verb", "http_method") if key in node), "GET")
    named = methods if isinstance(methods, list) else re.split(r"[,|\s]{1,4}", str(methods)[:100])
    return link if "GET" in [str(each).upper() for each in named[:20]] else ""


def _is_link(value: Any) -> bool:
    if not isinstance(value, str) or not 1 < len(value) <= MAX_LINK or not value.isprintable():
        return False
    method = _METHOD.match(value)
    rest = value[method.end() :] if method else value
    return rest.startswith(("/", "http://", "https://")) and " " not in rest and (not method or method[1] == "GET")


def operation_of(link: str, place: Place) -> tuple[str, tuple[str, ...]] | None:
    """The path of a link with its slots, and the names of its query's parameters.

    Slots are read as ``{id}`` (RFC 6570), ``<int:id>`` and ``:id``.

    Returns:
        ``None`` where it is of another origin, or no path that a call could fill.
    """
    link = link[method.end() :] if (method := _METHOD.match(link)) else link
    asked: list[str] = []

    def expanded(match: re.Match[str]) -> str:
        names = [name.partition(":")[0].rstrip("*") for name in match[2].split(",")]
        if match[1] in ("?", "&", ";", "#"):
            asked.extend(names if match[1] != "#" else ())
            return ""
        before = match[1] if match[1] in ("/", ".") else ""
        return before + before.join(f"{{{name}}}" for name in names) if before or len(names) == 1 else "{}"

    url = place(_EXPRESSION.sub(expanded, _SLOTS.sub(lambda match: f"{{{match[1] or match[2]}}}", link)))
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.path in ("", "/") or not _PATH.fullmatch(parts.path):
        return None
    asked = [*(name for name, _ in parse_qsl(parts.query, keep_blank_values=True)[:20]), *asked]
    slots = set(re.findall(r"\{(\w+)\}", parts.path))
    names = [name for name in dict.fromkeys(asked) if _NAME.fullmatch(name) and may_be_name(name)]
    return parts.path, tuple(name for name in names if name not in slots)


def item_path(path: str, value: Any, place: Place) -> str | None:
    """The path of one item of a collection, where its items name their own: ``/people/`` → ``/people/{person_id}/``."""
    base = path.rstrip("/") + "/"
    for item in _items(value)[:3]:
        links = item.get("_links")
        own = links if isinstance(links, Mapping) else item
        link = next((link for key in ("self", "url", "href") if (link := _href(own.get(key)))), "")
        url = place(link) if link else None
        found = urlsplit(url).path if url else ""
        segment = found.removeprefix(base).rstrip("/")
        if found.startswith(base) and segment and "/" not in segment:
            return f"{base}{{{_slot_name(path, segment, item)}}}{'/' if found.endswith('/') else ''}"
    return None


def _href(value: Any) -> str:
    link = value.get("href") if isinstance(value, Mapping) else value
    return link if _is_link(link) and isinstance(link, str) else ""


def _items(value: Any) -> list[Mapping[str, Any]]:
    lists = [value] if isinstance(value, list) else []
    for item in list(value.values())[:20] if isinstance(value, Mapping) else ():
        lists += [item] if isinstance(item, list) else [*item.values()][:20] if isinstance(item, Mapping) else []
    found = next((each for each in lists if isinstance(each, list) and each and isinstance(each[0], Mapping)), [])
    return [item for item in found if isinstance(item, Mapping)]


def _slot_name(path: str, segment: str, item: Mapping[str, Any]) -> str:
    """``user_id`` of ``/users``; the name of the field that has the value, where it is another than ``id``."""
    key = next((key for key in _ID_KEYS if str(item.get(key, "")) == segment), "id")
    last = re.sub(r"\W+", "_", path.rstrip("/").rpartition("/")[2], flags=re.ASCII).strip("_").lower()
    words = last.split("_")
    thing = "_".join([*words[:-1], singular(words[-1])])[:30]
    return f"{thing}_{key}" if thing and not thing[0].isdigit() else key


def document_of(title: str, origin: str, listed: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """The OpenAPI document of paths alone: what each takes in its query is named, what it answers is unknown."""
    paths = {}
    for path, asked in listed.items():
        places = [("path", name) for name in dict.fromkeys(re.findall(r"\{(\w+)\}", path))]
        parameters = [
            {"name": name, "in": where, "required": where == "path", "schema": {}}
            for where, name in [*places, *(("query", name) for name in asked)]
        ]
        paths[path] = {"get": {"parameters": parameters, "responses": {"200": {"description": ""}}}}
    info = {"title": title, "version": ""}
    return {"openapi": "3.1.0", "info": info, "servers": [{"url": origin}], "paths": paths}
