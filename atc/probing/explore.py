"""Instance discovery (ATC §4.1): ways to call one tool, tried until it answers; then a few more, to see its variety.

Structure makes every call: from what the schema says, what the service said, what was seen elsewhere. Where a word is
missing that only somebody who knows the subject can supply, a model proposes values. No call is made twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from atc.calls.json_values import canonical
from atc.errors import BudgetExceeded, ModelError
from atc.probing.arguments import NOBODYS, NONSENSE
from atc.probing.asking import Asker, Lacking, accepted, answers_of
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
    in_turn,
    is_word,
    least_sure,
    literal_call,
    together,
)
from atc.probing.document import merged_arguments, protocol_of
from atc.probing.record import MAX_INSTANCES, Record, key_of, printable
from atc.result import Effect
from atc.schemas.identifiers import words_of
from atc.schemas.infer.shape import mask
from atc.schemas.protocol import Protocol
from atc.schemas.types import OBSERVED

LIKELY_TRIES, OTHER_TRIES = 4, 2
"""Calls of one tool in a round with values that are likely, and with any others."""
KEPT_BACK = 4
"""Calls of one tool, a quarter of its budget at most, that are kept until a model has been asked for values."""
_MEASURES = "value amount price rate weight distance radius latitude longitude temperature height width length km"
_AMOUNTS = frozenset((word,) for word in _MEASURES.split())
"""Words for measures, whose values may be fractions."""
MORE_INSTANCES = 2
MAX_KEPT = 8
"""Values of one argument that are kept of what the model proposed."""
MAX_PROVOKED = 4
"""Calls with nonsense in optional arguments."""


@dataclass
class Explorer:
    """Probes single tools for a :class:`~atc.probing.prober.Prober`; several at the same time.

    Args:
        runner: where programs run.
        records: of all tools.
        pool: values seen so far.
        asker: asks the model for values; ``None`` does without.
        keep: called with a record after every program: whatever stops us, nothing is tried twice.
    """

    runner: Runner
    records: dict[str, Record]
    pool: ValuePool
    asker: Asker | None
    meter: Meter
    keep: Callable[[Record], None]
    asked: int = 0
    """Rounds in which the model was asked."""
    _proposed: dict[str, dict[str, list[Candidate]]] = field(default_factory=dict)  # by tool and argument
    _exhausted: set[str] = field(default_factory=set)  # tools for which the model knew nothing new
    _known: int = 0  # documented tools when the model was asked last

    def remember(self) -> None:
        """Take the values of earlier sessions into the pool."""
        for record in self.records.values():
            for instance in record.instances:
                self.pool.add(record.name, instance.arguments, instance.response)

    async def probe(self, record: Record, number: int, *, chain: bool) -> None:
        """Try one tool in one round: alone in the first, with the help of known ones later (``LLMProb(T̂ ∪ {t})``)."""
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
        before = self.meter.turned_away[record.name]
        for least, tries in ((LIKELY, LIKELY_TRIES), (0.0, OTHER_TRIES)):
            for _ in range(tries):
                if self.meter.turned_away[record.name] > before or not self._has_calls(record):
                    return False
                if (bindings := self._structural(record, chain, least)) is None:
                    break
                if await self._try(record, bindings):
                    return True
        return False

    def _has_calls(self, record: Record) -> bool:
        """Whether a tool has calls beside those that are kept until a model has been asked for values."""
        budget = self.meter.budget.calls_a_tool
        kept_back = min(KEPT_BACK, budget // 4) if self.asker is not None and not self.asked else 0
        return budget - self.meter.calls.get(record.name, 0) > kept_back

    # -- the model ---------------------------------------------------------------------------------------------------

    async def ask(self) -> bool:
        """Ask the model for values of all tools that lack one, and return whether it proposed anything new.

        Raises:
            ModelUnavailable: there is no model as it is set up.
        """
        known = sum(record.state == "documented" for record in self.records.values())
        if known > self._known:  # there is more to choose from than when it was asked last
            self._known = known
            self._exhausted.clear()
        lacking = [self._lacking(record) for record in self.records.values() if self._lacks(record)]
        lacking.sort(key=lambda tool: not any(map(is_word, tool.arguments)))
        if self.asker is None or not lacking:
            return False
        self.asked += 1
        try:
            said = await self.asker.values(lacking, answers_of(self.records.values(), lacking), self.asked - 1)
        except (BudgetExceeded, ModelError):
            return False
        new = False
        for tool in lacking:
            new |= self._take(tool, accepted(tool, said.get(tool.record.name, {}), self.pool))
        return new

    def _lacks(self, record: Record) -> bool:
        """Whether a value of the model's could help a tool: it takes one, and may be called with it."""
        name = record.name
        if not record.open or name in self._exhausted or name not in self.runner.tools:
            return False
        takes = self._arguments(record)["properties"] or _takes_any(self.protocol(name))
        return bool(takes) and not self.meter.closed(name) and self.meter.left(name) > 0

    def _lacking(self, record: Record) -> Lacking:
        protocol = self.protocol(record.name)
        return Lacking(record, protocol_of(protocol, record), self._arguments(record), _takes_any(protocol))

    def _take(self, tool: Lacking, found: dict[str, list[Candidate]]) -> bool:
        """Return whether any of it is new."""
        kept = self._proposed.setdefault(tool.record.name, {})
        new = False
        for name, values in found.items():
            before = {canonical(candidate.value) for candidate in kept.get(name, ())}
            fresh = [candidate for candidate in values if canonical(candidate.value) not in before]
            kept[name] = [*fresh, *kept.get(name, ())][:MAX_KEPT]
            new |= bool(fresh)
        if not new:
            self._exhausted.add(tool.record.name)
        return new

    # -- structure ---------------------------------------------------------------------------------------------------

    def _structural(self, record: Record, chain: bool, least: float) -> Bindings | None:
        for bindings in self._ways(record, chain):
            arguments = {name: candidate.value for name, candidate in bindings.items()}
            if least_sure(bindings) >= least and not record.was_tried(arguments):
                return bindings
        return None

    def _ways(self, record: Record, chain: bool) -> Iterator[Bindings]:
        """The required arguments with what the model proposed, then by structure alone; until an answer came, also what
        the last refusal spoke of (each alone, once, and all), and what values were seen for.
        """
        schema = self._arguments(record)
        required = list(schema.get("required", ()))
        proposed = self._proposed.get(record.name, {})
        if proposed:
            given = dict.fromkeys([*required, *proposed])
            options = {name: proposed.get(name) or self._options(record, name, schema, chain) for name in given}
            yield from together(options)
            yield from combinations(options)
        named = [] if record.answered else record.named_in_refusal(set(schema["properties"]) - set(required))
        options = {name: self._options(record, name, schema, chain) for name in schema["properties"]}
        alone = [name for name in named if not record.refused_with({*required, name})]
        more = [[], *([name] for name in alone), named]
        if record.refusals and not record.instances:  # it may want what it does not name
            more.append([name for name, found in options.items() if any(each.seen for each in found)])
        ways = (combinations({name: options[name] for name in dict.fromkeys([*required, *names])}) for names in more)
        yield from in_turn(ways)

    def _options(self, record: Record, name: str, schema: dict[str, Any], chain: bool) -> list[Candidate]:
        known = schema.get("properties", {}).get(name, {})
        found = candidates(
            name, known if isinstance(known, dict) else {}, tool=record.name, pool=self.pool if chain else None
        )
        if chain:
            path = self.protocol(record.name).source.path
            found = [*(Candidate(seen.value, SURE, seen) for seen in self.pool.linked(name, path)), *found]
        if is_word(name):  # a made-up word is none; a name that was seen elsewhere is better, if nobody knows one
            found = [c for c in found if c.seen is not None or c.sure >= SURE]
            found += [Candidate(seen.value, WEAK, seen) for seen in self.pool.words(record.name)[:6]] if chain else []
        if record.refusals and "JSON" in record.refusals[-1].service_message:  # as text: no schema would say so
            found.insert(0, Candidate("{}", LIKELY))
        refused = record.refused_values(name)
        proposed = self._proposed.get(record.name, {}).get(name, [])
        return [candidate for candidate in [*proposed, *found] if canonical(candidate.value) not in refused]

    def _arguments(self, record: Record) -> dict[str, Any]:
        return merged_arguments(self.protocol(record.name), record)

    # -- trying ------------------------------------------------------------------------------------------------------

    async def _try(self, record: Record, bindings: Bindings) -> bool:
        helpers = (candidate.seen.tool for candidate in bindings.values() if candidate.seen is not None)
        found = await self._call(record, {name: candidate.value for name, candidate in bindings.items()})
        if found and len(record.instances) == 1:
            record.helpers = tuple(name for name in dict.fromkeys(helpers) if name != record.name)
        return found

    async def _call(self, record: Record, arguments: dict[str, Any]) -> bool:
        """Return whether the tool answered with something."""
        record.tries += 1
        record.run.add(key_of(arguments))
        program = f"answer = {literal_call(self.protocol(record.name), arguments)}\n"
        trial = await self.runner.run(program, [record.name])
        record.broke = printable(str(mask(trial.problem)))
        found = False
        for call in trial.calls:
            if call.tool == record.name:
                found |= record.learn(call)
                if call.succeeded:
                    self.pool.add(call.tool, call.arguments, call.value)
        self.keep(record)
        return found

    async def _again(self, record: Record, arguments: dict[str, Any]) -> None:
        if not record.was_tried(arguments):
            await self._call(record, arguments)

    async def complete(self, record: Record, calls: Sequence[dict[str, Any]]) -> None:
        """Make the calls that a tool's demonstration lacks, until one is answered."""
        for arguments in calls:
            if not self.meter.left(record.name) or record.was_tried(arguments):
                continue
            del record.instances[MAX_INSTANCES - 1 :]  # room for what is demonstrated
            if await self._call(record, arguments):
                return

    async def _vary(self, record: Record) -> None:
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
            wrong = NOBODYS if isinstance(given[name], int | float) else NONSENSE
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
        known = self._arguments(record)["properties"]
        numbers = [name for name, value in given.items() if type(value) in (int, float)]
        return [name for name in numbers if OBSERVED in known.get(name, {})]

    async def _provoke(self, record: Record, given: dict[str, Any]) -> None:
        """What a service says of nonsense tells what it wants. Many name one argument at a time; the next call leaves
        out what is known by then."""
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

    async def _worth(self, record: Record) -> bool:
        """Whether there are calls left for variety: some are kept for a later need."""
        return self.meter.left(record.name) > 1


def _takes_any(protocol: Protocol) -> bool:
    return not protocol.parameters.get("properties") and protocol.parameters.get("additionalProperties") is True


def _typed(schema: Any) -> bool:
    return isinstance(schema, dict) and not schema.keys().isdisjoint(("type", "enum", "$ref", "anyOf", "oneOf"))


def _last(record: Record) -> str:
    if not record.refusals:
        return f"its last program: {record.broke[:300]}" if record.broke else "no way was found to call it"
    last = record.refusals[-1]
    arguments = json.dumps(last.arguments, ensure_ascii=False)[:200]
    return f"last tried with {arguments}: {last.error[:300]}"
