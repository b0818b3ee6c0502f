"""The sentence that a program says of its answer: ``say = f"{city} has {people} inhabitants."``

No second model call: what the sentence holds is what the program computed, and its literal words. A number or a name
among those that neither the task nor a value gave would be a claim of the model's, so the value stands in the
sentence's place then; so it does where a call failed or was refused, for the sentence was written before that was
known. The words are data: what is invisible, or steers a terminal, is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from atc.invisible import JOINERS, legible
from atc.packing import as_text
from atc.programs.program import Program
from atc.result import Call
from atc.strategies.context import RunContext

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


def value_text(value: Any) -> str:
    """Return the value itself as text."""
    return value if isinstance(value, str) else as_text(value)


def sentence_of(context: RunContext, value: Any) -> str:
    """Return what the program that answered says of its answer; the value as text where it says nothing usable.

    Args:
        context: the run; its last program answered.
        value: the answer.
    """
    said, text = " ".join(context.said.split()), value_text(value)
    if not said or not context.settings.sentence or not context.revisions or len(said) > MAX_SAID:
        return text
    program = Program(context.revisions[-1].program)
    calls = [call for call in context.last_calls if call.index]
    if not _sets(program, NAME) or any(not call.succeeded for call in calls):
        return text
    known = chain([context.task, context.frame.known, text], _texts(calls), map(as_text, context.inputs.values()))
    if any(_invented(said, program, known)):
        return text
    return "".join(each for each in legible(said) if each.isprintable() or each in JOINERS)


def _sets(program: Program, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store) for node in program.nodes
    )


def _texts(calls: Iterable[Call]) -> Iterator[str]:
    for call in calls:
        yield as_text(call.value)
        yield as_text(call.arguments)


def _invented(said: str, program: Program, known: Iterable[str]) -> Iterator[str]:
    """The numbers and names of a sentence that the program wrote out itself, and that nothing known has.

    What it wrote out is what stands in its literals: a number that it computed is in none.
    """
    claims = set(_CLAIM.findall(said))
    if not claims:
        return
    written = " ".join(str(n.value) for n in program.nodes if isinstance(n, ast.Constant) and n.value is not ...)
    own = {claim for claim in claims if _holds(written, claim)}
    if len(own) > MAX_CLAIMS:
        yield from own
        return
    unknown, room = {claim.casefold() for claim in own}, MAX_KNOWN
    for text in known:
        if not unknown or room <= 0:
            break
        looked = text[:room].casefold()
        room -= len(looked)
        unknown = {claim for claim in unknown if not _holds(looked, claim)}
    yield from unknown


def _holds(text: str, claim: str) -> bool:
    """Whether a text has a claim, and not as a part of a longer number or word: a date may have its time behind it."""
    edge = r"\d" if claim[0].isdigit() else r"\w"
    return re.search(rf"(?<!{edge}){re.escape(claim)}(?!{edge})", text) is not None
