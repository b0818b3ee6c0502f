"""The trace goes on at real services: MCP servers, the sandbox service, and collectors, also such as are down."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from atc import Toolset
from atc.traces.telemetry.telemetry import FLUSH_S, OpenTelemetry
from tests.support.agent import agent, code
from tests.support.mcp import raw_server, reading, shop_over_http
from tests.support.otel import Received, Recorded, named, receiving
from tests.support.sandbox import left_behind
from tests.support.service import serving

pytestmark = pytest.mark.slow

TRACE = {"traceparent", "tracestate", "baggage"}
ROOT = Path(__file__).parents[2]


# -- MCP -----------------------------------------------------------------------------------------------------------


def test_an_mcp_server_is_told_of_each_calls_own_span_and_of_none_when_off(recorded: Recorded, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    tools = Toolset.from_mcp(
        raw_server(tmp_path, [reading("one"), reading("two")], calls={"one": {"value": 1}, "two": {"value": 2}},
                   heard_file=str(heard))
    )  # fmt: skip
    heard.unlink()
    source = code("answer = one() + two()")
    assert agent(source, tools=tools).run("Add").value == "12"
    off = messages(heard)
    assert any(each["method"] == "tools/call" for each in off)
    assert not [each for each in off if TRACE & set((each.get("params") or {}).get("_meta") or {})]
    heard.unlink()
    assert agent(source, tools=tools, otel=True).run("Add").value == "12"
    on = messages(heard)
    told = {each["params"]["name"]: each["params"]["_meta"] for each in on if each["method"] == "tools/call"}
    for name in ("one", "two"):
        assert told[name]["traceparent"].startswith(named(recorded.one(f"execute_tool {name}")))
        assert "baggage" not in told[name]
    others = [each for each in on if each["method"] != "tools/call"]
    assert others  # the greeting belongs to no call
    assert not [each for each in others if TRACE & set((each.get("params") or {}).get("_meta") or {})]


def messages(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line)[1] for line in file.read_text().splitlines()]


def test_an_mcp_server_over_http_gets_the_header_too(recorded: Recorded, tmp_path: Path) -> None:
    with shop_over_http(tmp_path) as url:
        tools = Toolset.from_mcp(url)
        source = code("answer = header(name='traceparent')")
        assert agent(source, tools=tools).run("Which?").value == "None"
        on = agent(source, tools=tools, otel=True).run("Which?")
        assert str(on.value).startswith(named(recorded.one("execute_tool header")))


OFF_BESIDE_A_TRACED_PROGRAM = """
import sys
from pathlib import Path
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)
from atc import Agent, Toolset
from atc.models.fake import FakeModel
from tests.support.mcp import raw_server, reading
folder, on = Path(sys.argv[1]), sys.argv[2] == "on"
command = raw_server(folder, [reading("one")], calls={"one": {"value": 1}}, heard_file=str(folder / sys.argv[2]))
context.attach(baggage.set_baggage("customer", "ann"))
with trace.get_tracer("user").start_as_current_span("mine"):
    model = FakeModel(["```python\\nanswer = one()\\n```"])
    agent = Agent(Toolset.from_mcp(command), model=model, sentence=False, otel=on)
    assert agent.run("One").value == "1"
    agent.close()
for span in kept.get_finished_spans():
    print(span.name, f"{span.context.span_id:016x}", span.parent and f"{span.parent.span_id:016x}")
"""


def test_a_program_that_traces_itself_shows_tools_no_trace_while_telemetry_is_off(tmp_path: Path) -> None:
    """The SDK of MCP would write the program's own trace into each message."""
    script = [sys.executable, "-c", OFF_BESIDE_A_TRACED_PROGRAM, str(tmp_path)]
    subprocess.run([*script, "off"], check=True, capture_output=True, cwd=ROOT, env=world(tmp_path))
    assert any(each["method"] == "tools/call" for each in messages(tmp_path / "off"))
    assert not [
        each for each in messages(tmp_path / "off") if TRACE & set((each.get("params") or {}).get("_meta") or {})
    ]
    ran = subprocess.run([*script, "on"], check=True, capture_output=True, text=True, cwd=ROOT, env=world(tmp_path))
    spans = {name: rest for name, *rest in (line.rsplit(" ", 2) for line in ran.stdout.splitlines())}
    (told,) = [each["params"]["_meta"] for each in messages(tmp_path / "on") if each["method"] == "tools/call"]
    assert told["traceparent"].split("-")[2] == spans["MCP send tools/call one"][0]  # the SDK's span is between
    assert spans["MCP send tools/call one"][1] == spans["execute_tool one"][0]
    assert spans["invoke_agent atc"][1] == spans["mine"][0]
    assert "baggage" not in told


# -- the sandbox service -------------------------------------------------------------------------------------------


def test_a_sandbox_service_goes_on_with_the_trace_of_its_caller(recorded: Recorded) -> None:
    telemetry = OpenTelemetry(content=False, baggage=False)
    with serving(telemetry=telemetry) as service:

        def run(**settings: Any) -> Any:
            return agent(code("answer = double(n=21)"), sandbox=service.sandbox(), **settings).run("Double")

        assert run(otel=True).value == 42
        ours, theirs = sorted(recorded.named("execute_program"), key=lambda span: span.kind.name)
        assert theirs.attributes is not None
        assert theirs.kind.name == "SERVER"
        assert theirs.parent is not None
        assert theirs.parent.span_id == ours.context.span_id
        assert theirs.context.trace_id == ours.context.trace_id
        assert theirs.attributes["atc.program.outcome"] == "finished"
        assert run().value == 42  # off: nothing is told, and the service's span has no parent
        assert recorded.named("execute_program")[-1].parent is None


def test_a_trace_that_is_none_is_nothing_to_a_service(recorded: Recorded) -> None:
    with serving(telemetry=OpenTelemetry(content=False, baggage=False)) as service:
        granted = service.post().json()
        from websockets.sync.client import connect

        headers = {
            "Authorization": f"Bearer {granted['channel_token']}",
            "traceparent": "00-" + "0" * 400,
            "tracestate": "x" * 5000,
        }
        with connect(service.url.replace("http", "ws") + granted["url"], additional_headers=headers):
            pass
        deadline = time.monotonic() + 30
        while not recorded.spans and time.monotonic() < deadline:
            time.sleep(0.02)
    span = recorded.one("execute_program")
    assert span.parent is None
    assert (span.attributes or {})["error.type"] == "disconnected"
    assert len(span.context.trace_state) == 0


# -- collectors ----------------------------------------------------------------------------------------------------

ONE_RUN = """
import os, sys, time
from atc import Agent
from atc.models.fake import FakeModel
from tests.support.agent import double
model = FakeModel(["```python\\nanswer = double(n=21)\\n```"] * 40)
agent = Agent([double], model=model, sentence=False, approve="always")
for _ in range(int(sys.argv[1])):
    assert agent.run("Double it").value == 42
agent.close()
print("ran", "opentelemetry.sdk" in sys.modules, "atc.traces.telemetry.run" in sys.modules, flush=True)
"""


def world(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return {**kept, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(folder), **more}


def ran(folder: Path, endpoint: str, runs: int = 1, **more: str) -> tuple[str, str, float]:
    """Run an agent in a process of its own: what it prints, its log, and how long its end took."""
    env = world(folder, ATC_OTEL="true", OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, **more)
    process = subprocess.Popen(
        [sys.executable, "-c", ONE_RUN, str(runs)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=ROOT,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        began = time.monotonic()
        _, errors = process.communicate(timeout=300)
        return line, errors, time.monotonic() - began
    finally:
        process.kill()
        process.wait()


def test_a_process_sends_its_spans_and_metrics_by_the_standard_variables_as_it_ends(tmp_path: Path) -> None:
    with receiving() as got:
        line, errors, _ = ran(
            tmp_path, got.url, OTEL_SERVICE_NAME="desk", OTEL_EXPORTER_OTLP_HEADERS="x-key=a-key-of-the-collector"
        )
    assert line == "ran True True\n", errors
    assert errors == ""
    assert {"invoke_agent atc", "chat fake", "execute_program", "execute_tool double"} == {s.name for s in got.spans}
    assert {resource["service.name"] for resource in got.resources} == {"desk"}
    assert "gen_ai.invoke_agent.duration" in {metric.name for metric in got.metrics}
    assert {headers["x-key"] for headers in got.headers} == {"a-key-of-the-collector"}
    assert not [body for body in got.bodies if b"a-key-of-the-collector" in body]


@pytest.mark.parametrize("kind", ["down", "silent", "nonsense", "refusing"])
def test_no_collector_costs_a_run_or_more_than_seconds_at_the_end(kind: str, tmp_path: Path) -> None:
    with collector_that_is(kind) as url:
        line, errors, end_s = ran(tmp_path, url, runs=3, OTEL_BSP_SCHEDULE_DELAY="50")
    assert line == "ran True True\n", errors
    assert end_s < FLUSH_S + 20  # what is bounded is the wait, not how busy this machine is
    said = [line for line in errors.splitlines() if line.strip()]
    assert len([line for line in said if line.startswith("spans cannot be sent")]) <= 1
    assert len(said) <= 2, errors  # one line for spans, one for metrics
    if kind == "refusing":
        assert said


@contextmanager
def collector_that_is(kind: str) -> Iterator[str]:
    if kind == "down":
        with socket.socket() as taken:  # bound, and nobody listens
            taken.bind(("127.0.0.1", 0))
            yield f"http://127.0.0.1:{taken.getsockname()[1]}"
    elif kind == "silent":
        with receiving(hold=threading.Event()) as got:
            yield got.url
    else:
        with receiving(status=200 if kind == "nonsense" else 400, answer=b"<html>\xff" * 5) as got:
            yield got.url


def test_off_imports_nothing_of_it(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-c", ONE_RUN + "print(sorted(n for n in sys.modules if n.startswith('opentelemetry')))", "1"],
        capture_output=True, text=True, check=True, env=world(tmp_path), cwd=ROOT,
    )  # fmt: skip
    assert made.stdout == "ran False False\n[]\n"


def test_jails_and_servers_get_nothing_of_the_exporter(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a-key-of-the-collector")
    jails: list[bytes] = []

    def peek() -> int:
        """Looks at the environments of the jails."""
        for process in left_behind():
            try:
                jails.append(Path(f"/proc/{process}/environ").read_bytes())
            except OSError:
                continue
        return 1

    tools = Toolset.from_mcp(raw_server(tmp_path, [reading("about")], calls={"about": {"about": True}}))
    made = agent(code("peek()\nanswer = about()['env']"), tools=[peek, *tools.values()], otel=True).run("Look")
    assert made.status == "answered"
    assert jails
    assert not [environment for environment in jails if b"OTEL" in environment or b"traceparent" in environment.lower()]
    assert not [name for name in made.value if "OTEL" in name or "TRACE" in name]


# -- a collector ---------------------------------------------------------------------------------------------------


@pytest.fixture
def rotel(tmp_path: Path) -> Iterator[tuple[str, Received]]:
    """A collector's process (https://pypi.org/project/rotel), which hands on what it takes to a receiver of ours."""
    spec = importlib.util.find_spec("rotel")
    program = Path(spec.origin).parent / "rotel-agent" if spec is not None and spec.origin else None
    found = str(program) if program is not None and program.exists() else shutil.which("rotel")
    if found is None:
        pytest.skip("no collector here: pip install --no-deps rotel==0.0.1a15")
    ports = [free_port() for _ in range(2)]
    with receiving() as got:
        process = subprocess.Popen(
            [found, "start", "--otlp-http-endpoint", f"127.0.0.1:{ports[0]}", "--otlp-grpc-endpoint",
             f"127.0.0.1:{ports[1]}", "--exporter", "otlp", "--otlp-exporter-protocol", "http",
             "--otlp-exporter-endpoint", got.url, "--pid-file", str(tmp_path / "pid"), "--log-file",
             str(tmp_path / "log")],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield f"http://127.0.0.1:{ports[0]}", got
        finally:
            process.terminate()
            try:
                process.wait(30)
            finally:
                process.kill()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_a_real_collector_takes_what_is_sent_and_hands_it_on(rotel: tuple[str, Received], tmp_path: Path) -> None:
    url, got = rotel
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            httpx.post(f"{url}/v1/traces", content=b"", headers={"Content-Type": "application/x-protobuf"})
            break
        except httpx.TransportError:
            time.sleep(0.05)
    line, errors, _ = ran(tmp_path, url)
    assert line == "ran True True\n"
    assert errors == ""
    while time.monotonic() < until and not (got.metrics and any(span.name == "invoke_agent atc" for span in got.spans)):
        time.sleep(0.05)
    spans = {span.name: span for span in got.spans}
    assert {"invoke_agent atc", "chat fake", "execute_program", "execute_tool double"} == set(spans)
    assert spans["execute_tool double"].parent_span_id == spans["execute_program"].span_id
    assert spans["execute_program"].parent_span_id == spans["invoke_agent atc"].span_id
    assert "gen_ai.client.inference.duration" in {metric.name for metric in got.metrics}
    assert {resource["service.name"] for resource in got.resources} == {"atc"}


def test_a_client_of_atc_mcp_finds_its_runs_in_its_own_trace(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def look() -> int:\n    'A number.'\n    return 1\n")
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    call = {
        "name": "run_program",
        "arguments": {"source": "answer = 1"},
        "_meta": {"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"},
    }
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    with receiving() as got:
        process = subprocess.Popen(
            [sys.executable, "-m", "atc", "mcp", "--tools", str(tmp_path / "own.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            env=world(tmp_path, ATC_OTEL="true", OTEL_EXPORTER_OTLP_ENDPOINT=got.url),
        )  # fmt: skip
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            for message in asked:
                process.stdin.write(json.dumps(message) + "\n")
                process.stdin.flush()
                while "id" in message and json.loads(process.stdout.readline()).get("id") != message["id"]:
                    pass
            process.stdin.close()
            process.wait(300)
        finally:
            process.kill()
            process.wait()
    (run,) = [span for span in got.spans if span.name == "invoke_agent atc"]
    assert run.trace_id.hex() == trace_id
    assert run.parent_span_id.hex() == "00f067aa0ba902b7"
