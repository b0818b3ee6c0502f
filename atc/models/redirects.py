"""Redirects of a model's endpoint: within its own server they are followed, to another one never.

Prompts hold the task and what tools have answered. They go where the user meant, and nowhere that an endpoint names.
"""

from __future__ import annotations

import httpx


async def stay_on_server(response: httpx.Response) -> None:
    """A response hook for httpx: a redirect to another scheme, host or port becomes an answer like any other."""
    if not response.has_redirect_location:
        return
    here = response.request.url
    try:
        there = here.join(response.headers["location"])
    except (httpx.InvalidURL, UnicodeError):
        there = None
    if there is None or _server(there) != _server(here):
        del response.headers["location"]


def _server(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)
