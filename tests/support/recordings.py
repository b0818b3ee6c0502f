"""Recordings of a browser for tests, made entry by entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

SHOP = "https://shop.example.com"


def call(
    url: str,
    answer: Any = None,
    *,
    method: str = "GET",
    status: int = 200,
    sent: Any = None,
    form: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
    set_cookies: tuple[str, ...] = (),
    media_type: str = "application/json",
    at: str = "2026-03-01T10:00:00.000Z",
    **more: Any,
) -> dict[str, Any]:
    """One entry, as Chrome writes it.

    Args:
        url: absolute, or a path of :data:`SHOP`.
        answer: JSON, or the text itself where it is one; ``None`` for no body.
        sent: the JSON body of the request. ``form``: its fields instead.
        **more: further keys of the entry, ``_resourceType`` say.
    """
    request: dict[str, Any] = {
        "method": method,
        "url": url if "//" in url else f"{SHOP}{url}",
        "httpVersion": "http/2.0",
        "headers": [{"name": name, "value": value} for name, value in (headers or {}).items()],
        "queryString": [],
        "cookies": [],
        "headersSize": -1,
        "bodySize": -1,
    }
    if sent is not None:
        request["postData"] = {"mimeType": "application/json", "text": json.dumps(sent)}
    if form is not None:
        fields = [{"name": name, "value": value} for name, value in form.items()]
        mime = "application/x-www-form-urlencoded"
        request["postData"] = {"mimeType": mime, "text": urlencode(form), "params": fields}
    content: dict[str, Any] = {"size": 0, "mimeType": media_type}
    if answer is not None:
        content["text"] = answer if isinstance(answer, str) else json.dumps(answer)
    return {
        "startedDateTime": at,
        "time": 12.5,
        "request": request,
        "response": {
            "status": status,
            "statusText": "",
            "headers": [{"name": "set-cookie", "value": cookie} for cookie in set_cookies],
            "cookies": [],
            "content": content,
            "redirectURL": "",
            "headersSize": -1,
            "bodySize": -1,
        },
        "cache": {},
        "timings": {"send": 0, "wait": 10, "receive": 1},
        "pageref": "page_1",
        **more,
    }


def page(url: str = "/", **more: Any) -> dict[str, Any]:
    """The entry of a page."""
    return call(url, "<html></html>", media_type="text/html", _resourceType="document", **more)


def write(path: Path, *entries: dict[str, Any]) -> Path:
    """Write a recording of these entries, for its owner alone."""
    log = {"version": "1.2", "creator": {"name": "test", "version": "1"}, "pages": [], "entries": list(entries)}
    path.write_text(json.dumps({"log": log}), encoding="utf-8")
    path.chmod(0o600)
    return path
