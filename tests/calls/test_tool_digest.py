"""The digest of a tool changes with all that says what it is, where its calls go and for whom, and with no more."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from atc import Agent, FakeModel, Toolset, tool
from atc._records.events import VERSION
from atc.calls.parked import changed_parts, digest_of, parts_of
from atc.errors import UsageError
from atc.result import Effect
from atc.tools.functions import toolset_of
from atc.tools.mcp.connection import McpServer
from atc.tools.mcp.logins import Login, Logins
from atc.tools.mcp.spec import read_specs
from atc.tools.mcp.transport import McpTransport
from atc.tools.openapi.importer import import_openapi
from atc.tools.tool import ServiceTransport, Tool
from tests.support.tools import make_tool

KEY = "the key of a run"
SECRET = "s3cr3t-value-0123456789"


def changed(before: Tool, after: Tool) -> str:
    """Return the parts that are not equal, one text; that of a tool is equal to itself."""
    assert digest_of(before, KEY) == digest_of(before, KEY) != digest_of(before, "another key")
    assert (digest_of(before, KEY) == digest_of(after, KEY)) == (parts_of(before, KEY) == parts_of(after, KEY))
    return ", ".join(changed_parts(parts_of(before, KEY), parts_of(after, KEY)))


# -- MCP ---------------------------------------------------------------------------------------------------------------


def mcp_tool(entry: Mapping[str, Any]) -> Tool:
    (spec,) = read_specs({"mcpServers": {"bank": entry}})
    server = McpServer(spec, timeout_s=1, start_timeout_s=1, max_bytes=1000)
    return Tool(make_tool("pay", None, Effect.WRITE).protocol, McpTransport("pay", False, server))


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bank").write_text("#!/bin/sh\n")
        (tmp_path / name / "bank").chmod(0o755)
    (tmp_path / "link").symlink_to("one")
    monkeypatch.chdir(tmp_path)
    return tmp_path


LONG = [f"--option-of-the-server-number-{n}" for n in range(6)]
COMMAND: dict[str, Any] = {"command": "python3", "args": ["srv.py", "--account", "ann"]}
HTTP: dict[str, Any] = {"url": "https://b.example/mcp"}
LOGIN: dict[str, Any] = {"client_id": "c", "issuer": "https://i.example"}


@pytest.mark.parametrize(
    ("before", "after", "parts"),
    [
        (COMMAND, COMMAND, ""),
        (COMMAND, COMMAND | {"command": "python4"}, "command"),
        (COMMAND, COMMAND | {"args": ["srv.py", "--account", "evil"]}, "command"),
        ({"command": "x", "args": [*LONG, "ann"]}, {"command": "x", "args": [*LONG, "evil"]}, "command"),
        ({"command": "x", "args": ["a b"]}, {"command": "x", "args": ["a", "b"]}, "command"),
        ({"command": "one/bank"}, {"command": "two/bank"}, "command"),
        (
            {"command": "bank", "env": {"PATH": "one"}},
            {"command": "bank", "env": {"PATH": "two"}},
            "command, variable PATH",
        ),
        (COMMAND | {"cwd": "one"}, COMMAND | {"cwd": "two"}, "folder"),
        (COMMAND, COMMAND | {"cwd": "two"}, "folder"),
        (COMMAND | {"env": {"ACCOUNT": "ann"}}, COMMAND | {"env": {"ACCOUNT": "evil"}}, "variable ACCOUNT"),
        (COMMAND | {"env": {"A": "1"}}, COMMAND | {"env": {"B": "1"}}, "variable A, variable B"),
        (COMMAND | {"env": {"A": "1", "B": "2"}}, COMMAND | {"env": {"B": "2", "A": "1"}}, ""),
        (HTTP, HTTP, ""),
        (HTTP, {"url": "https://c.example/mcp"}, "address"),
        (HTTP, {"url": "https://b.example:444/mcp"}, "address"),
        ({"url": "https://b.example/mcp?account=1"}, {"url": "https://b.example/mcp?account=2"}, "address"),
        ({"url": "https://b.example/a8f3k29d0s8f7g6h"}, {"url": "https://b.example/z9x8c7v6b5n4m3a2"}, "address"),
        ({"url": "https://ann@b.example/mcp"}, {"url": "https://evil@b.example/mcp"}, "address"),
        (HTTP | {"headers": {"X-Account": "1"}}, HTTP | {"headers": {"X-Account": "2"}}, "header x-account"),
        (
            HTTP | {"headers": {"Authorization": "1"}},
            HTTP | {"headers": {"authorization": "2"}},
            "header authorization",
        ),
        (HTTP | {"headers": {"X-A": "1"}}, HTTP | {"headers": {"x-a": "1"}}, ""),
        (HTTP | {"oauth": LOGIN}, HTTP | {"oauth": LOGIN | {"client_id": "d"}}, "client"),
        (HTTP | {"oauth": LOGIN}, HTTP | {"oauth": LOGIN | {"issuer": "https://j.example"}}, "client"),
        (HTTP | {"oauth": LOGIN}, HTTP | {"oauth": LOGIN | {"scope": "all"}}, "client"),
        (HTTP | {"oauth": LOGIN | {"client_secret": "1"}}, HTTP | {"oauth": LOGIN | {"client_secret": "2"}}, ""),
        (COMMAND, HTTP, "command, folder, address"),
    ],
)
def test_a_server_is_another_place(
    places: Path, monkeypatch: pytest.MonkeyPatch, before: dict[str, Any], after: dict[str, Any], parts: str
) -> None:
    monkeypatch.setattr(Logins, "read", lambda self, url: None)
    assert changed(mcp_tool(before), mcp_tool(after)) == parts


def test_what_a_name_stands_for_is_looked_at_when_it_counts(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bank = mcp_tool({"command": "./bank", "cwd": "link"})
    before = parts_of(bank, KEY)
    (places / "link").unlink()
    (places / "link").symlink_to("two")
    assert changed_parts(before, parts_of(bank, KEY)) == ("folder",)
    relative = mcp_tool({"command": "./bank"})
    before = parts_of(relative, KEY)
    monkeypatch.chdir("one")
    assert changed_parts(before, parts_of(relative, KEY)) == ("folder",)
    linked = mcp_tool({"command": "x", "args": ["../link/written.txt"]})
    before = parts_of(linked, KEY)
    (places / "two" / "written.txt").write_text("by a call")
    assert changed_parts(before, parts_of(linked, KEY)) == ()
    (places / "link").unlink()
    (places / "link").symlink_to("one")
    assert changed_parts(before, parts_of(linked, KEY)) == ("command",)


def jwt(**claims: str) -> str:
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.sig"


@pytest.mark.parametrize(
    ("before", "after", "parts"),
    [
        ({}, {"token": "refreshed"}, ""),
        ({"token": jwt(sub="ann", jti="1")}, {"token": jwt(sub="ann", jti="2")}, ""),
        ({"token": jwt(sub="ann")}, {"token": jwt(sub="evil")}, "login"),
        ({"client": "c"}, {"client": "d"}, "login"),
        ({"subject": "1"}, {"subject": "2"}, "login"),
        ({}, None, "login"),
        (None, {}, "login"),
    ],
)
def test_a_login_is_its_client_and_subject(
    monkeypatch: pytest.MonkeyPatch, before: dict[str, str] | None, after: dict[str, str] | None, parts: str
) -> None:
    found = []
    for given in (before, after):
        login = None
        if given is not None:
            client = OAuthClientInformationFull(client_id=given.get("client", "c"))
            token = OAuthToken(access_token=given.get("token", "one"))
            login = Login(url=HTTP["url"], token=token, client=client, subject=given.get("subject", ""))
        monkeypatch.setattr(Logins, "read", lambda self, url, login=login: login)
        found.append(parts_of(mcp_tool(HTTP), KEY))
    assert ", ".join(changed_parts(*found)) == parts


# -- HTTP --------------------------------------------------------------------------------------------------------------

SCHEMES = {
    "basic": {"type": "http", "scheme": "basic"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "oauth": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://i.example/t", "scopes": {}}}},
}
CLIENT = {"client_id": "c", "client_secret": "s"}


def http_tool(
    auth: Any = None, *, path: str = "/pay", method: str = "post", url: str = "https://b.example/v1", **given: Any
) -> Tool:
    schemes = given.pop("schemes", SCHEMES)
    security = [{name: []} for name in auth or ()]
    to = {"name": "to", "in": given.pop("place", "query"), "schema": {"type": "string"}}
    operation = {
        "operationId": "pay",
        "responses": {"200": {"description": "paid"}},
        "security": security,
        "parameters": [to],
    }
    document = {
        "openapi": "3.0.0",
        "info": {"title": "bank", "version": "1"},
        "servers": [{"url": url}],
        "components": {"securitySchemes": schemes},
        "paths": {path: {method: operation}},
    }
    return import_openapi(document, auth=auth, **given)["pay"]


@pytest.mark.parametrize(
    ("before", "after", "parts"),
    [
        ({}, {}, ""),
        ({}, {"path": "/refund"}, "operation"),
        ({}, {"method": "put"}, "operation"),
        ({"place": "query"}, {"place": "header"}, "operation"),
        ({}, {"url": "https://b.example/v2"}, "address"),
        ({}, {"url": "https://c.example/v1"}, "address"),
        ({}, {"base_url": "https://c.example/v1"}, "address"),
        ({"headers": {"X-Account": "1"}}, {"headers": {"X-Account": "2"}}, "header x-account"),
        ({"headers": {"Cookie": "sid=1"}}, {"headers": {"Cookie": "sid=2"}}, "header cookie"),
        *(({"auth": {n: "ann:1"}}, {"auth": {n: "bob:1"}}, f"credential {n}") for n in SCHEMES),
        ({"auth": {"basic": "api:1"}}, {"auth": {"basic": "api:2"}}, "credential basic"),
        ({"auth": {"header": "1"}}, {"auth": {"query": "1"}}, "credential header, credential query"),
        (
            {"auth": {"header": "1"}},
            {"auth": {"header": "1"}, "schemes": {"header": SCHEMES["header"] | {"name": "X-Other"}}},
            "credential header",
        ),
        *(
            ({"auth": {"oauth": CLIENT}}, {"auth": {"oauth": CLIENT | more}}, "credential oauth")
            for more in (
                {"client_id": "d"},
                {"token_url": "https://j.example/t"},
                {"audience": "a"},
                {"scope": "b"},
                {"refresh_token": "r"},
            )
        ),
        ({"auth": {"oauth": CLIENT}}, {"auth": {"oauth": CLIENT | {"client_secret": "t"}}}, ""),
    ],
)
def test_an_operation_is_at_another_place(before: dict[str, Any], after: dict[str, Any], parts: str) -> None:
    assert changed(http_tool(**before), http_tool(**after)) == parts


# -- functions ---------------------------------------------------------------------------------------------------------

BANK = """
import functools
def send(n): return ("ann", n)
def loud(f):
    @functools.wraps(f)
    def inner(n): return f(n)
    return inner
def quiet(f):
    def inner(n): return f(n)
    return inner
class Bank:
    def pay(self, n: int): return self.send(n)
    def send(self, n): return ("ann", n)
    def __call__(self, n: int): return self.send(n)
def pay(n: int): return send(n)
"""
USES: dict[str, Callable[[ModuleType], Any]] = {
    "a function": lambda bank: bank.pay,
    "a wrapped one": lambda bank: bank.loud(bank.pay),
    "one in a closure": lambda bank: bank.quiet(bank.pay),
    "a method": lambda bank: bank.Bank().pay,
    "a part of one": lambda bank: functools.partial(bank.pay),
    "an object": lambda bank: bank.Bank(),
}


class OfUser:
    """A transport of the user's own."""

    def __init__(self, function: Any) -> None:
        self.function = function

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        return self.function(**arguments)

    def opened(self) -> None:
        return None


@pytest.mark.parametrize("readable", [True, False], ids=["source", "bytes"])
@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_a_function_is_its_code_and_that_of_what_it_rests_on(
    tmp_path: Path, use: Callable[[ModuleType], Any], readable: bool
) -> None:
    def made(name: str, text: str) -> Tool:
        module, file = ModuleType("bank"), tmp_path / name / "bank.py"
        file.parent.mkdir()
        file.write_text(text if readable else "")
        exec(compile(text, str(file), "exec"), module.__dict__)  # noqa: S102 - as an import would
        return Tool(make_tool("pay", None, Effect.WRITE).protocol, OfUser(use(module)))

    same = [made("1", BANK), made("2", BANK.replace("import functools", "import functools, os") if readable else BANK)]
    assert changed(*same) == ""
    assert changed(same[0], made("3", BANK.replace('"ann"', '"evil"'))) == "code"


def test_what_a_function_reads_is_no_part_of_it() -> None:
    def pay_to(token: str) -> Tool:
        @tool(effect="write")
        def pay(n: int) -> str:
            """Pay."""
            return token

        return toolset_of([pay])["pay"]

    assert changed(pay_to("one"), pay_to("refreshed")) == ""


# -- a yes -------------------------------------------------------------------------------------------------------------


class Account(ServiceTransport):
    """Pays from an account that changes."""

    def __init__(self, account: dict[str, str], sent: list[str]) -> None:
        self._account, self._sent = account, sent

    @property
    def account(self) -> dict[str, str]:
        return dict(self._account)

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        self._sent.append(self._account["header x-account"])
        return 1

    def opened(self) -> None:
        return None


@pytest.mark.parametrize("how", ["parked", "undecided", "plan", "while asked", "older format"])
def test_a_yes_for_one_account_is_none_for_another(tmp_path: Path, how: str) -> None:
    account, sent = {"header x-account": SECRET, "variable HOME": "/home/ann"}, list[str]()
    pay = Tool(make_tool("pay", None, Effect.WRITE).protocol, Account(account, sent))
    given: dict[str, Any] = {"runs_dir": tmp_path, "sentence": False, "learn": False, "max_revisions": 0}

    def change(request: Any = None) -> bool:
        account["header x-account"] = "evil"
        return True

    def agent(approve: Any = "park") -> Agent:
        return Agent(Toolset([pay]), model=FakeModel(["answer = pay()"]), approve=approve, **given)

    waiting = agent(change if how == "while asked" else "park").run("Pay", dry_run=how == "plan")
    if how == "parked":
        agent().approve(waiting.run_id)
    change()
    if how == "while asked":
        assert (waiting.status, waiting.calls[0].refused_by) == ("denied", "nobody")
    elif how == "plan":
        denied = agent().apply(waiting.run_id)
        assert (denied.status, "the header x-account changed" in str(denied.fault)) == ("denied", True)
    elif how == "older format":
        trace = tmp_path / waiting.run_id / "trace.jsonl"
        trace.write_text(trace.read_text().replace(f'"v": {VERSION}', f'"v": {VERSION - 1}'))
        for goes_on in (agent().approve, agent().resume):
            with pytest.raises(UsageError, match=f"has format {VERSION - 1}, and this version of ATC reads"):
                goes_on(waiting.run_id)
    else:
        (asked,) = agent().resume(waiting.run_id).pending
        told = "since this call was asked about before, the header x-account changed: no approval of then holds"
        assert (asked.warnings, sent) == ((told,), [])
        agent().approve(waiting.run_id)
        assert (agent().resume(waiting.run_id).status, sent.pop()) == ("answered", "evil")
    assert sent == []
    assert SECRET not in "".join(each.read_text() for each in tmp_path.rglob("*") if each.is_file())
