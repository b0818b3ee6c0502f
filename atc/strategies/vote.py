"""Choose among a few first programs where reads allow it: drop those with findings, run the rest, take the majority."""

from __future__ import annotations

from collections import Counter
from typing import Any

from atc.execution.canonical import canonical
from atc.programs.attribute import Attribution
from atc.strategies.run import Run
from atc.strategies.writer import Draft
from atc.tools.protocol import Effect


async def best_candidate(run: Run) -> Draft:
    """Write ``settings.candidates`` programs and return the one to go on with.

    Fewest findings first. If no tool on offer can have an effect, the programs without findings are run (what they read
    is kept in the journal) and the first of those whose value most of them agree on is returned.
    """
    await run.sandbox.prepare()
    drafts = await run.writer.candidates(run.settings.candidates)
    checked = [
        (draft, await run.checker.check(draft.program) if run.checker and draft.program else []) for draft in drafts
    ]
    clean = [draft for draft, findings in checked if draft.program and not findings]
    chosen = min(checked, key=lambda pair: (not pair[0].program, len(pair[1])))[0]
    only_reads = all(tool.protocol.effect is Effect.READ for tool in run.tools.values())
    if len(clean) > 1 and only_reads:
        chosen = await _majority(run, clean) or chosen
    run.announce(chosen)
    return chosen


async def _majority(run: Run, drafts: list[Draft]) -> Draft | None:
    """The first draft with the value that most drafts computed; ``None`` if none ran to an answer."""
    values: dict[str, str] = {}
    for draft in drafts:
        outcome = await run.execute(draft.program)
        own = [call for call in run.calls if call.attempt == run.broker.journal.attempt]
        if Attribution(draft.program, outcome, own, run.tools).fault() is None:
            values[draft.program] = _key(outcome.value)
    if not values:
        return None
    winner = Counter(values.values()).most_common(1)[0][0]
    return next(draft for draft in drafts if values.get(draft.program) == winner)


def _key(value: Any) -> str:
    return canonical(round(value, 6) if isinstance(value, float) else value)
