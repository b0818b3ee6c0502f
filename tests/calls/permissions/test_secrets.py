"""What no program of a client gets at: ATC's environment, its files, its credentials, and what other clients did."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from atc.calls.approval import ApprovalRequest
from atc.errors import ToolError, UsageError
from atc.result import Effect
from atc.serve.mcp.client import ClientId
from atc.serve.mcp.gateway import Gateway
from atc.serve.mcp.reports import ProgramReport
from atc.settings import Settings
from atc.tools.tool import Toolset
from tests.support.tools import make_tool

SECRET = "zq-credential-81723"


def leaking(arguments: dict[str, Any]) -> Any:
    if arguments["n"] == 1:
        raise ToolError(f"401: the key {SECRET} is wrong")
    return {"seen": f"key={SECRET}"}


TOOLS = Toolset([make_tool("leak", leaking), make_tool("keep", lambda given: given["n"], Effect.WRITE)])

LOOKS = """
import os
found = dict(os.environ)
for path in ("/proc/self/environ", "/proc/1/environ", "/proc/{pid}/environ", "{audit}", "{runs}"):
    try:
        found[path] = open(path, "rb").read().decode("utf-8", "replace")
    except OSError as error:
        found[path] = "no"
answer = found if keep(n=1) else None
"""


def yes(request: ApprovalRequest) -> bool:
    return True


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Gateway:
    monkeypatch.delenv("ATC_CATALOGUE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ATC_API_KEY", SECRET)
    monkeypatch.setenv("PLAIN_THING", "plain-value-55512")
    return Gateway(TOOLS, Settings.load())


def ran(gateway: Gateway, *programs: tuple[str, str], revises: str = "") -> list[ProgramReport]:
    async def run() -> list[ProgramReport]:
        try:
            return [
                await gateway.run_program(
                    gateway.client(ClientId("token", who)), source, asker=yes, revises=revises, inputs=None
                )
                for who, source in programs
            ]
        finally:
            await gateway.aclose()

    return asyncio.run(run())


def test_a_program_gets_neither_the_environment_nor_files_of_atc(gateway: Gateway, tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").write_text("audit-line-9912\n")
    source = LOOKS.replace("{pid}", str(os.getpid())).replace("{audit}", str(tmp_path / "audit.jsonl"))
    source = source.replace("{runs}", str(tmp_path / "runs"))
    for asked in (gateway, Gateway(TOOLS, Settings.load(check=False))):
        (report,) = ran(asked, ("a", source))
        assert report.status == "answered", report
    files = {name: text for name, text in report.value.items() if name.startswith("/")}
    assert len(files) == 5
    assert set(files.values()) == {"no"}
    assert not {"ATC_API_KEY", "PLAIN_THING", "XDG_CONFIG_HOME", "ATC_RUNS_DIR"} & report.value.keys()
    assert "plain-value-55512" not in report.model_dump_json()


def test_what_tools_leak_of_a_known_secret_is_masked_in_values_errors_and_prints(gateway: Gateway) -> None:
    value, error, printed = ran(
        gateway,
        ("a", "answer = leak(n=0)"),
        ("a", "answer = leak(n=1)"),
        ("a", "x = leak(n=0)\nprint(x, x['seen'][:6])\nanswer = x['seen'] == 'key=" + SECRET + "'"),
    )
    assert SECRET not in value.model_dump_json() + error.model_dump_json() + printed.model_dump_json()
    assert "[secret]" in value.model_dump_json()
    assert printed.value is False


def test_another_clients_run_cannot_be_named_nor_its_values_had(gateway: Gateway) -> None:
    async def run() -> None:
        try:
            mine = await gateway.run_program(
                gateway.client(ClientId("ann")), "mine = keep(n=77)\nanswer = mine", asker=yes
            )
            for other in (ClientId("bob"), ClientId("bob", "ann"), ClientId("", "ann")):
                with pytest.raises(UsageError, match="you have no run"):
                    await gateway.run_program(gateway.client(other), "answer = mine", asker=yes, revises=mine.run)
                report = await gateway.run_program(gateway.client(other), "answer = mine", asker=yes)
                assert report.value is None
        finally:
            await gateway.aclose()

    asyncio.run(run())
