"""Choose among a few programs: drop those with findings; where tools only read, run the rest and take the majority.

The check costs milliseconds and a model that reads its prompt once writes three programs in little more than the time
of one, so a revision is several programs of which the best goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from atc.calls.canonical import canonical
from atc.facts import Finding
from atc.packing import as_text
from atc.result import Effect
from atc.strategies.ask_user import NAME as ASK_USER
from atc.strategies.program_loop import ProgramLoop
from atc.strategies.writer import Draft

Check = Callable[[Draft], Awaitable[Sequence[Finding]]]


async def best_candidate(loop: ProgramLoop, count: int, check: Check) -> Draft:
    """Write ``count`` next programs and return the one to go on with.

    Fewest findings first, then fewest warnings. If no tool on offer can have an effect, and none of them asks the user,
    the programs without findings are run (what they read is kept in the journal), and the first of those whose value
    most of them agree on is returned.

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
    values: list[tuple[Draft, str]] = []
    for draft in drafts:
        outcome = await loop.execute(draft)
        if await loop.traced(draft, outcome) is None:
            values.append((draft, _key(outcome.value)))
    if not values:
        return None
    [(most, _)] = Counter(key for _, key in values).most_common(1)  # of equal ones the first
    return next(draft for draft, key in values if key == most)


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
