"""How often the model is right about the kind of value that a task asks for, and what its word is worth as a warning.

``python -m benchmarks.answer_kinds --data DIR [--unread] [--rows results/tasks.jsonl] [--json]``

Each task whose own solution has an answer of a known kind is asked once; the word is kept as a JSON line, so the same
command goes on where it was. With ``--rows``, files that :mod:`benchmarks.tasks` wrote, the answers of recorded
programs are held to it, without running them: a warning about a wrong answer is right, one about a right answer is a
false alarm. The rule about answers that stand in their task is held to the same rows; it asks nobody.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from atc.cli.console import err, guarded
from atc.errors import EnvironmentProblem, UsageError
from atc.models import open_model
from atc.models.base import Model
from atc.programs.check.task_data import repeats_task
from atc.programs.program import Program
from atc.strategies.answer_kind import KINDS, MAX_REPLY, Kind, kind_of, kind_of_reply, kind_question, unlikely_kind
from benchmarks.common import percentile, print_json, share, show
from benchmarks.environments import ENVIRONMENTS, Environment, Task, open_environment
from benchmarks.quick import order
from benchmarks.read_tasks import Part, in_part
from benchmarks.rows import Row, latest, read_rows
from benchmarks.tasks import RESULTS, listed

WITH_ANSWERS = "atlas,comptoolbench,m3tooleval"
"""Environments whose own solutions say what they answer."""


@dataclass(frozen=True)
class Asked:
    """One question and what was said. ``question``: a digest of all that was asked; ``kind`` may be none."""

    env: str
    task: str
    model: str
    question: str
    kind: str | None
    seconds: float
    prompt_tokens: int


@dataclass(frozen=True)
class Known:
    """A task, and the kind of its own solution's answer; ``None`` where the data names none. ``answer``: itself."""

    env: str
    task: Task
    kind: Kind | None
    answer: Any = None


def known_tasks(
    environments: Iterable[Environment],
    part: Part,
    sample: int | None,
    wanted: frozenset[tuple[str, str]] = frozenset(),
) -> list[Known]:
    """The tasks whose answer's kind is known, and those that are wanted for their rows.

    An environment without its data is named on stderr, and the rest goes on.
    """
    found: list[Known] = []
    for environment in environments:
        try:
            tasks = [task for task in environment.tasks() if in_part(environment.name, task.id, part)]
        except EnvironmentProblem as error:
            err.print(f"left out: {error}", markup=False)
            continue
        known = []
        for task in sorted(tasks, key=lambda task: order(environment, task)):
            gold = environment.gold(task) if environment.name in WITH_ANSWERS.split(",") else None
            answer = gold.answer if gold is not None and gold.judged else None
            if (kind := kind_of(answer)) is not None or (environment.name, task.id) in wanted:
                known.append(Known(environment.name, task, kind, answer))
        found += known[:sample]
    return found


async def ask_all(model: Model, tasks: Sequence[Known], file: Path) -> dict[tuple[str, str], Asked]:
    """What the model says of each task; asked where the file does not hold it yet, and appended there.

    Raises:
        ModelError, ModelUnavailable: from the model; what was said so far is kept.
        UsageError: the file cannot be read or written.
    """
    kept = {(a.env, a.task, a.model, a.question): a for a in _read(file)}
    made: dict[tuple[str, str], Asked] = {}
    try:
        for known in tasks:
            messages = kind_question(known.task.text)
            digest = hashlib.sha256(
                json.dumps([*KINDS, *(message.content for message in messages)]).encode()
            ).hexdigest()[:16]
            asked = kept.get((known.env, known.task.id, model.name, digest))
            if asked is None:
                reply = await model.complete(messages, max_tokens=MAX_REPLY, choices=KINDS, seed=0)
                kind, seconds = kind_of_reply(reply), round(reply.seconds, 3)
                asked = Asked(known.env, known.task.id, model.name, digest, kind, seconds, reply.prompt_tokens)
                _append(file, asked)
            made[known.env, known.task.id] = asked
    finally:
        await model.aclose()
    return made


def _read(file: Path) -> list[Asked]:
    found = []
    try:
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        try:
            found.append(Asked(**json.loads(line)))
        except (ValueError, TypeError):
            err.print(f"{file}, line {number}: no answer to the question, left out", markup=False)
    return found


def _append(file: Path, asked: Asked) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(asked)) + "\n")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None


# -- figures -----------------------------------------------------------------------------------------------------------


def kind_figures(tasks: Sequence[Known], asked: dict[tuple[str, str], Asked]) -> dict[str, Any]:
    """How often the word is right, by the kind that is right; and how often a right answer would be warned about."""
    pairs = [(known, asked[known.env, known.task.id].kind) for known in tasks if known.kind is not None]
    table = {kind: Counter(said for known, said in pairs if known.kind == kind) for kind in KINDS}
    seconds = [each.seconds for each in asked.values()]
    return {
        "tasks": len(pairs),
        "right": sum(known.kind == said for known, said in pairs),
        "right_answers_warned_about": sum(_unlikely(said, known.answer) for known, said in pairs),
        "by_kind": {kind: {str(said): times for said, times in counts.items()} for kind, counts in table.items()},
        "seconds_median": percentile(seconds, 50),
        "seconds_p95": percentile(seconds, 95),
    }


def row_figures(rows: Sequence[Row], tasks: Sequence[Known], asked: dict[tuple[str, str], Asked]) -> dict[str, Any]:
    """What the two rules say of recorded answers: of wrong ones, and of right ones."""
    texts = {(known.env, known.task.id): known.task.text for known in tasks}
    figures: dict[str, Any] = {"answered": 0, "wrong": 0}
    figures |= {f"{rule}_{what}": 0 for rule in ("kind", "datum") for what in ("caught", "false_alarms")}
    by_word: Counter[str] = Counter()
    for row in rows:
        at = (row.env, row.task)
        value = _value(row.answer)
        if row.status != "answered" or at not in asked or value is None:
            continue
        figures["answered"] += 1
        figures["wrong"] += not row.solved
        what = "false_alarms" if row.solved else "caught"
        if _unlikely(asked[at].kind, value):
            figures[f"kind_{what}"] += 1
            by_word[f"{asked[at].kind} → {kind_of(value)}: {what}"] += 1
        figures[f"datum_{what}"] += repeats_task(texts[at], Program(row.program), value)
    return figures | {"kind_by_word": dict(sorted(by_word.items()))}


def _unlikely(said: str | None, value: Any) -> bool:
    return any(said == kind and unlikely_kind(kind, value) is not None for kind in KINDS)


def _value(text: str) -> Any:
    """The value of a row, which holds the first part of its ``repr``; ``None`` where that is no whole value."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        # a cut value: its kind is told by its first character
        return {"[": [0], "{": {"": 0}, "(": [0], "'": text[1:], '"': text[1:]}.get(text[:1])


# -- command line ------------------------------------------------------------------------------------------------------


@guarded
def main(
    env: Annotated[str, typer.Option(help=f"Environments: {', '.join(ENVIRONMENTS)}.")] = WITH_ANSWERS,
    data: Annotated[
        Path | None, typer.Option(envvar="ATC_DATA", help="Directory with executable/<environment>.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="As `atc run --model` takes it.")] = None,
    rows: Annotated[
        list[Path] | None, typer.Option(help="Files of benchmarks.tasks, to hold their answers to it.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="So many tasks of each environment, always the same.")
    ] = None,
    unread: Annotated[bool, typer.Option("--unread", help="Only tasks that nobody has read.")] = False,
    sealed: Annotated[bool, typer.Option("--sealed", help="Only the sealed half: for a last measurement.")] = False,
    file: Annotated[Path, typer.Option("--out", help="Where each word is kept as a JSON line.")] = RESULTS
    / "answer_kinds.jsonl",
    as_json: Annotated[bool, typer.Option("--json", help="The figures as JSON.")] = False,
) -> None:
    """Measure what the model's word about the kind of an answer is worth."""
    if unread and sealed:
        raise UsageError("--sealed tasks are unread ones: give --unread or --sealed")
    part: Part = "sealed" if sealed else "unread" if unread else "open"
    recorded = [row for path in rows or () for row in latest(read_rows(path))]
    names = list(dict.fromkeys([*listed(env, ENVIRONMENTS, "env"), *(row.env for row in recorded)]))
    environments = [open_environment(name, data) for name in names if name in ENVIRONMENTS]
    wanted = frozenset((row.env, row.task) for row in recorded if row.status == "answered")
    tasks = known_tasks(environments, part, sample, wanted)
    if not tasks:
        raise EnvironmentProblem("there is no task whose answer's kind is known: give --data DIR")
    asked = asyncio.run(ask_all(open_model(model), tasks, file))
    figures = {"model": next(iter(asked.values())).model, **kind_figures(tasks, asked)}
    if recorded:
        figures["rows"] = row_figures(recorded, tasks, asked)
    if as_json:
        print_json(figures)
    else:
        _print(figures)


def _print(figures: dict[str, Any]) -> None:
    said = [*KINDS, "None"]
    lines = [(kind, sum(c.values()), *(c.get(word, 0) for word in said)) for kind, c in figures["by_kind"].items()]
    show(f"kind of the answer, and the word of {figures['model']}", ("answer", "tasks", *said), lines)
    right, tasks, alarms = figures["right"], figures["tasks"], figures["right_answers_warned_about"]
    seconds = f"{figures['seconds_median']:.2f} s in the median, {figures['seconds_p95']:.2f} s at the 95th percentile"
    print(f"right: {right} of {tasks} ({share(right, tasks)}); right answers warned about: {alarms}; {seconds}")
    if (rows := figures.get("rows")) is not None:
        lines = [(rule, rows[f"{rule}_caught"], rows[f"{rule}_false_alarms"]) for rule in ("kind", "datum")]
        right = rows["answered"] - rows["wrong"]
        columns = ("rule", f"of {rows['wrong']} wrong answers caught", f"of {right} right answers warned about")
        show("recorded answers", columns, lines)
        for word, times in rows["kind_by_word"].items():
            print(f"{word}: {times}")


if __name__ == "__main__":
    typer.run(main)
