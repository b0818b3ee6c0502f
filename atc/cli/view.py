"""The live view of a run: each event as it happens. Colours and a spinner on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import difflib
import json
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.syntax import Syntax
from rich.text import Text

from atc import wording
from atc._records.events import Event
from atc._records.packing import as_text, shortened, unpack
from atc._records.prices import money_text
from atc._records.records import (
    WARNINGS,
    BodyError,
    DataFlow,
    Drift,
    DryRun,
    FaultCase,
    Feed,
    Invocation,
    PendingCall,
    Replacement,
    SketchFacts,
)
from atc.calls.question import visible_name
from atc.cli.console import clean
from atc.cli.followed import Followed
from atc.result import Effect
from atc.run.ask_user import NAME as ASK_USER
from atc.wording import doubts, outcomes, plans, sketches
from atc.wording.origins import careful

_MARKS = {
    "ok": ("✓", "green"),
    "replayed": ("↺", "cyan"),
    "refused": ("✗", "red"),
    "failed": ("✗", "red"),
    "in_doubt": ("?", "yellow"),
    "planned": ("○", "yellow"),
    "pending": ("○", "yellow"),
}
MAX_ANSWER = 2_000
"""Characters of a value that are shown beside its answer."""
_NOT_MADE = {"replayed": "from the journal", "planned": "", "pending": ""}
_REFUSALS = {"denied": "not approved", "warned": "not made without approval"}
_PURPOSES = {
    "program": "writing a program",
    "attribute": "tracing the fault",
    "tools": "searching for tools",
    "step": "taking a step",
    "plan": "planning",
    "conclude": "drawing the answer",
}
_ENDINGS = {
    "denied": "not approved",
    "missing": "something is missing",
    "tool_broken": "a tool is broken",
    "in_doubt": "in doubt",
    "needs_input": "waits for your answer",
    "waiting": "waits for your approval",
}


class RunView:
    """Prints the events of one run to a console.

    Args:
        console: a terminal gets colours and a spinner, anything else lines.
        stored: the run is read back: no exception shows how it broke off.
        verbose: tell of every tool why it is offered, and what feeds what; of a stored run also where the arguments of
            its writes came from.
        goes_on: with a run that waited for approval; by default a command.
    """

    def __init__(self, console: Console, *, stored: bool = False, verbose: bool = False, goes_on: str = "") -> None:
        self._console, self._stored, self._verbose, self._goes_on = console, stored, verbose, goes_on
        self._status: Status | None = None
        self._program = ""
        self._programs = 0  # of the task
        self._acted = False  # a call with effects was done for this task
        self._turn: Any = self  # of the last task; of none yet
        self._resumed = False
        self._followed = Followed() if stored and verbose else None
        self._told: set[int] = set()  # calls whose origins are shown
        self._open: dict[int, dict[str, Any]] = {}  # calls that have begun, by number
        self._states: dict[int, str] = {}  # of those, how far they have come
        self._ended: dict[int, dict[str, Any]] = {}  # calls to show once those before them have ended

    def __call__(self, event: Event) -> None:
        if self._followed is not None:
            self._followed.see(event.kind, event.data)
        handler = getattr(self, f"_on_{event.kind}", None)
        if handler is not None:
            handler(event.data)

    def close(self) -> None:
        """End the drawing; nothing is drawn later."""
        self._wait_for(None)
        self._show_calls(whole=True)

    def line(self, text: str, style: str = "") -> None:
        """Print one line; text from outside cannot steer the terminal."""
        self._console.print(Text(clean(text), style=style))

    def _wait_for(self, what: str | None) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
        if what is not None and self._console.is_terminal:
            self._status = self._console.status(Text(clean(what)))
            self._status.start()

    def _on_run_started(self, data: dict[str, Any]) -> None:
        self._show_calls(whole=True)
        self._resumed, self._turn = self._turn == data.get("turn"), data.get("turn")
        if self._resumed:
            self.line("── resumed: what succeeded is not done again ──", "bold")
            return
        self._programs = 0
        where = f" at {data['endpoint']}" if data.get("endpoint") else ""
        how = f"  strategy {name}" if (name := data.get("strategy", "chain")) != "chain" else ""
        self.line(f"run {data['run_id']}  model {data['model']}{where}{how}", "dim")
        if data.get("dry_run"):
            self.line("dry run: reads run, calls with effects are listed and not made", "yellow")
        for image in data.get("images", ()):
            self.line(f"image {image['name']} ({image['type']}, {image['bytes']:,} bytes)", "dim")

    def _on_tools_chosen(self, data: dict[str, Any]) -> None:
        self._wait_for(None)
        if "found" in data:
            for what, names in (("found", data["found"]), ("shown whole", data.get("whole", ()))):
                if names:
                    self.line(f"{what} for the next program: {', '.join(names)}", "dim")
            return
        names = ", ".join(data["tools"])
        self.line(f"tools ({len(data['tools'])} of {data['of']}): {names}", "dim")
        sketch = SketchFacts.of_trace(data)
        for line in sketches.lines(sketch, whole=self._verbose):
            self.line(f"  {line}", "dim")
        for notice in sketch.notices:
            self.line(f"  note: {notice}", "yellow")

    def _on_tool_probed(self, data: dict[str, Any]) -> None:
        arguments = ", ".join(f"{name}={as_text(value)[:40]}" for name, value in data["arguments"].items())
        learnt = "the shape of its answer is known now" if data["learnt"] else "its answer showed nothing"
        came = learnt if data["status"] == "ok" else f"nothing is learnt ({data['status']})"
        self.line(f"probed {data['tool']}({arguments}): {came}", "dim")

    def _on_indexing(self, data: dict[str, Any]) -> None:
        of = f" of {data['total']:,}" if data["total"] else ""
        what = f"making the index of the tools, {data['stage']}: {data['done']:,}{of}"
        if self._console.is_terminal:
            self._wait_for(f"{what} …")
        else:
            self.line(what, "dim")

    def _on_model_started(self, data: dict[str, Any]) -> None:
        self._wait_for(f"{_PURPOSES.get(data['purpose'], data['purpose'])} …")

    def _on_model_waiting(self, data: dict[str, Any]) -> None:
        silent = f"{data['seconds']:.0f} s so far, nothing from the model for {data['silent']:.0f} s"
        purpose = _PURPOSES.get(data["purpose"], data["purpose"])
        if self._console.is_terminal:
            self._wait_for(f"{purpose} … {silent}")
        else:
            self.line(f"{purpose}: {silent}", "dim")

    def _on_model_ended(self, data: dict[str, Any]) -> None:
        self._wait_for(None)
        cached = ", from the cache" if data["cached"] else ""
        used = f"{data['prompt_tokens']}+{data['completion_tokens']} tokens, {data['seconds']:.1f} s{cached}"
        self.line(f"{_PURPOSES.get(data['purpose'], data['purpose'])}: {used}", "dim")
        if notice := data.get("notice"):
            self.line(f"  note: {notice}", "yellow")

    def _on_store_waiting(self, data: dict[str, Any]) -> None:
        said = outcomes.store_waiting(data["journal"])
        if self._console.is_terminal:
            self._wait_for(f"{said} …")
        else:
            self.line(said, "dim")

    def _on_stage_started(self, data: dict[str, Any]) -> None:
        what = "the next task" if data["new_request"] else f"stage {data['stage']}: what was done so far is kept"
        self.line(f"── {what} ──", "bold")
        self._program = ""  # the next program is no revision of the last
        self._acted = self._acted and not data["new_request"]

    def _on_layer_started(self, data: dict[str, Any]) -> None:
        names = ", ".join(map(clean, data["tools"]))
        self.line(f"── step {data['layer']} of {len(data['layers'])}: {names} ──", "bold")
        self._program = ""

    def _on_program_written(self, data: dict[str, Any]) -> None:
        program = clean(data["program"])
        if not program:
            return
        self._programs = max(self._programs, data["attempt"]) + 1  # a resume counts its attempts anew
        title = f"program {self._programs}"
        if self._program:
            lines = difflib.unified_diff(
                self._program.splitlines(), program.splitlines(), "before", "after", lineterm="", n=2
            )
            text, language, title = "\n".join(lines) or "(the same program)", "diff", f"{title}, what changed"
        else:
            text, language = program.rstrip("\n"), "python"
        self.line(f"── {title} ──", "bold")
        if self._console.is_terminal:
            self._console.print(Syntax(text, language, theme="ansi_dark", background_color="default"))
        else:
            self.line(text)
        for note in data.get("rewrites", ()):
            self.line(f"  rewritten: {note}", "dim")
        self._program = program

    def _on_findings(self, data: dict[str, Any]) -> None:
        self.line("── not run; the check found ──", "bold yellow")
        for finding in data["findings"]:
            self.line(f"  {finding['message']}", "yellow")

    def _on_program_started(self, data: dict[str, Any]) -> None:
        for warning in data.get("warnings", ()):
            self.line(f"  run although: {warning}", "yellow")
        self.line("── calls ──", "bold")
        self._wait_for("running …")

    def _on_approval_asked(self, data: dict[str, Any]) -> None:
        self._open[data["index"]] = data
        self._states[data["index"]] = "asked about, and not made"
        self._wait_for(None)  # a spinner would write over the question
        if self._stored:  # else it is on the screen, or on a page
            self.line(f"  asked: {data['tool']}({_arguments(data['arguments'])})", "yellow")
            feeds = [Feed.model_validate_json(json.dumps(each)) for each in data.get("feeds", ())]
            self._show_origins(feeds, data)
            self._told.add(data["index"])

    def _on_question_asked(self, data: dict[str, Any]) -> None:
        self._wait_for(None)  # the call that asks is shown by itself

    def _on_call_started(self, data: dict[str, Any]) -> None:
        self._open[data["index"]] = data
        self._states[data["index"]] = "not ended"
        if not self._stored:
            self._wait_for(f"{data['tool']} …")

    def _on_call_sent(self, data: dict[str, Any]) -> None:
        self._states[data["index"]] = "sent, and its outcome is not known (`atc runs settle`)"
        if not self._stored and (begun := self._open.get(data["index"])) is not None:
            self._wait_for(f"{begun['tool']} …")  # its record may have been waited for

    def _on_call_ended(self, data: dict[str, Any]) -> None:
        self._wait_for("running …")
        self._open.pop(data["index"], None)
        self._ended[data["index"]] = data
        self._show_calls()

    def _show_calls(self, *, whole: bool = False) -> None:
        """A call that ended early waits for those that began before it; with ``whole`` no more comes: all are shown."""
        first_open = min(self._open, default=None)
        for number in sorted(self._ended | (self._open if whole else {})):
            if not whole and first_open is not None and number > first_open:
                return
            if (data := self._ended.pop(number, None)) is not None:
                self._show_call(data)
            elif (data := self._open.pop(number)) and self._stored:
                state = self._states.get(number, "not ended")
                self.line(f"  … {number}. {data['tool']}({_arguments(data['arguments'])})  {state}", "yellow")

    def _show_call(self, data: dict[str, Any]) -> None:
        mark, style = _MARKS[data["status"]]
        awaits = dict.fromkeys(f"{visible_name(feed['argument'])}=…" for feed in data.get("awaits", ()))
        arguments = ", ".join(filter(None, [_arguments(data["arguments"]), *awaits]))
        status = data["status"]
        if status == "refused":
            status = _REFUSALS.get(str(data.get("error_status")), status)
        self._acted |= status in ("ok", "replayed") and data.get("effect") not in (None, Effect.READ.value)
        result = f"{status}: {data['error']}" if data["error"] is not None else _short(data["value"], 100)
        if status in ("planned", "pending"):
            result = "planned, not made" if status == "planned" else "waits for approval, not made"
        if data["tool"] == ASK_USER and status == "failed" and data.get("error_status") == "stopped":
            mark, style, result = "?", "yellow", "not answered yet"
        took = _NOT_MADE.get(data["status"], f"{data['seconds'] * 1000:.0f} ms")
        within = f" within {visible_name(data['within'])}" if data.get("within") else ""
        self.line(f"  {mark} {data['index']}. {data['tool']}({arguments}){within}  {took}".rstrip(), style)
        self.line(f"      → {result}", "dim")
        found = [wording.drifted(Drift.model_validate(each)) for each in data.get("drift", ())]
        if data.get("body_error"):
            found.append(wording.stated(BodyError.model_validate(data["body_error"])))
        for note in (*data["notes"], *found):
            self.line(f"      note: {note}", "dim")
        if self._stored and data["index"] not in self._told and data["status"] not in ("planned", "pending"):
            self._show_origins((), data)

    def _show_origins(self, feeds: Sequence[Feed], data: dict[str, Any]) -> None:
        known = data.get("data_flow") or {}
        flow: DataFlow | None = DataFlow.model_validate_json(json.dumps(known))
        if not known and self._followed is not None:
            flow = self._followed.flow_of(data)
        self._say_origins(feeds, data["arguments"], flow, "      ")

    def _say_origins(self, feeds: Sequence[Feed], arguments: dict[str, Any], flow: DataFlow | None, at: str) -> None:
        for text in plans.came(feeds, arguments, flow):
            self.line(f"{at}{text}", "dim")
        for text in careful(flow):
            self.line(f"{at}careful: {text}", "yellow")

    def _on_program_ended(self, data: dict[str, Any]) -> None:
        self._wait_for(None)
        self._show_calls(whole=True)
        if data["stdout"].strip():
            self.line("  printed: " + data["stdout"].strip()[:500], "dim")
        if names := data.get("looked"):
            self.line(f"looked at {', '.join(map(visible_name, names))}: the next program has them", "dim")

    def _on_fault(self, data: dict[str, Any]) -> None:
        self._show_calls(whole=True)
        fault = data["fault"]
        tool = f" of {fault['tool']}" if fault["tool"] else ""
        self.line(f"── fault{tool} ({fault['kind']}) ──", "bold red")
        self.line(f"  {fault['message']}", "red")
        if fault["source_line"]:
            self.line(f"  in: {fault['source_line']}", "dim")
        if fault["evidence"]:
            self.line(f"  {fault['evidence'][:400]}", "dim")
        if some := wording.finished(fault.get("calls_finished", 0), fault.get("calls_made", 0)):
            self.line(f"  {some}", "dim")
        if fault.get("traceback"):
            self.line(f"  traceback: {fault['traceback']}", "dim")

    def _on_tool_banned(self, data: dict[str, Any]) -> None:
        substitutes = [Replacement.model_validate(each) for each in data["substitutes"]]
        self.line(f"  {clean(wording.is_down(data['tool'], substitutes))}", "yellow")

    def _on_substituted(self, data: dict[str, Any]) -> None:
        self.line(clean(f"{data['by']} took the place of {data['tool']}"), "dim")

    def _on_call_settled(self, data: dict[str, Any]) -> None:
        self._states[data["index"]] = "not ended then"
        self.line(clean(doubts.settled_event(data["index"], data["tool"], data["outcome"], data["by"])), "yellow")

    def _on_call_undone(self, data: dict[str, Any]) -> None:
        self.line(clean(f"call {data['index']} ({data['tool']}) was undone by run {data['run']}"), "yellow")

    def _on_answered(self, data: dict[str, Any]) -> None:
        if data.get("unresolved"):
            self.line("── answer, with an unresolved warning ──", "yellow")
        else:
            self.line("── answer ──", "bold green")
        value = _short(data["value"], MAX_ANSWER)
        no_value = data["value"] is None and self._acted  # what it did is its answer, and stands with the calls
        if no_value and data["answer"] in ("", value):
            self.line(outcomes.NO_VALUE)
        elif data["answer"]:
            self.line(data["answer"])
        if data["answer"] != data["value"] and not no_value:
            self._show_value(data["value"])

    def _show_value(self, value: Any) -> None:
        text = _short(value, sys.maxsize)
        size = f" (the first {MAX_ANSWER:,} of {len(text):,} characters; --json has all)" * (len(text) > MAX_ANSWER)
        self.line(f"value{size}: {_short(value, MAX_ANSWER)}")

    def _on_run_ended(self, data: dict[str, Any]) -> None:
        self._wait_for(None)
        self._show_calls(whole=True)
        found = DryRun.model_validate_json(json.dumps(data["dry_run"])) if data.get("dry_run") else None
        if found is not None and (found.planned or data["status"] == "answered"):
            self._show_planned(found, data["run_id"])
        if data.get("pending"):
            self._show_pending(data)
        if data["status"] not in ("answered", "planned", "waiting"):
            impossible = data["fault"] and data["fault"].get("case") == FaultCase.IMPOSSIBLE
            ending = "no tool can do it" if impossible else _ENDINGS.get(data["status"], data["status"])
            self.line(f"── {ending} ──", "bold red")
            raised = data.get("raised") and not self._stored  # whoever catches the exception prints it
            if data["fault"] and not raised:
                self.line(data["fault"]["message"], "red")
                if data["fault"].get("hint"):
                    self.line(data["fault"]["hint"], "yellow")
            made = [_invocations(data.get(name, ())) for name in ("done", "not_done")]
            for line in outcomes.effects(*made, in_doubt=data["status"] == "in_doubt"):
                self.line(line, "yellow")
        if data["status"] == "in_doubt" and data.get("trace"):
            self.line(doubts.to_settle(data["run_id"]), "yellow")
        partial, caught = data.get("partial", False), [each["message"] for each in data.get("remarks", ())]
        if partial and data["status"] != "answered":  # else the answer was shown
            self._show_value(data["value"])
        remarks = [(each["message"], each.get("case", "")) for each in data.get("remarks", ())]
        for message, case in remarks:
            if case not in WARNINGS:
                self.line(f"  note: {outcomes.remark(message, case)}", "yellow")
        usage = data["usage"]
        tokens = f"{usage['prompt_tokens']}+{usage['completion_tokens']} tokens"
        if (cost := data.get("cost")) is not None:
            tokens += f", {money_text(Decimal(str(cost)), data.get('currency', ''))}"
        since = "since the resume, " if self._resumed else ""
        self.line(
            f"{since}{usage['seconds']:.1f} s: "
            f"{_calls(usage['model_calls'], 'model')} ({tokens}, {usage['model_seconds']:.1f} s), "
            f"{_calls(usage['tool_calls'], 'tool')} ({usage['tool_seconds']:.2f} s); "
            f"isolation: {data['isolation'] or 'not run'}",
            "dim",
        )
        for message, case in remarks:
            if case in WARNINGS:
                self.line(message, "bold yellow")
        if partial:
            fault = data["fault"]["message"] if data["fault"] else None
            self.line(outcomes.incomplete(data["status"], fault, caught), "bold yellow")

    def _show_pending(self, data: dict[str, Any]) -> None:
        self.line("── waits for your approval ──", "bold yellow")
        for each in data["pending"]:
            call = PendingCall.model_validate(each)
            for number, line in enumerate(plans.pending_call(call)):
                self.line(f"  {line}", "" if number == 0 else "dim")
        self.line(outcomes.to_approve(data["run_id"], self._goes_on), "yellow")

    def _show_planned(self, found: DryRun, run_id: str) -> None:
        self.line(f"── dry run: {plans.heading(found)} ──", "bold yellow" if found.planned else "bold green")
        for call in found.planned:
            rests = "  (a read)" if call.effect == Effect.READ.value else ""
            self.line(f"  {call.index}. {plans.planned_call(call)}{rests}")
            self._say_origins(call.feeds, call.arguments, call.data_flow, "       ")
            for note in call.notes:
                self.line(f"       note: {note}", "dim")
            for warning in call.warnings:
                self.line(f"       warning: {warning}", "dim")
        if found.stop is not None:
            self.line(f"  {plans.stop(found.stop, found.planned)}", "yellow")
        if found.unseen:
            self.line(f"  {plans.unseen(found.unseen)}", "yellow")
        if found.planned:
            self.line(plans.to_apply(run_id) if found.kept else plans.AGAIN)


def _short(value: Any, limit: int) -> str:
    with contextlib.suppress(ValueError):  # a trace that somebody wrote by hand
        value = unpack(value)
    return shortened(as_text(value), limit)


def _arguments(given: dict[str, Any]) -> str:
    return ", ".join(f"{visible_name(name)}={_short(value, 60)}" for name, value in given.items())


def _invocations(data: Iterable[Any]) -> list[Invocation]:
    return [Invocation.model_validate_json(json.dumps(each)) for each in data]


def _calls(number: int, kind: str) -> str:
    return f"{number} {kind} call{'s' * (number != 1)}"
