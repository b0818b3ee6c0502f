"""Choose among a few programs: drop those with findings; where tools only read, run the rest and take the majority.

The check costs milliseconds and a model that reads its prompt once writes three programs in little more than the time
of one, so a revision is several programs of which the best goes on. The model is asked to compare only where they ran
and do not agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from atc.calls.canonical import canonical
from atc.errors import BudgetExceeded, ModelError, ModelUnavailable
from atc.facts import Finding
from atc.fired_rules import fired
from atc.models.base import Message
from atc.packing import as_text
from atc.prompting import fenced, prompt
from atc.result import Effect
from atc.strategies.ask_user import NAME as ASK_USER
from atc.strategies.program_loop import ProgramLoop
from atc.strategies.writer import Draft

Check = Callable[[Draft], Awaitable[Sequence[Finding]]]
MAX_COMPARED = 4
"""Programs that the model is shown beside each other."""
MAX_PROGRAM, MAX_VALUE = 1_500, 300
"""Characters of a program and of a value there; a longer program is not compared."""


async def best_candidate(loop: ProgramLoop, count: int, check: Check) -> Draft:
    """Write ``count`` next programs and return the one to go on with.

    Fewest findings first, then fewest warnings. If no tool on offer can have an effect, and none of them asks the user,
    the programs without findings are run (what they read is kept in the journal), and the first of those whose value
    most of them agree on is returned. Where several values have as many programs, the model says which, if the rule
    ``compare-candidates`` is on.

    Args:
        loop: the run's steps.
        count: how many programs to write.
        check: what keeps a program from running.
    """
    drafts = await loop.write_several(count)
    checked = [(draft, await check(draft)) for draft in drafts]
    clean = [draft for draft, findings in checked if not findings]
    chosen = min(checked, key=lambda pair: (not pair[0].source, len(pair[1]), len(loop.warned(pair[0]).found)))[0]
    only_reads = all(tool.protocol.effect is Effect.READ for tool in loop.context.tools.values())
    asks = loop.context.questions is not None and any(ASK_USER in draft.source for draft in clean)
    if len(clean) > 1 and only_reads and not asks:  # nobody is asked for a program that is only tried
        chosen = await _agreed(loop, clean) or chosen
    loop.announce(chosen)
    return chosen


async def _agreed(loop: ProgramLoop, drafts: list[Draft]) -> Draft | None:
    """The first draft with the value that most drafts computed; ``None`` if none ran to an answer."""
    values: list[tuple[Draft, Any]] = []
    for draft in drafts:
        outcome = await loop.execute(draft)
        if await loop.traced(draft, outcome) is None:
            values.append((draft, outcome.value))
    if not values:
        return None
    by_value: dict[str, tuple[Draft, Any]] = {}
    for draft, value in values:
        by_value.setdefault(_key(value), (draft, value))
    counts = Counter(_key(value) for _, value in values)
    most = max(counts.values())
    best = [by_value[key] for key, times in counts.items() if times == most]
    if len(best) > 1 and "compare-candidates" in loop.context.settings.active_rules:
        fired("compare-candidates")
        return await _compared(loop, best)
    return best[0][0]


async def _compared(loop: ProgramLoop, found: list[tuple[Draft, Any]]) -> Draft:
    """Of programs with different answers the one that the model names; the first where its reply is of no use."""
    shown = [(draft, value) for draft, value in found if len(draft.source) <= MAX_PROGRAM][:MAX_COMPARED]
    if len(shown) > 1:
        programs = [(fenced(draft.source), fenced(as_text(value)[:MAX_VALUE])) for draft, value in shown]
        question = prompt("compare", task=loop.context.task, programs=programs)
        choices = [str(number) for number in range(1, len(shown) + 1)]
        try:
            reply = await loop.context.ask("compare", [Message("user", question)], max_tokens=16, choices=choices)
        except (ModelError, ModelUnavailable, BudgetExceeded):
            return found[0][0]  # the programs are there; the run says by itself when its budget is used up
        if reply.value in choices:
            return shown[int(reply.value) - 1][0]
    return found[0][0]


def _key(value: Any) -> str:
    """Equal for values that are the same answer: numbers but for rounding, texts but for case and spaces around."""
    try:
        return canonical(_normalised(value))
    except ValueError:  # keys that differ only in their Unicode form: such a value is equal to itself alone
        return as_text(value)


def _normalised(value: Any) -> Any:
    match value:
        case bool():
            return value
        case int() | float():
            rounded = round(value, 6)
            return int(rounded) if isinstance(rounded, float) and rounded.is_integer() else rounded
        case str():
            return " ".join(value.split()).casefold()
        case list():
            return [_normalised(item) for item in value]
        case dict():
            return {key: _normalised(item) for key, item in value.items()}
    return value
