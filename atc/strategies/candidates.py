"""Choose among a few programs: drop those with findings; where tools only read, run the rest and take the majority.

The check costs milliseconds and a model that reads its prompt once writes three programs in little more than the time
of one, so a revision is several programs of which the best goes on.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from atc.calls.canonical import canonical
from atc.packing import as_text
from atc.programs.attribution.attribute import Attribution
from atc.result import Effect
from atc.strategies.run import Run
from atc.strategies.writer import Draft


async def best_candidate(run: Run, count: int) -> Draft:
    """Write ``count`` next programs and return the one to go on with.

    Fewest findings first. If no tool on offer can have an effect, the programs without findings are run (what they read
    is kept in the journal) and the first of those whose value most of them agree on is returned.
    """
    drafts = await run.while_a_jail_boots(run.writer.candidates(count, run.revisions, run.calls))
    checked = [(draft, await run.findings(draft)) for draft in drafts]
    clean = [draft for draft, findings in checked if draft.program is not None and not findings]
    chosen = min(checked, key=lambda pair: (pair[0].program is None, len(pair[1])))[0]
    only_reads = all(tool.protocol.effect is Effect.READ for tool in run.tools.values())
    if len(clean) > 1 and only_reads:
        chosen = await _majority(run, clean) or chosen
    run.announce(chosen)
    return chosen


async def _majority(run: Run, drafts: list[Draft]) -> Draft | None:
    """The first draft with the value that most drafts computed; ``None`` if none ran to an answer."""
    values: dict[str, str] = {}
    for program in (draft.program for draft in drafts if draft.program is not None):
        outcome = await run.execute(program)
        if Attribution(program, outcome, run.grounds(), run.tools, run.settings.active_rules).fault() is None:
            values[program.source] = _key(outcome.value)
    if not values:
        return None
    winner = Counter(values.values()).most_common(1)[0][0]
    return next(draft for draft in drafts if values.get(draft.source) == winner)


def _key(value: Any) -> str:
    try:
        return canonical(round(value, 6) if isinstance(value, float) else value)
    except ValueError:  # keys that differ only in their Unicode form: such a value is equal to itself alone
        return as_text(value)
