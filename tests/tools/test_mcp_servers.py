"""MCP servers of others, as they are on PyPI: listed, called by a program, and ended with the run.

`make services` installs them in an environment of their own, beside ours: what they need may differ.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, Result, Toolset
from atc.models.fake import FakeModel
from atc.result import Effect
from tests.support.openapi import Answer, running_server

pytestmark = pytest.mark.slow
BIN = Path(__file__).resolve().parents[2] / ".venv-others" / "bin"


def server(name: str, *arguments: str) -> Toolset:
    """The tools of a server, started over its pipes."""
    program = BIN / name
    if not program.exists():
        pytest.skip(f"{name} is not installed in {BIN.parent}: `make services` does it where PyPI can be reached")
    return Toolset.from_mcp([str(program), *arguments], timeout_s=60)


def solved(tools: Toolset, program: str, **settings: Any) -> Result:
    model = FakeModel([f"```python\n{program}\n```"])
    with Agent(tools, model=model, sentence=False, max_revisions=0, call_timeout_s=60, **settings) as agent:
        return agent.run("do it")


@pytest.mark.usefixtures("nothing_left")
def test_the_time_server_converts_times() -> None:
    tools = server("mcp-server-time", "--local-timezone", "Asia/Tokyo")
    assert list(tools) == ["get_current_time", "convert_time"]
    result = solved(
        tools,
        'answer = convert_time(source_timezone="Asia/Kolkata", time="09:30", target_timezone="Asia/Tokyo")'
        '["time_difference"]',
    )
    assert (result.status, result.value) == ("answered", "+3.5h"), result.fault


@pytest.mark.usefixtures("nothing_left")
def test_the_fetch_server_reads_a_page() -> None:
    html = "<html><body><article><h1>Lakes</h1><p>Lake Inari is 92 metres deep.</p></article></body></html>"
    with running_server() as pages:
        pages.answer = Answer(b"", 404)  # there is no robots.txt
        pages.answers["/page"] = Answer(html.encode(), kind="text/html")
        program = f'answer = "92 metres" in fetch(url="{pages.url}/page", raw=True)'
        result = solved(server("mcp-server-fetch", "--allow-private-ips"), program)
        refused = solved(server("mcp-server-fetch"), program)
    assert (result.status, result.value) == ("answered", True), result.fault
    assert refused.fault is not None
    assert refused.fault.tool == "fetch"
    assert "--allow-private-ips" in refused.fault.message  # its own words arrive


@pytest.mark.usefixtures("nothing_left")
def test_the_git_server_commits_only_when_it_may(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(tmp_path), *words], capture_output=True, text=True, check=True).stdout

    git("init", "--quiet")
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.org")
    (tmp_path / "notes.txt").write_text("one\n")
    tools = server("mcp-server-git", "--repository", str(tmp_path))
    effects = {name: tools[name].protocol.effect for name in ("git_status", "git_add", "git_commit")}
    assert effects == {"git_status": Effect.READ, "git_add": Effect.WRITE, "git_commit": Effect.WRITE}
    program = (
        f'git_add(repo_path="{tmp_path}", files=["notes.txt"])\n'
        f'git_commit(repo_path="{tmp_path}", message="First notes")\n'
        f'answer = git_log(repo_path="{tmp_path}", max_count=1)'
    )
    refused = solved(tools, program, approve=lambda request: False)
    assert refused.status != "answered"
    assert "notes.txt" not in git("ls-files")
    result = solved(tools, program, approve=lambda request: True)
    assert result.status == "answered", result.fault
    assert "First notes" in str(result.value)
    assert git("log", "--format=%s") == "First notes\n"
