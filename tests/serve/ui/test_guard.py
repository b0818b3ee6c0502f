"""Who gets in: the host, the origin, the token, the rights; and what every answer says."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from atc.serve.ui.app import MAX_BODY
from atc.tools.functions import tool
from tests.support.ui import HOST, PORT, serving

pytestmark = pytest.mark.anyio
ORIGIN = f"http://{HOST}"


@tool(effect="read")
def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


async def test_a_token_becomes_a_cookie_and_leaves_the_address() -> None:
    async with serving("unasked", tools=[double]) as caller:
        path, token = caller.ui.keys.path, caller.ui.keys.tokens["run"]
        taken = await caller.send(f"/?token={token}&query=x", right=None)
        assert (taken.status, taken.headers["location"]) == (303, f"{path}/?query=x")
        cookie, *terms = taken.headers["set-cookie"].split("; ")
        assert {term.lower() for term in terms} == {"httponly", "samesite=strict", f"path={path}/".lower()}
        assert token not in cookie
        assert (await caller.send("/", right=None, cookie=cookie)).status == 200
        assert (await caller.send("/", right=None, cookie=f"{cookie}; atc-{PORT}=x; other=y")).status == 200
        assert (await caller.send("/", right=None, cookie=f"atc-{PORT}=x;{cookie}")).status == 200
        assert (await caller.send("/", right=None, cookie=f"atc-{PORT}={token}")).status == 401
        assert (await caller.send("/", right=None, cookie=cookie.replace(str(PORT), "1"))).status == 401
        elsewhere = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
        visit = await caller.send(f"/?token={token}", right=None, **elsewhere)
        assert visit.status == 200
        assert f'content="0;url={path}/"' in visit.body.decode()
        assert token not in visit.body.decode()


@pytest.mark.parametrize("shown", ["", "x", "Bearer", "Basic {}", "Bearer {}x", "Bearer  {}"])
async def test_without_its_token_nothing_is_served(shown: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving("unasked", tools=[double]) as caller:
        token = caller.ui.keys.tokens["run"]
        for path in ("/", "/api/runs", "/api/stream", "/api/approvals", "/runs/20260101-000000-000000"):
            assert (await caller.send(path, right=None, authorization=shown.format(token))).status == 401
        assert (await caller.send("/api/tasks", {"task": "x"}, right=None, origin=ORIGIN)).status == 401
        assert (await caller.send(f"/api/runs?token={token}", right=None)).status == 401
        assert (await caller.send("/?token=x", right=None)).status == 401
        assert (await caller.send(f"/?token={token}&token=x", right=None)).status == 401
        assert (await caller.send("/api/runs", under="")).status == 404
        assert token not in caplog.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": f"evil.example:{PORT}"}, 421),
        ({"host": "127.0.0.1:1"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"host": f"localhost:{PORT}"}, 200),
        ({"host": f"[::1]:{PORT}"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"origin": f"https://{HOST}"}, 403),
        ({"origin": ORIGIN}, 200),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"sec_fetch_site": "none"}, 200),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}, 403),
    ],
)
async def test_other_pages_and_other_names_are_refused(headers: dict[str, str], status: int) -> None:
    async with serving() as caller:
        answered = await caller.send("/api/runs", right="read", **headers)
        assert answered.status == status, answered.body
        assert "access-control-allow-origin" not in answered.headers


async def test_a_frame_of_another_page_gets_nothing() -> None:
    async with serving() as caller:
        site = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
        assert (await caller.send("/", right="read", **site, sec_fetch_dest="iframe")).status == 403
        assert (await caller.send("/", right="read", **site, sec_fetch_dest="document")).status == 200


async def test_every_answer_is_held_to_its_headers() -> None:
    async with serving() as caller:
        for path in ("/", "/api/runs", "/none", "/api/runs/x/events"):
            for right in ("read", None):
                headers = (await caller.send(path, right=right)).headers  # type: ignore[arg-type]
                assert headers["x-content-type-options"] == "nosniff"
                assert headers["referrer-policy"] == "no-referrer"
                assert headers["cache-control"] == "no-store"
                assert headers["cross-origin-resource-policy"] == "same-origin"
                assert "default-src 'none'" in headers["content-security-policy"]
                assert "frame-ancestors 'none'" in headers["content-security-policy"]


async def test_rights_are_those_of_the_address() -> None:
    async with serving("unasked", tools=[double]) as caller:
        for right, may in (("read", []), ("approve", ["approve"])):
            said: Any = right
            assert (await caller.send("/api/runs", right=said)).status == 200
            decided = await caller.send("/api/approvals/x", {"decision": "deny"}, right=said)
            assert decided.status == (404 if "approve" in may else 403)
            for path in ("/api/tasks", "/api/runs/x/resume", "/api/runs/x/stop"):
                refused = await caller.send(path, {}, right=said)
                assert (refused.status, refused.message) == (403, "your address does not give the right to run")
    async with serving() as caller:  # without tools nobody has more than to look
        assert list(caller.ui.keys.tokens) == ["read"]


async def test_a_change_comes_from_our_own_page_as_json() -> None:
    async with serving("unasked", tools=[double]) as caller:
        cookie = f"atc-{PORT}={caller.ui.keys.cookie('run')}"
        task = {"task": " "}

        async def sent(body: Any = task, **headers: str) -> int:
            return (await caller.send("/api/tasks", body, right=None, cookie=cookie, **headers)).status

        assert await sent(origin=ORIGIN) == 400  # an empty task: it was let in
        assert await sent(sec_fetch_site="same-origin") == 400
        assert await sent() == 403
        assert await sent(sec_fetch_site="none") == 403
        assert await sent(origin="http://127.0.0.1:1") == 403
        assert await sent(origin=ORIGIN, content_type="text/plain") == 415
        assert await sent(origin=ORIGIN, content_length=str(MAX_BODY + 1)) == 413
        assert await sent(origin=ORIGIN, content_length="") == 413
        assert await sent(b" " * (MAX_BODY + 1), origin=ORIGIN, content_length="1") == 413
        for bad in (b"{", b"[]", {"task": 1}, {"task": "x", "tools": "y"}, {"task": "x", "dry_run": "no"}):
            assert await sent(bad, origin=ORIGIN) == 400
        assert (await caller.send("/api/tasks", right="run")).status == 405
        assert (await caller.send("/api/runs", right="run", method="DELETE")).status == 405
