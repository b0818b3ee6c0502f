"""What is asked of the model in probing: a question with its program (ATC §4.1), helpers (§4.2), a sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atc.models.base import Message, Model
from atc.probing.record import Instance, Record
from atc.probing.sources import literal_call
from atc.programs.extract import extract
from atc.prompting import fenced, prompt
from atc.settings import Settings
from atc.tools.parameters import parameters_of
from atc.tools.protocol import Protocol
from atc.tools.stubs import render_stub

MAX_REFUSALS = 4
MAX_HELPERS = 3
_QUESTION = re.compile(r"\s*+#\s*+(?:question\s*+:?)?\s*+(.{3,300})", re.IGNORECASE)
_SENTENCE_CHARACTERS = 200
_CALL_CHARACTERS = 400


@dataclass(frozen=True)
class Proposal:
    """A question and the program that answers it, with the tools beside the probed one that it may call."""

    question: str
    program: str
    helpers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asker:
    """Asks the model; its temperature rises with each try, so that it thinks of something else."""

    model: Model
    settings: Settings

    async def propose(
        self, tool: Protocol, helpers: Sequence[Protocol], record: Record, values: Mapping[str, list[Any]], tries: int
    ) -> Proposal:
        """(q, C) = M(t, I_p), with how the last ones failed. Without a program in the reply, an empty one.

        Raises:
            BudgetExceeded, ModelError, ModelUnavailable: from the model.
        """
        text = prompt(
            "probe",
            tool=tool.name,
            stub=fenced(render_stub(tool)),
            helpers=fenced("\n\n\n".join(render_stub(helper) for helper in helpers)),
            values=[fenced(f"{name}: {json.dumps(seen, ensure_ascii=False)[:200]}") for name, seen in values.items()],
            refusals=[
                fenced(f"{literal_call(tool, refusal.arguments)[:_CALL_CHARACTERS]}: {_line(refusal.error)}")
                for refusal in record.refusals[-MAX_REFUSALS:]
            ]
            + ([fenced(f"the last program as a whole: {_line(record.broke)}")] if record.broke else []),
        )
        messages = [
            Message("system", prompt("probe_system"), fixed=True),
            Message("user", prompt("probe_example"), fixed=True),
            Message("assistant", prompt("probe_example_reply"), fixed=True),
            Message("user", text),
        ]
        reply = await self.model.complete(
            messages,
            max_tokens=min(400, self.settings.max_tokens),
            temperature=0.0 if tries < 1 else 0.7,
            seed=self.settings.seed + tries,
        )
        names = [tool.name, *(helper.name for helper in helpers)]
        found = extract(reply.text, names, truncated=reply.finish_reason == "length")
        source = found.source or ""
        asked = _QUESTION.match(source)
        question = asked[1].strip() if asked else f"What does {tool.name} return?"
        return Proposal(question, source, tuple(names[1:]))

    async def helpers(self, tool: Protocol, known: Sequence[Protocol]) -> list[str]:
        """T̂ = M(t, H, I_s): the tools whose answers this one needs, at most three.

        Raises:
            BudgetExceeded, ModelError, ModelUnavailable: from the model.
        """
        lines = [fenced(f"{other.name}: {_line(other.description) or 'no description'}") for other in known]
        text = prompt(
            "probe_helpers", tool=tool.name, parameters=", ".join(p.name for p in parameters_of(tool)), tools=lines
        )
        reply = await self.model.complete(
            [Message("user", text)], max_tokens=60, temperature=0.0, seed=self.settings.seed
        )
        names = {other.name for other in known}
        return [word for word in dict.fromkeys(re.findall(r"\w+", reply.text)) if word in names][:MAX_HELPERS]

    async def describe(self, tool: Protocol, instance: Instance) -> str:
        """One sentence about what a tool returns.

        Raises:
            BudgetExceeded, ModelError, ModelUnavailable: from the model.
        """
        response = json.dumps(instance.response, ensure_ascii=False)[:800]
        call = literal_call(tool, instance.arguments)
        text = prompt("probe_describe", tool=tool.name, call=fenced(call), response=fenced(response))
        reply = await self.model.complete(
            [Message("user", text)], max_tokens=60, temperature=0.0, seed=self.settings.seed
        )
        return _line(reply.text).strip("`\"' ")


def _line(text: str) -> str:
    """The first line of a text, short."""
    return " ".join(text.strip().partition("\n")[0].split())[:_SENTENCE_CHARACTERS]
