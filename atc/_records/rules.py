"""Rules that must earn their place: everything that rewrites a program, warns, or words a note for a special case.

Each has an id and can be taken away (``rules="-id"``), so that a benchmark can say what it is worth. This module is
data and imports nothing: the code of a rule stands where :attr:`Rule.apply` says; ``research/rules.md`` has the table.

To add a rule:

1. Put its function into ``atc/programs/repair/``, ``check/``, ``attribution/``, or into ``atc/run/`` for what the model
   reads. A repair rule gets a :class:`~atc.programs.program.Program` that parses, and yields
   :class:`~atc.programs.edits.Rewrite`.
2. Add its :class:`Rule` to :data:`RULES`. A repair rule joins ``RULES`` of ``atc/programs/repair/pipeline.py``; a rule
   of another step asks ``"its-id" in rules`` before it acts.
3. Print the table again (``python -m atc._records.rules``), and add a case to ``tests/programs/test_rules.py`` in
   which the rule acts: the test also tries that it does nothing when it is switched off.
4. If it warns, its finding is a kind in ``FindingKind`` (``atc/_records/records.py``), with what was seen as fields. A
   function of ``atc/programs/check/`` yields it, ``Checker.check`` adds it, and a ``case`` of ``_finding`` in
   ``atc/wording/findings.py`` words it. A warning has effects (``atc/programs/check/warned.py``): it is shown with a
   failure on its line, and sends a program back once if its line is evaluated after a write, so what does no harm there
   yields none. A kind that no error of a run would tell joins ``_SILENT``: it goes into the question before a write
   that depends on it. Of one kind a line has one warning (``_unique``).
5. Measure what it is worth: the system ``atc-rules:ID`` of ``benchmarks.tasks`` against ``atc``, on tasks that nobody
   read.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

Rules = frozenset[str]
"""The ids of the rules that are on."""
Step = Literal["write", "repair", "check", "call", "attribute", "revise"]
"""Where a rule works, in the order of a program's life. ``call``: repairs of the arguments of a call, as it is made."""


@dataclass(frozen=True)
class Rule:
    """A rule that can be taken away.

    Attributes:
        id: by which ``rules`` names it.
        why: what was seen that it is for.
        does: what it does then.
        apply: the function that does it, as ``module:name``, below ``atc.``.
    """

    id: str
    step: Step
    why: str
    does: str
    apply: str


RULES = (
    Rule("copied-documents", "write",
         "a reply copied the tools' documents up to its limit, for minutes",
         "the reply is ended at the first copied class or function; what stands before it is the program",
         "run.writer:Writer.write"),
    Rule("name-spelling", "repair",
         "`mRNA_sequence` was set, `mrna_sequence` read; the note suggested a tool of a similar name, three times",
         "a name that was never set is read as the one variable that differs only in case and underscores",
         "programs.repair.pipeline:correct_names"),
    Rule("argument-spelling", "repair",
         "an argument was given in another spelling, or as `id`",
         "the argument that exists is given; for a write, only case and separators may differ",
         "programs.repair.pipeline:correct_arguments"),
    Rule("invented-id", "check",
         "the model made up an id and gave it to a tool, also within a list of records",
         "a warning names the tool that knows it: before a write with this id, or if the call fails",
         "programs.check.provenance:provenance_findings"),
    Rule("invented-address", "check",
         "the model made up e-mail addresses",
         "a warning about an address that neither the task nor a tool gave names the tool that knows it",
         "programs.check.provenance:provenance_findings"),
    Rule("name-for-id", "check",
         "\"Berlin\" was given for a `place_id`",
         "a warning names the tool that knows the id: some services do know things by name",
         "programs.check.provenance:provenance_findings"),
    Rule("enum-comparison", "check",
         "`order[\"status\"] == \"canceled\"` is never so where the document has `cancelled`, and nothing told",
         "a warning names the choices: on the answer, or if the run fails there",
         "programs.check.checker:comparison_findings"),
    Rule("similar-tool", "check",
         "`date` was given to the tool for the weather of today",
         "the finding names the similar tool that has a `date`",
         "programs.check.calls:call_findings"),
    Rule("nearest-name", "check",
         "a misspelt tool or variable was written the same way again",
         "the finding names the one that is nearest in spelling",
         "programs.check.calls:Names.nearest"),
    Rule("key-elsewhere", "check",
         "a key was looked up in the wrong object, again and again",
         "the finding says where the tools' responses have that key",
         "programs.check.checker:Checker.check"),
    Rule("argument-respelling", "call",
         "documents refused calls that the services answered; nearly all of these calls spelt a key differently",
         "the key becomes the one parameter that differs only in case, separators, plural or one letter; for a write, "
         "no letter may differ",
         "schemas.repair:repair_arguments"),
    Rule("argument-unwrap", "call",
         "an object, or a list of one item, was given instead of one plain value",
         "the one field that fits by type, format and name is given, or the item, if the tool only reads",
         "schemas.repair:repair_arguments"),
    Rule("argument-format", "call",
         "`\"5 km\"`, `\"yes\"`, `\"May 5, 2024\"` or JSON text was given for a number, a truth value, a date, a list",
         "it is given in the format that the schema names, if the tool only reads; a write gets a number that stands as"
         " text (`\"5\"`), and a `timedelta` as a number of the unit that its document names",
         "schemas.repair:repair_arguments"),
    Rule("idle-call", "attribute",
         "a refused call that nothing uses was corrected again and again",
         "the note says to leave it out",
         "programs.attribution.attribute:Attribution.fault"),
    Rule("unpacked-keys", "attribute",
         "`price, stock = get_product(…)` ran, and gave the names of the fields",
         "that is a fault, shown with what the tool answered",
         "programs.attribution.attribute:Attribution.fault"),
    Rule("recombine", "revise",
         "a tool was down, and the run ended although another tool gives the same",
         "the tool is banned for this run, and its substitute is offered; for a write, only after a sure refusal",
         "run.recover:Recovery.recovered"),
)  # fmt: skip
IDS: Rules = frozenset(rule.id for rule in RULES)
DEFAULT = IDS


def parse_rules(text: str) -> Rules:
    """Return the rules that are on: all, changed by what is said from left to right.

    Args:
        text: ids behind ``+`` or ``-``, and ``default`` (all) or ``none``, parted by commas: ``none,+name-spelling``.

    Raises:
        ValueError: there is no such rule; the message names it and those that are like it.
    """
    chosen = DEFAULT
    for word in (part.strip() for part in text.split(",")):
        match word[:1], word[1:].strip():
            case "", _:
                pass
            case _ if word in ("default", "none"):
                chosen = DEFAULT if word == "default" else frozenset()
            case ("+", name) if name in IDS:
                chosen |= {name}
            case ("-", name) if name in IDS:
                chosen -= {name}
            case _:
                raise ValueError(_unknown(word))
    return chosen


def _unknown(word: str) -> str:
    name = word.lstrip("+-").strip()
    if name in IDS:
        return f"{word!r}: write +{name} or -{name}"
    near = difflib.get_close_matches(name, sorted(IDS), 3, 0.75)  # a rule that is gone is none of these
    hint = f"did you mean {' or '.join(near)}?" if near else "`atc help rules` lists them"
    return f"there is no rule {name!r}: {hint}"


def table() -> str:
    """The rules as a Markdown table, as research/rules.md shows them (``python -m atc._records.rules`` prints it)."""
    rows = [f"| `{r.id}` | {r.step} | {r.why} | {r.does} |" for r in RULES]
    return "\n".join(["| rule | step | seen | done |", "| --- | --- | --- | --- |", *rows])


if __name__ == "__main__":
    print(table())
