"""How a program went, as a client's model is told: facts, bounded, as JSON values. What is as usual is left out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from atc import wording
from atc._host.invisible import JOINERS, legible
from atc._host.redaction import Redactor
from atc._records.records import DryRun, FaultCase, PendingCall
from atc.calls.entry import CallEntry
from atc.facts import Fault, Finding
from atc.result import Call, Result, RunStatus
from atc.run.given_program import GivenRun
from atc.run.previews import preview
from atc.serve.mcp.values import Link, Values
from atc.wording import outcomes, plans
from atc.wording.origins import careful
from atc.wording.prompting import prompt

MORE = "…"


def one_line(text: str, limit: int) -> str:
    """A text in one line of so many characters at most: a line break could begin what looks like our own words."""
    text = legible(text[: 4 * limit])
    line = " ".join("".join(each if each.isprintable() or each in JOINERS else " " for each in text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}{MORE}"


def cut(text: str, limit: int) -> str:
    """The beginning of a text, with a sign where something was left out."""
    return text if len(text) <= limit else f"{text[: limit - 1]}{MORE}"


def cut_front(text: str, limit: int) -> str:
    """The end of a text, with a sign where something was left out."""
    return text if len(text) <= limit else f"{MORE}{text[1 - limit :]}"


MAX_CALLS, MAX_FINDINGS, MAX_TEXT, MAX_PRINTED = 40, 20, 400, 4_000
"""Lines of calls, findings, characters of a text, and of what the program printed: of a report."""

MAX_ARGUMENTS, MAX_OF_ONE, MAX_FEW = 16_000, 2_000, 10
"""Characters of JSON of the arguments of all calls that wait, and of one; and lines of each kind that it has."""

Status = RunStatus | Literal["rejected"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CallReport(_Record):
    """Calls of one line of the program that ended alike.

    ``replayed``: answered from the journal. ``note``: what was repaired in their arguments. ``within``: the kept
    program that made them; ``line`` called it.
    """

    tool: str
    line: int = 0
    status: str = "ok"
    times: int = 1
    error: str = ""
    note: str = ""
    within: str = ""


class FindingReport(_Record):
    """What the check found. An ``error`` kept the program from running; a ``warning`` foretold its failure, or kept it
    from running once, for a write depends on it: the same program in the same ``run`` is run.

    ``instead``: names of tools that are meant, perhaps.
    """

    severity: Literal["error", "warning"]
    kind: str
    line: int = 0
    tool: str = ""
    message: str
    instead: list[str] = Field(default_factory=list)


class FaultReport(_Record):
    """Why the program gave no answer: the tool at fault, if one is, the line, what the tool really answered, and how
    many calls of the program are in the journal, where some failed."""

    kind: str
    line: int = 0
    source_line: str = ""
    tool: str = ""
    message: str
    answered: str = ""
    finished: str = ""


class PlanReport(_Record):
    """What a dry run found: the calls that would be made, and the line where no more could be known."""

    calls: list[str]
    stopped_at: int = 0
    why: str = ""


class PendingReport(_Record):
    """A call that waits for the user's approval.

    Attributes:
        call: its number in the run.
        arguments: exactly; where they are long, a preview of each, and ``cut``.
        feeds: where arguments come from, a line each. ``warnings``: what strangers may have chosen, and what the
            check warned about.
        changed: what was read anew and is not as it was, so that an earlier yes does not hold.
        until: when it is too late to approve it, in UTC.
        within: the kept program that makes it; ``line`` called it.
    """

    call: int
    tool: str
    line: int = 0
    arguments: dict[str, Any] = Field(default_factory=dict)
    cut: bool = False
    feeds: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    changed: list[str] = Field(default_factory=list)
    until: str = ""
    within: str = ""


class ProgramReport(_Record):
    """How a program went.

    Attributes:
        cut: the answer is not here whole, how much there is of it, and where. It stands first.
        status: as :class:`atc.result.Result` has it; ``rejected``: the check kept it from running.
        run: to be given with a revision.
        value: of ``answer``, where it is small. Bytes in it stand as links. Also of a run that is ``partial``.
        preview: the form of a value that is large, and its first items; ``links`` has the first link to it whole.
        links: to what is kept on the server.
        advice: what to do next.
        printed: by the program; the last of it.
        said: the answer in a sentence, or what the run asks, in a model's words.
        partial: a write was refused, failed or is in doubt, and the program went on without it.
        remark: what is odd about the answer, and the failures that the program caught.
        done: calls with effects that are done, of all programs of the run; a revision gets their answers from the
            journal.
        in_doubt: calls with effects of which nobody knows whether they were done.
        plan: of a dry run.
        pending: the calls that wait for the user's approval; ``more_pending``: how many more there are.
        rewrites: changes that were made to the program before it ran.
    """

    cut: str = ""
    status: Status
    run: str
    advice: str = ""
    value: Any = None
    preview: str = ""
    links: list[Link] = Field(default_factory=list)
    said: str = ""
    partial: bool = False
    remark: str = ""
    fault: FaultReport | None = None
    findings: list[FindingReport] = Field(default_factory=list)
    printed: str = ""
    calls: list[CallReport] = Field(default_factory=list)
    more_calls: int = 0
    done: list[str] = Field(default_factory=list)
    in_doubt: list[str] = Field(default_factory=list)
    plan: PlanReport | None = None
    pending: list[PendingReport] = Field(default_factory=list)
    more_pending: int = 0
    rewrites: list[str] = Field(default_factory=list)

    def brief(self) -> dict[str, Any]:
        """The report as JSON values: what is as usual is left out."""
        made = self.model_dump(mode="json", exclude_defaults=True)
        has_value = self.status == "answered" or self.partial
        return made | ({"value": self.value} if has_value and not self.preview else {})


def report_of(
    given: GivenRun, redactor: Redactor, values: Values, by: str = "run_program", *, outlives: bool = True
) -> ProgramReport:
    """The report of a run that has ended.

    Args:
        given: how it went.
        redactor: masks credentials.
        values: keeps what is too large for it.
        by: the tool that goes on with it, where it waits.
        outlives: the run is kept when the server ends, so a user finds it in a terminal.
    """
    result, facts = given.result, given.facts
    differs = result.fault is not None and result.fault.case is FaultCase.PLAN_DIFFERS
    kept = result.dry_run is not None and result.dry_run.kept
    how = {"differs": differs, "kept": kept, "outlives": outlives}
    status: Status = "rejected" if facts.rejected else result.status
    own = [call for call in result.calls if call.attempt == facts.attempt and not facts.rejected]
    calls = [*_calls(own)]
    has_value = result.status == "answered" or result.partial
    return ProgramReport(
        status=status,
        run=result.run_id,
        advice=prompt("mcp_advice", status=status, run=result.run_id, by=by, **how),
        partial=result.partial,
        remark=cut(redactor.text("; ".join(_remarks(given))), 2 * MAX_TEXT),
        fault=_fault(result.fault, result.calls, redactor) if result.fault is not None and not facts.rejected else None,
        findings=[_finding(each, redactor) for each in facts.findings[:MAX_FINDINGS]],
        printed=cut_front(redactor.text(given.facts.printed), MAX_PRINTED),
        calls=[call.model_copy(update={"error": redactor.text(call.error)}) for call in calls[:MAX_CALLS]],
        more_calls=sum(each.times for each in calls[MAX_CALLS:]),
        done=[_shown(each, redactor) for each in facts.done[-MAX_CALLS:]],
        in_doubt=[_shown(each, redactor) for each in result.in_doubt[:MAX_CALLS]],
        plan=_plan(result, redactor),
        pending=[*_pending(result.pending[:MAX_CALLS], redactor)],
        more_pending=len(result.pending[MAX_CALLS:]),
        rewrites=list(result.revisions[-1].rewrites) if result.revisions else [],
        **(values.shown(redactor.value(result.json_value), result.run_id) if has_value else {}),
    )


def _remarks(given: GivenRun) -> list[str]:
    odd = [given.facts.remark.message] if given.facts.remark is not None else []
    caught = [outcomes.remark(each.message, each.case) for each in given.result.remarks]
    return list(filter(None, (outcomes.incomplete_run(given.result), *odd, *caught)))


def _calls(calls: Iterable[Call]) -> Iterable[CallReport]:
    def alike(call: Call) -> CallReport:
        note = "; ".join(call.notes)
        return CallReport(
            tool=call.tool,
            line=call.shown_line,
            within=call.within,
            status=call.status,
            error=cut(call.error or "", MAX_TEXT),
            note=cut(note, MAX_TEXT),
        )

    for first, same in groupby(calls, alike):
        yield first.model_copy(update={"times": sum(1 for _ in same)})


def _finding(found: Finding, redactor: Redactor) -> FindingReport:
    return FindingReport(
        severity=found.severity,
        kind=found.kind,
        line=found.line or 0,
        tool=found.tool or "",
        message=cut(redactor.text(found.message), MAX_TEXT),
    )


def _fault(fault: Fault, calls: tuple[Call, ...], redactor: Redactor) -> FaultReport:
    made = next((call for call in calls if call.index == fault.call), None)
    seen = fault.evidence
    if made is not None and made.succeeded:
        seen = preview(made.value, MAX_TEXT)
    return FaultReport(
        kind=fault.kind,
        line=fault.line or 0,
        source_line=cut(redactor.text(fault.source_line), MAX_TEXT),
        tool=fault.tool or "",
        message=cut(redactor.text(fault.message), 2 * MAX_TEXT),
        answered=cut(redactor.text(seen), MAX_TEXT),
        finished=wording.finished(fault.calls_finished, fault.calls_made),
    )


def _plan(result: Result[Any], redactor: Redactor) -> PlanReport | None:
    found: DryRun | None = result.dry_run
    if found is None:
        return None
    stop = found.stop
    return PlanReport(
        calls=[_shown(call, redactor) for call in result.planned[:MAX_CALLS]],
        stopped_at=stop.line if stop is not None else 0,
        why=cut(redactor.text(stop.reason or stop.source_line), MAX_TEXT) if stop is not None else "",
    )


def _pending(calls: Iterable[PendingCall], redactor: Redactor) -> Iterable[PendingReport]:
    """The calls that wait. Of what tools answered, no more is shown than what stands in an argument."""
    room = MAX_ARGUMENTS
    for call in calls:
        arguments, size = call.arguments, len(json.dumps(call.arguments, ensure_ascii=False, default=str))
        is_cut = size > min(room, MAX_OF_ONE)
        if is_cut:
            names = [*arguments][:MAX_FEW]
            arguments = {cut(name, MAX_TEXT): preview(arguments[name], MAX_TEXT // 4) for name in names}
        else:
            room -= size
        feeds = [feed.model_copy(update={"row": {}}) for feed in call.feeds[:MAX_FEW]]
        came = plans.came(feeds, call.arguments, call.data_flow)
        warnings = [*careful(call.data_flow), *call.warnings]
        yield PendingReport(
            call=call.index,
            tool=call.tool,
            line=call.line,
            within=call.within,
            arguments=arguments,
            cut=is_cut,
            feeds=[cut(redactor.text(text), MAX_TEXT) for text in came[:MAX_FEW]],
            warnings=[cut(redactor.text(text), MAX_TEXT) for text in warnings[:MAX_FEW]],
            changed=[cut(redactor.text(plans.read_again(each)), MAX_TEXT) for each in call.changed[:MAX_FEW]],
            until=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(call.until)),
        )


def _shown(call: Call | CallEntry, redactor: Redactor) -> str:
    arguments = ", ".join(f"{name}={preview(value, MAX_TEXT // 4)}" for name, value in call.arguments.items())
    return cut(redactor.text(f"{call.tool}({arguments})"), MAX_TEXT)
