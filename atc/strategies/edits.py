"""Revision as a dialogue: each program with its result, as ``atc-paper`` takes Eq. 2 word by word."""

from __future__ import annotations

from collections.abc import Sequence

from atc.models.base import Message
from atc.prompting import fenced, prompt
from atc.result import Call, Revision
from atc.settings import ShowValues
from atc.strategies.feedback import done_calls
from atc.strategies.hidden_values import without_values
from atc.tools.fit import Fitter, json_documents
from atc.tools.tool import Toolset

MAX_CULPRIT = 20_000
"""Characters of the stub of a failed tool that stands beside its error."""


def edits_of(
    history: Sequence[Revision],
    calls: Sequence[Call],
    tools: Toolset,
    task: str,
    *,
    pages: bool,
    as_json: bool = False,
    show: ShowValues = "previews",
) -> list[Message]:
    """The pairs (program, result) so far, the last with the tool's protocol and what it answered.

    Args:
        history: the programs so far. ``calls``: all calls of the run.
        tools: that are offered.
        task: in the user's words.
        pages: documents say which tools are paged.
        as_json: the tool's document is shown as JSON where there is room for it whole, as the others are.
        show: how much of responses is shown.
    """
    messages = []
    if show != "previews":
        history = [*map(without_values, history)]
    for revision in history:
        last = revision is history[-1]
        fault = revision.fault
        tool = tools.get(fault.tool or "") if last and fault else None
        documents = [tool.protocol] if tool else []
        shown = json_documents(documents, pages=pages)
        if not as_json or len(shown.text) > MAX_CULPRIT:
            shown = Fitter(documents, {}, task, pages=pages).within(MAX_CULPRIT)
        problem = "\n".join(f.message for f in revision.findings) or (fault.message if fault else "")
        messages.append(
            Message("assistant", f"```python\n{revision.program}```" if revision.program else "(no program)")
        )
        messages.append(
            Message(
                "user",
                prompt(
                    "revision_paper",
                    problem=fenced(problem),
                    protocol=fenced(shown.text),
                    language=shown.language,
                    evidence=fenced(fault.evidence if fault and last else ""),
                    done=done_calls(calls, show) if last else [],
                ),
            )
        )
    return messages
