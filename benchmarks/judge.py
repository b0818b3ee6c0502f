"""A model as judge of tries whose outcome nothing can check, held to its agreement with outcomes that can.

``python -m benchmarks.judge agreement --rows FILE --transcripts DIR`` asks it about answered tries of environments that
check their outcome, and prints how often it says the same: accuracy, and Cohen's kappa, which is 0 for a judge that
says yes as often as it should, but at random. ``… judge --rows FILE --transcripts DIR`` judges the tries of
``restbench`` and ``toolflow``; it refuses where the same judge's kappa was measured below ``--bar``, or on too few.

Rows and transcripts are those of ``python -m benchmarks.tasks --out FILE --transcripts DIR``, or of
:mod:`benchmarks.judge_tries`, which makes right and wrong tries without a model. Each verdict is kept as a JSON line
(``--out``), so a command that is broken off goes on where it was.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import jinja2
import typer
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from atc.cli.console import INTERRUPTED, err, guarded, out, print_json
from atc.errors import EnvironmentProblem, UsageError
from atc.models.base import Message, Model
from atc.models.resolve import open_model
from benchmarks.environments.documented import tasks_from
from benchmarks.rows import Key, Row, latest, read_rows
from benchmarks.tasks import RESULTS
from benchmarks.transcript import TryCall, TryRecord, read_record

UNCHECKED = frozenset({"restbench", "toolflow"})
"""Environments without an outcome: which tools were called is all that they check."""
Verdict = Literal["yes", "no", "unsure"]
VERDICTS: tuple[Verdict, ...] = ("yes", "no", "unsure")
BAR = 0.6
"""Cohen's kappa that a judge must have: from there on agreement is called substantial (Landis and Koch 1977)."""
LEAST = 30
"""Checked tries that a kappa must rest on."""
RESAMPLES = 2_000
MAX_CALLS, MAX_ANSWER, MAX_TOKENS = 30, 600, 16
"""Calls that the judge sees, the last of them; characters of what each was given and gave; tokens of a reply."""
TEMPLATE = Path(__file__).with_name("prompts") / "judge.jinja"


@dataclass(frozen=True)
class Judgement:
    """What the judge said of one try.

    Attributes:
        key: of the try's row.
        judge: the model; ``prompt``: a digest of its prompt: another prompt is another judge.
        verdict: ``unsure``, too, where its reply was of no use.
        solved: what the environment's own check says; ``None`` where there is no outcome to check.
    """

    key: Key
    judge: str
    prompt: str
    verdict: Verdict
    solved: bool | None = None

    @property
    def env(self) -> str:
        return self.key[0]

    @property
    def says_solved(self) -> bool:
        """An unsure judge does not call a try solved."""
        return self.verdict == "yes"


_LINE = TypeAdapter(Judgement)


async def verdict_of(record: TryRecord, model: Model) -> Verdict:
    """Ask the judge about a try.

    Raises:
        ModelError, ModelUnavailable: from the model.
    """
    reply = await model.complete(
        [Message("user", prompt_of(record))], max_tokens=MAX_TOKENS, temperature=0.0, choices=list(VERDICTS)
    )
    return next((each for each in VERDICTS if each == reply.value), "unsure")


def prompt_of(record: TryRecord) -> str:
    """What the judge reads. The task's own solution, and what its check said, are not in it."""
    calls = [
        TryCall(call.tool, _cut(call.arguments), _cut(call.answer), call.done) for call in record.calls[-MAX_CALLS:]
    ]
    left_out = len(record.calls) - len(calls)
    return _template().render(task=record.task, calls=calls, left_out=left_out, answer=_cut(record.answer))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_ANSWER else text[:MAX_ANSWER] + " …"


@cache
def _template() -> jinja2.Template:
    text = TEMPLATE.read_text(encoding="utf-8")
    return jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True).from_string(text)


def prompt_digest() -> str:
    """Of the prompt and of how much it shows."""
    text = f"{TEMPLATE.read_text(encoding='utf-8')}{MAX_CALLS},{MAX_ANSWER}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def is_checked(environment: str) -> bool:
    """Whether an environment checks its outcome, however its tools are documented."""
    return tasks_from(environment) not in UNCHECKED


# Agreement ----------------------------------------------------------------------------------------------------------


def kappa(pairs: Sequence[tuple[bool, bool]]) -> float:
    """Cohen's kappa of a judge and the check over the same tries; 0 where chance alone explains all agreement."""
    if not pairs:
        return 0.0
    total = len(pairs)
    same = sum(said == true for said, true in pairs) / total
    said, true = (sum(pair[which] for pair in pairs) / total for which in (0, 1))
    chance = said * true + (1 - said) * (1 - true)
    return (same - chance) / (1 - chance) if chance < 1 else 0.0


def agreement(judged: Sequence[Judgement]) -> list[dict[str, Any]]:
    """The judge beside the checks: a line for all tries (``all``) and for each environment.

    ``kappa`` has a 95 % interval (``low``, ``high``): bootstrap over tasks, the tries of one task together. The four
    cells are ``right_yes``, ``wrong_yes`` (it says yes and the task is not solved), ``right_no``, ``wrong_no``.
    """
    checked = [each for each in judged if each.solved is not None]
    places = ["all", *sorted({each.env for each in checked})] if checked else []
    return [_agreed(place, [each for each in checked if place in ("all", each.env)]) for place in places]


def _agreed(place: str, judged: Sequence[Judgement]) -> dict[str, Any]:
    pairs = [(each.says_solved, bool(each.solved)) for each in judged]
    cells = Counter(pairs)
    low, high = _interval(judged)
    return {
        "env": place,
        "tries": len(pairs),
        "tasks": len({each.key[:2] for each in judged}),
        "solved": sum(true for _, true in pairs),
        "accuracy": round(sum(said == true for said, true in pairs) / len(pairs), 4),
        "kappa": round(kappa(pairs), 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "right_yes": cells[True, True],
        "wrong_yes": cells[True, False],
        "right_no": cells[False, False],
        "wrong_no": cells[False, True],
        "unsure": sum(each.verdict == "unsure" for each in judged),
    }


def _interval(judged: Sequence[Judgement]) -> tuple[float, float]:
    tasks: dict[tuple[str, str], list[tuple[bool, bool]]] = defaultdict(list)
    for each in judged:
        tasks[each.key[0], each.key[1]].append((each.says_solved, bool(each.solved)))
    groups, draw = list(tasks.values()), random.Random(0)
    drawn = sorted(kappa(list(chain.from_iterable(draw.choices(groups, k=len(groups))))) for _ in range(RESAMPLES))
    return drawn[round(0.025 * (RESAMPLES - 1))], drawn[round(0.975 * (RESAMPLES - 1))]


def admit(line: dict[str, Any] | None, bar: float) -> None:
    """Let a judge judge what cannot be checked, by the line ``all`` of its :func:`agreement`.

    Raises:
        UsageError: it was measured on too few tries, or its kappa is below the bar.
    """
    how = "`python -m benchmarks.judge agreement --rows FILE --transcripts DIR`, with the same --out and --model"
    if line is None or line["tries"] < LEAST:
        count = 0 if line is None else line["tries"]
        raise UsageError(f"this judge was measured on {count} checked tries, and {LEAST} are needed: run {how}")
    if line["kappa"] < bar:
        raise UsageError(
            f"this judge agrees too little with outcomes that can be checked: kappa {line['kappa']:.2f} "
            f"({line['low']:.2f} to {line['high']:.2f}, {line['tries']} tries), --bar is {bar:g}: take another model"
        )


# Verdicts, kept as they come ----------------------------------------------------------------------------------------


async def judge_tries(
    rows: Sequence[Row],
    transcripts: Path,
    model: Model,
    file: Path,
    say: Callable[[Row, Verdict], None] = lambda row, verdict: None,
) -> list[Judgement]:
    """The verdicts on these tries, in order; what the file does not hold yet is asked and appended to it.

    Tries that were not answered, and those without a record in ``transcripts``, are left out.

    Raises:
        UsageError: the file cannot be read or written, or a record is none.
        ModelError, ModelUnavailable: from the model.
    """
    known = {each.key: each for each in judgements(file, model.name)}
    found = []
    for row in rows:
        if row.status != "answered":
            continue
        if (judged := known.get(row.key)) is None:
            if (record := read_record(transcripts, row)) is None:
                continue
            solved = row.solved if is_checked(row.env) else None
            judged = Judgement(row.key, model.name, prompt_digest(), await verdict_of(record, model), solved)
            _append(file, judged)
            say(row, judged.verdict)
        found.append(judged)
    return found


def judgements(file: Path, judge: str) -> list[Judgement]:
    """The verdicts of a judge, by today's prompt, that a file holds; none where there is no file.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        lines = file.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"the verdicts {file} cannot be read: {error.strerror}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        try:
            each = _LINE.validate_json(line)
        except ValidationError:
            err.print(f"{file}, line {number}: not a verdict, left out", markup=False)
            continue
        if (each.judge, each.prompt) == (judge, prompt_digest()):
            found[each.key] = each
    return list(found.values())


def _append(file: Path, judged: Judgement) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as lines:
            lines.write(_LINE.dump_json(judged) + b"\n")
    except OSError as error:
        raise UsageError(f"the verdicts cannot be kept in {file}: {error.strerror}; make room") from None


# Command line -------------------------------------------------------------------------------------------------------

app = typer.Typer(help=__doc__.split("\n")[0], no_args_is_help=True, add_completion=False)
Rows = Annotated[Path, typer.Option("--rows", help="Of `benchmarks.tasks --out`.")]
Transcripts = Annotated[Path, typer.Option(help="The folder of `benchmarks.tasks --transcripts`.")]
ModelName = Annotated[str | None, typer.Option(help="As `atc run --model` takes it.")]
Out = Annotated[Path, typer.Option("--out", help="Where each verdict is kept as a JSON line.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Judge so many tries at most; the same command goes on.")]
Json = Annotated[bool, typer.Option("--json", help="The figures as JSON.")]
KEPT = RESULTS / "judge.jsonl"


@app.command("agreement")
@guarded
def measure(
    rows: Rows,
    transcripts: Transcripts,
    model: ModelName = None,
    file: Out = KEPT,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Measure how often the judge says what the environments' own checks say."""
    checked = [row for row in latest(read_rows(rows)) if is_checked(row.env)]
    lines = agreement(_run(checked, transcripts, model, file, limit))
    if as_json:
        print_json(lines)
        return
    for line in lines:
        out.print(
            f"{line['env']}: kappa {line['kappa']:.2f} ({line['low']:.2f} to {line['high']:.2f}), accuracy "
            f"{line['accuracy']:.0%} of {line['tries']} tries at {line['tasks']} tasks, {line['solved']} solved; "
            f"yes: {line['right_yes']} right, {line['wrong_yes']} wrong; no: {line['right_no']} right, "
            f"{line['wrong_no']} wrong; unsure of {line['unsure']}, counted as no",
            markup=False,
        )


@app.command("judge")
@guarded
def judge(
    rows: Rows,
    transcripts: Transcripts,
    model: ModelName = None,
    file: Out = KEPT,
    bar: Annotated[float, typer.Option(min=0, max=1, help="Cohen's kappa that it must have been measured at.")] = BAR,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Judge tries whose outcome cannot be checked, by a judge whose agreement was measured first."""
    unchecked = [row for row in latest(read_rows(rows)) if not is_checked(row.env)]
    name = _name_of(model)
    measured = next(iter(agreement(judgements(file, name))), None)
    admit(measured, bar)
    judged = _run(unchecked, transcripts, model, file, limit)
    tries: Counter[tuple[str, str]] = Counter((row.env, row.system) for row in unchecked if row.status != "environment")
    said = Counter((each.env, each.key[2], each.verdict) for each in judged)
    lines = [
        {"env": env, "system": system, "tries": count, **{each: said[env, system, each] for each in VERDICTS}}
        for (env, system), count in sorted(tries.items())
    ]
    if as_json:
        print_json({"judge": name, "agreement": measured, "judged": lines})
        return
    for line in lines:
        out.print(
            f"{line['env']}, {line['system']}: yes {line['yes']}, no {line['no']}, unsure {line['unsure']}, of "
            f"{line['tries']} tries",
            markup=False,
        )
    out.print(f"{name}: kappa {measured['kappa']:.2f} on {measured['tries']} checked tries" if measured else "")


def _name_of(model: str | None) -> str:
    opened = open_model(model)
    try:
        return opened.name
    finally:
        asyncio.run(opened.aclose())


def _run(rows: Sequence[Row], transcripts: Path, model: str | None, file: Path, limit: int | None) -> list[Judgement]:
    if not rows:
        raise UsageError("--rows: the file has no tries of the environments that this command looks at")
    asked = 0

    def say(row: Row, verdict: Verdict) -> None:
        nonlocal asked
        asked += 1
        err.print(f"{row.env}/{row.task} {row.system} seed {row.seed}: {verdict}", markup=False)
        if asked == limit:
            raise _Enough

    async def all_of_it() -> list[Judgement]:
        opened = open_model(model)
        try:
            return await judge_tries(rows, transcripts, opened, file, say)
        except _Enough:
            known = {each.key: each for each in judgements(file, opened.name)}
            return [known[row.key] for row in rows if row.key in known]
        finally:
            await opened.aclose()

    try:
        judged = asyncio.run(all_of_it())
    except KeyboardInterrupt:
        err.print(f"interrupted; the verdicts so far are in {file}: the same command goes on from there", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    if not judged:
        raise EnvironmentProblem(
            f"{transcripts} has no record of any answered try of these rows: make them with --transcripts {transcripts}"
        )
    return judged


class _Enough(Exception):
    """So many tries as were asked for are judged."""


if __name__ == "__main__":
    app()
