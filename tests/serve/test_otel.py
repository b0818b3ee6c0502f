"""OpenTelemetry: the spans and metrics of runs, held to the conventions, by the SDK's exporters for tests."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from atc import Agent, ToolError, tool
from atc._host.redaction import Redactor
from atc.errors import EnvironmentProblem, ModelError, SettingsError
from atc.models.fake import FakeModel
from atc.settings import Settings
from atc.tools.openapi.importer import import_openapi
from atc.traces.telemetry.calls import CallSpans
from atc.traces.telemetry.conventions import MAX_CONTENT, Content, error_name, short
from atc.traces.telemetry.seam import open_telemetry
from tests.support.agent import BAD, GOOD, agent, code, double
from tests.support.fake_openai_server import Handler, says, serving
from tests.support.few import few
from tests.support.openapi import document, operation, running_server
from tests.support.otel import Recorded, named

RUN = "invoke_agent atc"


@tool(effect="read")
def look(n: int) -> int:
    """A number."""
    return n


@tool(effect="write")
def send(n: int) -> int:
    """Sends a number."""
    return n


@tool(effect="read")
def broken(n: int) -> int:
    """Breaks."""
    raise ToolError("the secret garden is closed", status=418)


def observed(*replies: Any, tools: Any = (look,), **settings: Any) -> Agent:
    return agent(*replies, tools=tools, otel=True, **settings)


def test_a_run_with_a_revision_and_a_replay_is_one_tree_without_content(recorded: Recorded) -> None:
    with trace.get_tracer("user", tracer_provider=recorded.providers.tracer).start_as_current_span("mine") as mine:
        result = observed(BAD, GOOD, tools=(double,)).run("Double twenty-one, please")
        assert trace.get_current_span() is mine
    assert result.value == 42
    assert recorded.tree() == [
        ("mine", None),
        (RUN, "mine"),
        ("chat fake", RUN),
        ("execute_program", RUN),
        ("execute_tool double", "execute_program"),
        ("chat fake", RUN),
        ("execute_program", RUN),
        ("execute_tool double", "execute_program"),
    ]
    run = recorded.one(RUN)
    assert run.attributes is not None
    assert run.status.status_code is StatusCode.UNSET
    assert run.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert run.attributes["atc.run.id"] == result.run_id
    assert run.attributes["atc.run.status"] == "answered"
    assert run.attributes["gen_ai.usage.input_tokens"] == result.usage.prompt_tokens
    failed, good = recorded.named("execute_program")
    assert failed.attributes is not None
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes["error.type"] == failed.attributes["atc.fault.case"] == "raised"
    assert good.status.status_code is StatusCode.UNSET
    made, replayed = recorded.named("execute_tool double")
    assert made.attributes is not None
    assert replayed.attributes is not None
    assert (made.attributes["atc.call.status"], replayed.attributes["atc.call.status"]) == ("ok", "replayed")
    assert made.parent is not None
    assert made.parent.span_id == failed.context.span_id
    for span in recorded.spans:
        attributes = {name: value for name, value in (span.attributes or {}).items() if isinstance(value, str | tuple)}
        attributes.pop("atc.run.id", None)  # its digits are of the clock
        everything = f"{span.name} {attributes} {span.status.description} {[e.attributes for e in span.events]}"
        assert not [word for word in ("twenty", "answer =", "21", "list index") if word in everything]
        assert (span.start_time or 0) <= (span.end_time or 0)


def test_a_model_call_says_what_the_conventions_ask_for(recorded: Recorded) -> None:
    headers: dict[str, str] = {}

    def reply(handler: Handler) -> None:
        headers.update({name.lower(): value for name, value in handler.headers.items()})
        says(GOOD, usage=(11, 7))(handler)

    with serving(reply) as server:
        asked = Agent([look, double], model="tiny", base_url=server.url, sentence=False, otel=True, approve="always")
        assert asked.run("Double it").value == 42
    chat = recorded.one("chat tiny")
    assert chat.attributes is not None
    assert chat.kind is trace.SpanKind.CLIENT
    wanted = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "tiny",
        "gen_ai.response.model": "tiny",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.request.temperature": 0.0,
        "server.address": "127.0.0.1",
        "atc.model.purpose": "program",
    }
    assert {name: chat.attributes[name] for name in wanted} == wanted
    assert chat.attributes["gen_ai.response.time_to_first_chunk"] > 0  # type: ignore[operator]
    assert headers["traceparent"].startswith(named(chat))
    metrics = recorded.metrics()
    ((about, tokens),) = metrics["gen_ai.client.inference.usage.input_tokens"]
    assert (tokens, about["gen_ai.token.modality"], about["gen_ai.request.model"]) == (11, "text", "tiny")
    assert metrics["gen_ai.client.inference.usage.output_tokens"][0][1] == 7
    ((about, seconds),) = metrics["gen_ai.execute_tool.duration"]
    assert about["gen_ai.tool.name"] == "double"
    assert seconds > 0
    assert metrics["atc.runs"] == [({"atc.run.status": "answered"}, 1)]
    assert [sum_ for _, sum_ in metrics["gen_ai.invoke_agent.inference_calls"]] == [1]
    assert {"gen_ai.client.inference.duration", "gen_ai.invoke_agent.duration"} <= set(metrics)


def test_content_is_recorded_where_it_was_asked_for_and_masked(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "sk-hush-hush-123")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20collector-key-9,x-team=quiet-team")
    task = "Look up sk-hush-hush-123 with collector-key-9 and quiet-team"
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    observed(code("answer = look(n=7)")).run(task)
    run, call = recorded.one(RUN), recorded.one("execute_tool look")
    assert run.attributes is not None
    assert call.attributes is not None
    assert "Look up [secret] with [secret] and [secret]" in str(run.attributes["gen_ai.input.messages"])
    assert call.attributes["gen_ai.tool.call.arguments"] == '{"n": 7}'
    assert call.attributes["gen_ai.tool.call.result"] == "7"
    chat, ran = recorded.one("chat fake"), recorded.one("execute_program")
    assert chat.attributes is not None
    assert ran.attributes is not None
    assert "Look up [secret]" in str(chat.attributes["gen_ai.input.messages"])
    assert "look(n=7)" in str(chat.attributes["gen_ai.output.messages"])
    assert ran.attributes["atc.program.source"] == "answer = look(n=7)\n"
    assert not [
        word for word in ("hush", "collector-key", "quiet-team") if word in str([s.attributes for s in recorded.spans])
    ]


def test_what_strangers_write_can_always_be_sent() -> None:
    """One attribute that cannot be encoded would take a whole batch of spans with it."""
    content = Content(Redactor(environment={}))
    texts = [content.text("a\ud83d"), content.json({"k\ud83d": ["\udc00" * 9]}), content.said("user", "\ud83d")]
    texts += [short("\ud83d" * 900), error_name("\ud83d")]
    assert all("\ud83d" not in text and text.encode() for text in texts)
    assert len(content.json(["x" * 10] * 100_000)) == MAX_CONTENT + 1
    assert len(content.text("x" * 10**6)) == MAX_CONTENT + 1


def test_what_fails_says_so_by_its_data(recorded: Recorded) -> None:
    source = (
        "for call in (lambda: broken(n=1), lambda: send(n=2), lambda: look(n=look)):\n"
        "    try:\n        call()\n    except Exception:\n        pass\nanswer = 1"
    )
    result = observed(code(source), tools=(look, send, broken), approve=lambda request: False, check=False).run("Try")
    assert result.status == "denied"
    calls = [span for span in recorded.spans if span.name.startswith("execute_tool")]
    about = {span.name: dict(span.attributes or {}) for span in calls}
    assert about["execute_tool broken"]["error.type"] == "418"
    assert about["execute_tool broken"]["atc.call.status"] == "failed"
    assert about["execute_tool send"]["error.type"] == "denied"
    assert about["execute_tool send"]["atc.call.status"] == "refused"
    assert all(span.status.status_code is StatusCode.ERROR for span in calls)
    assert "garden" not in str([(span.attributes, span.status.description) for span in recorded.spans])
    waited = recorded.one("approval send")
    assert waited.attributes is not None
    assert waited.attributes["atc.approval.decision"] == "denied"
    ((decided, _),) = recorded.metrics()["atc.approval.wait"]
    assert decided == {"atc.approval.decision": "denied"}


def test_a_model_that_fails_ends_its_span_and_the_run_with_what_it_was(recorded: Recorded) -> None:
    result = observed(ModelError("the words of the endpoint")).run("Try")
    assert result.status == "failed"
    chat, run = recorded.one("chat fake"), recorded.one(RUN)
    assert chat.attributes is not None
    assert run.attributes is not None
    assert chat.attributes["error.type"] == "ModelError"
    assert chat.status.status_code is run.status.status_code is StatusCode.ERROR
    assert (run.attributes["atc.run.status"], run.attributes["error.type"]) == ("failed", "environment")
    assert "words" not in str([(span.attributes, span.status.description) for span in recorded.spans])


def test_names_that_a_program_makes_up_name_no_span(recorded: Recorded) -> None:
    calls = CallSpans(recorded.providers.tracer.get_tracer("t"), _metrics(recorded), agent().tools, None, baggage=False)
    call = {"tool": "wipe all", "index": 1, "line": 1, "effect": "unknown", "status": "refused", "arguments": {}}
    for index in range(500):
        calls.ended(
            {**call, "index": index, "error_status": "not_granted"},
            10**9,
            trace.set_span_in_context(trace.INVALID_SPAN),
        )
    assert {span.name for span in recorded.spans} == {"execute_tool _OTHER"}
    assert (len(recorded.spans), calls.untold) == (200, 300)
    assert "wipe" not in str([span.attributes for span in recorded.spans])


def _metrics(recorded: Recorded) -> Any:
    from atc.traces.telemetry.conventions import Metrics

    return Metrics(recorded.providers.meter.get_meter("t"))


def test_parallel_calls_and_parallel_runs_keep_to_their_own(recorded: Recorded) -> None:
    both = asyncio.Event()
    waiting = []

    @tool(effect="read")
    async def meet(n: int) -> int:
        """Waits until all are there."""
        waiting.append(trace.get_current_span().get_span_context().span_id)
        if len(waiting) == 4:
            both.set()
        await both.wait()
        return n

    source = code("answer = parallel([lambda: meet(n=1), lambda: meet(n=2)])")

    async def run() -> None:
        await asyncio.gather(*(observed(source, tools=(meet,)).arun("Meet") for _ in range(2)))

    asyncio.run(run())
    runs, programs, calls = (recorded.named(name) for name in (RUN, "execute_program", "execute_tool meet"))
    assert (len(runs), len(programs), len(calls)) == (2, 2, 4)
    assert {call.context.span_id for call in calls} == set(waiting)  # each was the current span in its own call
    of = {ran.context.span_id: ran.context.trace_id for ran in programs}
    assert len(set(of.values())) == 2
    for call in calls:
        assert call.parent is not None
        assert of[call.parent.span_id] == call.context.trace_id
    assert sorted(sum(call.parent.span_id == ran for call in calls if call.parent) for ran in of) == [2, 2]


def test_an_agent_within_a_tool_is_within_its_call(recorded: Recorded) -> None:
    @tool(effect="read")
    async def ask(n: int) -> int:
        """Asks another agent."""
        return int((await observed(code("answer = look(n=5)")).arun("Inner")).value) + n

    assert observed(code("answer = ask(n=1)"), tools=(ask,)).run("Outer").value == 6
    tree = recorded.tree()
    assert (RUN, "execute_tool ask") in tree
    assert (RUN, None) in tree
    assert len({span.context.trace_id for span in recorded.spans}) == 1


def test_a_run_that_is_stopped_leaves_no_open_span(recorded: Recorded) -> None:
    begun = asyncio.Event()

    @tool(effect="read")
    async def hang(n: int) -> int:
        """Never ends."""
        begun.set()
        await asyncio.Event().wait()
        return n

    async def run() -> None:
        before = trace.get_current_span()
        running = asyncio.create_task(observed(code("answer = hang(n=1)"), tools=(hang,)).arun("Hang"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert trace.get_current_span() is before

    asyncio.run(run())
    assert [span.name for span in recorded.spans] == ["chat fake", "execute_tool hang", "execute_program", RUN]
    errors = {span.name: (span.attributes or {}).get("error.type") for span in recorded.spans[1:]}
    assert errors[RUN] == "CancelledError"
    assert all(errors.values())


def test_turns_and_plans_say_what_they_are(recorded: Recorded) -> None:
    conversation = observed(code("answer = look(n=1)"), code("answer = look(n=2)")).conversation()
    assert [conversation.run("One").value, conversation.run("Two").value] == [1, 2]
    turns = [dict(span.attributes or {}) for span in recorded.named(RUN)]
    assert len({turn["gen_ai.conversation.id"] for turn in turns}) == 1
    assert [turn["atc.run.conversation.turn"] for turn in turns] == [1, 2]
    planned = observed(code("answer = send(n=1)"), tools=(send,)).run("Send", dry_run=True)
    assert planned.status == "planned"
    run, chat, call = recorded.named(RUN)[-1], recorded.named("chat fake")[-1], recorded.one("execute_tool send")
    for span in (run, chat, call):
        assert span.status.status_code is StatusCode.UNSET
    assert (call.attributes or {})["atc.call.status"] == "planned"
    assert (run.attributes or {})["atc.run.dry"] is True


def test_a_run_that_waits_for_a_yes_is_no_error(recorded: Recorded) -> None:
    """Nor is a call that it does not make because an earlier one waits, nor the program that ended there."""
    program = code("send(n=1)\nleft = look(n=2)\nsend(n=left)\nanswer = 1")
    assert observed(program, tools=(send, look), approve="park").run("Send").status == "waiting"
    spans = (recorded.one(RUN), recorded.one("execute_program"), *recorded.named("execute_tool send"))
    assert [(span.attributes or {}).get("error.type") for span in spans] == [None] * 4
    assert all(span.status.status_code is StatusCode.UNSET for span in spans)
    assert [(span.attributes or {})["atc.call.status"] for span in spans[2:]] == ["pending", "refused"]
    assert recorded.metrics()["atc.runs"] == [({"atc.run.status": "waiting"}, 1)]


def test_many_tools_are_a_retrieval(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    def numbered(number: int) -> Any:
        def one(n: int) -> int:
            return n

        one.__name__, one.__doc__ = f"tool_{number}", f"Gives the number {number} times something."
        return tool(effect="read")(one)

    made = observed(code("answer = 1"), tools=[numbered(n) for n in range(6)], find_tools=False, **few(monkeypatch, 3))
    made.run("Give the number 4")
    found = recorded.one("retrieval tools")
    assert found.attributes is not None
    assert found.attributes["gen_ai.operation.name"] == "retrieval"
    assert (found.attributes["atc.tools.offered"], found.attributes["atc.tools.count"]) == (3, 6)
    assert "gen_ai.client.operation.duration" in recorded.metrics()


def test_a_tools_host_hears_of_the_trace_where_telemetry_is_on_and_else_of_nothing(recorded: Recorded) -> None:
    with running_server() as server:
        tools = import_openapi(document({"/op": {"get": operation()}}), base_url=server.url)
        with trace.get_tracer("user", tracer_provider=recorded.providers.tracer).start_as_current_span("mine"):
            agent(code("answer = op()"), tools=tools).run("Call it")
            assert not {"traceparent", "tracestate", "baggage"} & set(server.last.headers)
            observed(code("answer = op()"), tools=tools).run("Call it")
        call = recorded.one("execute_tool op")
        assert server.last.headers["traceparent"].startswith(named(call))
        assert call.attributes is not None
        assert call.attributes["gen_ai.tool.type"] == "extension"


def test_baggage_goes_out_only_where_that_was_asked_for(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry import baggage, context

    with running_server() as server:
        tools = import_openapi(document({"/op": {"get": operation()}}), base_url=server.url)
        token = context.attach(baggage.set_baggage("customer", "ann"))
        try:
            observed(code("answer = op()"), tools=tools).run("Call it")
            assert "baggage" not in server.last.headers
            monkeypatch.setenv("OTEL_PROPAGATORS", "tracecontext, baggage")
            observed(code("answer = op()"), tools=tools).run("Call it")
            assert server.last.headers["baggage"] == "customer=ann"
        finally:
            context.detach(token)


def test_a_span_that_cannot_be_made_costs_no_run(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("no span")

    monkeypatch.setattr(CallSpans, "started", fails)
    with caplog.at_level(logging.WARNING, "atc.otel"):
        assert observed(code("answer = look(n=1) + look(n=2)")).run("Look").value == 3
    assert len(caplog.records) == 1
    assert recorded.one(RUN).status.status_code is StatusCode.UNSET


def test_without_the_libraries_an_agent_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("atc.traces.telemetry.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(EnvironmentProblem, match=r"pip install .*\[otel\]'"):
        Agent([look], model=FakeModel([]), otel=True)


def test_off_is_nothing_at_all() -> None:
    assert open_telemetry(Settings.load()) is None


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin-of-old", "no exporter 'zipkin-of-old' for OTEL_TRACES_EXPORTER"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier-pigeon", "no exporter 'carrier-pigeon'"),
    ],
)
def test_variables_that_cannot_be_followed_are_named_before_a_run(
    name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=said):
        Agent([look], model=FakeModel([]), otel=True)
