"""What the user of a sandbox service is told, and `atc sandbox serve` itself."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from typer.testing import CliRunner

from atc._records.outcome import Outcome
from atc.calls.contract import CallReply, CallRequest
from atc.cli import app, commands_of, loaded
from atc.errors import SandboxUnavailable, SettingsError, UsageError
from atc.sandboxes.conformance import kit
from atc.sandboxes.contract import Job, Limits
from atc.sandboxes.remote.client import ServiceSandbox
from atc.serve.tokens import Tenants, read_tenants
from tests.support.service import OTHER, TOKEN, Running, alive, no_tools, receive, serving, soon

ROOT = Path(__file__).resolve().parents[2]
SERVE = [sys.executable, "-m", "atc", "sandbox", "serve", "--port", "0", "--set", "drain_s=10"]


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with serving({"default": TOKEN, "other": OTHER}) as running:
        yield running


# -- what the user is told -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "token", "words"),
    [
        ("http://", TOKEN, "no address of a service"),
        ("ftp://x", TOKEN, "no address of a service"),
        ("http://user:secret@x", TOKEN, "ATC_SANDBOX_TOKEN, not in its address"),
        ("http://x", None, "set ATC_SANDBOX_TOKEN"),
        ("http://x", "tö", "printable ASCII"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(url: str, token: str | None, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        ServiceSandbox(url, token, Limits(), "L")


def test_what_is_wrong_with_the_service_is_said_with_what_to_do(shared: Running) -> None:
    def why(sandbox: ServiceSandbox) -> str:
        for attempt in (sandbox.prepare, lambda: sandbox.run(Job("answer = 1", {}), no_tools)):
            with pytest.raises(SandboxUnavailable) as error:
                asyncio.run(attempt())
        return str(error.value)

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert "cannot be reached" in why(ServiceSandbox(f"http://127.0.0.1:{port}", TOKEN, Limits(), "L"))
    assert "does not take our token" in why(ServiceSandbox(shared.url, OTHER[::-1], Limits(), "L"))
    assert "its address has no path" in why(ServiceSandbox(f"{shared.url}/v1", TOKEN, Limits(), "L"))
    with pytest.raises(SandboxUnavailable, match="no tier 'Z'"):
        ServiceSandbox(shared.url, TOKEN, Limits(), "Z")


def test_isolation_below_what_is_required_runs_nothing() -> None:
    with serving() as running:
        running.service.tier = "F"
        before = running.metric("atc_run_seconds_count")
        for attempt in ("prepare", "run"):
            sandbox = running.sandbox(require="L")
            work = sandbox.prepare() if attempt == "prepare" else sandbox.run(Job("answer = 1", {}), no_tools)
            with pytest.raises(SandboxUnavailable, match=r"tier F.*(L was required|L is required)"):
                asyncio.run(work)  # type: ignore[arg-type]
        assert running.metric("atc_run_seconds_count") == before
        assert len(running.service.runs) == 0


def test_a_service_that_lies_about_its_isolation_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tier is looked at in the grant and again in the outcome, whatever was said before."""
    with serving() as running:
        real = running.service.grant
        monkeypatch.setattr(running.service, "grant", lambda tenant, body: {**real(tenant, body), "isolation": "none"})
        with pytest.raises(SandboxUnavailable, match="tier none, and F is required"):
            running.run("answer = 1")
        monkeypatch.setattr(running.service, "grant", real)
        told = running.service._outcome_message
        weaker = lambda outcome: told(dataclasses.replace(outcome, isolation="F"))  # noqa: E731
        monkeypatch.setattr(running.service, "_outcome_message", weaker)
        with pytest.raises(SandboxUnavailable, match="ran a program by tier F"):
            asyncio.run(running.sandbox(require="L").run(Job("answer = 1", {}), no_tools))


def test_no_program_no_argument_and_no_token_is_logged_or_counted(
    shared: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    shared.run("answer = f(password='hush-1')  # hush-2\nprint('hush-3')", {"f": lambda _: "hush-4"})
    shared.run("raise ValueError('hush-5')")
    with shared.channel() as channel:
        channel.send('{"op":"hush-6"')
        receive(channel)
    ours = [r.getMessage() for r in caplog.records if r.name.startswith(("atc", "uvicorn"))]
    assert any("finished" in line for line in ours)
    text = "\n".join(ours) + httpx.get(f"{shared.url}/metrics").text
    assert "hush" not in text
    assert TOKEN not in text


def test_metrics_tell_how_runs_ended(shared: Running) -> None:
    before = {kind: shared.metric(f'atc_runs_total{{outcome="{kind}"}}') for kind in ("finished", "raised")}
    calls = shared.metric("atc_tool_calls_total")
    shared.run("answer = f() + f()", {"f": lambda _: 1})
    shared.run("1 / 0")
    assert {kind: shared.metric(f'atc_runs_total{{outcome="{kind}"}}') for kind in before} == {
        kind: count + 1 for kind, count in before.items()
    }
    assert shared.metric("atc_tool_calls_total") == calls + 2


# -- atc sandbox serve -----------------------------------------------------------------------------------------------


def test_a_service_without_a_good_token_does_not_start(tmp_path: Path) -> None:
    for tokens, words in (
        ({}, "secrets.token_urlsafe"),
        ({"a": "short"}, "at least 20"),
        ({"a": TOKEN, "b": TOKEN}, "another tenant's too"),
        ({"a/b": TOKEN}, "no tenant's name"),
    ):
        with pytest.raises(UsageError, match=words):
            Tenants(tokens)
    path = tmp_path / "tenants"
    path.write_text(f"# ours\n\none {TOKEN}\ntwo {OTHER}\n")
    assert read_tenants(path) == {"one": TOKEN, "two": OTHER}
    path.write_text(f"one {TOKEN}\n{OTHER}\n")
    with pytest.raises(UsageError, match="line 2: write `tenant token`") as error:
        read_tenants(path)
    assert OTHER not in str(error.value)


def test_atc_serve_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    """The command itself: without a token it says how to make one; with one it serves; a run may end after SIGTERM."""
    bare = CliRunner().invoke(app, ["sandbox", "serve", "--port", "0"])
    assert (bare.exit_code, "ATC_SERVE_TOKEN" in bare.stderr) == (2, True)
    (tmp_path / "token").write_text(TOKEN + "\n")
    with subprocess.Popen(
        [*SERVE, "--token-file", str(tmp_path / "token")], stderr=subprocess.PIPE, text=True
    ) as served:
        assert served.stderr is not None
        port = int(served.stderr.readline().rpartition(":")[2])

        async def call(request: CallRequest) -> CallReply:
            served.terminate()
            await asyncio.sleep(0.2)
            return CallReply(value="done")

        async def go() -> Outcome:
            async with ServiceSandbox(f"http://127.0.0.1:{port}", TOKEN, Limits(), "F") as sandbox:
                return await sandbox.run(Job("answer = f()", {"f": ()}), call)

        outcome = asyncio.run(go())
        assert (outcome.value, served.wait(60)) == ("done", 0)
        assert TOKEN not in served.stderr.read()


def test_a_service_that_is_killed_leaves_nothing_and_its_caller_is_told() -> None:
    before, programs = set(kit.sandbox_processes()), set[int]()
    with subprocess.Popen(
        [*SERVE], stderr=subprocess.PIPE, text=True, env={**os.environ, "ATC_SERVE_TOKEN": TOKEN}
    ) as served:
        assert served.stderr is not None
        url = f"http://127.0.0.1:{int(served.stderr.readline().rpartition(':')[2])}"

        async def call(request: CallRequest) -> CallReply:
            programs.update(set(kit.sandbox_processes()) - before)
            served.kill()
            await asyncio.sleep(60)
            return CallReply()

        async def go() -> Outcome:
            async with ServiceSandbox(url, TOKEN, Limits(), "F") as sandbox:
                return await sandbox.run(Job("f()\nwhile True: pass", {"f": ()}), call)

        outcome = asyncio.run(go())
    assert (outcome.kind, "connection to the sandbox service was lost" in outcome.detail) == ("killed", True), outcome
    assert len(programs) >= 2
    assert soon(lambda: not any(map(alive, programs)))


def test_the_manifest_for_kubernetes_keeps_every_wall() -> None:
    documents = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "sandbox.yaml").read_text()))
    kinds = {document["kind"]: document for document in documents}
    pod = kinds["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert not any(pod.get(shared) for shared in ("hostNetwork", "hostPID", "hostIPC"))
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"cpu", "memory"} <= set(container["resources"]["limits"])
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert "secret" in pod["volumes"][0]
    policy = kinds["NetworkPolicy"]["spec"]
    assert (set(policy["policyTypes"]), policy["egress"]) == ({"Ingress", "Egress"}, [])
    assert [port["port"] for rule in policy["ingress"] for port in rule["ports"]] == [8700]
    assert policy["podSelector"]["matchLabels"] == kinds["Service"]["spec"]["selector"]
    drain = next(arg for arg in container["args"] if arg.startswith("--set=drain_s="))
    assert pod["terminationGracePeriodSeconds"] > int(drain.rpartition("=")[2])
    assert not any("TOKEN" in json.dumps(entry) for entry in container["env"])


def test_the_manifests_arguments_are_the_commands_own() -> None:
    documents = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "sandbox.yaml").read_text())
    container = next(d for d in documents if d["kind"] == "Deployment")["spec"]["template"]["spec"]["containers"][0]
    known = {name for option in commands_of(loaded("sandbox"))["serve"].params for name in option.opts}
    assert container["command"] == ["atc", "sandbox", "serve"]
    assert {argument.partition("=")[0] for argument in container["args"]} <= known
