"""What a browser's network tab saves: the requests of a page, from the events of the DevTools protocol → HAR 1.2."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.support.browser import Page


class Recorder:
    """Records one page, as long as :func:`recording` lasts."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._entries: list[dict[str, Any]] = []
        self._open: dict[str, dict[str, Any]] = {}
        self._sent: dict[str, list[Any]] = {}
        self._got: dict[str, list[Any]] = {}
        self._done: list[str] = []

    def hear(self, event: dict[str, Any]) -> None:
        """Take one event. The extra ones have the headers as they went over the wire, cookies among them."""
        given = event.get("params", {})
        name, key = event.get("method"), given.get("requestId", "")
        if name == "Network.requestWillBeSent":
            if "redirectResponse" in given and key in self._open:
                self._answered(key, given["redirectResponse"], given["request"]["url"])
            self._open[key] = self._entry(given)
        elif name == "Network.requestWillBeSentExtraInfo":
            self._sent.setdefault(key, []).append(given["headers"])
        elif name == "Network.responseReceivedExtraInfo":
            self._got.setdefault(key, []).append(given["headers"])
        elif name == "Network.responseReceived" and key in self._open:
            self._answered(key, given["response"], "")
        elif name == "Network.loadingFinished":
            self._done.append(key)

    def take_bodies(self) -> None:
        """Ask for the bodies of what has ended: the browser forgets them with the page that it leaves."""
        for key in [*self._done]:
            self._done.remove(key)
            entry = next((each for each in reversed(self._entries) if each["_key"] == key), None)
            if entry is None or 300 <= entry["response"]["status"] < 400:
                continue
            try:
                got = self._page.send("Network.getResponseBody", requestId=key)
            except AssertionError:  # of a page that was left meanwhile
                continue
            text = base64.b64decode(got["body"]).decode("utf-8", "replace") if got["base64Encoded"] else got["body"]
            entry["response"]["content"] |= {"text": text, "size": len(text)}

    def har(self) -> dict[str, Any]:
        """The recording."""
        entries = []
        for entry in self._entries:
            key = entry["_key"]
            made = {name: each for name, each in entry.items() if name != "_key"}
            if self._sent.get(key):
                _set_headers(made["request"], self._sent[key].pop(0))
            if self._got.get(key):
                _set_headers(made["response"], self._got[key].pop(0))
            entries.append(made)
        started = entries[0]["startedDateTime"] if entries else datetime.now(UTC).isoformat()
        page = {"id": "page_1", "startedDateTime": started, "title": entries[0]["request"]["url"], "pageTimings": {}}
        return {
            "log": {
                "version": "1.2",
                "creator": {"name": "tests", "version": "1"},
                "pages": [page],
                "entries": entries,
            }
        }

    def _entry(self, given: Mapping[str, Any]) -> dict[str, Any]:
        request = given["request"]
        query = parse_qsl(urlsplit(request["url"]).query, keep_blank_values=True)
        made: dict[str, Any] = {
            "method": request["method"],
            "url": request["url"],
            "httpVersion": "http/1.1",
            "headers": _listed(request["headers"]),
            "cookies": [],
            "queryString": [{"name": name, "value": value} for name, value in query],
            "headersSize": -1,
            "bodySize": len(request.get("postData", "")),
        }
        if "postData" in request:
            kind = next((v for n, v in request["headers"].items() if n.lower() == "content-type"), "")
            made["postData"] = {"mimeType": kind, "text": request["postData"]}
        return {
            "startedDateTime": datetime.fromtimestamp(given["wallTime"], UTC).isoformat(timespec="milliseconds"),
            "time": 1,
            "request": made,
            "pageref": "page_1",
            "_resourceType": given.get("type", "").lower(),
        }

    def _answered(self, key: str, response: Mapping[str, Any], target: str) -> None:
        entry = self._open.pop(key)
        entry["_key"] = key
        entry["response"] = {
            "status": response["status"],
            "statusText": response["statusText"],
            "httpVersion": "http/1.1",
            "headers": _listed(response["headers"]),
            "cookies": [],
            "content": {"size": 0, "mimeType": response["mimeType"]},
            "redirectURL": target,
            "headersSize": -1,
            "bodySize": -1,
        }
        entry["cache"], entry["timings"] = {}, {"send": 0, "wait": 1, "receive": 0}
        self._entries.append(entry)


def saved(har: Mapping[str, Any], path: Path) -> Path:
    """Write a recording for its owner alone."""
    path.touch(mode=0o600)
    path.write_text(json.dumps(har))
    return path


@contextmanager
def recording(page: Page) -> Iterator[Recorder]:
    """Record what a page does."""
    recorder = Recorder(page)
    page.listeners.append(recorder.hear)
    try:
        yield recorder
    finally:
        page.listeners.remove(recorder.hear)


def _listed(headers: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": each} for name, value in headers.items() for each in value.split("\n")]


def _set_headers(part: dict[str, Any], headers: Mapping[str, str]) -> None:
    part["headers"] = _listed(headers)
    for each in part["headers"]:
        if each["name"].lower() in ("cookie", "set-cookie"):
            part["cookies"] += _cookies(each["value"])


def _cookies(text: str) -> list[dict[str, Any]]:
    try:
        parsed = SimpleCookie(text)
    except CookieError:
        return []
    return [{"name": name, "value": each.value, **_until(each)} for name, each in parsed.items()]


def _until(morsel: Mapping[str, str]) -> dict[str, str]:
    if morsel["max-age"]:
        return {"expires": datetime.fromtimestamp(datetime.now().timestamp() + int(morsel["max-age"]), UTC).isoformat()}
    return {"expires": parsedate_to_datetime(morsel["expires"]).isoformat()} if morsel["expires"] else {}
