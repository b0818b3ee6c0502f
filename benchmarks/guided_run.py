"""Does it pay that types lead while a small model writes? ``python -m benchmarks.guided_run --data DIR``

Sixty unread tasks that are open, the same model and the same caps, by four arms: ATC as it is; ATC whose programs are
guided (:mod:`benchmarks.guided`); one sample at temperature 0.5; and two of these that must agree. Every try is a JSON
line as it ends; started again the command goes on. It ends with the table, and with what the gate says of it.

``--seeds 0`` first: the gate says whether ``--seeds 0,1`` is worth its time.
"""

from __future__ import annotations

import ast
import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from atc.cli.console import INTERRUPTED, err, guarded, out, print_json
from benchmarks.common import AsJson, listed
from benchmarks.environments import ENVIRONMENTS, NAMED, open_environment
from benchmarks.fetch import use_packages
from benchmarks.gateway import Caps, Upstream, upstream
from benchmarks.guided import noted_in
from benchmarks.guided_systems import ARMS, GuidedGateway, arms, same_value
from benchmarks.read_tasks import Part
from benchmarks.rows import MOST_SHOWN, Row, latest, publish, read_rows
from benchmarks.tasks import RESULTS, Plan, run_plan, say, seeds_of, tasks_of

SETS = "api_bank,bfcl,complexfuncbench,restbench,workbench"
"""Where stated tasks are left that are open and unread."""
SAMPLE = 12
CAPS = Caps(model_calls=8, tokens=40_000, seconds=900.0)
"""As the table of docs/benchmarks/solved.md has them."""
LEAST_NET = 3
"""Tasks that the guide must solve more on the first seed."""
MOST_P, MOST_TIME = 0.1, 1.5
BOTH = "guided = default"
"""The default's answer where the guided one has an equal value; computed from the rows of both."""
_PAIRS = (("guided", "default"), ("agree", "one"), (BOTH, "default"))
"""Arms, each with the one beside which it is looked at."""
Pair = tuple[str, str, int]


def one_sided(wins: int, losses: int) -> float:
    """Return the exact one-sided p of McNemar's test: how likely so many wins, or more, are by chance.

    Args:
        wins: pairs that the one solved alone. ``losses``: those that the other solved alone.
    """
    pairs = wins + losses
    p: float = sum(math.comb(pairs, count) for count in range(wins, pairs + 1)) / 2**pairs
    return p


@dataclass(frozen=True)
class Line:
    """What one arm did.

    Attributes:
        wrong: answered, and not solved. ``silent``: no answer.
        read, written: tokens of a try, on average; ``seconds``: likewise.
        refused: tries with a program that the check refused. ``touched``: with one that the guide changed, or tried to.
        drawn: statements that were drawn again. ``corrected``: places that were written anew.
        wins, losses: tries that it solved and its ruler did not, and the reverse. ``p``: one-sided.
        ratio: of its seconds to its ruler's, over the same tries.
    """

    arm: str
    tries: int
    solved: int
    wrong: int
    silent: int
    read: float
    written: float
    seconds: float
    refused: int = 0
    touched: int = 0
    drawn: int = 0
    corrected: int = 0
    ruler: str = ""
    wins: int = 0
    losses: int = 0
    p: float = 1.0
    ratio: float = 1.0


def lines_of(rows: Sequence[Row]) -> list[Line]:
    """Return the table: each arm over its own tries, its pairs over those that both arms of a pair made."""
    judged = {arm: _by_pair(row for row in rows if row.system == arm) for arm in ARMS}
    if any(row.answer for row in rows):  # published rows have no values
        judged[BOTH] = agreeing(judged["default"], judged["guided"])
    rulers = dict(_PAIRS)
    return [
        _line(arm, own, rulers.get(arm, ""), judged.get(rulers.get(arm, ""), {})) for arm, own in judged.items() if own
    ]


def agreeing(first: dict[Pair, Row], second: dict[Pair, Row]) -> dict[Pair, Row]:
    """Return the tries of the first, with no answer where the second has none of equal value; at the cost of both.

    An answer that is too long for its row counts as another one.
    """
    found = {}
    for pair in first.keys() & second.keys():
        one, other = first[pair], second[pair]
        equal = one.status == other.status == "answered" and _equal(one.answer, other.answer)
        status = one.status if equal or one.status != "answered" else "unsolved"
        changed: dict[str, Any] = {name: getattr(one, name) + getattr(other, name) for name in _ADDED}
        found[pair] = replace(one, **changed, system=BOTH, status=status, solved=one.solved and equal)
    return found


_ADDED = ("prompt_tokens", "completion_tokens", "seconds", "model_s")


def _equal(one: str, other: str) -> bool:
    if max(len(one), len(other)) >= MOST_SHOWN:
        return False
    try:
        return same_value(ast.literal_eval(one), ast.literal_eval(other))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False


def _by_pair(rows: Iterable[Row]) -> dict[Pair, Row]:
    return {(row.env, row.task, row.seed): row for row in rows if row.status != "environment"}


def _line(arm: str, own: dict[Pair, Row], ruler: str, ruled: dict[Pair, Row]) -> Line:
    rows, both = [*own.values()], own.keys() & ruled.keys()
    noted = noted_in(row.rules for row in rows) if arm != BOTH else {}
    wins = sum(own[pair].solved and not ruled[pair].solved for pair in both)
    losses = sum(ruled[pair].solved and not own[pair].solved for pair in both)
    took = sum(ruled[pair].seconds for pair in both)
    corrected = {
        name: count for name, count in noted.items() if name not in _NOT_CORRECTED and not name.endswith("-kept")
    }
    return Line(
        arm,
        len(rows),
        sum(row.solved for row in rows),
        sum(row.status == "answered" and not row.solved for row in rows),
        sum(row.status != "answered" and not row.solved for row in rows),
        _mean(rows, lambda row: row.prompt_tokens),
        _mean(rows, lambda row: row.completion_tokens),
        _mean(rows, lambda row: row.seconds),
        sum("check" in row.faults for row in rows),
        sum(bool(noted_in([row.rules]).keys() - {"guide:reread-tokens"}) for row in rows) if arm != BOTH else 0,
        noted.get("guide:drawn", 0),
        sum(corrected.values()),
        ruler if both else "",
        wins,
        losses,
        one_sided(wins, losses),
        sum(own[pair].seconds for pair in both) / took if took else 1.0,
    )


_NOT_CORRECTED = ("guide:drawn", "guide:mended", "guide:reread-tokens")


def _mean(rows: Sequence[Row], of: Callable[[Row], float]) -> float:
    return math.fsum(map(of, rows)) / len(rows)


# -- the gate ----------------------------------------------------------------------------------------------------------


def gate(rows: Sequence[Row]) -> str:
    """Return whether the guided arm may enter the product, and why, in words.

    After the first seed: fewer than +3 net is the end of it. After both: p < 0.1, one-sided, for solves; or half the
    wrong answers while it solves as much. In any case within 1.5 times the time.
    """
    seeds = sorted({row.seed for row in rows})
    pairs = [row for row in rows if row.system in ("guided", "default")]
    first, whole = _guided(pairs, seeds[:1]), _guided(pairs, seeds)
    if first is None or whole is None:
        return "open: there is no pair of a guided and a default try yet"
    guided, default = first
    net = guided.wins - guided.losses
    if net < LEAST_NET:
        return (
            f"not met: over the {guided.tries} tries of seed {seeds[0]} the guide solves {net:+d} net "
            f"({guided.wins} alone, {guided.losses} lost), and {LEAST_NET:+d} was the least"
        )
    if len(seeds) < 2:
        return (
            f"open: seed {seeds[0]} has {net:+d} net over {guided.tries} tries: run --seeds {seeds[0]},{seeds[0] + 1}"
        )
    guided, default = whole
    counts = f"{guided.wins} solved alone and {guided.losses} lost, one-sided p = {guided.p:.3f}"
    wrong = f"{guided.wrong} wrong answers beside {default.wrong}, {guided.solved} solved beside {default.solved}"
    time = f"{guided.ratio:.2f} times the time"
    solves = guided.p < MOST_P
    saves = 2 * guided.wrong <= default.wrong and guided.solved >= default.solved and default.wrong > 0
    if guided.ratio > MOST_TIME:
        return f"not met: {time}, and {MOST_TIME} is the most; {counts}; {wrong}"
    if not (solves or saves):
        wanted = f"p < {MOST_P} is wanted, or half the wrong answers at equal solves"
        return f"not met: {wanted}; {counts}; {wrong}; {time}"
    return f"met: {counts if solves else wrong}; {wrong if solves else counts}; {time}"


def _guided(rows: Sequence[Row], seeds: Sequence[int]) -> tuple[Line, Line] | None:
    """Return the lines of both arms over the tries that both made with these seeds."""
    made = {arm: _by_pair(r for r in rows if r.system == arm and r.seed in seeds) for arm in ("guided", "default")}
    both = made["guided"].keys() & made["default"].keys()
    if not both:
        return None
    guided, default = ({pair: made[arm][pair] for pair in both} for arm in ("guided", "default"))
    return _line("guided", guided, "default", default), _line("default", default, "", {})


# -- the command -------------------------------------------------------------------------------------------------------

COLUMNS = (
    "| arm | tries | solved | wrong | no answer | tokens in | out | s a try "
    "| refused | touched | drawn again | corrected | beside it |"
)


def table(rows: Sequence[Row]) -> str:
    """Return the table as Markdown."""
    shown = [COLUMNS, "| --- " * 13 + "|"]
    for line in lines_of(rows):
        beside = f"`{line.ruler}`: +{line.wins} −{line.losses}, p {line.p:.3f}, {line.ratio:.2f} × the time"
        cells = [f"`{line.arm}`", line.tries, line.solved, line.wrong, line.silent, f"{line.read:,.0f}"]
        cells += [
            f"{line.written:,.0f}",
            f"{line.seconds:.1f}",
            line.refused,
            line.touched,
            line.drawn,
            line.corrected,
            beside if line.ruler else "",
        ]
        shown.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(shown)


@guarded
def main(
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with executable/<set>.")] = None,
    model: Annotated[str | None, typer.Option(help="The embedded model, or one behind llama.cpp's server.")] = None,
    arm: Annotated[str, typer.Option(help=f"Some of {', '.join(ARMS)}.")] = ",".join(ARMS),
    seeds: Annotated[str, typer.Option(help="Comma-separated.")] = "0",
    env: Annotated[str, typer.Option(help="As `benchmarks.tasks --env` takes them.")] = SETS,
    sample: Annotated[int, typer.Option(min=1, help="Tasks of each set: unread ones that state all.")] = SAMPLE,
    tasks: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Only these, ENVIRONMENT/TASK a line: to try it.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Of the embedded model.")] = None,
    calls: Annotated[int, typer.Option("--max-calls", min=1, help="Model calls of a try.")] = CAPS.model_calls,
    file: Annotated[Path, typer.Option("--out", help="Where each try is kept.")] = RESULTS / "guided.jsonl",
    transcripts: Annotated[Path | None, typer.Option(help="Folder to keep in what was said.")] = None,
    summary: Annotated[bool, typer.Option("--summary", help="Only print what the file says.")] = False,
    published: Annotated[
        Path | None, typer.Option("--publish", help="With --summary: write its rows there, without texts.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure whether it pays that types lead while a small model writes."""
    if not summary:
        use_packages(data)
        places = [open_environment(name, data) for name in listed(env, [*ENVIRONMENTS, *NAMED], "env")]
        only = None if tasks is None else tasks_of(tasks.read_text(encoding="utf-8"), places)
        part: Part = "unread" if tasks is None else "all"
        drawn = sample if tasks is None else None
        plan = Plan(
            places,
            (),
            seeds_of(seeds),
            drawn,
            only,
            stated=tasks is None,
            caps=replace(CAPS, model_calls=calls),
            part=part,
            transcripts=transcripts,
        )
        with upstream(model, threads, cache_mib=0) as source:
            try:
                asyncio.run(_run(plan, listed(arm, ARMS, "arm"), source, file))
            except KeyboardInterrupt:
                err.print(f"interrupted; what has ended is in {file}: the same command goes on", markup=False)
                raise typer.Exit(INTERRUPTED) from None
    rows = latest(read_rows(file))
    if published is not None:
        err.print(f"{publish(rows, published)} rows without texts are in {published}", markup=False)
    if as_json:
        print_json({"arms": [vars(line) for line in lines_of(rows)], "gate": gate(rows)})
        return
    out.print(table(rows), markup=False, soft_wrap=True)
    out.print(f"\nThe gate is {gate(rows)}.", markup=False, soft_wrap=True)
    for name, count in sorted(noted_in(row.rules for row in rows if row.system == "guided").items()):
        out.print(f"- {name}: {count}", markup=False)


async def _run(plan: Plan, names: list[str], source: Upstream, file: Path) -> None:
    async with GuidedGateway(source, RESULTS / "replies").opened() as gateway:
        await run_plan(replace(plan, systems=arms(names, gateway)), gateway, file, say)


if __name__ == "__main__":
    typer.run(main)
