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
from atc.strategies.program_loop import ProgramLoop
from atc.strategies.writer import Draft

Check = Callable[[Draft], Awaitable[Sequence[Finding]]]
Warnings = Callable[[Draft], Sequence[str]]


async def best_candidate(loop: ProgramLoop, count: int, check: Check, warnings: Warnings) -> Draft:
    """Write ``count`` next programs and return the one to go on with.

    Fewest findings first. If no tool on offer can have an effect, the programs without findings are run (what they read
    is kept in the journal) and the first of those whose value most of them agree on is returned.

    Args:
        loop: the run's steps.
        count: how many programs to write.
        check: what keeps a program from running.
        warnings: what the check warned about in a program that may run.
    """
    drafts = await loop.write_several(count)
    checked = [(draft, await check(draft)) for draft in drafts]
    clean = [draft for draft, findings in checked if not findings]
    chosen = min(checked, key=lambda pair: (not pair[0].source, len(pair[1])))[0]
    only_reads = all(tool.protocol.effect is Effect.READ for tool in loop.context.tools.values())
    if len(clean) > 1 and only_reads:
        chosen = await _majority(loop, clean, warnings) or chosen
    loop.announce(chosen)
    return chosen


async def _majority(loop: ProgramLoop, drafts: list[Draft], warnings: Warnings) -> Draft | None:
    """The first draft with the value that most drafts computed; ``None`` if none ran to an answer."""
    values: dict[str, str] = {}
    for draft in drafts:
        outcome = await loop.execute(draft, warnings(draft))
        if loop.fault_of(draft, outcome) is None:
            values[draft.source] = _key(outcome.value)
    if not values:
        return None
    winner = Counter(values.values()).most_common(1)[0][0]
    return next(draft for draft in drafts if values.get(draft.source) == winner)


def _key(value: Any) -> str:
    try:
        return canonical(round(value, 6) if isinstance(value, float) else value)
    except ValueError:  # keys that differ only in their Unicode form: such a value is equal to itself alone
        return as_text(value)
