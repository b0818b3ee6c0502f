"""The sentence that a program says of its answer: ``say = f"{city} has {people} inhabitants."``

No second model call: what the sentence holds is what the program computed, and its literal words. A number or a name
among those that nothing gave would be a claim of the model's, so the value stands in the sentence's place then; so it
does where a call failed or was refused, for the sentence was written before that was known. Either is a remark on the
result. A name is given by the task, a value, the document of a tool that was called, or by the program itself, where it
compares with it: then it is what the program looked for. Units and abbreviations are no names. The words are data:
what is invisible, or steers a terminal, is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from atc._host.invisible import JOINERS, legible
from atc._host.syntax import walk
from atc._records.packing import as_text
from atc._records.records import FaultCase
from atc.facts import Fault
from atc.programs.program import Program
from atc.programs.words import has_word
from atc.result import Call
from atc.run.run import Run

NAME = "say"
"""The variable of a program that holds the sentence."""
MAX_SAID = 2_000
"""Characters of a sentence; a longer one is not used."""
MAX_KNOWN = 2_000_000
"""Characters of values in which claims are looked up."""
MAX_CLAIMS = 40
"""Numbers and names of a sentence's literal parts; one with more is not used."""
_CLAIM = re.compile(r"\d+(?:[.,:/-]\d+)*|(?<![.?!:] )(?<![.?!:])(?<!^)\b[^\W\d_a-z]\w*")
"""Numbers, dates and times; and words with a capital letter that begin no sentence: names."""
LONGEST_ABBREVIATION = 5
"""Letters of a word in capitals alone that is no name: ``EUR``, ``VAT``, ``OK``."""
MAX_UNSAID = 5
"""Words that a remark names."""


def value_text(value: Any) -> str:
    """Return the value itself as text."""
    return value if isinstance(value, str) else as_text(value)


def sentence_of(run: Run, value: Any) -> tuple[str, tuple[Fault, ...]]:
    """Return what the program that answered says of its answer, or the value as text where it says nothing usable; and
    why what it said is not used."""
    said, text = " ".join(run.said.split()), value_text(value)
    if not said or not run.settings.sentence or not run.revisions:
        return text, ()
    program = Program(run.revisions[-1].program)
    if not _sets(program, NAME):
        return text, ()
    if len(said) > MAX_SAID:
        return text, (Fault(kind="answer", case=FaultCase.UNSAID, reason="the sentence is too long"),)
    calls = [call for call in run.last_calls if call.index]
    if (failed := next((call for call in calls if not call.succeeded), None)) is not None:
        return text, (Fault(kind="answer", case=FaultCase.UNSAID, tool=failed.tool, call=failed.index),)
    known = chain(
        [run.task, run.preamble.known, text, *_compared(program)],
        _texts(calls),
        map(as_text, run.inputs.values()),
        _documents(run, calls),
    )
    if invented := sorted(set(_invented(said, program, known))):
        return text, (Fault(kind="answer", case=FaultCase.UNSAID, value=invented[:MAX_UNSAID]),)
    return "".join(each for each in legible(said) if each.isprintable() or each in JOINERS), ()


def _sets(program: Program, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store) for node in program.nodes
    )


def _texts(calls: Iterable[Call]) -> Iterator[str]:
    for call in calls:
        yield as_text(call.value)
        yield as_text(call.arguments)


def _compared(program: Program) -> Iterator[str]:
    for node in program.nodes:
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                yield from (str(part.value) for part in walk(side) if isinstance(part, ast.Constant))


def _documents(run: Run, calls: Iterable[Call]) -> Iterator[str]:
    for name in dict.fromkeys(call.tool for call in calls):
        if (tool := run.broker.tools.get(name)) is not None:
            document = tool.protocol
            yield " ".join([document.description, as_text(document.parameters), as_text(document.returns)])


def _is_abbreviation(claim: str) -> bool:
    return claim.isalpha() and claim.isupper() and len(claim) <= LONGEST_ABBREVIATION


def _invented(said: str, program: Program, known: Iterable[str]) -> Iterator[str]:
    """What it wrote out is what stands in its literals: a number that it computed is in none."""
    claims = {claim for claim in _CLAIM.findall(said) if not _is_abbreviation(claim)}
    if not claims:
        return
    written = " ".join(str(n.value) for n in program.nodes if isinstance(n, ast.Constant) and n.value is not ...)
    own = {claim for claim in claims if has_word(written, claim)}
    if len(own) > MAX_CLAIMS:
        yield from own
        return
    unknown, room = {claim.casefold(): claim for claim in own}, MAX_KNOWN
    for text in known:
        if not unknown or room <= 0:
            break
        looked = text[:room].casefold()
        room -= len(looked)
        unknown = {folded: claim for folded, claim in unknown.items() if not has_word(looked, folded)}
    yield from unknown.values()
