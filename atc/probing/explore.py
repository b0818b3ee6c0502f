"""Instance discovery (ATC §4.1): ways to call one tool, tried until it answers; then a few more, to see its variety.

Structure goes first: what the schema says, what the service said, what was seen elsewhere. Where it is not sure, the
model writes a question and a program. No call is made twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atc.calls.json_values import canonical
from atc.errors import BudgetExceeded, ModelError
from atc.models.base import Message, Model
from atc.probing.arguments import NONSENSE
from atc.probing.call_policy import Meter, Runner
from atc.probing.candidates import (
    LIKELY,
    SURE,
    WEAK,
    Bindings,
    Candidate,
    ValuePool,
    candidates,
    combinations,
    is_word,
    least_sure,
    literal_call,
)
from atc.probing.document import merged_arguments, protocol_of
from atc.probing.record import Record, key_of, printable
from atc.programs.extract import extract
from atc.result import Effect
from atc.schemas.identifiers import HANDED_OUT, THINGS, is_identifier, words_of
from atc.schemas.infer.shape import mask
from atc.schemas.protocol import Protocol, parameters_of
from atc.schemas.types import OBSERVED
from atc.settings import Settings
from atc.tools.stubs import render_stub
from atc.wording.prompting import fenced, prompt

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


def _line(text: str) -> str:
    """The first line of a text, short."""
    return " ".join(text.strip().partition("\n")[0].split())[:_SENTENCE_CHARACTERS]


FIRST_STRUCTURAL, LAST_STRUCTURAL = 4, 2
"""Tries of structure before the model is asked, and after it has failed."""
_MEASURES = "value amount price rate weight distance radius latitude longitude temperature height width length km"
_AMOUNTS = frozenset((word,) for word in _MEASURES.split())
"""Words for measures, whose values may be fractions."""
MAX_OFFERED = 60
"""Known tools that the model is offered as helpers."""
MORE_INSTANCES = 2
MAX_PROVOKED = 4
"""Calls with nonsense in optional arguments."""


@dataclass
class Explorer:
    """Probes single tools for a :class:`~atc.probing.prober.Prober`; several at the same time.

    Args:
        runner: where programs run.
        records: of all tools.
        pool: values seen so far.
        tries: programs that the model writes for a tool in a round.
        single: there are no rounds after the first.
        keep: called with a record after every program: whatever stops us, nothing is tried twice.
    """

    runner: Runner
    records: dict[str, Record]
    pool: ValuePool
    asker: Asker | None
    meter: Meter
    tries: int
    single: bool
    keep: Callable[[Record], None]
    attempts: dict[str, int] = field(default_factory=dict)

    def remember(self) -> None:
        """Take the values of earlier sessions into the pool."""
        for record in self.records.values():
            for instance in record.instances:
                self.pool.add(record.name, instance.arguments, instance.response)

    async def probe(self, record: Record, number: int) -> None:
        """Try one tool in one round: alone in the first, with the help of known ones later (``LLMProb(T̂ ∪ {t})``)."""
        chain = number > 1
        if not self._may_go_on(record):
            return
        found = await self._discover(record, chain)
        if not self._may_go_on(record) and not found:
            return
        if found:
            record.state, record.reason, record.round = "documented", "", number
            await self._vary(record)
        elif record.answered:
            record.state, record.reason = "partial", "every answer was empty"
        else:
            record.state, record.reason = "undocumented", _last(record)

    def _may_go_on(self, record: Record) -> bool:
        if why := self.meter.closed(record.name):
            own = bool(self.meter.calls.get(record.name)) and not self.meter.closed_itself(record.name)
            record.state = "partial" if record.answered else "undocumented"
            record.reason = f"{_last(record)}; then {why}" if own else why
            return False
        if not self.meter.left(record.name):
            record.state = "partial" if record.answered else "undocumented"
            record.reason = f"its calls are used up; {_last(record)}"
            return False
        return True

    def protocol(self, name: str) -> Protocol:
        """The protocol that a tool came with."""
        return self.runner.tools[name].protocol

    async def _discover(self, record: Record, chain: bool) -> bool:
        """Try until there is an answer with something in it, or the service turns us away: then not in this round."""
        before = self.meter.turned_away[record.name]
        for _ in range(FIRST_STRUCTURAL):
            if (bindings := self._structural(record, chain, LIKELY)) is None:
                break
            if await self._try(record, bindings):
                return True
            if self.meter.turned_away[record.name] > before:
                return False
        for _ in range(self.tries if chain or self.single or not self._wants_an_id(record) else 0):
            if not self._may_go_on(record) or self.meter.turned_away[record.name] > before:
                return False
            proposal = await self._asked(record, chain)
            if proposal is None:
                break
            if proposal.program and await self._run(record, proposal.program, proposal.helpers):
                return True
            bindings = self._structural(record, chain, LIKELY)  # what the service said may have told us more
            if bindings is not None and await self._try(record, bindings):
                return True
        for _ in range(LAST_STRUCTURAL):
            bindings = self._structural(record, chain, 0.0)
            if bindings is None or not self._may_go_on(record) or self.meter.turned_away[record.name] > before:
                break
            if await self._try(record, bindings):
                return True
        return False

    def _wants_an_id(self, record: Record) -> bool:
        """Whether an identifier is required, which nobody can think of: another tool has to say it first."""
        return any(is_identifier(name, THINGS | HANDED_OUT) for name in self._arguments(record).get("required", ()))

    # -- structure ---------------------------------------------------------------------------------------------------

    def _structural(self, record: Record, chain: bool, least: float) -> Bindings | None:
        """The likeliest way to fill the required arguments that was not tried yet, if it is likely enough."""
        for bindings in self._ways(record, chain):
            arguments = {name: candidate.value for name, candidate in bindings.items()}
            if least_sure(bindings) >= least and not record.was_tried(arguments):
                return bindings
        return None

    def _ways(self, record: Record, chain: bool) -> Iterator[Bindings]:
        """The required arguments; until an answer came, also what the last refusal spoke of: each alone, and all."""
        schema = self._arguments(record)
        required = list(schema.get("required", ()))
        named = [] if record.answered else record.named_in_refusal(set(schema["properties"]) - set(required))
        for more in ([], *([name] for name in named), named):
            names = [*required, *more]
            yield from combinations({name: self._options(record, name, schema, chain) for name in names})

    def _options(self, record: Record, name: str, schema: dict[str, Any], chain: bool) -> list[Candidate]:
        known = schema.get("properties", {}).get(name, {})
        found = candidates(
            name, known if isinstance(known, dict) else {}, tool=record.name, pool=self.pool if chain else None
        )
        if is_word(name):  # a made-up word is none; a name that was seen elsewhere is better, if nobody knows one
            found = [c for c in found if c.seen is not None or c.sure >= SURE]
            found += [Candidate(seen.value, WEAK, seen) for seen in self.pool.words(record.name)[:6]] if chain else []
        refused = record.refused_values(name)
        return [candidate for candidate in found if canonical(candidate.value) not in refused]

    def _arguments(self, record: Record) -> dict[str, Any]:
        """The schema of the arguments: what the source says, bettered by evidence."""
        return merged_arguments(self.protocol(record.name), record)

    async def _try(self, record: Record, bindings: Bindings) -> bool:
        helpers = (candidate.seen.tool for candidate in bindings.values() if candidate.seen is not None)
        needed = tuple(name for name in dict.fromkeys(helpers) if name != record.name)
        found = await self._call(record, {name: candidate.value for name, candidate in bindings.items()})
        if found and len(record.instances) == 1:
            record.helpers = needed
        return found

    async def _call(self, record: Record, arguments: dict[str, Any]) -> bool:
        """Make one call. Whether the tool answered it with something."""
        record.run.add(key_of(arguments))
        return await self._run(record, f"answer = {literal_call(self.protocol(record.name), arguments)}\n")

    # -- the model ---------------------------------------------------------------------------------------------------

    async def _asked(self, record: Record, chain: bool) -> Proposal | None:
        """A question and a program of the model's; ``None`` where it cannot be asked any more."""
        if self.asker is None:
            return None
        helpers = await self._helpers(record, self.asker) if chain else []
        self.attempts[record.name] = self.attempts.get(record.name, -1) + 1
        try:
            return await self.asker.propose(
                self._shown(record),
                [self._shown(self.records[name]) for name in helpers],
                record,
                self._values(record) if chain else {},
                self.attempts[record.name],
            )
        except (BudgetExceeded, ModelError):
            return None

    async def _helpers(self, record: Record, asker: Asker) -> list[str]:
        """T̂ ⊆ H: tools whose answers fit this one's arguments; where none does, those that the model names."""
        wanted = list(self._arguments(record).get("properties", {}))
        fitting = [seen.tool for name in wanted for _, seen in self.pool.fitting(name, record.name)]
        chosen = [name for name in dict.fromkeys(fitting) if name != record.name][:3]
        if chosen:
            return chosen
        known = [r for r in self.records.values() if r.state == "documented" and r.name != record.name][:MAX_OFFERED]
        try:
            return await asker.helpers(self._shown(record), [self._shown(r) for r in known]) if known else []
        except (BudgetExceeded, ModelError):
            return []

    def _values(self, record: Record) -> dict[str, list[Any]]:
        """Values that were seen, by the argument that they may serve."""
        found = {}
        for name in self._arguments(record).get("properties", {}):
            values = [seen.value for _, seen in self.pool.fitting(name, record.name)[:4]]
            if values:
                found[name] = list(dict.fromkeys(values))
        return found

    def _shown(self, record: Record) -> Protocol:
        return protocol_of(self.runner.tools[record.name].protocol, record)

    # -- trying ------------------------------------------------------------------------------------------------------

    async def _run(self, record: Record, program: str, helpers: Sequence[str] = ()) -> bool:
        """Run a program and learn from every call in it. Whether the probed tool answered with something."""
        record.tries += 1
        trial = await self.runner.run(program, [record.name, *helpers])
        record.broke = printable(str(mask(trial.problem)))
        found = False
        for call in trial.calls:
            if call.status != "refused" and call.tool in self.runner.tools:
                full = self.records[call.tool].learn(call)
                found |= full and call.tool == record.name
                if call.succeeded:
                    self.pool.add(call.tool, call.arguments, call.value)
        for name in {record.name, *(call.tool for call in trial.calls)} & self.records.keys():
            self.keep(self.records[name])
        return found

    async def _vary(self, record: Record) -> None:
        """More instances on purpose: other values, each optional argument, one argument less, one that is wrong."""
        if self.runner.tools[record.name].protocol.effect is not Effect.READ:
            return  # what may change something is not called for variety's sake
        given = dict(record.instances[0].arguments)
        for _ in range(MORE_INSTANCES):
            bindings = self._structural(record, True, 0.5)
            if bindings is None or not await self._worth(record):
                break
            await self._try(record, bindings)
        schema = self._arguments(record)
        optional = [name for name in schema.get("properties", {}) if name not in schema.get("required", ())]
        for name in optional[:4]:
            options = [c for c in self._options(record, name, schema, True) if c.sure >= 0.5]
            if options and name not in given and await self._worth(record):
                await self._again(record, {**given, name: options[0].value})
        await self._provoke(record, given)
        for name in self._whole_candidates(record, given)[:2]:
            if await self._worth(record):
                await self._again(record, {**given, name: given[name] + 0.5})
        declared = set(self.protocol(record.name).required)
        for name in [name for name in given if name not in declared][:4]:
            if await self._worth(record):
                await self._again(record, {key: value for key, value in given.items() if key != name})
        for name in self._observed_numbers(record, given)[:2]:
            if await self._worth(record):
                await self._again(record, {**given, name: NONSENSE})  # is it a number only because we chose one?
        if given and await self._worth(record):
            name = next(iter(given))
            wrong = -987_654_321 if isinstance(given[name], int | float) else NONSENSE
            await self._again(record, {**given, name: wrong})

    def _whole_candidates(self, record: Record, given: dict[str, Any]) -> list[str]:
        """Arguments that are whole numbers only because we chose them so: neither counts nor identifiers."""
        declared, known = self.protocol(record.name).parameters.get("properties", {}), self._arguments(record)
        return [
            name
            for name, value in given.items()
            if type(value) is int and words_of(name)[-1:] in _AMOUNTS and not _typed(declared.get(name))
            if known["properties"].get(name, {}).get("type") == "integer"
        ]

    def _observed_numbers(self, record: Record, given: dict[str, Any]) -> list[str]:
        """Arguments that had numbers alone, where nobody says that they must."""
        known = self._arguments(record)["properties"]
        numbers = [name for name, value in given.items() if type(value) in (int, float)]
        return [name for name in numbers if OBSERVED in known.get(name, {})]

    async def _provoke(self, record: Record, given: dict[str, Any]) -> None:
        """Nonsense for the optional arguments of which no type is known, or only observed.

        What a service says of it tells what it wants. Many name one argument at a time; the next call leaves out what
        is known by then.
        """
        before: list[str] = []
        for _ in range(MAX_PROVOKED):
            schema = self._arguments(record)
            optional = schema.get("properties", {}).keys() - {*schema.get("required", ()), *given}
            known = schema["properties"]
            untyped = sorted(name for name in optional if not _typed(known[name]) or OBSERVED in known[name])
            if not untyped or untyped == before or not await self._worth(record):
                return
            await self._again(record, {**given, **dict.fromkeys(untyped, NONSENSE)})
            before = untyped

    async def _again(self, record: Record, arguments: dict[str, Any]) -> None:
        if not record.was_tried(arguments):
            await self._call(record, arguments)

    async def _worth(self, record: Record) -> bool:
        """Whether there are calls left for variety: some are kept for a later need."""
        return self.meter.left(record.name) > 1


def _typed(schema: Any) -> bool:
    return isinstance(schema, dict) and not schema.keys().isdisjoint(("type", "enum", "$ref", "anyOf", "oneOf"))


def _last(record: Record) -> str:
    if not record.refusals:
        return f"its last program: {record.broke[:300]}" if record.broke else "no way was found to call it"
    last = record.refusals[-1]
    arguments = json.dumps(last.arguments, ensure_ascii=False)[:200]
    return f"last tried with {arguments}: {last.error[:300]}"
