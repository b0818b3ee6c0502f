"""The spans of one run, made of its events as they happen.

Events come in the task that goes on with what they tell. So a span that begins with one is made the current span there,
and what that task calls becomes its child: concurrent calls and concurrent runs never see each other's.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, StatusCode, Tracer

from atc._records.events import Event
from atc.models.base import Model
from atc.tools.tool import Toolset
from atc.traces.telemetry import conventions as names
from atc.traces.telemetry.calls import CallSpans, ObservedModel, Placed
from atc.traces.telemetry.conventions import Content, Metrics

_log = logging.getLogger("atc.otel")

MAX_NOTES = 100
"""Notes of one run: programs that the check refused, tools that broke, stages."""
FINE = frozenset({"answered", "planned", "needs_input", "waiting"})
"""Statuses of runs that did what was asked for, or wait for their user."""


@dataclass
class _Ended:
    """A program that has ended, whose fault may still be found."""

    span: Span
    attempt: int
    at: int


class RunSpans:
    """The spans of one run. A context manager: what is still open at the end of the block is ended.

    Args:
        tracer: makes the spans.
        metrics: take durations and counts.
        tools: of the agent.
        content: of the run, where tasks, prompts, programs, arguments and values are recorded.
        baggage: the caller's is passed on.
    """

    def __init__(
        self, tracer: Tracer, metrics: Metrics, tools: Toolset, content: Content | None, *, baggage: bool
    ) -> None:
        self._tracer, self._metrics, self._content, self._baggage = tracer, metrics, content, baggage
        self._purpose: ContextVar[str] = ContextVar("atc_otel_purpose", default="")
        self._run: Span | None = None
        self._of_run = Context()
        self._placed: Placed | None = None
        self._began = 0
        self._program: Span | None = None
        self._program_placed: Placed | None = None
        self._source = ""
        self._ended: _Ended | None = None
        self._notes = 0
        self._chosen = self._broken = False
        self._calls = CallSpans(tracer, metrics, tools, content, baggage=baggage)
        self._told: dict[str, Callable[[dict[str, Any], int], None]] = {
            "run_started": self._run_started,
            "tools_chosen": self._tools_chosen,
            "model_started": self._model_started,
            "program_written": self._program_written,
            "findings": self._findings,
            "program_started": self._program_started,
            "approval_asked": lambda data, at: self._calls.asked(data, at, self._acting()),
            "call_started": lambda data, at: self._calls.started(data, at, self._acting()),
            "call_ended": lambda data, at: self._calls.ended(data, at, self._acting()),
            "program_ended": self._program_ended,
            "fault": self._fault,
            "stage_started": lambda data, at: self._note("atc.stage", at, {"atc.stage": data["stage"]}),
            "tool_banned": self._tool_banned,
            "substituted": self._substituted,
            "answered": self._answered,
            "run_ended": self._run_ended,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._safely(lambda: self._close(kind))

    def heard(self, event: Event) -> None:
        """Take an event."""
        told = self._told.get(event.kind)
        if told is not None:
            self._safely(lambda: told(event.data, round(event.at * 1e9)))

    def model(self, model: Model) -> Model:
        """The same model, whose requests are spans of this run."""
        return ObservedModel(
            model, self._tracer, self._metrics, self._here, self._purpose.get, self._content, self._baggage
        )

    def _safely(self, work: Callable[[], None]) -> None:
        """Do it; a run never fails because of its telemetry."""
        try:
            work()
        except Exception:
            if not self._broken:
                self._broken = True
                _log.warning("a span of this run could not be made", exc_info=True)

    # -- where things belong ---------------------------------------------------------------------------------------

    def _here(self) -> Context:
        now = trace.get_current_span().get_span_context()
        ours = trace.get_current_span(self._of_run).get_span_context()
        return otel_context.get_current() if now.trace_id == ours.trace_id else self._of_run

    def _acting(self) -> Context:
        """The context that calls belong to: the program's, or the run's where a strategy calls by itself."""
        return self._program_placed.context if self._program_placed is not None else self._of_run

    def _note(self, name: str, at: int, about: dict[str, Any]) -> None:
        if self._run is not None and self._notes < MAX_NOTES:
            self._notes += 1
            self._run.add_event(name, about, at)

    def _tool_banned(self, data: dict[str, Any], at: int) -> None:
        self._note("atc.tool_banned", at, {names.TOOL_NAME: names.short(data["tool"])})

    def _substituted(self, data: dict[str, Any], at: int) -> None:
        of, by = names.short(data["tool"]), names.short(data["by"])
        self._note("atc.substituted", at, {names.TOOL_NAME: by, "atc.tool.instead_of": of})

    # -- the run ---------------------------------------------------------------------------------------------------

    def _run_started(self, data: dict[str, Any], at: int) -> None:
        about: dict[str, Any] = {
            names.OPERATION: "invoke_agent",
            names.AGENT_NAME: names.AGENT,
            names.REQUEST_MODEL: data["model"],
            "atc.run.id": data["run_id"],
            "atc.strategy": data["strategy"],
            "atc.tools.count": data["tools"],
        }
        if "turn" in data:
            about[names.CONVERSATION] = data["run_id"]
            about["atc.run.conversation.turn"] = data["turn"]
        if data.get("dry_run"):
            about["atc.run.dry"] = True
        if self._content is not None:
            about[names.INPUT_MESSAGES] = self._content.said("user", data["task"])
        self._began = at
        self._run = self._tracer.start_span(f"invoke_agent {names.AGENT}", attributes=about, start_time=at)
        self._placed = Placed.enter(self._run, baggage=self._baggage)
        self._of_run = self._placed.context

    def _tools_chosen(self, data: dict[str, Any], at: int) -> None:
        if self._run is None or self._chosen:
            return  # a program that asks for more tools is a call of its own
        self._chosen = True
        self._run.set_attribute("atc.tools.offered", len(data["tools"]))
        if data.get("of", 0) <= len(data["tools"]):
            return  # all are offered: nothing was searched for
        about: dict[str, Any] = {
            names.OPERATION: "retrieval",
            names.DATA_SOURCE: names.TOOL_INDEX,
            "atc.tools.count": data["of"],
            "atc.tools.offered": len(data["tools"]),
            "atc.retrieval.sure": data.get("sure", True),
        }
        if self._content is not None:
            about[names.QUERY] = self._content.json(data.get("queries", []))
        span = self._tracer.start_span(
            f"retrieval {names.TOOL_INDEX}", self._of_run, attributes=about, start_time=self._began
        )
        span.end(at)
        operation = {name: about[name] for name in (names.OPERATION, names.DATA_SOURCE)}
        self._metrics.retrieval_duration.record((at - self._began) / 1e9, operation, self._of_run)

    def _model_started(self, data: dict[str, Any], at: int) -> None:
        self._purpose.set(data["purpose"])  # of this task: its request follows

    def _answered(self, data: dict[str, Any], at: int) -> None:
        if self._run is not None and self._content is not None:
            self._run.set_attribute(names.OUTPUT_MESSAGES, self._content.replies([(data["answer"], "stop")]))
            self._run.set_attribute("atc.run.value", self._content.json(data["value"]))

    def _run_ended(self, data: dict[str, Any], at: int) -> None:
        self._stop(at)
        if self._run is None:
            return
        run, usage, status = self._run, data["usage"], data["status"]
        run.set_attribute("atc.run.status", status)
        run.set_attribute(names.INPUT_TOKENS, usage["prompt_tokens"])
        run.set_attribute(names.OUTPUT_TOKENS, usage["completion_tokens"])
        run.set_attribute("atc.run.model_calls", usage["model_calls"])
        run.set_attribute("atc.run.tool_calls", usage["tool_calls"])
        if data.get("cost") is not None:
            run.set_attribute("atc.run.cost", float(data["cost"]))
            run.set_attribute("atc.run.currency", data.get("currency", ""))
        about: dict[str, Any] = {names.OPERATION: "invoke_agent", names.AGENT_NAME: names.AGENT}
        if status not in FINE or data.get("raised"):
            raised = sys.exception() if data.get("raised") else None  # the event comes while it is handled
            kind = _kind_of(data["fault"]) if data.get("fault") else status
            about[names.ERROR_TYPE] = type(raised).__name__ if raised is not None else kind
            _failed(run, about[names.ERROR_TYPE], data.get("fault"), self._content)
        self._run_over(at, about, status)
        self._metrics.run_inferences.record(usage["model_calls"], about, self._of_run)
        self._metrics.run_tool_calls.record(usage["tool_calls"], about, self._of_run)

    def _run_over(self, at: int | None, about: dict[str, Any], status: str) -> None:
        if self._run is None:
            return
        if self._calls.untold:
            self._run.set_attribute("atc.calls.without_span", self._calls.untold)
        self._run.end(at)
        self._run = None
        self._metrics.runs.add(1, {"atc.run.status": status}, self._of_run)
        if at is not None:
            self._metrics.run_duration.record((at - self._began) / 1e9, about, self._of_run)

    def _close(self, kind: type[BaseException] | None) -> None:
        self._stop(None)
        if self._run is not None:  # its end could not be told
            name = kind.__name__ if kind is not None else names.OTHER
            _failed(self._run, name, None, None)
            self._run_over(None, {}, "failed")
        if self._placed is not None:
            self._placed.leave()
            self._placed = None

    def _stop(self, at: int | None) -> None:
        self._calls.close(at)
        self._settle()
        if self._program is not None:
            _failed(self._program, "stopped", None, None)
            self._program.end(at)
            self._program = self._program_placed = None

    # -- programs --------------------------------------------------------------------------------------------------

    def _program_written(self, data: dict[str, Any], at: int) -> None:
        self._source = data["program"] if self._content is not None else ""

    def _findings(self, data: dict[str, Any], at: int) -> None:
        found = data["findings"]
        kinds = sorted({names.short(each.get("kind")) for each in found})[:20]
        about = {"atc.program.attempt": data["attempt"], "atc.findings.count": len(found), "atc.findings.kinds": kinds}
        self._note("atc.program_refused", at, about)

    def _program_started(self, data: dict[str, Any], at: int) -> None:
        self._settle()
        about: dict[str, Any] = {"atc.program.attempt": data["attempt"], "atc.program.warnings": len(data["warnings"])}
        if self._content is not None and self._source:
            about["atc.program.source"] = self._content.text(self._source)
        self._program = self._tracer.start_span("execute_program", self._of_run, attributes=about, start_time=at)
        self._program_placed = Placed.enter(self._program, self._of_run, baggage=self._baggage)

    def _program_ended(self, data: dict[str, Any], at: int) -> None:
        if self._program is None or self._program_placed is None:
            return
        span, kind = self._program, data["kind"]
        span.set_attribute("atc.program.outcome", kind)
        span.set_attribute("atc.program.isolation", data["isolation"])
        if "host_s" in data:
            span.set_attribute("atc.program.host_s", data["host_s"])
        if kind != "finished" and not self._calls.held_back:
            _failed(span, kind, None, None)
        self._ended = _Ended(span, data["attempt"], at)
        self._program_placed.leave()
        self._program = self._program_placed = None

    def _fault(self, data: dict[str, Any], at: int) -> None:
        fault, ended = data["fault"], self._ended
        if ended is not None and ended.attempt == data["attempt"]:
            _failed(ended.span, _kind_of(fault), fault, self._content)
            self._settle()
            return
        about = {"atc.program.attempt": data["attempt"], **_facts_of(fault)}
        self._note("atc.fault", at, about)

    def _settle(self) -> None:
        """End the span of the program before: what its fault was is known now, or never will be."""
        if self._ended is not None:
            self._ended.span.end(self._ended.at)
            self._ended = None


def _kind_of(fault: dict[str, Any]) -> str:
    return names.error_name(fault.get("cause") or fault.get("case") or fault.get("kind"))


def _facts_of(fault: dict[str, Any]) -> dict[str, Any]:
    known = {"kind": fault.get("kind"), "cause": fault.get("cause"), "case": fault.get("case")}
    facts = {f"atc.fault.{name}": value for name, value in known.items() if value}
    if fault.get("tool"):
        facts["atc.fault.tool"] = names.short(fault["tool"])
    for name in ("call", "line"):
        if isinstance(fault.get(name), int) and fault[name]:
            facts[f"atc.fault.{name}"] = fault[name]
    return facts


def _failed(span: Span, error: str, fault: dict[str, Any] | None, content: Content | None) -> None:
    """Say that it failed, by data; the sentence about it may hold what users wrote, and stands with the content."""
    span.set_status(StatusCode.ERROR)
    span.set_attribute(names.ERROR_TYPE, error)
    if fault:
        span.set_attributes(_facts_of(fault))
        if content is not None and fault.get("reason"):
            span.set_attribute("atc.fault.reason", content.text(fault["reason"]))
